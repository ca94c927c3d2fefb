"""Where links lead. A path that is written as one of the project stays in it, whatever links a commit adds.

A pull request can hold a link to any file of the host that checks it, and a finding shows the line that is wrong.
"""

import os
from collections.abc import Iterable
from pathlib import Path

from compiler import errors, wording

_HERE = Path()
GIT = ".git"
"""The folder of git in a project is no part of it: CI jobs keep the token of their checkout there."""


def real(path: str | Path) -> Path:
    """Return a path without links; one in a loop stays, where Path.resolve() would raise RuntimeError."""
    return Path(os.path.realpath(path))


def folders(written: Iterable[str | Path]) -> tuple[Path, ...]:
    """Return the real folders that hold all documents: the current one, and each written one that is not below it."""
    return (real(_HERE), *(real(folder) for folder in written if not _is_below(folder, _HERE)))


def is_inside(path: Path, allowed: Iterable[Path]) -> bool:
    """Return whether a path leads to a place in one of the `allowed` real folders."""
    try:
        place = real(path)
    except OSError:  # A link of /proc that cannot be read, as that of a process which has ended.
        return False
    return any(place.is_relative_to(top) and GIT not in place.relative_to(top).parts for top in allowed)


def leads_out(path: str | Path, root: Path = _HERE) -> bool:
    """Return whether a path is written as one below the root, and leads out of it."""
    return _is_below(path, root) and not is_inside(root / path, (real(root),))


def require_inside(path: str | Path, root: Path = _HERE, *, hint: str) -> None:
    """Raise WorldError for a path below the root that leads out of it."""
    if leads_out(path, root):
        raise errors.WorldError(message(str(path)), hint=hint)


def message(name: str) -> str:
    """Return the message on a path that leads out of the project; it does not tell where to."""
    return f"'{wording.file_name(name)}' is a link that leads out of the project."


def _is_below(path: str | Path, root: Path) -> bool:
    top = root.absolute()
    return Path(os.path.normpath(top / path)).is_relative_to(os.path.normpath(top))
