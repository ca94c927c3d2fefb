"""What an installer leaves in a folder of its pod: for the reporter beside it, and for its own next start.

An installer that ends with its work leaves there what takes rights to see: the state of the host as it proved it, the
digest of the desired driver, and its counters. It alone writes the folder.
"""

import contextlib
from collections.abc import Callable
from pathlib import Path

import msgspec
from msgspec import structs

from installer.host import host_state
from installer.report import driver_state
from runtime import clocks, errors, files

NAME = "left.json"

ENDED = "ended"
"""The name of a file with `ended` in a line: a shell compares it with what the reporter asks for."""

UNSEEN = "Another installer is at work on this host, or the host has not been looked at yet."
"""The reason before the first look."""

QUIET_S = 1800.0
"""A host that needed no look for so long is repaired at once; before, each look waits longer than the last one."""

_FIRST_S = 10.0
_LONGEST_S = 600.0
_DOUBLINGS = 10


class Left(msgspec.Struct, frozen=True, kw_only=True):
    """The state of the installer's work, and the host as it saw it last."""

    shown: driver_state.DriverState = msgspec.field(default_factory=lambda: driver_state.DriverState(reason=UNSEEN))
    digest: str = ""
    """That of the desired driver."""
    lease_since_s: float | None = None
    """When a Lease was taken; this clock and those below count from the boot of the host."""
    mended_s: float | None = None
    """When the last change ended well (`time.monotonic`)."""
    at_work: bool = True
    """False once the installer has ended with the driver right, or another's."""
    ended_s: float | None = None
    """When it last ended so."""
    again: int = 0
    """How often it ended so, each time within `QUIET_S` of the time before."""

    def due_s(self) -> float:
        """Return when the installer may be started over for what the reporter sees."""
        # The kubelet starts a pod over without a pause (RestartAllContainers of KEP-5532).
        pause_s = min(_FIRST_S * 2 ** min(self.again - 1, _DOUBLINGS), _LONGEST_S) if self.again else 0
        return (self.ended_s or 0) + pause_s

    def held_s(self) -> float | None:
        """Return for how long the host has held its Lease; None without one."""
        return None if self.lease_since_s is None else clocks.since_boot_s() - self.lease_since_s


def ended(found: Left) -> str:
    """Return the name of the installer's last end in this pod."""
    return f"{found.ended_s}"


def read(folder: Path) -> Left | None:
    """Return what the installer of this pod left; None before it has begun, or if that cannot be read."""
    with contextlib.suppress(OSError, msgspec.DecodeError, UnicodeDecodeError):
        return msgspec.json.decode((folder / NAME).read_bytes(), type=Left)
    return None


class Keeper:
    """Writes what the installer leaves; raises `Failure` if the folder cannot be written."""

    def __init__(self, folder: Path) -> None:
        """Say that an installer has begun, before anything that may fail."""
        self._path = folder / NAME
        self._held_s: Callable[[], float | None] = lambda: None
        self._left = structs.replace(read(folder) or Left(), at_work=True)
        self._left.shown.update("", UNSEEN)
        self._write()

    def attach(self, digest: str, held_s: Callable[[], float | None]) -> None:
        """Set the digest of the desired driver, and the answer for how long a Lease is held."""
        self._left = structs.replace(self._left, digest=digest)
        self._held_s = held_s

    @property
    def holds(self) -> bool:
        """True while the host holds a Lease, if only to give it back."""
        return self._held_s() is not None

    @property
    def before(self) -> Left:
        """What the installers of this pod left before this one, with their counters."""
        return self._left

    def keep(self, shown: driver_state.DriverState, mended_s: float | None) -> None:
        """Keep the state of the installer's work."""
        held_s = self._held_s()
        self._left = structs.replace(
            self._left,
            shown=shown,
            lease_since_s=None if held_s is None else clocks.since_boot_s() - held_s,
            mended_s=mended_s,
        )
        self._write()

    def end(self, host: host_state.HostState) -> None:
        """Leave the host to the reporter, as it is proved."""
        self._left.shown.host = host
        now_s, last_s = clocks.since_boot_s(), self._left.ended_s
        again = self._left.again + 1 if last_s is not None and now_s - last_s < QUIET_S else 0
        self._left = structs.replace(self._left, at_work=False, ended_s=now_s, again=again)
        _write(self._path.with_name(ENDED), f"{ended(self._left)}\n".encode())
        self._write()

    def _write(self) -> None:
        _write(self._path, msgspec.json.encode(self._left))


def _write(path: Path, content: bytes) -> None:
    try:
        with files.replaced(path) as fresh:
            fresh.write_bytes(content)
            fresh.chmod(0o644)  # The reporter is another user.
    except OSError as error:
        raise errors.Failure(f"'{path}' cannot be changed: {error.strerror}.") from error
