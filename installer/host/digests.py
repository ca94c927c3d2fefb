"""Digests and sizes of files and folders."""

import contextlib
import hashlib
from collections.abc import Iterator
from pathlib import Path


def files(folder: Path) -> Iterator[Path]:
    """Return every file and link below a folder, sorted; none if there is no folder."""
    return (path for path in sorted(folder.rglob("*")) if path.is_symlink() or path.is_file())


def size(folder: Path) -> int:
    """Return the bytes of all files below a folder."""
    return sum(path.lstat().st_size for path in files(folder))


def of_file(path: Path) -> str:
    """Return the SHA-256 of a file, or the target of a link after an arrow."""
    if path.is_symlink():
        return f"-> {path.readlink()}"
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def of_folder(folder: Path) -> str:
    """Return the digest of the names and contents of a folder; a missing folder counts as empty."""
    lines = [f"{path.relative_to(folder)} {of_file(path)}" for path in files(folder)]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def same(one: Path, other: Path) -> bool:
    """Return whether both files exist and have the same content."""
    return one.is_file() and other.is_file() and of_file(one) == of_file(other)


def has(path: Path, digest: str) -> bool:
    """Return whether a file can be read, and has this digest unless that is empty."""
    with contextlib.suppress(OSError):
        return of_file(path) == digest or not digest
    return False
