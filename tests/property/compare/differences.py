"""The differences between two checkouts, each with its sort: those of one sort are counted together."""

import difflib
import itertools
import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from tests import project
from tests.mutations import ANNOTATION

_ABSENT = "(absent)"
_NAMES = re.compile(r"'[^']*'|[\w.:/@-]*[\d/@][\w.:/@-]*")
"""What is quoted, or has digits."""
_FIELD = re.compile(r"[A-Za-z]+")


class Difference(NamedTuple):
    """One place where two checkouts differ; one without a sort is part of another."""

    sort: str
    before: Any
    after: Any


Compared = tuple[str, list[Difference]]
"""A thing that both checkouts made, and how it differs."""


def of_answers(before: dict[str, Any], after: dict[str, Any]) -> Iterator[Compared]:
    """Yield each command; the findings of a compile are a thing of their own."""
    for what, (was, *old) in before.items():
        now, *new = after[what]
        data = [_parsed(out) for out, _ in (old, new)]
        if None not in data and what.startswith("compile"):
            findings = [answer.pop("diagnostics") for answer in data]
            codes = sorted({finding["code"] for finding in itertools.chain(*findings)})
            own = {code: [[one for one in each if one["code"] == code] for each in findings] for code in codes}
            yield "findings", [one for code, both in own.items() for one in _in_data(f"finding {code} ", *both)]
        found = _in_texts(what, old[0], new[0]) if None in data else _in_data(f"{what} ", *data)
        errors = _in_texts(f"{what}, standard error", old[1], new[1])
        thing = f"{what}, which crashes" if was == now == -1 else what
        yield thing, [*_in_data(f"{what}, exit code", was, now), *found, *errors]


def of_trees(before: Path, after: Path) -> Iterator[Compared]:
    """Yield each file of two folders of output, byte for byte and by its content; the configs in it are apart."""
    old, new = (project.tree(folder) if folder.is_dir() else {} for folder in (before, after))
    for path in sorted(old.keys() | new.keys()):
        title, was, now = path.partition("/")[2], old.get(path, b""), new.get(path, b"")
        content = [] if was == now else list(_of_file(title, was.decode(), now.decode()))
        bytes_alone = was != now and not any(found for _, found in content)
        yield "files, byte for byte", [Difference("bytes" if bytes_alone else "", path, path)] if was != now else []
        yield from content or [("objects", [])] * title.endswith(".yaml")


def _of_file(title: str, was: str, now: str) -> Iterator[Compared]:
    if not was or not now:
        yield "files", [Difference(f"file {_plain(title)}", was or _ABSENT, now or _ABSENT)]
    elif title.endswith(".json"):
        yield title, list(_in_data(title, json.loads(was), json.loads(now)))
    elif not title.endswith(".yaml"):
        yield title, list(_in_texts(title, was, now))
    else:
        old, new = ({_name(data): data for data in yaml.load_all(text, yaml.CSafeLoader)} for text in (was, now))
        for key in {**old, **new}:
            left, right = old.get(key, {}), new.get(key, {})
            config = list(_in_data(f"config {title.rpartition('/')[0]} ", _configs(left), _configs(right)))
            others = list(_in_data(f"object {key[0]} ", left, right))
            yield "objects" if others or not config else "objects, config alone", config + others


def _name(data: Any) -> tuple[str, ...]:
    metadata = data.get("metadata", {})
    return data["kind"], metadata.get("namespace", ""), metadata.get("name", "")


def _configs(data: Any) -> list[Any]:
    """Take the configs of programs out of an object, and return them."""
    items = data.values() if isinstance(data, dict) else data if isinstance(data, list) else ()
    found = [config for item in items for config in _configs(item)]
    return [*found, _parsed(data.pop(ANNOTATION))] if isinstance(data, dict) and ANNOTATION in data else found


def _parsed(text: str) -> Any:
    """Return the data of a text; None where it is no JSON."""
    try:
        return json.loads(text)
    except ValueError:
        return None


def _in_data(sort: str, before: Any, after: Any) -> Iterator[Difference]:
    """Yield the places where data differs; a key that is a name and no field is a star in the sort."""
    if before == after:
        return
    if isinstance(before, dict) and isinstance(after, dict):
        for key in {**before, **after}:
            name = key if _FIELD.fullmatch(key) else "*"
            yield from _in_data(f"{sort}.{name}", before.get(key, _ABSENT), after.get(key, _ABSENT))
    elif isinstance(before, list) and isinstance(after, list):
        if len(before) != len(after):
            before, after = _only(before, after), _only(after, before)
        for was, now in itertools.zip_longest(before, after, fillvalue=_ABSENT):
            yield from _in_data(f"{sort}[]", was, now)
    else:
        end = " gone" if after == _ABSENT else " new" if before == _ABSENT else ""
        yield Difference(sort + end, before, after)


def _only(some: Sequence[Any], others: Sequence[Any]) -> list[Any]:
    """Return the items that another list lacks, or has less often."""
    first, second = (Counter(json.dumps(item, sort_keys=True) for item in items) for items in (some, others))
    return [json.loads(item) for item in (first - second).elements()]


def _in_texts(sort: str, before: str, after: str) -> Iterator[Difference]:
    """Yield lines that differ; names in them are stars in the sort."""
    old, new = before.splitlines(), after.splitlines()
    for tag, start, end, first, last in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag != "equal":
            for was, now in itertools.zip_longest(old[start:end], new[first:last], fillvalue=_ABSENT):
                yield Difference(f"{sort}: {_plain(now if was == _ABSENT else was)}", was, now)


def _plain(text: str) -> str:
    return " ".join(_NAMES.sub("*", text).split())[:100]
