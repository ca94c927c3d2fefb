"""The check that the host's disks have space for a driver, before any device holder is disturbed."""

import os
from collections.abc import Iterator
from pathlib import Path

from installer import paths
from installer.host import chroot, digests, host_state, libraries
from runtime import errors

_MARGIN_BYTES = 16 << 20
"""The space that must stay free beyond the driver's files, for the index of modules and other writers."""


def check(host: chroot.Host, driver: Path | None) -> None:
    """Raise `Failure` if the files of a driver's folder do not fit on the disks, or if a folder is read-only.

    With None it checks that files can be removed.
    """
    needed: dict[int, int] = {}
    for folder, size in _folders(host, driver):
        here = _nearest(host.path(folder))
        with chroot.changing(folder):
            disk, device = os.statvfs(here), here.stat().st_dev
        if disk.f_flag & os.ST_RDONLY:
            raise errors.Failure(f"'{folder}' on the host cannot be changed: its file system is read-only.")
        needed[device] = needed.get(device, _MARGIN_BYTES if driver else 0) + size
        free = disk.f_bavail * disk.f_frsize
        if driver and free < needed[device]:
            wanted = needed[device] >> 20
            raise errors.Failure(f"The disk of '{folder}' on the host has {free >> 20} MiB free; {wanted} are needed.")


def _folders(host: chroot.Host, driver: Path | None) -> Iterator[tuple[str, int]]:
    """Return the folders that change, and the bytes that are added to each."""
    added = {name: digests.size(driver / name) if driver else 0 for name in ("modules", "packages", "libraries")}
    modules = host.own.modules(host_state.kernel(host))
    # The kernel's own modules need no file, and may lie on a read-only /usr.
    if added["modules"] or added["packages"] or any(digests.files(host.path(modules))):
        yield modules, added["modules"]
    if added["libraries"] or any(host.path(link).exists() for link in libraries.known(host)):
        yield "/opt" if host.own.recipe else paths.LIBRARIES, added["libraries"]
    yield "/etc/modprobe.d", 0
    if not host.own.recipe:
        yield host.own.rule, 0


def _nearest(path: Path) -> Path:
    """Return the path, or the nearest folder above it that exists."""
    while not path.exists():
        path = path.parent
    return path
