"""Copies of valid data with one change, and the checked-in configs of the programs."""

import copy
import fnmatch
import functools
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import yaml

from compiler.schema import judge
from tests.golden import trees

ROOT = Path(__file__).parents[1]
ANNOTATION = "device.openfuyao.com/config"

Position = tuple[str | int, ...]


def positions(data: Any, here: Position = ()) -> Iterator[Position]:
    """Yield every position in data, from the whole inward."""
    yield here
    items: Any = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, value in items:
        yield from positions(value, (*here, key))


def at(data: Any, position: Position) -> Any:
    """Return the value at a position."""
    return functools.reduce(lambda inner, key: inner[key], position, data)


def without(full: Any, position: Position) -> Any:
    """Return a copy without the value at a position; what is not above that is shared with it."""
    *above, last = position
    holder = copy.copy(at(full, tuple(above)))
    del holder[last]
    return changed(full, tuple(above), holder)


def changed(full: Any, position: Position, value: Any) -> Any:
    """Return a copy with another value at a position; what is not above that is shared with it."""
    for depth in range(len(position) - 1, -1, -1):
        holder = copy.copy(at(full, position[:depth]))
        holder[position[depth]] = value
        value = holder
    return value


def mutants(
    full: Any, values: Sequence[Any], keys: Sequence[str], below: Position = ()
) -> Iterator[tuple[Position, str, Any]]:
    """Yield each copy with one change, its position and the change: absent, another value, an extra key."""
    for position in positions(full):
        if position[: len(below)] != below:
            continue
        if position:
            yield position, "is absent", without(full, position)
        for value in values:
            yield position, f"is {json.dumps(value)}", changed(full, position, value)
        if isinstance(at(full, position), dict):
            for key in keys:
                yield position, f"has '{key}'", changed(full, position, at(full, position) | {key: 1})


def rendered(pattern: str) -> Iterator[tuple[str, str]]:
    """Yield path and config of every workload of this file name in the example fleet and in the golden cases."""
    for title, files in trees.every().items():
        for path in fnmatch.filter(files, f"*/{pattern}"):
            workload = yaml.load(files[path], yaml.CSafeLoader)
            yield f"{title}/{path}", workload["spec"]["template"]["metadata"]["annotations"][ANNOTATION]


class Language:
    """The config of a program, as its schema and its decoder understand it."""

    def __init__(self, stem: str, shape: Any) -> None:
        """`stem` is the name of the schema's file without .json, `shape` what the program decodes to."""
        self.schema: Any = json.loads((ROOT / "schemas" / f"{stem}.json").read_text("utf-8"))
        """The schema that is shipped."""
        # Python's `$` also matches before a last line break, which ECMA-262's does not.
        self.judge = judge.quick(self.schema)
        """A validator of the schema."""
        self._shape = shape

    def decoded(self, data: Any) -> Any:
        """Return the decoded config, or None when the program refuses it."""
        try:
            return msgspec.json.decode(json.dumps(data), type=self._shape, strict=True)
        except msgspec.ValidationError:
            return None
