"""Digests of files, by which one content is told from another."""

import hashlib
from collections.abc import Iterator
from pathlib import Path


def files(folder: Path) -> Iterator[Path]:
    """Every file and link below a folder, sorted; nothing where there is no folder."""
    return (path for path in sorted(folder.rglob("*")) if path.is_symlink() or path.is_file())


def of_file(path: Path) -> str:
    """The SHA-256 of a file; of a link, where it leads, after an arrow."""
    if path.is_symlink():
        return f"-> {path.readlink()}"
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def of_folder(folder: Path) -> str:
    """Differs where a name or a content in the folder differs; of no folder, that of an empty one."""
    lines = [f"{path.relative_to(folder)} {of_file(path)}" for path in files(folder)]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def same(one: Path, other: Path) -> bool:
    """Whether there are two files of the same content."""
    return one.is_file() and other.is_file() and of_file(one) == of_file(other)
