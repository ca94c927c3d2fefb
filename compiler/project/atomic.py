"""Writing one file whole, or not at all."""

import contextlib
import os
import stat
import tempfile
from collections.abc import Iterable
from pathlib import Path

from compiler import errors, wording
from compiler.project import links


def write(path: Path, texts: Iterable[str]) -> None:
    """Make a file of a text, whole or in pieces, or replace its text; link and mode stay. Raises OSError."""
    target = links.real(path)
    # A hidden file is not read as a document.
    handle, temporary = tempfile.mkstemp(prefix=".kae-", dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as new:
            new.writelines(text.encode() for text in ([texts] if isinstance(texts, str) else texts))
            os.fchmod(new.fileno(), _mode(target))
        Path(temporary).replace(target)
    finally:
        with contextlib.suppress(FileNotFoundError):  # The rename has moved it.
            Path(temporary).unlink()


def write_file(path: Path, texts: Iterable[str]) -> None:
    """Write the file that a call names, as `write` does, unless a link leads out of the project. Raises WorldError."""
    require_file(path)
    try:
        write(path, texts)
    except OSError as error:
        raise errors.WorldError(f"'{wording.file_name(str(path))}' cannot be written: {error.strerror}.") from error


def write_with_folders(path: Path, text: str) -> None:
    """Write a file as `write_file` does, with the folders above it. Raises WorldError."""
    links.require_inside(path, hint="Remove the link.")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise errors.WorldError(f"'{wording.file_name(str(path))}' cannot be written: {error.strerror}.") from error
    write_file(path, [text])


def require_file(path: Path) -> None:
    """Raise WorldError for a path that `write_file` refuses: a link that leads out, or something that is no file."""
    links.require_inside(path, hint="Remove the link, or name the file itself.")
    # These raise nothing in a folder that may not be read.
    if os.path.exists(path) and not os.path.isfile(path):  # noqa: PTH110, PTH113
        raise errors.WorldError(f"'{wording.file_name(str(path))}' is not a regular file.")


def require_room(paths: Iterable[Path]) -> None:
    """Raise WorldError unless files can be made in all these places, so that no call writes some of its files."""
    for path in paths:
        links.require_inside(path, hint="Remove the link.")
        above = next(folder for folder in path.parents if os.path.lexists(folder))
        if not above.is_dir() or not os.access(above, os.W_OK | os.X_OK):
            why = f"'{wording.file_name(str(above))}' is no folder that kae may write to"
            raise errors.WorldError(f"'{wording.file_name(str(path))}' cannot be made: {why}.")


def _mode(path: Path) -> int:
    """Return the mode of a file; for one that does not exist, that of any new file."""
    with contextlib.suppress(FileNotFoundError):
        return stat.S_IMODE(path.stat().st_mode)
    umask = os.umask(0)
    os.umask(umask)
    return 0o666 & ~umask
