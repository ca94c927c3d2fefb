"""`kae __complete`: the words that may follow on a command line, which the scripts of `kae completion` ask for."""

import argparse
import contextlib
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from compiler import cli, diagnostics, errors, names
from compiler.cli import parsing
from compiler.fleet import definitions
from compiler.project import document_files, load, project_file
from compiler.project.history import repository
from compiler.project.recipes import copies
from compiler.read import fleet as reader
from compiler.settings import Settings


class _Typed(NamedTuple):
    """A command line before the word at the cursor."""

    parser: parsing.Parser
    """The parser of its command, or of the whole command line."""
    option: argparse.Action | None
    """The option whose value the next word is."""
    values: Mapping[str, str]
    """The last value of each option and argument, by destination."""
    arguments: int
    """How many arguments were typed that are no options."""


def declare(command: parsing.Parser) -> None:
    """Declare the options of `kae __complete`."""
    command.set_defaults(in_project=False)
    command.add_argument("line")


def run(arguments: argparse.Namespace) -> int:
    """Print the candidates for the last word of a line, one on each line; nothing where it may be any file."""
    before, _, word = arguments.line.rpartition(" ")
    with contextlib.suppress(errors.WorldError, OSError):
        for candidate in _candidates(_typed(before.split()[1:]), word):
            # A shell takes each line for a word, and a document may hold anything.
            if candidate.startswith(word) and candidate.isprintable() and " " not in candidate:
                sys.stdout.write(f"{candidate}\n")
    return cli.FINE


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
    return _Typed(parser, option, values, count)


def _argument(parser: parsing.Parser, number: int) -> argparse.Action | None:
    """Return the argument of a command by its position."""
    actions = [action for action in parser._actions if not action.option_strings]
    return actions[number] if number < len(actions) else None


def _candidates(typed: _Typed, word: str) -> Iterable[str]:
    if typed.option is None and word.startswith("-"):
        return [name for name in typed.parser._option_string_actions if name.startswith("--") or len(word) == 1]
    if typed.option is None and (verbs := typed.parser.commands()):
        return verbs
    action = typed.option or _argument(typed.parser, typed.arguments)
    if action is None:
        return ()
    if action.choices is not None:
        return map(str, action.choices)
    os.chdir(typed.values.get("directory", "."))
    project_file.enter(argparse.Namespace())
    known = _KNOWN.get(action.dest)
    return known(typed.values) if known else ()


def _clusters(_: Mapping[str, str]) -> Iterable[str]:
    inventories, _findings = document_files.find(_settings().inventories)
    return sorted(load.names_of(_documents()) | {names.stem(item.name) for item in inventories})


def _documents() -> definitions.Fleet:
    """Return the documents of policies/ alone; inventories may be large."""
    return load.policies(_settings())[0]


def _settings() -> Settings:
    return project_file.of(argparse.Namespace())


def _nodes(_: Mapping[str, str]) -> Iterable[str]:
    project = load.project(_settings())
    return (f"{cluster}/{name}" for cluster, name in load.nodes(project, project.fleet.clusters))


def _policies(values: Mapping[str, str]) -> list[definitions.Policy]:
    """Return the policies of the name on the command line."""
    return [policy for policy in _documents().policies if policy.name == values.get("policy")]


def _groups(values: Mapping[str, str], sort: str) -> Iterable[str]:
    return (group.name for policy in _policies(values) for group in policy.groups if group.sort == sort)


def _mappings(values: Mapping[str, str]) -> Iterable[str]:
    return (mapping.name for policy in _policies(values) for mapping in policy.mappings)


def _images(values: Mapping[str, str]) -> Iterable[str]:
    return sorted({name for each in _policies(values) if not each.recipe.builtin for name in each.written.images})


def _recipes(_: Mapping[str, str]) -> Iterable[str]:
    return sorted({recipe.name for recipe in (*reader.BUILTIN, *(each.recipe for each in _documents().policies))})


def _known_recipes(_: Mapping[str, str]) -> Iterable[str]:
    return [each.name for each in copies.known(_settings())]


def _shown_recipes(values: Mapping[str, str]) -> Iterable[str]:
    return sorted({*(recipe.name for recipe in reader.BUILTIN), *_known_recipes(values)})


def _schemas(_: Mapping[str, str]) -> Iterable[str]:
    from compiler.model import json_schemas  # noqa: PLC0415 - needed here only

    return sorted(json_schemas.schemas())


def _revisions(_: Mapping[str, str]) -> Iterable[str]:
    with repository.Repository() as found:
        return ["HEAD", *found.names()]


_KNOWN: Mapping[str, Callable[[Mapping[str, str]], Iterable[str]]] = {
    "accept": lambda _: diagnostics.ACCEPTABLE,
    "cluster": _clusters,
    "code": lambda _: diagnostics.CODES,
    "frozen": lambda values: _groups(values, "frozen"),
    "image": _images,
    "mapping": _mappings,
    "name": _schemas,
    "node": _nodes,
    "policy": lambda _: sorted(policy.name for policy in _documents().policies),
    "recipe": _known_recipes,
    "recipes": _recipes,
    "revision": _revisions,
    "shown": _shown_recipes,
    "to": _revisions,
    "topic": lambda _: cli.parser().commands(),
    "wave": lambda values: _groups(values, "wave"),
}
"""The names that an option or an argument takes, by its destination."""
