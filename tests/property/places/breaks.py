"""What happens to a place of a host, and what mends it: all of it real, in a mount namespace of this process' own."""

import contextlib
import ctypes
import os
import random
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from tests import fuse

_LIBC = ctypes.CDLL(None, use_errno=True)
_NEWNS, _RDONLY, _REMOUNT, _PRIVATE = 0x20000, 1, 32, (1 << 18) | 16384  # linux/sched.h, linux/mount.h
_DETACH = 2

PLACES = ("opt", "var/lib/kae", "etc/modprobe.d", "etc/udev/rules.d", "lib/modules", "run/kae", "run/kae-driver")

Break = Callable[[Path, random.Random], contextlib.AbstractContextManager[object]]


def apart() -> None:
    """Enter a mount namespace of this process' own, once: what is mounted there goes with the process."""
    if _LIBC.unshare(_NEWNS):
        raise OSError(ctypes.get_errno(), "unshare")
    _mount("none", Path("/"), "", _PRIVATE)


def _mount(source: str, folder: Path, kind: str, flags: int, options: str = "") -> None:
    if _LIBC.mount(source.encode(), os.fsencode(folder), kind.encode(), flags, options.encode()):
        raise OSError(ctypes.get_errno(), "mount", str(folder))


@contextlib.contextmanager
def volume(folder: Path) -> Iterator[None]:
    """Give a folder a file system of its own, with what is in it."""
    folder.mkdir(parents=True, exist_ok=True)
    aside = folder.with_name(f".{folder.name}.aside")
    shutil.copytree(folder, aside, symlinks=True)
    _mount("tmpfs", folder, "tmpfs", 0, "size=256m")
    shutil.copytree(aside, folder, symlinks=True, dirs_exist_ok=True)
    try:
        yield
    finally:
        _LIBC.umount2(os.fsencode(folder), _DETACH)


def _remounted(flags: int, options: Callable[[Path], str]) -> Break:
    @contextlib.contextmanager
    def changed(folder: Path, _: random.Random) -> Iterator[None]:
        with contextlib.suppress(OSError):  # A file that is open for writing keeps it from being read-only.
            _mount("tmpfs", folder, "tmpfs", _REMOUNT | flags, options(folder))
        yield
        _mount("tmpfs", folder, "tmpfs", _REMOUNT, "size=256m,nr_inodes=0")

    return changed


def _used(folder: Path) -> str:
    disk = os.statvfs(folder)
    return f"size={max(1, disk.f_blocks - disk.f_bfree) * disk.f_frsize}"


def _inodes(folder: Path) -> str:
    disk = os.statvfs(folder)
    return f"nr_inodes={max(1, disk.f_files - disk.f_ffree)}"


@contextlib.contextmanager
def _dead(folder: Path, _: random.Random) -> Iterator[None]:
    with fuse.dead(folder):
        yield


@contextlib.contextmanager
def _pipe(folder: Path, draw: random.Random) -> Iterator[None]:
    """Put a pipe in place of a file, or beside all others."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    place = draw.choice([*files, folder / "zz.conf"])
    aside = Path(tempfile.mkdtemp(), place.name)
    if place in files:
        shutil.move(place, aside)
    os.mkfifo(place)
    yield
    if place.is_fifo():  # Else the installer removed it, and who mends the place does not bring a file back.
        place.unlink()
        if aside.exists():
            shutil.move(aside, place)
    shutil.rmtree(aside.parent)


@contextlib.contextmanager
def _gone(folder: Path, _: random.Random) -> Iterator[None]:
    """Have a folder be an absolute link to a place that is not there, as one on a disk that is not mounted."""
    aside = folder.with_name(f".{folder.name}.gone")
    folder.mkdir(parents=True, exist_ok=True)
    folder.rename(aside)
    folder.symlink_to(f"/srv/none/{folder.name}")
    yield
    folder.unlink()
    aside.rename(folder)


BREAKS: dict[str, Break] = {
    "full": _remounted(0, _used),
    "without inodes": _remounted(0, _inodes),
    "read-only": _remounted(_RDONLY, lambda _: ""),
    "dead": _dead,
    "pipe": _pipe,
    "gone": _gone,
}
"""What ends with a context."""


def move(root: Path, place: str) -> None:
    """Move a folder elsewhere, for good, and leave an absolute link of the host in its place."""
    there = root / "srv" / place
    there.parent.mkdir(parents=True, exist_ok=True)
    (root / place).mkdir(parents=True, exist_ok=True)
    (root / place).rename(there)
    (root / place).symlink_to(f"/srv/{place}")
