"""Trees of folders, files and links, and what a path in them leads to."""

import os
import random
from collections.abc import Callable
from pathlib import Path

NAMES = ("a", "b", "c")


def draw(seed: int) -> random.Random:
    """Return what decides over a tree."""
    return random.Random(seed)  # noqa: S311 - a tree is no secret


def grow(drawn: random.Random, top: Path) -> None:
    """Make a tree of folders, files and links: absolute ones, relative ones, some through .., some without an end."""
    folders = [top]
    for _ in range(drawn.randrange(2, 12)):
        place = drawn.choice(folders) / drawn.choice(NAMES)
        if os.path.lexists(place):
            continue
        match drawn.choice(("folder", "folder", "link", "link", "file")):
            case "folder":
                place.mkdir()
                folders.append(place)
            case "file":
                place.touch()
            case _:
                place.symlink_to(drawn.choice(("/", "")) + (words(drawn) or "."))


def words(drawn: random.Random) -> str:
    """Return a path of a few names, some of them .. and none at its start."""
    return "/".join(drawn.choice((*NAMES, "..")) for _ in range(drawn.randrange(4)))


def came_to(act: Callable[[], int]) -> tuple[int, int] | int:
    """Return device and inode of what an action opens, or the error that it raises."""
    try:
        descriptor = act()
    except OSError as error:
        return error.errno or 0
    try:
        found = os.fstat(descriptor)
        return found.st_dev, found.st_ino
    finally:
        os.close(descriptor)
