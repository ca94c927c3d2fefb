"""The checks between the staging of a driver and the first step that touches the host or a device holder."""

from pathlib import Path

from installer import config, store
from installer.change import prepare
from installer.decide import obstacles
from installer.host import chroot, disk_space, host_state, libraries, record
from runtime import errors


def check(
    host: chroot.Host, settings: config.Config, drivers: store.Store, attempt: prepare.Attempt, *, staged: bool
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
        disk_space.check(host, drivers.folder(target) if target else None)


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
        libraries.refuse(host, target.files)
