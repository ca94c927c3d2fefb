"""The results of earlier compiles, so that unchanged input is not compiled again, and what they wrote; git-ignored.

A cache is never required and never an error: one that is lost, damaged, unreadable or copied counts as empty. It is
trusted only in the folder in which it was written. Otherwise a cache in a pull request could confirm an output that was
never compiled (decision 0004).
"""

import contextlib
import hashlib
import json
import os
import stat
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import compiler
from compiler.output import index_file, scan, tree

FOLDER = ".kae_cache"
"""The cache's folder in the project's root; it hides itself from git and from backups."""

_RESULTS = "results.json"
_EXAMPLES = "examples.json"
_WRITTEN = "written.json"
_TAG = "CACHEDIR.TAG"
# https://bford.info/cachedir/: the first line is fixed.
_TAG_TEXT = "Signature: 8a477f597d28d172789f06886806bc55\n# This folder holds a cache of kae; delete it at will.\n"

# A file that changes twice within one tick of the file system's clock may keep its stamp; git calls such an
# entry racy. The clock of Linux ticks every 1 to 10 ms; file systems without fractions every 1 or 2 seconds.
_TICK_NS = 50_000_000
_COARSE_TICK_NS = 2_000_000_000
_SECOND_NS = 1_000_000_000

Stamp = tuple[int, int, int, int]
"""Size, modification and change time in ns, inode: equal stamps, equal content."""


class Digests:
    """SHA-256 of files by path, remembered for as long as a file's stamp stays the same."""

    def __init__(
        self,
        root: Path,
        known: Mapping[str, tuple[Stamp, str]] | None = None,
        now: Callable[[], int] = time.time_ns,
    ) -> None:
        self._root = root
        self._known = dict(known or {})
        self._now = now
        self._asked: set[str] = set()
        self.changed = False
        """True when there are new digests to save."""

    def of(self, path: str) -> str:
        """Return the digest of a regular file, whose path is relative to the root. Raises OSError."""
        self._asked.add(path)
        full = self._root / path
        known = self._known.get(path)
        if known is not None and known[0] == _stamp(full.stat()):
            return known[1]
        return self._read(path, full)

    def worth_keeping(self) -> dict[str, tuple[Stamp, str]]:
        """Return the known digests of files that still exist."""
        return {
            path: known
            for path, known in sorted(self._known.items())
            if path in self._asked or (self._root / path).exists()
        }

    def _read(self, path: str, full: Path) -> str:
        with full.open("rb") as file:
            now = self._now()
            before = _stamp(os.fstat(file.fileno()))
            digest = tree.digest(file.read())
            after = _stamp(os.fstat(file.fileno()))
        if before == after and _is_settled(before, now):
            self._known[path] = (before, digest)
            self.changed = True
        elif self._known.pop(path, None):
            self.changed = True
        return digest


class Record(NamedTuple):
    """The result of a compile: digest of the input, findings, and digest of the output."""

    key: str
    """The digest of all input (`key`)."""
    diagnostics: tuple[Mapping[str, Any], ...] = ()
    """Findings in their JSON form."""
    tree: str = ""
    """The digest of the files of the output (`tree_digest`)."""


class Cache(NamedTuple):
    """The cache of a project."""

    digests: Digests
    overall: Record | None = None
    clusters: Mapping[str, Record] = MappingProxyType({})
    settings: tuple[str, Mapping[str, Any]] | None = None
    """The project file's digest together with the compiler's, and the data that the file holds."""


def load(root: Path, now: Callable[[], int] = time.time_ns) -> Cache:
    """Return the cache of the project in `root`; empty where there is none to trust."""
    try:
        data = _believed(root / FOLDER, _RESULTS)
        known = {
            path: ((size, mtime, ctime, inode), digest) for path, size, mtime, ctime, inode, digest in data["files"]
        }
        return Cache(
            digests=Digests(root, known, now),
            overall=_record(data["overall"]) if data["overall"] else None,
            clusters={name: _record(value) for name, value in data["clusters"].items()},
            settings=(data["settings"][0], dict(data["settings"][1])) if data["settings"] else None,
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return Cache(digests=Digests(root, now=now))


def save(root: Path, cache: Cache) -> None:
    """Replace the project's cache atomically; do nothing where it cannot be written."""
    data = {
        "files": [[path, *stamp, digest] for path, (stamp, digest) in cache.digests.worth_keeping().items()],
        "overall": cache.overall,
        "clusters": cache.clusters,
        "settings": cache.settings,
    }
    _save(root / FOLDER, _RESULTS, data)


def examples(root: Path) -> dict[str, Any]:
    """Return what `save_examples` saved; nothing where there is none to trust."""
    try:
        data = _believed(root / FOLDER, _EXAMPLES)
    except (OSError, ValueError, RecursionError):
        return {}
    return data if isinstance(data, dict) else {}


def save_examples(root: Path, found: Mapping[str, Any]) -> None:
    """Replace the examples of inventories in the cache; do nothing where it cannot be written."""
    _save(root / FOLDER, _EXAMPLES, found)


def written(root: Path) -> Mapping[str, Mapping[str, str]]:
    """Return the digests that `save_written` saved, by folder of outputs and path; those of a cache to trust."""
    try:
        data = _believed(root / FOLDER, _WRITTEN)
    except (OSError, ValueError, RecursionError):
        return {}
    return data if isinstance(data, dict) else {}


def save_written(root: Path, digests: Mapping[str, Mapping[str, str]]) -> None:
    """Replace the digests of the files that compiles wrote; do nothing where they cannot be written.

    They tell the compiler's files where git has taken back an index that recorded them, as `git checkout .` does.
    """
    _save(root / FOLDER, _WRITTEN, digests)


def _save(folder: Path, name: str, data: Mapping[str, Any]) -> None:
    """Replace a file of the cache atomically, with a header by which it is believed."""
    body = _json(data)
    temporary = folder / f"{name}.{os.getpid()}"
    with contextlib.suppress(OSError):
        if folder.is_symlink():
            return
        folder.mkdir(exist_ok=True)
        _write_once(folder / ".gitignore", "*\n")
        _write_once(folder / _TAG, _TAG_TEXT)
        for leftover in folder.glob(f"{name}.*"):
            leftover.unlink()
        with temporary.open("x", encoding="utf-8", newline="\n") as file:
            file.write(f"{_json(_header(folder, body))}\n{body}")
        temporary.replace(folder / name)


def key(*parts: Any) -> str:
    """Return the digest of values that JSON can hold."""
    return hashlib.sha256(_json(parts).encode()).hexdigest()


def fingerprint(digests: Digests, parts: Iterable[Path]) -> str:
    """Return the digest of the compiler: these files and folders, Python, all installed packages. Raises OSError."""
    files = [
        [place, name, digests.of(f"{part}/{name}" if name else str(part))]
        for place, part in enumerate(map(Path.resolve, parts))
        for name in (sorted(_files(part)) if part.is_dir() else ("",))
    ]
    return key(files, compiler.__version__, sys.version, sorted(_distributions()))


def _files(folder: Path) -> Iterator[str]:
    return (path for path, entry in scan.files_below(folder, without="__pycache__") if entry.is_file())


def tree_digest(wanted: tree.Tree) -> str:
    """Return the digest that `verify` finds for a tree once it is written."""
    contents = {**wanted.contents(), index_file.NAME: wanted.index_content()}
    return key({path: tree.digest(content) for path, content in contents.items()})


def verify(digests: Digests, folder: Path, record: Record) -> bool:
    """Return whether a cluster's folder holds exactly the recorded files; a foreign file is enough for False."""
    try:
        if folder.is_symlink():
            return False
        on_disk = {}
        for name, entry in scan.files_below(folder):
            if not entry.is_file(follow_symlinks=False):  # Neither a file nor a folder.
                return False
            on_disk[name] = digests.of(str(folder / name))
    except OSError:
        return False
    return key(on_disk) == record.tree


def _stamp(status: os.stat_result) -> Stamp:
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino


def _is_settled(stamp: Stamp, now: int) -> bool:
    """Return whether every later change is sure to change the stamp."""
    _, mtime, ctime, _ = stamp
    tick = _TICK_NS if ctime % _SECOND_NS else _COARSE_TICK_NS
    return max(mtime, ctime) + tick <= now


def _distributions() -> set[str]:
    """Return the installed packages with versions from the folders of sys.path; importlib.metadata is much slower."""
    distributions: set[str] = set()
    for folder in sys.path:
        with contextlib.suppress(OSError):
            distributions.update(name for name in os.listdir(folder or ".") if name.endswith(".dist-info"))  # noqa: PTH208
    return distributions


def _believed(folder: Path, name: str) -> Any:
    """Return the data of a file in the cache's folder. Raises OSError or ValueError where it was not written there."""
    handle = os.open(folder / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(handle, encoding="utf-8") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise ValueError("no regular file")
        header = file.readline()
        body = file.read()
    if header != _json(_header(folder, body)) + "\n":
        raise ValueError("written elsewhere, by another version, or damaged")
    return json.loads(body)


def _header(folder: Path, body: str) -> dict[str, Any]:
    # Inode and change time of a file that is made once: they cannot be chosen, and no copy keeps them.
    place = (folder / _TAG).lstat()
    return {"version": 1, "place": [place.st_ino, place.st_ctime_ns], "sha256": tree.digest(body.encode())}


def _record(fields: list[Any]) -> Record:
    key_, findings, digest = fields
    return Record(key=key_, diagnostics=tuple(findings), tree=digest)


def _write_once(path: Path, text: str) -> None:
    with contextlib.suppress(FileExistsError), path.open("x", encoding="utf-8", newline="\n") as file:
        file.write(text)


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
