"""`kae __complete`: the words that may follow on a command line, which the scripts of `kae completion` ask for."""

import argparse
import contextlib
import os
import sys
from collections.abc import Iterable, Mapping, Sequence

from compiler import cli, diagnostics, errors, names
from compiler.fleet import definitions
from compiler.project import document_files, load, project_file, repository
from compiler.project.recipes import copies
from compiler.read import fleet as reader
from compiler.settings import Settings


def run(arguments: argparse.Namespace) -> int:
    """Print the candidates for the last word of a line, one on each line; nothing where it may be any file."""
    before, _, word = arguments.line.rpartition(" ")
    with contextlib.suppress(errors.WorldError, OSError):
        for candidate in _candidates(before.split()[1:], word):
            # A shell takes each line for a word, and a document may hold anything.
            if candidate.startswith(word) and candidate.isprintable() and " " not in candidate:
                sys.stdout.write(f"{candidate}\n")
    return cli.FINE


_Typed = tuple[cli.Parser, argparse.Action | None, argparse.Action | None, Mapping[str, str]]
"""The parser of a command, the option whose value the next word is, the argument that it is if there is none, and the
last value of each by destination."""


def _typed(words: Sequence[str]) -> _Typed:
    parser = cli.parser()
    option, values, count = None, dict[str, str](), 0
    for word in words:
        commands = parser.commands()
        if option is not None:
            values[option.dest], option = word, None
        elif word.startswith("-"):
            found = parser._option_string_actions.get(word)
            option = found if found is not None and found.nargs != 0 else None
        elif word in commands:
            parser = commands[word].declared()
        else:
            action = _argument(parser, count)
            values[action.dest if action else ""], count = word, count + 1
    return parser, option, _argument(parser, count), values


def _argument(parser: cli.Parser, number: int) -> argparse.Action | None:
    actions = [action for action in parser._actions if not action.option_strings]
    return actions[number] if number < len(actions) else None


def _candidates(words: Sequence[str], word: str) -> Iterable[str]:
    parser, option, argument, values = _typed(words)
    if option is None and word.startswith("-"):
        return [name for name in parser._option_string_actions if name.startswith("--") or len(word) == 1]
    if option is None and (verbs := parser.commands()):
        return verbs
    action = option or argument
    if action is None:
        return ()
    if action.choices is not None:
        return map(str, action.choices)
    os.chdir(values.get("directory", "."))
    project_file.enter(argparse.Namespace())
    return _names(action.dest, values)


def _names(sort: str, values: Mapping[str, str]) -> Iterable[str]:
    """Return the names that an option or an argument takes, by its destination; none where it may be anything."""
    match sort:
        case "accept":
            return diagnostics.ACCEPTABLE
        case "code":
            return diagnostics.CODES
        case "topic":
            return cli.parser().commands()
        case "name":
            from compiler.model import json_schemas  # noqa: PLC0415 - needed here only

            return sorted(json_schemas.schemas())
        case "revision" | "to":
            with repository.Repository() as found:
                return ["HEAD", *found.names()]
        case "cluster" | "node" | "recipe" | "shown":
            return _of_project(sort, project_file.of(argparse.Namespace()))
        case "frozen" | "image" | "mapping" | "policy" | "recipes" | "wave":
            # Inventories may be large.
            fleet, _ = load.policies(project_file.of(argparse.Namespace()))
            return _of_policies(sort, values.get("policy"), fleet.policies)
    return ()


def _of_project(sort: str, settings: Settings) -> Iterable[str]:
    if sort == "node":
        project = load.project(settings)
        return (f"{cluster}/{name}" for cluster, name in load.nodes(project, project.fleet.clusters))
    if sort == "cluster":
        declared, _ = load.policies(settings)
        inventories, _findings = document_files.find(settings.inventories)
        return sorted(load.names_of(declared) | {names.stem(item.name) for item in inventories})
    known = [each.name for each in copies.known(settings)]
    return known if sort == "recipe" else sorted({reader.BUILTIN.name, *known})


def _of_policies(sort: str, named: str | None, policies: Sequence[definitions.Policy]) -> Iterable[str]:
    """Return the names of all policies or of their recipes, or of the parts of the one that the line names."""
    chosen = [policy for policy in policies if policy.name == named]
    match sort:
        case "policy":
            return sorted(policy.name for policy in policies)
        case "recipes":
            return sorted(recipe.name for recipe in reader.recipes_of(policies))
        case "image":
            return sorted({name for one in chosen if one.written.names_images for name in one.written.images})
        case "mapping":
            return (mapping.name for policy in chosen for mapping in policy.mappings)
    return (group.name for policy in chosen for group in policy.groups if group.sort == sort)
