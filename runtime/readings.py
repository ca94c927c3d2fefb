"""Read the small files in which the kernel describes devices and modules.

Any file there may vanish between two reads, so every read may return None.
"""

import contextlib
import os
from pathlib import Path


def text(path: Path) -> str | None:
    """Return the text of a file, without surrounding white space."""
    # Not only a missing file: reading an attribute of a vanishing device gives ENODEV.
    with contextlib.suppress(OSError, UnicodeDecodeError):
        return path.read_text("ascii").strip()
    return None


def number(words: str | None) -> int | None:
    """Return the decimal number in a text."""
    with contextlib.suppress(ValueError, TypeError):
        return int(words or "")
    return None


def integer(path: Path) -> int | None:
    """Return the decimal number in a file."""
    return number(text(path))


def hexadecimal(path: Path) -> str | None:
    """Return the hexadecimal digits in a file, without 0x."""
    digits = text(path)
    return digits.removeprefix("0x") if digits else None


def names(folder: Path) -> list[str]:
    """Return the names in a folder; none when the folder does not exist."""
    with contextlib.suppress(OSError):
        return os.listdir(folder)  # noqa: PTH208 - a process may have a hundred thousand descriptors
    return []


def link_name(link: Path) -> str | None:
    """Return the last part of a link's target."""
    with contextlib.suppress(OSError):
        return link.readlink().name
    return None
