"""Paths below the root of a host, resolved as the host itself does: its absolute links, and .., stay below its root.

What is resolved by `local` is for reading, as it may be renamed before it is opened. Who writes holds the folder open.
"""

import contextlib
import ctypes
import errno
import os
import posixpath
import stat
from collections.abc import Iterator
from pathlib import Path

_OPENAT2 = 437
_NO_MAGICLINKS, _NO_SYMLINKS, _IN_ROOT = 0x02, 0x04, 0x10  # RESOLVE_… of linux/openat2.h
_MOST_LINKS = 40  # MAXSYMLINKS of linux/namei.h
_TRIES = 8

_LIBC = ctypes.CDLL(None, use_errno=True)


class _How(ctypes.Structure):
    """struct open_how of openat2(2)."""

    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


def local(root: Path, path: str, *, last: bool = True) -> Path:
    """Return the local path without links of a path, which need not exist; without `last` its last part may be one.

    Raises `OSError` for links without an end.
    """
    # As text, because each look at a host comes here thousands of times.
    top = here = os.fspath(root).rstrip("/")
    parts, links = path.split("/")[::-1], 0
    while parts:
        part = parts.pop()
        if part == ".." and (here == top or os.path.isdir(here)):  # noqa: PTH112
            here = top if here == top else here.rpartition("/")[0]
        elif part not in ("", "."):
            here = f"{here}/{part}"  # Also .. below what is no folder, where the kernel finds nothing.
            if parts or last:
                with contextlib.suppress(OSError):
                    target = os.readlink(here)  # noqa: PTH115
                    parts += target.split("/")[::-1]
                    here = top if target.startswith("/") else here.rpartition("/")[0]
                    links += 1
        if links > _MOST_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
    return Path(here or "/")


def opened(root: Path, path: str, flags: int = os.O_PATH, *, foreign: str = "") -> int:
    """Open what is at a path; nobody who renames or links meanwhile leads out of the root. Raises `OSError`.

    Below `foreign`, a folder in which others may write, a link is refused (ELOOP); such a path has no .. in it. With
    O_NOFOLLOW, O_PATH opens a link in the last part itself.
    """
    links = not (foreign and f"{path}/".startswith(f"{foreign}/"))
    if links:
        top = os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    else:
        top, path = opened(root, foreign, os.O_PATH | os.O_DIRECTORY), path.removeprefix(foreign).lstrip("/") or "."
    try:
        how = _How(flags | os.O_CLOEXEC, 0, _IN_ROOT | _NO_MAGICLINKS | (0 if links else _NO_SYMLINKS))
        for _ in range(_TRIES):  # The kernel gives up beside a rename, and wants to be asked again.
            found: int = _LIBC.syscall(_OPENAT2, top, os.fsencode(path), ctypes.byref(how), ctypes.sizeof(how))
            if found >= 0:
                return found
            if (number := ctypes.get_errno()) != errno.EAGAIN:
                break
        # A kernel before 5.6 does not have it, and a seccomp profile may not know it.
        if number not in (errno.ENOSYS, errno.EPERM, errno.EAGAIN):
            raise OSError(number, os.strerror(number), path)
        return _walked(top, root, path, flags, links)
    finally:
        os.close(top)


def _walked(top: int, root: Path, path: str, flags: int, links: bool) -> int:
    """Open as `opened` does, without openat2(2): the parts of a path without links, one after the other."""
    here, as_link = os.dup(top), bool(flags & os.O_NOFOLLOW and flags & os.O_PATH)
    try:
        plain = root / posixpath.normpath(f"/{path}").lstrip("/")
        parts = (local(root, path, last=not flags & os.O_NOFOLLOW) if links else plain).relative_to(root).parts
        for left, part in zip(range(len(parts) - 1, -1, -1), parts, strict=True):
            below = os.open(part, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=here)
            os.close(here)
            here = below
            if stat.S_ISLNK(os.fstat(here).st_mode):
                if as_link and not left:
                    return os.dup(here)
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)  # It may have come meanwhile.
        return os.open(f"/proc/self/fd/{here}", flags & ~os.O_NOFOLLOW | os.O_CLOEXEC)
    finally:
        os.close(here)


@contextlib.contextmanager
def held(root: Path, path: str, *, foreign: str = "") -> Iterator[Path]:
    """Return a context with a local path whose folder is held open; the last part is not followed. Raises `OSError`."""
    folder, name = posixpath.split(path)
    descriptor = opened(root, folder, os.O_PATH | os.O_DIRECTORY, foreign=foreign)
    try:
        yield Path(f"/proc/self/fd/{descriptor}", name)
    finally:
        os.close(descriptor)


def make(root: Path, folder: str, *, foreign: str = "") -> tuple[str, ...]:
    """Make a folder, and those above it that are missing; return those that were. Raises `OSError`."""
    try:
        os.close(opened(root, folder, os.O_PATH | os.O_DIRECTORY, foreign=foreign))
    except FileNotFoundError:
        above = make(root, posixpath.dirname(folder), foreign=foreign)
        with held(root, folder, foreign=foreign) as here:
            here.mkdir()
        return (*above, folder)
    return ()
