"""The file by which the installer tells NFD's worker what its host has loaded.

The worker has the folder mounted, and NFD's master makes two labels of the file:
docs/decisions/0035-labels-of-drivers.md.
"""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta

from installer.decide import verification
from installer.host import chroot, host_state
from installer.report import driver_state
from runtime import driver_config, driver_labels

_STATES: Mapping[str, str] = {
    "Ready": "Ready",
    "Foreign": "Foreign",
    **dict.fromkeys(("Waiting", "Queued", "Changing"), "Pending"),
    "Blocked": "Blocked",
    **dict.fromkeys(("Stuck", "Failed"), "Failed"),
}
"""The state of the label, by that of the installer."""

_LIFE = timedelta(hours=1)
"""Longer than most changes, in which the file is not renewed."""

_EXPIRY = "# +expiry-time="
_NO_LABEL = "# +no-label"
"""Directives of NFD for the lines below, and for the next line: source/local of node-feature-discovery."""


def publish(
    host: chroot.Host, settings: driver_config.Config, published: driver_state.DriverState, *, expires: bool
) -> None:
    """Tell what the host has loaded, and the state of that; of a driver that is removed, nothing is told.

    Call it at each look: it writes where the file says something else, or ends within half of its life. `expires` says
    whether anybody will call it again; if nobody will, the file stays until the next boot. Nothing depends on the file,
    so a failure to write it is logged alone.
    """
    path = f"{driver_labels.FOLDER}/{settings.recipe}"
    with chroot.logged():
        if settings.state == "Absent" and published.state == "Ready":
            host.remove(path)
            return
        now, known = datetime.now(UTC), host_state.text(host, path) or ""
        head, _, rest = known.partition("\n") if expires else ("", "", known)
        lines = "".join(f"{line}\n" for line in _lines(settings.recipe, published))
        if rest != lines or (expires and not _LIFE / 2 < _left(head, now) <= _LIFE):
            end = f"{_EXPIRY}{now + _LIFE:%Y-%m-%dT%H:%M:%SZ}\n" if expires else ""
            host.write(path, end + lines)


def _left(head: str, now: datetime) -> timedelta:
    """Return how long a file lives that begins with this line."""
    try:
        return datetime.fromisoformat(head.removeprefix(_EXPIRY)) - now
    except (ValueError, TypeError):  # another line, or a time without a zone
        return timedelta()


def _lines(recipe: str, published: driver_state.DriverState) -> Iterator[str]:
    """Yield the file without its end of life; a worker that makes labels of every line makes none of these."""
    version = loaded(published.host) if published.host is not None else ""
    for name, value in (
        (driver_labels.version_feature(recipe), driver_labels.value(version)),
        (driver_labels.state_feature(recipe), _STATES[published.state]),
    ):
        if value:
            yield from (_NO_LABEL, f"{name}={value}")


def loaded(current: host_state.HostState) -> str:
    """Return the version of the loaded driver; empty if none is loaded.

    Of one that we installed it is the policy's, which the modules need not have; of others it is that of the modules.
    """
    installed = current.record.installed
    if not current.loaded:
        return ""
    if installed is not None and not verification.in_place(tuple(current.loaded), current, installed):
        return installed.version
    versions = sorted({module.version for module in current.loaded.values() if module.version})
    return "_".join(versions) or driver_labels.UNKNOWN
