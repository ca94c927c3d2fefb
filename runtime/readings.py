"""Reads the small files in which the kernel tells of devices and modules.

Anything there may vanish between two reads, so every read may answer with None.
"""

import contextlib
from pathlib import Path


def text(path: Path) -> str | None:
    """What a file says, without the white space around it."""
    # Not only a missing file: reading an attribute of a device that goes gives ENODEV.
    with contextlib.suppress(OSError, UnicodeDecodeError):
        return path.read_text("ascii").strip()
    return None


def number(words: str | None) -> int | None:
    """The decimal number in a text."""
    with contextlib.suppress(ValueError, TypeError):
        return int(words or "")
    return None


def integer(path: Path) -> int | None:
    """The decimal number in a file."""
    return number(text(path))


def hexadecimal(path: Path) -> str | None:
    """The hexadecimal digits in a file, without 0x."""
    found = text(path)
    return found.removeprefix("0x") if found else None


def names(folder: Path) -> list[str]:
    """What lies in a folder; nothing where there is none."""
    with contextlib.suppress(OSError):
        return [path.name for path in folder.iterdir()]
    return []


def link_name(link: Path) -> str | None:
    """The last part of where a link leads."""
    with contextlib.suppress(OSError):
        return link.readlink().name
    return None
