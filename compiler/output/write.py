"""Writing trees below output/, so that the next compile detects and repairs an interrupted one.

A rewrite replaces index.json by one that is marked incomplete and names the files of both trees, writes the changed
files, removes those that only the old index records, and then replaces index.json by the final one. A file that
index.json does not record is foreign: it is reported and never touched, unless its content is the wanted one, git has
it in conflict, or git took the record back and left the file as an earlier compile wrote it. A recorded file is
overwritten even if a person edited it, as git has the edit. A damaged index records nothing; one in conflict records
what either side does (decision 0018).

Files are not synced to the disk. After a power failure a file that index.json names may be lost; `scan.state` compares
contents and reports it, and git or the next compile restores it.
"""

import contextlib
import errno
import fcntl
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from compiler import errors, wording
from compiler.output import diff, index_file, scan, tree
from compiler.packing import Packed

# The errors of flock on file systems without locks (some network mounts). There, only the caller can ensure that one
# compile runs at a time.
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)


class Disk:
    """The operations that change the disk; no other code in this module does."""

    def make_folder(self, path: Path) -> None:
        """Make a folder whose parent exists."""
        path.mkdir()

    def write(self, path: Path, content: bytes) -> None:
        """Write a new file of mode 0644; it must not exist, also not as a link."""
        with path.open("xb") as file:
            file.write(content)
            os.fchmod(file.fileno(), 0o644)

    def replace(self, source: Path, target: Path) -> None:
        """Move a file to its final path atomically, replacing whatever was there."""
        source.replace(target)

    def remove(self, path: Path) -> None:
        """Remove a file or a link."""
        path.unlink()

    def remove_folder(self, path: Path) -> None:
        """Remove an empty folder."""
        path.rmdir()


Wanted = tree.Tree | Packed[tree.Tree] | str
"""A tree to write, or the name of a cluster whose output goes."""

Each = Callable[[Callable[[Any], Any], Sequence[Any]], Iterable[Any]]
"""A function that calls another one for every item, and yields the results in their order."""


class Written(msgspec.Struct, frozen=True):
    """The result of a rewrite of output/<cluster>/, with the foreign files in it."""

    cluster: str
    digests: Mapping[str, str]
    """Those of the files that were written, by path."""
    removed: tuple[str, ...]
    foreign: tuple[str, ...]
    new_index: bool
    """True when index.json was written."""

    @property
    def written(self) -> tuple[str, ...]:
        """The files that were written."""
        return tuple(self.digests)


def write_trees(
    output: Path,
    wanted: Iterable[Wanted],
    *,
    told: scan.Told = scan.NOTHING_TOLD,
    disk: Disk | None = None,
    each: Each = map,
) -> tuple[Written, ...]:
    """Write the trees to the clusters' folders, and remove the recorded files of the clusters that are named instead.

    The paths below output/ that git has `told` are the compiler's too. `each` calls a function for every item, in
    several processes perhaps.

    Nothing is written where nothing differs, and nothing in any cluster if a foreign file is in the way of one. Raises
    WorldError, whose hint says so where a rewrite began and did not end.
    """
    items = tuple(wanted)
    if not items:
        return ()
    operations = disk or Disk()

    def look(item: Wanted) -> None:
        _planned(output, item, told)

    def perform(item: Wanted) -> Written:
        with scan.io_errors("written", output):
            cluster, steps, foreign = _planned(output, item, told)
            _perform(output / cluster, steps, operations)
        digests = {path: tree.digest(content) for path, content in steps.writes}
        return Written(cluster, digests, steps.removals, foreign, steps.ends and steps.final is not None)

    with scan.io_errors("written", output):
        output.mkdir(parents=True, exist_ok=True)
        with _locked(output):
            for _ in each(look, items):
                pass
            return _performed(output, items, each(perform, items))


def _performed(output: Path, wanted: Iterable[Wanted], rewrites: Iterable[Written]) -> tuple[Written, ...]:
    done: list[Written] = []
    try:
        done.extend(rewrites)
    except errors.WorldError as error:
        began = any(item.new_index or item.removed for item in done)
        if began or any(_is_incomplete(output, item) for item in wanted):
            error.hint = "Nothing is lost: the next compile completes this one."
        raise
    return tuple(done)


def _tree(item: tree.Tree | Packed[tree.Tree]) -> tree.Tree:
    return item.value() if isinstance(item, Packed) else item


def _is_incomplete(output: Path, item: Wanted) -> bool:
    with contextlib.suppress(errors.WorldError):
        recorded = scan.recorded(output, item if isinstance(item, str) else _tree(item).cluster)
        return recorded is not None and not recorded.complete
    return False


def _planned(output: Path, item: Wanted, told: scan.Told) -> tuple[str, diff.Steps, tuple[str, ...]]:
    """Return the cluster, the steps, and the foreign files. Raises WorldError where one of these is in the way."""
    if isinstance(item, str):
        if not tree.is_name(item):
            raise ValueError(f"no name of a cluster: {item!r}")
        seen = scan.look(output, item, (), told)
        return item, diff.removal(seen), seen.foreign
    wanted = _tree(item)
    seen = scan.look(output, wanted.cluster, wanted.index.files, told)
    blocked = diff.blocked(wanted, seen)
    if blocked:
        folder = output / wanted.cluster
        others = wording.counted(len(blocked) - 1, "other file")
        more = f" The same holds for {others}." if blocked[1:] else ""
        raise errors.WorldError(
            f"'{folder}/{blocked[0]}' is in the way: it is none of the files that index.json lists.{more}",
            hint="Move it out of the way, and compile again."
            if seen.recorded
            else f"'{folder}/{index_file.NAME}' is missing or damaged: restore it from git.",
        )
    return wanted.cluster, diff.rewrite(wanted, seen), seen.foreign


def _perform(folder: Path, todo: diff.Steps, disk: Disk) -> None:
    """Perform the steps in the order in which the next compile can recover from a crash at any point."""
    index = folder / index_file.NAME
    for path in todo.leftovers:
        disk.remove(folder / path)
    if "" in todo.new_folders:
        disk.make_folder(folder)
    if todo.interim is not None:
        _put(index, todo.interim, disk)
    for path in filter(None, todo.new_folders):
        disk.make_folder(folder / path)
    for path, content in todo.writes:
        _put(folder / path, content, disk)
    for path in todo.removals:
        disk.remove(folder / path)
    for path in todo.old_folders:
        _remove_if_empty(folder / path, disk)
    if todo.ends and todo.final is not None:
        _put(index, todo.final, disk)
    elif todo.ends:
        disk.remove(index)
        _remove_if_empty(folder, disk)


def _put(path: Path, content: bytes, disk: Disk) -> None:
    temporary = path.with_name(path.name + tree.TEMPORARY)
    try:
        disk.write(temporary, content)
        disk.replace(temporary, path)
    except OSError as error:
        with contextlib.suppress(OSError):
            disk.remove(temporary)
        raise OSError(error.errno, error.strerror, str(path)) from error


def _remove_if_empty(folder: Path, disk: Disk) -> None:
    try:
        disk.remove_folder(folder)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):  # POSIX allows either for a folder with files
            raise


@contextlib.contextmanager
def _locked(output: Path) -> Iterator[None]:
    """Wait until no other compile writes below this folder; the lock ends with the process at the latest."""
    handle = os.open(output, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise
        yield
    finally:
        os.close(handle)
