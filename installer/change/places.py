"""The places of the host to which a change writes: whether there is room, and a trial before anybody is evicted.

The trial writes, links and removes a file: that alone tells of quotas, attributes (chattr(1)) and mounts. The kernel
refuses a hard link to a file that is immutable, or has a mount over it, as it would refuse to replace that.
"""

import contextlib
import errno
import os
import posixpath
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from installer import paths
from installer.host import chroot, digests, host_state, libraries, record
from runtime import driver_config, errors, readings

_MARGIN_BYTES = 16 << 20
"""The space that must stay free beyond the driver's files, for the index of modules and other writers."""

_MARGIN_FILES = 64

_NAME = ".kae-trial"
"""Neither modprobe, depmod nor udev reads a file of this name."""

_READ_ONLY = "its file system is read-only: mount it so that it can be written"
_WHY = {
    errno.EROFS: _READ_ONLY,
    errno.EPERM: "it is immutable (lsattr shows it): take that off ('chattr -i' or 'chattr -a')",
    errno.ENOSPC: "its disk has no space or no inodes free (df, df -i): make room there",
    errno.EDQUOT: "a quota is used up: raise it, or make room",
    errno.EXDEV: "something is mounted there: unmount it",
}


class Place(NamedTuple):
    """A folder that a change writes to."""

    folder: str
    files: tuple[str, ...] = ()
    """Those that may be there, and are replaced or removed."""
    size: int = 0
    """The bytes that it gets."""
    entries: int = 1
    """The files and folders that it gets."""


def state(host: chroot.Host) -> Place:
    """Return the folder of the record."""
    return Place(host.own.home.state, (host.own.record,))


def of(
    host: chroot.Host, current: host_state.HostState, driver: record.Driver | None, stored: Path | None
) -> Iterator[Place]:
    """Return the places of the files of a driver in this folder of the store, or of the removal of the one that is."""
    added = {part: digests.weight(stored / part) if stored else (0, 0) for part in ("modules", "packages", "libraries")}
    top = f"/lib/modules/{current.kernel}"
    modules = host.own.modules(current.kernel)
    placed = tuple(f"{modules}/{name}" for name in sorted(readings.names(host.resolved(modules))) if ".ko" in name)
    # The kernel's own modules need no file, and may lie on a read-only /usr.
    if added["modules"][1] or added["packages"][1] or placed:
        yield Place(modules, placed, *added["modules"])
        yield Place(top, tuple(f"{top}/{path.name}" for path in host.resolved(top).glob("modules.*")))
    installed = current.record.installed
    if added["packages"][1] or current.owners or (installed is not None and installed.packages):
        yield Place("/var/lib/rpm", (), *added["packages"])
    links = dict.fromkeys((*libraries.links(host, driver), *libraries.known(host)))
    if added["libraries"][1] or any(os.path.lexists(host.path(link)) for link in links):
        yield Place(paths.OPT, (), *added["libraries"])
        for link in links:
            yield Place(posixpath.dirname(link), (link,) if host.path(link).is_symlink() else ())


def common(host: chroot.Host, settings: driver_config.Config, current: host_state.HostState) -> Iterator[Place]:
    """Return the places of what every change writes beside a driver's files."""
    options = (*map(host.own.options, current.options), host.own.blocked)
    for files in (options, (host.own.rule,) if settings.device_nodes else (), (host.own.changing,)):
        if files:
            yield Place(posixpath.dirname(files[0]), files)


def check(host: chroot.Host, places: Iterable[Place], *, grows: bool) -> None:
    """Raise `Failure` if a file system is read-only, or with `grows` has no room for what its places get."""
    needed: dict[int, tuple[int, int]] = {}
    for place in places:
        with chroot.changing(place.folder):
            here = host.resolved(host.nearest(place.folder) or "/")
            disk, device = os.statvfs(here), here.stat().st_dev
        if disk.f_flag & os.ST_RDONLY:
            raise _refused(place.folder, _READ_ONLY)
        size, count = needed.get(device, (_MARGIN_BYTES, _MARGIN_FILES))
        needed[device] = size, count = size + place.size, count + place.entries
        if grows and (short := digests.shortage(disk, size, count)):
            raise _refused(place.folder, f"its disk has {short}")


def attempt(host: chroot.Host, places: Iterable[Place]) -> None:
    """Write, link and remove a file in each place, and link what is replaced; raise `Failure` where that fails."""
    # What was written stays open until the last one has its space, too.
    with contextlib.ExitStack() as opened:
        for place in places:
            with _telling(place.folder), host.held(f"{host.nearest(place.folder)}/{_NAME}") as fresh:
                link = fresh.with_name(f"{_NAME}.link")
                for path in (fresh, link):
                    path.unlink(missing_ok=True)  # Of a killed installer.
                file = opened.enter_context(fresh.open("xb"))
                try:
                    link.hardlink_to(fresh)
                    link.unlink()
                finally:
                    fresh.unlink()
                os.posix_fallocate(file.fileno(), 0, max(1, place.size))
                for name in place.files:
                    _link(host.path(name), link, name)


def _link(path: Path, link: Path, name: str) -> None:
    with _telling(name), contextlib.suppress(FileNotFoundError):
        if not stat.S_ISDIR(path.lstat().st_mode):
            os.link(path, link, follow_symlinks=False)
            link.unlink()


@contextlib.contextmanager
def _telling(name: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise _refused(name, _WHY.get(error.errno or 0, error.strerror or "")) from error


def _refused(name: str, why: str) -> errors.Failure:
    return errors.Failure(f"'{name}' on the host cannot be changed, so no change begins: {why}.")
