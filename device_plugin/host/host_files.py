"""Find files of the host by paths and globs: links are followed as on the host, of which only some folders are here."""

import fnmatch
import os
from collections.abc import Iterator

from device_plugin.host import paths
from runtime import readings

_LINKS = 40
"""More links on one way are a circle (path_resolution(7))."""

_SPECIAL = frozenset("*?[")


def exists(where: paths.Paths, path: str) -> bool:
    """Return whether a file, folder or device node of the host is at a path."""
    found = real(where, path)
    return found is not None and where.on_host(found).exists()


def matches(where: paths.Paths, glob: str) -> list[str]:
    """Return the paths of the host that match a glob, in the order of their bytes; names with a leading dot do not."""
    found = [""]
    for part in glob.strip("/").split("/"):
        found = [f"{folder}/{name}" for folder in found for name in _names(where, folder, part)]
    return sorted(path for path in found if exists(where, path))


def watched(glob: str) -> Iterator[tuple[str, str]]:
    """Yield the folders of /dev in which a change may concern a glob, each with the beginning of the names there."""
    folder = "/dev"
    for part in glob.removeprefix("/dev/").split("/"):
        beginning = part[: next((index for index, letter in enumerate(part) if letter in _SPECIAL), len(part))]
        yield folder, beginning
        if beginning != part:
            return
        folder = f"{folder}/{part}"


def real(where: paths.Paths, path: str) -> str | None:
    """Return where the links on a path of the host lead to, on the host; None in a circle.

    Links in /dev are left alone: those of udev are relative (udev(7), SYMLINK), and whoever opens them follows them.
    """
    done, rest, links = "", path.strip("/").split("/"), 0
    while rest:
        part = rest.pop(0)
        if part in ("", "."):
            continue
        if part == "..":
            done = done.rpartition("/")[0]
            continue
        here = where.on_host(f"{done}/{part}")
        if done.startswith("/dev") or not here.is_symlink():
            done = f"{done}/{part}"
            continue
        links += 1
        if links > _LINKS:
            return None
        target = os.readlink(here)  # noqa: PTH115 - the text as it stands
        done, rest = ("" if target.startswith("/") else done), [*target.split("/"), *rest]
    return done or "/"


def _names(where: paths.Paths, folder: str, part: str) -> list[str]:
    if not _SPECIAL.intersection(part):
        return [part]
    place = real(where, folder or "/")
    if place is None:
        return []
    return [name for name in readings.names(where.on_host(place)) if fnmatch.fnmatchcase(name, part) and name[0] != "."]
