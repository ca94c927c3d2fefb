"""The list of what is documented, with a test of each: findings, commands with their options, and fields.

`python -m tests.documentation.behaviours` prints it; a test keeps it whole. A finding's test is its project in
tests/failures. A command's or option's is a function that names both. A field's is a project of tests/golden or
tests/failures that sets it, or a function that names it beside the field it is in.
"""

import argparse
import ast
import collections
import functools
import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from compiler import cli, diagnostics
from tests import quick

ROOT = Path(__file__).resolve().parents[2]
TESTS = ROOT / "tests"
KINDS: Mapping[str, str] = {
    "kaepolicy": "KAEPolicy",
    "kaecluster": "KAECluster",
    "devicepolicy": "DevicePolicy",
    "recipe": "Recipe",
    "kaeproject": "",
}
"""The kind of the documents that a schema is for; the project file has none."""

Names = tuple[str, ...]
Paths = Set[Names]

_HELP = ("-h", "--help")
_WORD = re.compile(r"-{0,2}[A-Za-z][\w-]*")
_SHARED = 3
"""Commands that have an option, from which on it is the same one."""

_ALIAS = re.compile(r"[:-] \*\w")
"""An alias of YAML, by which a case may be without end."""


@dataclass(frozen=True)
class Behaviour:
    """Something that is documented, and the first test of it; None where there is none."""

    sort: str
    name: str
    test: str | None


@dataclass(frozen=True)
class Function:
    """A test, and every word that its text or its module's constants hold."""

    name: str
    words: Set[str]


def every() -> Iterator[Behaviour]:
    """Yield each documented behaviour."""
    for code in diagnostics.CODES:
        folder = f"tests/failures/{code}"
        beside = (function.name for function in functions() if code in function.words)
        yield Behaviour("finding", code, folder if (ROOT / folder).is_dir() else next(beside, None))
    yield from _commands()
    for stem in KINDS:
        schema = json.loads((ROOT / f"schemas/{stem}.json").read_text("utf-8"))
        paths = _paths(schema, schema)
        tests = {path: _test_of_field(stem, path) for path in sorted(paths)}
        for path, test in tests.items():
            # A field of a definition is one piece of code wherever the definition stands.
            alike = (tests[other] for other in tests if paths[other] == paths[path])
            yield Behaviour("field", f"{stem} {'.'.join(path)}", test or next(filter(None, alike), None))


def _commands() -> Iterator[Behaviour]:
    def listed(parser: cli.Parser, words: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Set[str]]]:
        for action in parser.declared()._actions:
            if isinstance(action, argparse._SubParsersAction):
                for name, child in action.choices.items():
                    yield (*words, name), frozenset()
                    yield from listed(child, (*words, name))
            elif action.option_strings and not set(action.option_strings) & set(_HELP):
                yield words, frozenset(action.option_strings)

    known = list(listed(cli.parser(), ()))
    counts = collections.Counter(options for _, options in known)
    for words, options in known:
        # What many commands have is one piece of code.
        wanted = set() if options and counts[options] >= _SHARED else set(words)
        tests = (each.name for each in functions() if wanted <= each.words and (not options or options & each.words))
        name = " ".join(("kae", *words, *sorted(options, key=len)[-1:]))
        yield Behaviour("command", name, next(tests, None))


def _paths(schema: Mapping[str, Any], whole: Mapping[str, Any], known: tuple[str, ...] = ()) -> dict[Names, Names]:
    """Return the names that lead to each field of a schema, with the last definition on the way and those from there.

    Entries of lists and maps have no names of their own.
    """
    paths: dict[Names, Names] = {}
    reference = schema.get("$ref", "")
    if reference and reference not in known:
        inner = _paths(whole["$defs"][reference.rpartition("/")[2]], whole, (*known, reference))
        paths |= {path: place if "$defs" in place[0] else (reference, *path) for path, place in inner.items()}
    parts = [part for key in ("anyOf", "oneOf", "allOf") for part in schema.get(key, ())]
    for part in (*parts, schema.get("items"), schema.get("additionalProperties")):
        if isinstance(part, dict):
            paths |= _paths(part, whole, known)
    for name, value in schema.get("properties", {}).items():
        paths[name,] = (name,)
        for rest, place in _paths(value, whole, known).items():
            paths[name, *rest] = place if "$defs" in place[0] else (name, *place)
    return paths


def _test_of_field(stem: str, path: tuple[str, ...]) -> str | None:
    for project, fields in projects(stem):
        if any(_leads(path, field) for field in fields):
            return project
    names = set(path) - {"spec"}
    return next((function.name for function in functions() if names <= function.words), None)


@functools.cache
def projects(stem: str) -> tuple[tuple[str, Paths], ...]:
    """Return the projects of golden cases and failures, with the fields that their documents of a kind set."""
    found: dict[str, set[tuple[str, ...]]] = {}
    for folder in ("golden", "failures"):
        for path in sorted((TESTS / folder).rglob("*.yaml")):
            case = "/".join(path.relative_to(ROOT).parts[:3])
            if "output" not in path.parts and (KINDS[stem] or path.name == "kae.yaml"):
                for document in _documents(path):
                    if not KINDS[stem] or document.get("kind") == KINDS[stem]:
                        found.setdefault(case, set()).update(_fields(document))
    return tuple(found.items())


def _documents(path: Path) -> Iterator[dict[str, Any]]:
    try:
        text = path.read_text("utf-8")
        documents = [] if _ALIAS.search(text) else list(yaml.load_all(text, yaml.CSafeLoader))
    except (yaml.YAMLError, ValueError):
        return  # Cases of findings on syntax.
    yield from (document for document in documents if isinstance(document, dict))


def _fields(value: Any) -> Paths:
    """Return the names that lead to each value, keys of maps among them."""
    if isinstance(value, list):
        return {path for entry in value for path in _fields(entry)}
    if isinstance(value, dict):
        inner = ((str(name), *rest) for name, entry in value.items() for rest in _fields(entry))
        return {*((str(name),) for name in value), *inner}
    return set()


def _leads(path: Sequence[str], written: Sequence[str]) -> bool:
    """Return whether what is written is the field of a path, perhaps with keys of maps between its names."""
    if path[-1] != written[-1] or len(path) > len(written):
        return False
    names = iter(written)
    return all(name in names for name in path)


@functools.cache
def functions() -> tuple[Function, ...]:
    """Return every test that needs no part of .ci/run of its own."""
    modules = (path for path in sorted(TESTS.rglob("test_*.py")) if path.relative_to(TESTS).parts[0] not in quick.APART)
    return tuple(function for path in modules for function in _of_module(path))


def _of_module(path: Path) -> Iterator[Function]:
    tree = ast.parse(path.read_bytes())
    kinds = ast.FunctionDef | ast.AsyncFunctionDef
    tests = [node for node in ast.walk(tree) if isinstance(node, kinds) and node.name.startswith("test_")]
    shared = {word for node in tree.body if node not in tests for word in _words(node)}
    for node in tests:
        yield Function(f"{path.relative_to(ROOT)}::{node.name}", {*_words(node), *shared})


def _words(node: ast.AST) -> Iterator[str]:
    for inner in ast.walk(node):
        if isinstance(inner, ast.Constant) and isinstance(inner.value, str):
            yield inner.value
            yield from _WORD.findall(inner.value)
        elif isinstance(inner, ast.keyword) and inner.arg:
            yield inner.arg


def main() -> int:
    """Print the list, and return 1 where something has no test."""
    behaviours = list(every())
    for behaviour in behaviours:
        sys.stdout.write(f"{behaviour.sort}\t{behaviour.name}\t{behaviour.test or 'NONE'}\n")
    return 1 if any(behaviour.test is None for behaviour in behaviours) else 0


if __name__ == "__main__":
    sys.exit(main())
