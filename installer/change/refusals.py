"""The checks between the staging of a driver and the first step that touches the host or a device holder."""

import os
from collections.abc import Iterator
from pathlib import Path

from installer import store
from installer.change import prepare
from installer.decide import obstacles
from installer.host import chroot, digests, host_state, libraries, record
from runtime import driver_config, errors

_MARGIN_BYTES = 16 << 20
"""The space that must stay free beyond the driver's files, for the index of modules and other writers."""


def check(
    host: chroot.Host, settings: driver_config.Config, drivers: store.Store, attempt: prepare.Attempt, *, staged: bool
) -> None:
    """Raise `Failure` for a reason for which the change cannot succeed; with `staged` time has passed meanwhile."""
    target, decided, begun = attempt.target, attempt.decided, attempt.current.record.change is not None
    if decided.reload:
        if target is not None and attempt.current.signed_only:
            _check_signatures(drivers.unsigned(target), attempt.current.signed_only)
        if staged and not begun:
            current = host_state.read(host, settings)
            if found := obstacles.find(settings, current, replace=decided.replace):
                raise errors.Failure(" ".join(found))
    if decided.replace:
        if target is not None and not begun:
            _check_places(host, target)
        _check_space(host, drivers.folder(target) if target else None)


def _check_signatures(unsigned: list[str], signed_only: str) -> None:
    if unsigned:
        raise errors.Failure(
            f"The running kernel refuses modules without a signature ({signed_only}), and there is none in"
            f" {', '.join(unsigned)}: sign them when the image is built, or choose another source."
        )


def _check_places(host: chroot.Host, target: record.Driver) -> None:
    """Raise `Failure` for what others put where this driver's files are to go."""
    ours = host.own.modules(target.kernel)
    found = [f"the link '{path}'" for path in (str(Path(ours).parent), ours) if host.path(path).is_symlink()]
    found += [f"the folder '{path}'" for path in target.modules.values() if host.path(path).is_dir()]
    if found:
        raise errors.Failure(f"No module can be placed on the host: move {found[0]} elsewhere.")
    if target.libraries:
        libraries.refuse(host, target)


def _check_space(host: chroot.Host, driver: Path | None) -> None:
    """Raise `Failure` if the files of a driver's folder do not fit on the disks, or if a folder is read-only.

    Without a driver, files have to be removed alone.
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
        yield host.own.home.files, added["libraries"]
    yield "/etc/modprobe.d", 0
    yield host.own.rule, 0


def _nearest(path: Path) -> Path:
    """Return the path, or the nearest folder above it that exists."""
    while not path.exists():
        path = path.parent
    return path
