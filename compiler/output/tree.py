"""The files of output/<cluster>/ as values."""

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from compiler.output import index_file

TEMPORARY = ".kae-tmp"
"""The suffix of a file that is being written; the file is renamed when it is whole."""

# Letters first: neither "..", nor hidden folders such as .git, nor an absolute path can be written this way.
_PART = r"[A-Za-z0-9_][A-Za-z0-9_.:@+=-]*"
_NAME = re.compile(_PART)
_PATH = re.compile(rf"{_PART}(?:/{_PART})*")


@dataclass(frozen=True, slots=True)
class Tree:
    """The files of output/<cluster>/: relative paths in sorted order with their texts, and the facts for index.json."""

    cluster: str
    files: tuple[tuple[str, str], ...]
    """Every file but index.json."""
    workloads: tuple[index_file.Workload, ...] = ()
    has_nodes: bool = False
    """True when the cluster's inventory has nodes."""
    declared: bool = False
    """True when the cluster has a KAECluster."""
    frozen: tuple[index_file.Frozen, ...] = ()

    def __post_init__(self) -> None:
        paths = [path for path, _ in self.files]
        if not is_name(self.cluster) or not all(map(is_path, paths)):
            raise ValueError(f"no paths of an output tree: {self.cluster!r}, {paths!r}")
        if paths != sorted(set(paths)):
            raise ValueError(f"paths are not sorted, or not unique: {paths!r}")

    @classmethod
    def of(cls, cluster: str, texts: Mapping[str, str]) -> "Tree":
        """Return the tree of these texts by path."""
        return cls(cluster, tuple(sorted(texts.items())))

    def contents(self) -> dict[str, bytes]:
        """Return the content of each file by path."""
        return {path: text.encode() for path, text in self.files}

    def index(self) -> index_file.Index:
        """Return the index of the finished tree."""
        paths = tuple(path for path, _ in self.files)
        return index_file.Index(
            files=paths,
            workloads=self.workloads,
            has_nodes=self.has_nodes,
            declared=self.declared,
            frozen=self.frozen,
        )

    def index_content(self) -> bytes:
        """Return the content of the finished tree's index.json."""
        return index_file.text(self.index()).encode()


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
