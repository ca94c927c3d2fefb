"""Data that differs in one thing from data that is right, and the configs of the programs as they are checked in."""

import copy
import fnmatch
import functools
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Generic, TypeVar

import jsonschema
import msgspec
import yaml

from tests.golden import trees

ROOT = Path(__file__).parents[1]
ANNOTATION = "device.openfuyao.com/config"

Place = tuple[str | int, ...]
T = TypeVar("T")


def places(data: Any, here: Place = ()) -> Iterator[Place]:
    """Yield every position in data, from the whole inward."""
    yield here
    items: Any = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, value in items:
        yield from places(value, (*here, key))


def at(data: Any, place: Place) -> Any:
    """Return the value at a position."""
    return functools.reduce(lambda inner, key: inner[key], place, data)


def without(full: Any, place: Place) -> Any:
    """Return a copy without the value at a position."""
    data = copy.deepcopy(full)
    del at(data, place[:-1])[place[-1]]
    return data


def changed(full: Any, place: Place, value: Any) -> Any:
    """Return a copy with another value at a position."""
    if not place:
        return value
    data = copy.deepcopy(full)
    at(data, place[:-1])[place[-1]] = value
    return data


def mutants(
    full: Any, values: Sequence[Any], keys: Sequence[str], below: Place = ()
) -> Iterator[tuple[Place, str, Any]]:
    """Yield each copy with one change, its position and the change: absent, another value, an extra key."""
    for place in places(full):
        if place[: len(below)] != below:
            continue
        if place:
            yield place, "is absent", without(full, place)
        for value in values:
            yield place, f"is {json.dumps(value)}", changed(full, place, value)
        if isinstance(at(full, place), dict):
            for key in keys:
                yield place, f"has '{key}'", changed(full, place, at(full, place) | {key: 1})


def rendered(pattern: str) -> Iterator[tuple[str, str]]:
    """Yield path and config of every workload of this file name in the example fleet and in the golden cases."""
    for title, files in trees.every().items():
        for path in fnmatch.filter(files, f"*/{pattern}"):
            workload = yaml.load(files[path], yaml.CSafeLoader)
            yield f"{title}/{path}", workload["spec"]["template"]["metadata"]["annotations"][ANNOTATION]


class Language(Generic[T]):
    """The config of a program, as its schema and its decoder understand it."""

    def __init__(self, stem: str, shape: type[T]) -> None:
        """`stem` is the name of the schema's file without .json, `shape` what the program decodes to."""
        self.schema: Any = json.loads((ROOT / "schemas" / f"{stem}.json").read_text("utf-8"))
        """The schema that is shipped."""
        self.judge = jsonschema.Draft202012Validator(self.schema)
        """A validator of the schema."""
        self._shape = shape

    def decoded(self, data: Any) -> T | None:
        """Return the decoded config, or None when the program refuses it."""
        try:
            return msgspec.json.decode(json.dumps(data), type=self._shape, strict=True)
        except msgspec.ValidationError:
            return None
