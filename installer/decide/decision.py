"""The decision about a host, and its reasons."""

import dataclasses
import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from installer import config, paths
from installer.decide import desired, obstacles, verification
from installer.host import host_state, record

_LOST = (
    "A change of the driver did not end, and its record is lost, so no boot loads the driver"
    f" ('{paths.BLOCKED}'): find out whether it crashed the host, then call 'python -m installer retry', which puts the"
    " driver of the policy in its place."
)


class Outcome(Enum):
    """The outcome of a decision."""

    RIGHT = "right"
    """The host is as the policy asks."""
    FOREIGN = "foreign"
    """Others installed a working driver, which stays."""
    WAIT = "wait"
    """The running kernel belongs to another pool."""
    CHANGE = "change"
    """The host has to be changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """A decision and its reasons, in sentences."""

    outcome: Outcome
    reasons: tuple[str, ...]
    faults: tuple[verification.Fault, ...] = ()
    """The faults of a host whose driver is the desired one."""
    replace: bool = False
    """True when the files of the driver have to be replaced or removed."""
    asked: str = ""
    """The digest of the whole config and of the driver."""
    impossible: tuple[str, ...] = ()
    """Sentences about what keeps a change from beginning; also the last of the reasons."""
    blocked: bool = False
    """True when only something on the host is in the way, which may go at any time."""
    back: bool = False
    """True when the host went down during the change, so that its previous driver is restored."""

    @property
    def reload(self) -> bool:
        """True when modules have to be unloaded."""
        reloading = (verification.Sort.FILES, verification.Sort.LOAD)
        return self.replace or any(fault.sort in reloading for fault in self.faults)

    @property
    def disturbs(self) -> bool:
        """True when no device may be in use during the change."""
        renumbers = any(fault.sort is verification.Sort.VFS for fault in self.faults)
        return not self.impossible and (self.reload or renumbers)


def decide(
    settings: config.Config, current: host_state.HostState, digest: str, matches: Callable[[str, str], bool]
) -> Decision:
    """Decide about a host; `digest` is the desired driver's, `matches` searches a text for an RE2 pattern."""
    asked = desired.asked(settings, digest)
    decided = dataclasses.replace(_decided(settings, current, digest, matches), asked=asked)
    if current.unproved and decided.outcome is not Outcome.WAIT:
        return Decision(outcome=Outcome.CHANGE, reasons=(_LOST,), asked=asked, impossible=(_LOST,), blocked=True)
    if decided.outcome is not Outcome.CHANGE:
        return decided
    change = current.record.change
    # Another wish may well work; that of an earlier release, which notes no boot, is resumed as it would do.
    if change is not None and record.same_load(change.asked, asked) and change.boot != current.boot:
        return _after_crash(settings, decided, back_too=change.back not in ("", current.boot))
    lacking = verification.impossible(settings, current) if settings.state == "Present" else ()
    # A change that was begun has to end, whatever is in its way.
    found = decided.reload and current.record.change is None
    obstructing = obstacles.find(settings, current, replace=decided.replace) if found else ()
    reasons = (*decided.reasons, *lacking, *obstructing)
    blocked = not lacking and bool(obstructing)
    return dataclasses.replace(decided, reasons=reasons, impossible=(*lacking, *obstructing), blocked=blocked)


def _decided(
    settings: config.Config, current: host_state.HostState, digest: str, matches: Callable[[str, str], bool]
) -> Decision:
    if reason := other_pool(settings, current.kernel, matches):
        return Decision(outcome=Outcome.WAIT, reasons=(reason,))
    if settings.state == "Absent":
        return _absent(settings, current)
    return _present(settings, current, digest)


def other_pool(settings: config.Config, kernel: str, matches: Callable[[str, str], bool]) -> str | None:
    """Return why a kernel is none of this pool's; None if it is one."""
    kernels = settings.kernels
    if kernels is None:
        return None
    reported = _reported(kernel)
    earlier = next((pattern for pattern in kernels.unless if matches(pattern, reported)), None)
    if earlier is None and matches(kernels.pattern, reported):
        return None
    belongs = f"is another pool's ('{earlier}')" if earlier is not None else f"does not match '{kernels.pattern}'"
    return (
        f"The running kernel {kernel} {belongs}: the node's labels are older than its last boot. Nothing is changed"
        " until they are new, and this pod goes."
    )


def _reported(kernel: str) -> str:
    """Return a release as NFD writes it into the label that selects the pool, with `_` for invalid characters."""
    return re.sub(r"[^-A-Za-z0-9_.]", "_", kernel).strip("-_.")


def _present(settings: config.Config, current: host_state.HostState, digest: str) -> Decision:
    known = current.record
    if known.change is not None:
        return _change("A change of the driver was begun here and did not end.")
    if known.installed is None:
        return _without_record(settings, current)
    if known.installed.digest != digest:
        was = f"{known.installed.source} {known.installed.version} for kernel {known.installed.kernel}"
        wanted = f"{settings.source.name} {settings.driver_version} for kernel {current.kernel}"
        return _change(
            f"The installed driver is {was}; the policy asks for {wanted}."
            if was != wanted
            else f"The installed driver is {was} too, but its content is another one."
        )
    faults = verification.faults(settings, current, known.installed)
    if faults:
        replace = any(fault.sort is verification.Sort.FILES for fault in faults)
        reasons = tuple(fault.text for fault in faults)
        return Decision(outcome=Outcome.CHANGE, reasons=reasons, faults=faults, replace=replace)
    return Decision(outcome=Outcome.RIGHT, reasons=(f"The driver {known.installed.version} is loaded and verified.",))


def _after_crash(settings: config.Config, decided: Decision, *, back_too: bool) -> Decision:
    present = settings.state == "Present"
    what = f"change to the driver {settings.driver_version}" if present else "removal of the driver"
    if not back_too:
        return dataclasses.replace(decided, reasons=(f"The host went down during the {what}.",), back=True)
    give_up = (
        f"The host went down during the {what}, and again on the way back to the previous driver, so no driver is"
        " loaded: find out why, then call 'python -m installer retry'."
    )
    return dataclasses.replace(decided, reasons=(give_up,), impossible=(give_up,), back=True)


def _without_record(settings: config.Config, current: host_state.HostState) -> Decision:
    entries = current.entries()
    if settings.install_policy == "IfNotPresent":
        loaded = [kind.module for kind in settings.kinds if kind.module in current.loaded]
        if settings.present_when == "Loaded" and loaded:
            said = f"Others have loaded {', '.join(loaded)}; INSTALL_POLICY is IfNotPresent, so they stay as they are."
            return Decision(outcome=Outcome.FOREIGN, reasons=(said,))
        if entries:
            return _kept(settings, current)
    if entries:
        return _change(
            "A driver that others installed is at work; INSTALL_POLICY is Always, so it is replaced."
            + _packages(current, ", hidden by the new ones")
        )
    if current.loaded:
        names = ", ".join(current.loaded)
        return _change(f"Modules are loaded ({names}), but no device has an entry in /sys/class/uacce.")
    return _change("No driver is loaded.")


def _kept(settings: config.Config, current: host_state.HostState) -> Decision:
    """Keep a foreign driver, which is not enough for a host where a kind has devices and none of them works."""
    dead = " and no ".join(verification.dead_kinds(settings, current))
    reason = (
        f"A driver that others installed serves no {dead} device, although the host has some; INSTALL_POLICY is"
        " IfNotPresent, so it stays as it is."
        if dead
        else f"A driver that others installed serves {len(current.entries())} devices; INSTALL_POLICY is IfNotPresent,"
        " so it stays as it is."
    )
    return Decision(outcome=Outcome.FOREIGN, reasons=(reason,), blocked=bool(dead))


def _packages(current: host_state.HostState, otherwise: str) -> str:
    """Return what becomes of the files of a driver of others, after a blank; of the kernel's own, nothing."""
    if current.owners:
        return f" Its packages are erased: {', '.join(sorted(set(current.owners.values())))}."
    own = all("/kernel/" in file.path for file in current.files.values())
    return "" if own else f" No package is known to own its files, so they stay{otherwise}."


def _absent(settings: config.Config, current: host_state.HostState) -> Decision:
    known = current.record
    if known.change is not None:
        return _change("A change of the driver was begun here and did not end.")
    if known.installed is not None:
        return _change(f"The driver {known.installed.version}, which we installed, is to go.")
    if current.entries() and settings.install_policy == "IfNotPresent":
        said = "A driver that others installed is at work; we remove only what we installed."
        return Decision(outcome=Outcome.FOREIGN, reasons=(said,))
    # The kernel's own modules may be loaded at any boot without a device entry; a host without KAE looks the same.
    own = re.compile(rf"/lib/modules/{re.escape(current.kernel)}/kernel/")
    strangers = [name for name in current.loaded if name in current.files and not own.match(current.files[name].path)]
    if current.entries() or (strangers and settings.install_policy == "Always"):
        return _change(
            "A driver that others installed is at work; INSTALL_POLICY is Always, so it is unloaded."
            + _packages(current, ", and a boot may load them")
        )
    if current.rule or current.changing:
        return _change(f"'{paths.RULE if current.rule else paths.CHANGING}' was left behind.")
    return Decision(outcome=Outcome.RIGHT, reasons=("No driver of KAE is installed, as the policy asks.",))


def _change(reason: str) -> Decision:
    return Decision(outcome=Outcome.CHANGE, reasons=(reason,), replace=True)
