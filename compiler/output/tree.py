"""The files of output/<cluster>/ and their record, index.json, as values.

index.json is the only record of what the compiler wrote. While a rewrite is under way it names every file of
the old and of the new tree and is marked incomplete.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

INDEX = "index.json"
"""The record of a cluster's files; it does not list itself."""

TEMPORARY = ".kae-tmp"
"""The end of the name under which a file is written before it takes its place."""

# Letters first: neither "..", nor hidden folders such as .git, nor an absolute path can be written this way.
_PART = r"[A-Za-z0-9_][A-Za-z0-9_.:@+=-]*"
_NAME = re.compile(_PART)
_PATH = re.compile(rf"{_PART}(?:/{_PART})*")
_DIGEST = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Tree:
    """The files of output/<cluster>/ without index.json: relative paths in sorted order, and their texts."""

    cluster: str
    files: tuple[tuple[str, str], ...]

    def __post_init__(self) -> None:
        paths = [path for path, _ in self.files]
        if not is_name(self.cluster) or not all(map(is_path, paths)):
            raise ValueError(f"no paths of an output tree: {self.cluster!r}, {paths!r}")
        if paths != sorted(set(paths)):
            raise ValueError(f"paths are not sorted, or not unique: {paths!r}")

    @classmethod
    def of(cls, cluster: str, texts: Mapping[str, str]) -> "Tree":
        """A tree of these texts by path."""
        return cls(cluster, tuple(sorted(texts.items())))

    def contents(self) -> dict[str, bytes]:
        """What stands in each file."""
        return {path: text.encode() for path, text in self.files}


@dataclass(frozen=True, slots=True)
class Index:
    """What index.json says: the digest of each file, and whether the rewrite that it belongs to has ended."""

    files: Mapping[str, str]
    complete: bool = True


def is_name(name: str) -> bool:
    """Whether a cluster's folder may bear this name."""
    return _NAME.fullmatch(name) is not None


def is_path(path: str) -> bool:
    """Whether a file below the cluster's folder, other than its index, may have this path."""
    return path != INDEX and not path.endswith(TEMPORARY) and _PATH.fullmatch(path) is not None


def digest(content: bytes) -> str:
    """The SHA-256 of a file's content, as index.json records it."""
    return hashlib.sha256(content).hexdigest()


def index_of(tree: Tree) -> Index:
    """The index of a finished tree."""
    return Index({path: digest(content) for path, content in tree.contents().items()})


def index_text(index: Index) -> str:
    """The text of index.json: keys sorted, one file a line."""
    data: dict[str, Any] = {"version": 1, "files": dict(index.files)}
    if not index.complete:
        data["complete"] = False
    return json.dumps(data, ensure_ascii=False, sort_keys=True, indent=2) + "\n"


def parse_index(text: bytes) -> Index | None:
    """The index that a text states, however it is laid out; None where it is damaged."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(data, dict) or data.get("version") != 1 or not data.keys() <= {"version", "files", "complete"}:
        return None
    files, complete = data.get("files"), data.get("complete", True)
    if not isinstance(files, dict) or not isinstance(complete, bool):
        return None
    if not all(isinstance(value, str) and _DIGEST.fullmatch(value) for value in files.values()):
        return None
    return Index(files, complete)


def folders_of(paths: Iterable[str]) -> set[str]:
    """The folders that hold files of these paths; the cluster's own is the empty string."""
    found: set[str] = set()
    for path in paths:
        parts = path.split("/")[:-1]
        found.update("/".join(parts[:length]) for length in range(len(parts) + 1))
    return found
