"""The record of the installed driver and of a change in progress: driver.json in the state folder of a recipe."""

import contextlib
import math
import posixpath
from collections.abc import Iterator
from typing import Literal

import msgspec

from installer import paths
from installer.host import chroot, kmod
from runtime import clocks, driver_config, errors, readings

NEVER_S = 1e12
"""The `until_s` of a try that no time ends; earlier releases read it as a time."""


class _Kept(msgspec.Struct, frozen=True, rename="camel"):
    """A part of the record; unknown fields are ignored, so that an earlier release reads the record of a later one."""


class Driver(_Kept, frozen=True, kw_only=True):
    """A driver in a folder of the store."""

    id: str
    """The name of the folder."""
    digest: str
    """The digest of the desired driver when it was staged."""
    source: str
    """build, packages, prebuilt or inTree; `kept` for the stored driver of others."""
    version: str
    kernel: str
    modules: dict[str, str] = msgspec.field(default_factory=dict)
    """The files of its folder modules/, and their paths on the host."""
    digests: dict[str, str] = msgspec.field(default_factory=dict)
    """The SHA-256 of its module files, by module, and of its packages, by file; earlier releases record less."""
    packages: tuple[str, ...] = ()
    """Its packages, as name-version-release.architecture."""
    libraries: dict[str, str] = msgspec.field(default_factory=dict)
    """The files of its folder libraries/, and the SHA-256 of each, or the target of a link after an arrow."""
    files: tuple[str, ...] = ()
    """The paths of the host's links to its user-space files; earlier releases do not name the home itself."""
    left: tuple[str, ...] = ()
    """Those of its modules that were left to another recipe, which had them."""
    replaced: tuple[str, ...] = ()
    """The kernel's own modules that were unloaded for it, and are loaded again when it goes."""
    wanted: tuple[str, ...] = ()
    """The modules that were to be loaded when it was staged; empty in the records of earlier releases, for all."""
    options: dict[str, str] = msgspec.field(default_factory=dict)
    """The texts of the options files, by module."""
    parameters: dict[str, dict[str, driver_config.Parameter]] = msgspec.field(default_factory=dict)
    """The parameters of its modules as the policy had them; earlier releases record none."""


class FailedTry(_Kept, frozen=True, kw_only=True):
    """The last try that failed."""

    digest: str
    """The digests of the config that was tried; another one is tried at once, but for `outlasts_boot`."""
    state: str
    """Failed, Blocked, Stuck, or Queued after an eviction in vain."""
    reason: str
    failures: int
    boot: str
    """The boot to which the time below belongs."""
    until_s: float
    """The earliest time of the next try, in seconds since that boot (CLOCK_BOOTTIME)."""
    outlasts_boot: bool = False
    """True after a crash of the host: no later boot ends the pause, nor a config that loads the same."""
    disturbed: int = 0
    """The number of these failures that took device users their devices."""
    halts: bool = False
    """True when an earlier one of these failures was the driver's, and none has ended the halt since."""

    def left_s(self, asked: str, boot: str) -> float:
        """Return the seconds until the next try, infinite if only people end the pause; `asked` is today's digest."""
        if not (same_load(self.digest, asked) if self.outlasts_boot else (self.digest, self.boot) == (asked, boot)):
            return 0
        return math.inf if self.until_s == NEVER_S else max(0, self.until_s - clocks.since_boot_s())


class Change(_Kept, frozen=True, kw_only=True):
    """The state of the host before a change, which a rollback restores."""

    kept: Driver | None = None
    """The previous driver; None if there was none."""
    loaded: tuple[str, ...] = ()
    above: tuple[str, ...] = ()
    """The loaded modules of live migration, which use the driver's."""
    served: tuple[str, ...] = ()
    """The PCI addresses with an entry."""
    vfs: dict[str, int] = msgspec.field(default_factory=dict)
    """The number of virtual functions, by PCI address."""
    modes: dict[str, int] = msgspec.field(default_factory=dict)
    """The mode of the device node, by PCI address."""
    groups: dict[str, int] = msgspec.field(default_factory=dict)
    """The group of the device node, by PCI address."""
    rule: str | None = None
    """The text of the udev rule; None if there was none."""
    packages: tuple[str, ...] = ()
    """The packages that were installed, or that this change may have installed."""
    foreign: tuple[str, ...] = ()
    """The packages of others that the change erases; a rollback restores only their modules and options."""
    touched: bool = True
    """False while no file was changed, so that a rollback only loads the modules again."""
    boot: str = ""
    """The boot in which it began: in another one, the host went down meanwhile. Earlier releases have none."""
    asked: str = ""
    """The digest of the config and of the driver that it was for."""
    back: str = ""
    """The boot in which the rollback after such a crash began; empty before."""


class Record(_Kept, frozen=True, kw_only=True):
    """The whole file."""

    version: Literal[1] = 1
    """The record's own format."""
    installed: Driver | None = None
    """The driver that we installed and verified."""
    since: str = ""
    """The time of the installation in the format of RFC 3339, for people."""
    asked: str = ""
    """The digest of the config and of the driver at the installation."""
    boot: str = ""
    """The boot of the installation, or else of the first rollback: it proves that a change ended.

    While `asked` and `boot` are the same, no pod is evicted for a fault.
    """
    change: Change | None = None
    """Set from before the unload until the new or the previous driver is verified."""
    lease: str | None = None
    """The Lease that this host may still hold."""
    acquired: str = ""
    """When it was taken, as the Lease says; earlier releases record nothing."""
    resources: tuple[str, ...] = ()
    """The extended resources of all configs since the last removal: pods may still have been given one."""
    attempt: FailedTry | None = None

    @property
    def has_libraries(self) -> bool:
        """True where the driver that is installed, or that a change is to restore, has user-space files."""
        return any(one and one.libraries for one in (self.installed, self.change and self.change.kept))

    @property
    def halts(self) -> bool:
        """True when this host's driver failed under a Lease, which it keeps, as others would load the same driver."""
        last = self.attempt
        return self.lease is not None and last is not None and (last.halts or last.state in ("Failed", "Stuck"))


def same_load(one: str, other: str) -> bool:
    """Return whether two configs, of which these are the digests, ask the kernel for the same driver and parameters."""
    return one.partition("-")[0] == other.partition("-")[0]


def read(host: chroot.Host, place: str = "") -> Record:
    """Return the record, an empty one if there is none; raise `Failure` if it cannot be read.

    `place` is the path of another recipe's record than that of this installer.
    """
    place = place or host.own.record
    try:
        return msgspec.json.decode(host.resolved(place).read_bytes(), type=Record, strict=True)
    except FileNotFoundError:
        host.nearest(posixpath.dirname(place))
        return Record()
    except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
        # A guess could take the driver of others for an installed one, and remove it.
        raise errors.Failure(
            f"The record '{place}' on the host cannot be read ({error}); move it away if the driver is not ours."
        ) from error


def every(host: chroot.Host) -> dict[str, Driver | None]:
    """Return the installed drivers of all recipes by name; None for one whose record cannot be read."""
    found: dict[str, Driver | None] = {}
    others = (f"{paths.RECIPES}/{name}" for name in sorted(readings.names(host.resolved(paths.RECIPES))))
    for state in (paths.STATE, *others):
        recipe = posixpath.basename(state)
        try:
            installed = read(host, paths.record(state)).installed
        except errors.Failure:
            found[recipe] = None
        else:
            found |= {recipe: installed} if installed is not None else {}
    return found


def stored(host: chroot.Host) -> Iterator[Driver]:
    """Yield the drivers of the recipe's store whose description can be read."""
    for path in sorted(host.resolved(host.own.drivers).glob("[!.]*/driver.json")):
        with contextlib.suppress(OSError, msgspec.DecodeError, UnicodeDecodeError):
            driver = msgspec.json.decode(path.read_bytes(), type=Driver, strict=True)
            if driver.id == path.parent.name:
                yield driver


def of_others(host: chroot.Host, recipe: str, kernel: str) -> dict[str, str]:
    """Return the modules of the drivers of all other recipes for a kernel, and the recipe that has each."""
    return {
        name: other
        for other, driver in every(host).items()
        if driver is not None and other != recipe and driver.kernel == kernel
        for name in {*driver.wanted, *(kmod.name_of(file) for file in driver.modules)}.difference(driver.left)
    }


def write(host: chroot.Host, record: Record) -> None:
    """Write the record atomically, also if the power fails."""
    text = msgspec.json.format(msgspec.json.encode(record), indent=2).decode()
    host.write(host.own.record, f"{text}\n", mode=0o600)


def update(host: chroot.Host, **fields: object) -> None:
    """Change these fields of the record."""
    write(host, msgspec.structs.replace(read(host), **fields))
