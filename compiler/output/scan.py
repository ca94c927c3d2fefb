"""Reading output/. Nothing here changes the disk, follows a link, or leaves a cluster's folder."""

import contextlib
import os
import stat
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from compiler import errors, wording
from compiler.output import index_file, tree

if TYPE_CHECKING:
    from compiler.output import diff


class Told(NamedTuple):
    """The paths below output/ that are the compiler's by what git tells, whether or not an index records them."""

    unmerged: Collection[str] = ()
    """Those that git has in conflict."""
    forgotten: Collection[str] = ()
    """Files that no index records, and that an earlier compile, or that of git's commit, wrote as they are."""


NOTHING_TOLD = Told()


def state(output: Path, wanted: tree.Tree, told: Told = NOTHING_TOLD) -> "diff.State":
    """Compare output/<cluster>/ with the compiled tree. Raises WorldError."""
    from compiler.output import diff  # noqa: PLC0415 - an unchanged compile compares nothing

    return diff.compare(wanted, look(output, wanted.cluster, wanted.index.files, told))


def stale_clusters(output: Path, names: Collection[str], unmerged: Collection[str] = ()) -> tuple[str, ...]:
    """Return the clusters that have output of the compiler and are not among `names`. Raises WorldError.

    Where one branch removes a cluster and the other changes a file of it, a merge leaves that file alone: it is in
    `unmerged`, the paths below output/ that git has in conflict.
    """
    left = {path.partition("/")[0] for path in unmerged}
    with io_errors("read", output):
        try:
            found = entries(output)
        except FileNotFoundError:
            return ()
        return tuple(
            entry.name
            for entry in found
            if entry.name not in names
            and tree.is_name(entry.name)
            and entry.is_dir(follow_symlinks=False)
            and (is_ours(Path(entry.path)) or (entry.name in left and _holds_files(Path(entry.path))))
        )


def recorded(output: Path, cluster: str) -> index_file.Index | None:
    """Return the index in output/<cluster>/; None where it is absent or damaged. Raises WorldError."""
    folder = output / cluster
    with io_errors("read", output):
        return index_file.union(_recorded(folder, _index(folder))) if folder.is_dir() else None


def look(output: Path, cluster: str, wanted: Iterable[str], told: Told = NOTHING_TOLD) -> "diff.Observed":
    """Return the content of output/<cluster>/, as far as `wanted` and `told` paths need it. Raises WorldError."""
    from compiler.output import diff  # noqa: PLC0415

    folder = output / cluster
    left, lost = _below(cluster, told.unmerged), _below(cluster, told.forgotten)
    with io_errors("read", output):
        try:
            mode = folder.lstat().st_mode
        except FileNotFoundError:
            return diff.Observed()
        if not stat.S_ISDIR(mode):
            raise errors.WorldError(f"'{folder}' is not a folder.", hint="Delete it, and compile again.")
        index = _index(folder)
        sides = _recorded(folder, index)
        recorded = index_file.union(sides)
        walk = _Scan({*wanted, *left, *lost, *(recorded.files if recorded else ())})
        walk.visit(folder, "")
    return diff.Observed(
        index=index,
        sides=sides,
        files=walk.files,
        conflicts=left | {path for path, content in walk.files.items() if index_file.is_marked(content)},
        forgotten=lost,
        odd=frozenset(walk.odd),
        folders=frozenset(walk.seen_folders),
        leftovers=tuple(sorted(walk.leftovers)),
        foreign=tuple(sorted(map(wording.file_name, walk.foreign))),
    )


def _below(cluster: str, paths: Iterable[str]) -> frozenset[str]:
    """Return the paths that the compiler may write, below the folder of a cluster."""
    below = (path.removeprefix(f"{cluster}/") for path in paths if path.startswith(f"{cluster}/"))
    return frozenset(filter(tree.is_path, below))


@contextlib.contextmanager
def io_errors(verb: str, output: Path) -> Iterator[None]:
    """Turn an OSError into a WorldError that names the path."""
    try:
        yield
    except OSError as error:
        raise errors.WorldError(f"'{error.filename or output}' cannot be {verb}: {error.strerror}.") from error


class _Scan:
    """A walk through a cluster's folder that separates the compiler's files from foreign ones."""

    def __init__(self, own: set[str]) -> None:
        self.own = own
        self.folders = tree.folders_of(own)
        self.temporary = {path + tree.TEMPORARY for path in (*own, index_file.NAME)}
        self.files: dict[str, bytes] = {}
        self.odd: list[str] = []
        self.seen_folders: list[str] = []
        self.leftovers: list[str] = []
        self.foreign: list[str] = []

    def visit(self, folder: Path, prefix: str) -> None:
        """Record everything in a folder of the compiler."""
        self.seen_folders.append(prefix.rstrip("/"))
        for entry in entries(folder):
            path, is_folder = prefix + entry.name, entry.is_dir(follow_symlinks=False)
            if (path in self.folders and not is_folder) or (path in self.own and is_folder):
                raise errors.WorldError(
                    f"'{entry.path}' is {'a folder' if is_folder else 'not a folder'}.",
                    hint="The compiler writes to this path; move it away, and compile again.",
                )
            if path in self.folders:
                self.visit(Path(entry.path), path + "/")
            elif path in self.own:
                if entry.is_file(follow_symlinks=False):
                    self.files[path] = _content(Path(entry.path))
                else:
                    self.odd.append(path)
            elif path in self.temporary and not is_folder:
                self.leftovers.append(path)
            elif is_folder and _holds_files(Path(entry.path)):
                self.foreign.append(path + "/")
            elif not is_folder and path != index_file.NAME:
                self.foreign.append(path)


def _holds_files(folder: Path) -> bool:
    return any(map(is_filled, entries(folder)))


def is_missing(folder: Path) -> bool:
    """Return whether a folder is not there, or empty. Raises WorldError."""
    with io_errors("read", folder):
        return not folder.is_dir() or not entries(folder)


def is_filled(entry: os.DirEntry[str]) -> bool:
    """Return whether an entry is a file, or a folder that holds one."""
    pending = [entry]  # Folders may be deeper than Python recurses.
    while pending:
        inner = pending.pop()
        if not inner.is_dir(follow_symlinks=False):
            return True
        pending += entries(Path(inner.path))
    return False


def entries(folder: Path) -> list[os.DirEntry[str]]:
    """Return the entries of a folder, sorted by name. Raises OSError."""
    with os.scandir(folder) as found:
        return sorted(found, key=lambda entry: entry.name)


def files_below(folder: Path, without: str = "") -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Yield all but folders below a folder, by path, and enter no folder of the name `without`. Raises OSError.

    They are not sorted, as thousands of files are looked at for each call.
    """
    pending = [("", str(folder))]
    while pending:
        prefix, inner = pending.pop()
        with os.scandir(inner) as found:
            for entry in found:
                if not entry.is_dir(follow_symlinks=False):
                    yield prefix + entry.name, entry
                elif entry.name != without:
                    pending.append((f"{prefix}{entry.name}/", entry.path))


def _index(folder: Path) -> bytes | None:
    path = folder / index_file.NAME
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(mode):
        raise errors.WorldError(f"'{path}' is not a regular file.", hint="Restore it from git.")
    return _content(path)


def _recorded(folder: Path, content: bytes | None) -> tuple[index_file.Index, ...]:
    """Return the index, or the two of a merge conflict; nothing where it is absent or damaged."""
    sides = index_file.read(content) if content is not None else ()
    for path in {path for index in sides for path in index.files}:
        if not tree.is_path(path):
            message = f"'{folder}/{index_file.NAME}' records {path!r}, which the compiler never writes."
            raise errors.WorldError(message, hint="Restore it from git.")
    return tuple(_corrected(folder, index) for index in sides)


def _corrected(folder: Path, index: index_file.Index) -> index_file.Index:
    """Return an index with the workloads that the files on disk deploy, where it leaves them open."""
    # An index that says Absent, or nothing, lets a driver go without a question.
    sure = {item.file for item in index.workloads if item.state != "Absent"}
    doubtful = [path for path in index.files if index_file.is_daemon_set(path) and path not in sure]
    if not doubtful:
        return index
    return index_file.corrected(index, {path: _content(folder / path) for path in doubtful if _is_file(folder / path)})


def _is_file(path: Path) -> bool:
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False


def is_ours(folder: Path) -> bool:
    """Return whether a folder holds an index of the compiler. Raises OSError and WorldError."""
    index = _index(folder)
    return index is not None and bool(index_file.read(index))


def holds(path: Path, digest: str) -> bool:
    """Return whether a regular file has a content of this digest."""
    try:
        return _is_file(path) and tree.digest(_content(path)) == digest
    except OSError:
        return False


def _content(path: Path) -> bytes:
    # No link is followed even if one appears after the look at the entry.
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as file:
        return file.read()
