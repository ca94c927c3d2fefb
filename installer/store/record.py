"""What the installer knows of the host's driver beyond what the host itself shows: /var/lib/kae/driver.json."""

from datetime import UTC, datetime
from typing import Literal

import msgspec

from installer import paths
from installer.host import chroot
from runtime import errors


class _Kept(msgspec.Struct, frozen=True, rename="camel"):
    """A part of the record: what a later release noted is passed over by an earlier one, to which people go back."""


class Driver(_Kept, frozen=True, kw_only=True):
    """A driver whose files lie in a folder of the store."""

    id: str
    """The folder's name."""
    digest: str
    """Of what was asked for when it was staged; another wish gives another one."""
    source: str
    """build, packages, prebuilt or inTree; kept for one that others had installed."""
    version: str
    kernel: str
    modules: dict[str, str] = msgspec.field(default_factory=dict)
    """Files of its folder modules/, and their places on the host."""
    packages: tuple[str, ...] = ()
    """Packages that it brings, by name, version, release and architecture."""
    libraries: dict[str, str] = msgspec.field(default_factory=dict)
    """Files of its folder libraries/, and the SHA-256 of each, or for a link its target after an arrow."""
    options: dict[str, str] = msgspec.field(default_factory=dict)
    """Modules, and the texts of their options files."""


class Attempt(_Kept, frozen=True, kw_only=True):
    """The last try that did not succeed."""

    digest: str
    """Of what was tried; another wish is tried at once."""
    state: str
    """Failed, Blocked, or Queued where somebody was evicted in vain."""
    reason: str
    failures: int
    boot: str
    """The boot in which the time below counts."""
    until_s: float
    """When to try again at the earliest, in seconds since that boot (CLOCK_BOOTTIME, which no clock change moves)."""


class Change(_Kept, frozen=True, kw_only=True):
    """A change that began; what the host was like then is what it has to be again, if the change fails."""

    kept: Driver | None = None
    """The driver that comes back; None: there was none."""
    loaded: tuple[str, ...] = ()
    """The modules that were loaded."""
    served: tuple[str, ...] = ()
    """The PCI addresses that had an entry."""
    vfs: dict[str, int] = msgspec.field(default_factory=dict)
    """PCI addresses, and how many virtual functions each had."""
    modes: dict[str, int] = msgspec.field(default_factory=dict)
    """PCI addresses, and the permissions of the device node of each."""
    rule: str | None = None
    """The text of the udev rule's file; None: there was none."""
    packages: tuple[str, ...] = ()
    """Packages that were there, or that this change may have put in, whatever it was to become."""
    touched: bool = True
    """Whether files may be others already; while they are not, what was unloaded is only to be loaded again."""


class Record(_Kept, frozen=True, kw_only=True):
    """The whole file."""

    version: Literal[1] = 1
    """The record's own format."""
    installed: Driver | None = None
    """The driver that we put in place and proved."""
    since: str = ""
    """When, as RFC 3339 says; for people."""
    asked: str = ""
    """The digest of everything that was asked for then,"""
    boot: str = ""
    """and the boot: while both are the same, a fault is the host's own doing, and nobody is evicted for it."""
    change: Change | None = None
    """There from the moment before something is unloaded until the new driver, or the old one, is proved."""
    lease: str | None = None
    """The Lease that this host may still hold."""
    attempt: Attempt | None = None


def read(host: chroot.Host) -> Record:
    """The record; an empty one where there is none.

    Raises:
        errors.Failure: It is there and cannot be understood.
    """
    path = host.path(paths.RECORD)
    try:
        return msgspec.json.decode(path.read_bytes(), type=Record, strict=True)
    except FileNotFoundError:
        return Record()
    except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
        # To guess here could take a foreign driver for ours, and remove it.
        raise errors.Failure(
            f"The record '{paths.RECORD}' on the host cannot be read ({error}); move it away if the driver is not ours."
        ) from error


def write(host: chroot.Host, record: Record) -> None:
    """Keeps the record, also when the power fails in the next moment."""
    text = msgspec.json.format(msgspec.json.encode(record), indent=2).decode()
    host.write(paths.RECORD, f"{text}\n", mode=0o600)


def update(host: chroot.Host, **fields: object) -> None:
    """Changes some fields of the record, and leaves the others as they are."""
    write(host, msgspec.structs.replace(read(host), **fields))


def install(host: chroot.Host, driver: Driver | None, *, asked: str, boot: str) -> None:
    """Notes that a change has ended well: this driver is installed now."""
    since = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    update(host, installed=driver, since=since, asked=asked, boot=boot, change=None, attempt=None)
