"""The archive of a support bundle: masked files in one order, for its owner's eyes only."""

import contextlib
import gzip
import io
import os
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import BinaryIO

from compiler import errors, wording
from compiler.support import masking

FOLDER = "kae-support-bundle"
"""The folder that holds everything, so that an archive is never unpacked over other files."""


@contextlib.contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """Yield a new file that only its owner may read; remove it where what follows fails.

    Raises WorldError where it exists or cannot be made: a bundle of an earlier look is never lost.
    """
    name = wording.file_name(str(path))
    try:
        # O_EXCL follows no link (open(2)).
        file = os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb")
    except FileExistsError as error:
        if path.is_dir():
            raise errors.WorldError(f"'{name}' is a folder.", hint="Name a file in it.") from error
        raise errors.WorldError(f"'{name}' exists already.", hint="Remove it, or name another file.") from error
    except OSError as error:
        raise errors.WorldError(f"'{name}' cannot be written: {error.strerror}.") from error
    try:
        with file:
            yield file
    except OSError as error:
        path.unlink(missing_ok=True)
        raise errors.WorldError(f"'{name}' cannot be written: {error.strerror}.") from error
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def write(target: BinaryIO, texts: Mapping[str, str], time_s: int) -> None:
    """Write texts by path as a .tar.gz, sorted by path, each masked once more; the same texts give the same bytes."""
    with (
        gzip.GzipFile(filename="", mode="wb", fileobj=target, mtime=time_s) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for path in sorted(texts):
            content = masking.text(texts[path]).encode("utf-8", "backslashreplace")
            entry = tarfile.TarInfo(f"{FOLDER}/{path}")
            entry.size, entry.mtime, entry.mode = len(content), time_s, 0o600
            archive.addfile(entry, io.BytesIO(content))
