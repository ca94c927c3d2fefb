"""Digests and sizes of files and folders, and the room for them."""

import contextlib
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path


def files(folder: Path) -> Iterator[Path]:
    """Return every file and link below a folder, sorted; none if there is no folder."""
    return (path for path in sorted(folder.rglob("*")) if path.is_symlink() or path.is_file())


def weight(folder: Path) -> tuple[int, int]:
    """Return the bytes of all files below a folder, and the number of files and folders."""
    return sum(path.lstat().st_size for path in files(folder)), sum(1 for _ in folder.rglob("*"))


def shortage(disk: os.statvfs_result, size: int, entries: int) -> str:
    """Return what a disk lacks for so many bytes, files and folders, in words; empty for nothing."""
    free = disk.f_bavail * disk.f_frsize
    if free < size:
        return f"{free >> 20} MiB free, and {size >> 20} are needed"
    # Some file systems make inodes as they need them, and tell of none.
    if disk.f_files and disk.f_favail < entries:
        return f"{disk.f_favail} inodes free (df -i), and {entries} are needed: remove files there"
    return ""


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
