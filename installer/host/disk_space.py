"""Whether the host's disks take a driver: asked while nobody is disturbed yet, and all that runs is as it was."""

import os
from collections.abc import Iterator
from pathlib import Path

from installer import paths
from installer.host import chroot, host_state
from installer.store import digests, record, store
from runtime import errors

_MARGIN_BYTES = 16 << 20
"""What has to stay free beyond the driver's files: for the index of modules, and for what others write meanwhile."""


def check(host: chroot.Host, driver: record.Driver | None, drivers: store.Store) -> None:
    """Makes sure that the files of a driver of the store can be put in place; of None, that files can go.

    Raises:
        errors.Failure: A place is read-only, or its disk is too full.
    """
    needed: dict[int, int] = {}
    for place, size in _places(host, driver, drivers):
        here = _nearest(host.path(place))
        try:
            found, device = os.statvfs(here), here.stat().st_dev
        except OSError as error:
            raise chroot.failure(place, error) from error
        if found.f_flag & os.ST_RDONLY:
            raise errors.Failure(f"'{place}' on the host cannot be changed: its file system is read-only.")
        needed[device] = needed.get(device, _MARGIN_BYTES if driver else 0) + size
        free = found.f_bavail * found.f_frsize
        if driver and free < needed[device]:
            wanted = needed[device] >> 20
            raise errors.Failure(f"The disk of '{place}' on the host has {free >> 20} MiB free; {wanted} are needed.")


def _places(host: chroot.Host, driver: record.Driver | None, drivers: store.Store) -> Iterator[tuple[str, int]]:
    """Where files come and go, and how many bytes come."""
    folder = drivers.folder(driver) if driver else None
    yield paths.modules(host_state.kernel(host)), _size(folder / "modules") if folder else 0
    yield paths.LIBRARIES, _size(folder / "libraries") if folder else 0
    yield "/etc/modprobe.d", 0
    yield paths.RULE, 0


def _size(folder: Path) -> int:
    return sum(path.lstat().st_size for path in digests.files(folder))


def _nearest(path: Path) -> Path:
    """The path, or the nearest folder above it that is there."""
    while not path.exists():
        path = path.parent
    return path
