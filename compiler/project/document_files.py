"""The files that hold documents: which there are below some folders, and what stands in them."""

import errno
import os
import stat
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from compiler import diagnostics, errors, wording

ENDINGS = (".yaml", ".yml", ".json")
"""How the names of document files end."""

_HERE = Path()
_SORTS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


@dataclass(frozen=True, slots=True)
class Input:
    """A document file: its name as people see it, and its path."""

    name: str
    path: Path


def find(folders: Sequence[str | Path], root: Path = _HERE) -> tuple[list[Input], list[diagnostics.Diagnostic]]:
    """The document files below folders of `root`, sorted by name, and those that are no files.

    Hidden names are passed over, a folder that is missing is empty, and each folder is read once, whatever
    links lead to it. Raises WorldError where something cannot be read.
    """
    walk = _Walk()
    pending = [(name_of(folder, root), root / folder) for folder in folders]
    for name, path in pending:
        if path.is_symlink() and not path.exists():
            raise errors.WorldError(f"The folder '{wording.file_name(name)}' is a link to nothing.", "Repair the link.")
    while pending or walk.links:
        if not pending:  # Links come after all real folders, whose names are the better ones.
            walk.links.sort(reverse=True)
            pending = [walk.links.pop()]
        pending += walk.folder(*pending.pop())
    return sorted(walk.inputs, key=lambda found: found.name), walk.found


def require_folder(folder: str | Path, root: Path = _HERE) -> None:
    """Raises WorldError for a folder that somebody named and that is not there."""
    if not (root / folder).is_dir():
        raise errors.WorldError(f"'{wording.file_name(str(folder))}' is not a folder.", "Name a folder that is there.")


def read(found: Input) -> bytes:
    """What stands in a file; raises WorldError where it cannot be read."""
    try:
        return found.path.read_bytes()
    except OSError as error:
        raise _failure(found.name, error) from error


def digest(found: Input, digest_of: Callable[[str], str]) -> str:
    """What `digest_of` says of the file's path; raises WorldError where that cannot read it."""
    try:
        return digest_of(str(found.path))
    except OSError as error:
        raise _failure(found.name, error) from error


def name_of(folder: str | Path, root: Path = _HERE) -> str:
    """A folder as the names in it begin: from the root where it lies there, otherwise as it was written."""
    path = Path(root / folder).absolute()
    if not path.is_relative_to(root.absolute()):
        return Path(folder).as_posix()
    name = path.relative_to(root.absolute()).as_posix()
    return "" if name == "." else name


class _Walk:
    """What was found so far."""

    def __init__(self) -> None:
        self.inputs: list[Input] = []
        self.found: list[diagnostics.Diagnostic] = []
        self.links: list[tuple[str, Path]] = []
        self._read: set[tuple[int, int]] = set()

    def folder(self, name: str, path: Path) -> list[tuple[str, Path]]:
        """Take a folder's documents; the real folders in it are the answer."""
        inside = []
        try:
            status = path.stat()
            if (status.st_dev, status.st_ino) in self._read:
                return []
            self._read.add((status.st_dev, status.st_ino))
            with os.scandir(path) as entries:
                ordered = sorted(entries, key=lambda entry: entry.name)
        except FileNotFoundError:
            return []
        except OSError as error:
            raise _failure(name or ".", error) from error
        for entry in ordered:
            if not entry.name.startswith("."):
                inside += self._entry(f"{name}/{entry.name}" if name else entry.name, Path(entry.path))
        return inside

    def _entry(self, name: str, path: Path) -> list[tuple[str, Path]]:
        try:
            mode = _mode(path)
        except OSError as error:
            raise _failure(name, error) from error
        if name.endswith(ENDINGS):
            self._document(name, path, mode)
        elif stat.S_ISDIR(mode):
            if not path.is_symlink():
                return [(name, path)]
            self.links.append((name, path))
        return []

    def _document(self, name: str, path: Path, mode: int) -> None:
        if not stat.S_ISREG(mode):
            sort = next((words for test, words in _SORTS if test(mode)), "a link that leads to no file")
            self._refuse(name, f"'{wording.file_name(name)}' is {sort}.", "Rename or remove it.")
        elif wording.file_name(name) != name:
            self._refuse(name, f"The name '{wording.file_name(name)}' holds what cannot be printed.", "Rename it.")
        else:
            self.inputs.append(Input(name, path))

    def _refuse(self, name: str, message: str, hint: str) -> None:
        span = diagnostics.Span(file=wording.file_name(name))
        self.found.append(diagnostics.Diagnostic(code="not-a-file", span=span, message=message, hint=hint))


def _mode(path: Path) -> int:
    """What a path leads to; 0 for a link to nothing, or to itself."""
    try:
        return path.stat().st_mode
    except FileNotFoundError:
        return 0
    except OSError as error:
        if error.errno == errno.ELOOP:
            return 0
        raise


def _failure(name: str, error: OSError) -> errors.WorldError:
    if isinstance(error, PermissionError):
        return errors.WorldError(f"'{wording.file_name(name)}' may not be read.", "Allow this user to read it.")
    if isinstance(error, NotADirectoryError):
        return errors.WorldError(f"'{wording.file_name(name)}' is not a folder.", "Make it a folder, or remove it.")
    return errors.WorldError(f"'{wording.file_name(name)}' cannot be read: {error.strerror or error}.")
