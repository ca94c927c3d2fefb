"""Ways in which the same documents can lie on a disk."""

import json
import os
import random
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import yaml

from tests import in_process, project

ROOT = Path(__file__).resolve().parents[2]

Layout = Callable[[Path], None]
"""Puts the example fleet into an empty folder."""


def fleet() -> dict[str, bytes]:
    """The documents of the example fleet, by their paths."""
    found = (path for folder in ("policies", "inventory") for path in sorted((ROOT / folder).rglob("*")))
    return {path.relative_to(ROOT).as_posix(): path.read_bytes() for path in found if path.is_file()}


def plain(top: Path) -> None:
    """As git writes it."""
    project.write(top, fleet())


def shuffled(seed: int) -> Layout:
    """Files made in another order, which is the order in which many file systems list them."""

    def put(top: Path) -> None:
        files = list(fleet().items())
        random.Random(seed).shuffle(files)  # noqa: S311 - repeatable is what it has to be
        project.write(top, dict(files))

    return put


def crlf(top: Path) -> None:
    """As git writes it on Windows."""
    project.write(top, {name: content.replace(b"\n", b"\r\n") for name, content in fleet().items()})


def linked(top: Path) -> None:
    """The folders behind links, as some mounts have them."""
    project.write(top / "elsewhere", fleet())
    for name in ("policies", "inventory"):
        (top / name).symlink_to(top / "elsewhere" / name)


def dated(top: Path) -> None:
    """All files of the year 2001, and of the same second."""
    plain(top)
    for name in fleet():
        os.utime(top / name, (1_000_000_000, 1_000_000_000))


def one_file(top: Path) -> None:
    """Every policy and cluster in one file, the last first."""
    files = fleet()
    documents = [content for name, content in files.items() if name.endswith(".yaml")]
    rest = {name: content for name, content in files.items() if not name.endswith(".yaml")}
    project.write(top, {"policies/all.yml": b"---\n".join(reversed(documents)), **rest})


def reversed_keys(top: Path) -> None:
    """Every mapping in another order, and YAML written as JSON."""
    files = {}
    for name, content in fleet().items():
        data = _reversed(yaml.load(content, Loader=yaml.CSafeLoader))
        files[name.removesuffix(".yaml").removesuffix(".json") + ".json"] = json.dumps(data, indent=3).encode()
    project.write(top, files)


def _reversed(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _reversed(value[key]) for key in reversed(value)}
    return [_reversed(item) for item in value] if isinstance(value, list) else value


def over_other_output(top: Path) -> None:
    """Over what other documents were compiled to."""
    files = fleet()
    others = {name: content.replace(b"1.4.1", b"1.3.0") for name, content in files.items() if "lab" not in name}
    project.write(top, others)
    assert in_process.kae(top, "compile").code == 0
    project.write(top, files)


SAME_PLACES: Mapping[str, Layout] = MappingProxyType(
    {
        "files made in another order": shuffled(1),
        "files made in a third order": shuffled(2),
        "CR LF line breaks": crlf,
        "folders behind links": linked,
        "files of 2001": dated,
        "over another output": over_other_output,
    }
)
"""Layouts with which every line stands where it stood: findings are the same too."""

OTHER_PLACES: Mapping[str, Layout] = MappingProxyType(
    {"all policies in one file": one_file, "keys in another order, as JSON": reversed_keys}
)
"""Layouts with which documents say the same in other places."""
