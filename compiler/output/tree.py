"""The files of output/<cluster>/ as values."""

import hashlib
import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from compiler.output import index_file

TEMPORARY = ".kae-tmp"
"""The suffix of a file that is being written; the file is renamed when it is whole."""

# Letters first: neither "..", nor hidden folders such as .git, nor an absolute path can be written this way.
_PART = r"[A-Za-z0-9_][A-Za-z0-9_.:@+=-]*"
_NAME = re.compile(_PART)
_PATH = re.compile(rf"{_PART}(?:/{_PART})*")

_NO_FACTS = index_file.Index()


class Tree(NamedTuple):
    """The files of output/<cluster>/, as `of` makes them: sorted relative paths with their texts, and their index."""

    cluster: str
    files: tuple[tuple[str, str], ...]
    """Every file but index.json."""
    index: index_file.Index  # type: ignore[assignment]  # no caller asks for the method of tuples
    """The index of the finished tree."""

    @classmethod
    def of(cls, cluster: str, texts: Mapping[str, str], facts: index_file.Index = _NO_FACTS) -> "Tree":
        """Return the tree of these texts by path, and of the facts that the index has beside its files."""
        if not is_name(cluster) or not all(map(is_path, texts)):
            raise ValueError(f"no paths of an output tree: {cluster!r}, {[*texts]!r}")
        return cls(cluster, tuple(sorted(texts.items())), facts._replace(files=tuple(sorted(texts))))

    def contents(self) -> dict[str, bytes]:
        """Return the content of each file by path."""
        return {path: text.encode() for path, text in self.files}

    def index_content(self) -> bytes:
        """Return the content of the finished tree's index.json."""
        return index_file.text(self.index).encode()


def is_name(name: str) -> bool:
    """Return whether a cluster's folder may have this name."""
    return _NAME.fullmatch(name) is not None


def is_path(path: str) -> bool:
    """Return whether a file below the cluster's folder, other than its index, may have this path."""
    return path != index_file.NAME and not path.endswith(TEMPORARY) and _PATH.fullmatch(path) is not None


def digest(content: bytes) -> str:
    """Return the SHA-256 of a file's content."""
    return hashlib.sha256(content).hexdigest()


def folders_of(paths: Iterable[str]) -> set[str]:
    """Return the folders that hold files of these paths; the cluster's own is the empty string."""
    folders: set[str] = set()
    for path in paths:
        parts = path.split("/")[:-1]
        folders.update("/".join(parts[:length]) for length in range(len(parts) + 1))
    return folders
