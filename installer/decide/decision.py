"""The decision about a host, its reasons, and the obstacles to a change."""

import posixpath
import re
from collections.abc import Iterator
from enum import Enum

import msgspec
from msgspec import structs

from installer.decide import desired, driver_class, verification
from installer.host import host_state, kmod, record
from runtime import driver_config


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


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """A decision and its reasons, in sentences."""

    outcome: Outcome
    reasons: tuple[str, ...]
    faults: tuple[verification.Fault, ...] = ()
    """The faults of a host whose driver is the desired one."""
    replace: bool = False
    """True when the files of the driver have to be replaced or removed."""
    digest: str = ""
    """That of the desired driver."""
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
        return self.replace or self.repairs(verification.Sort.FILES, verification.Sort.LOAD)

    @property
    def adds(self) -> bool:
        """True when modules are only to be loaded, beside those that are."""
        return not self.reload and self.repairs(verification.Sort.MISSING)

    @property
    def disturbs(self) -> bool:
        """True when no device may be in use during the change."""
        return not self.impossible and (self.reload or self.repairs(verification.Sort.VFS))

    @property
    def settled(self) -> str:
        """The state of a host that needs no change, as metrics have it."""
        foreign = "Blocked" if self.blocked else "Foreign"
        return "Ready" if self.outcome is Outcome.RIGHT else foreign

    def repairs(self, *sorts: verification.Sort) -> bool:
        """Return whether the host has a fault of one of these sorts."""
        return any(fault.sort in sorts for fault in self.faults)


def decide(settings: driver_config.Config, current: host_state.HostState, digest: str) -> Decision:
    """Decide about a host; `digest` is the desired driver's."""
    asked = desired.asked(settings, digest)
    return structs.replace(_decided(settings, current, digest, asked), digest=digest, asked=asked)


def _decided(settings: driver_config.Config, current: host_state.HostState, digest: str, asked: str) -> Decision:
    if reason := other_pool(settings, current.kernel) or _other_system(settings, current.release):
        return Decision(outcome=Outcome.WAIT, reasons=(reason,))
    if current.unproved:
        lost = (
            "A change of the driver did not end, and its record is lost, so no boot loads the driver"
            f" ('{current.own.blocked}'): find out whether it crashed the host, then call 'python -m installer retry',"
            " which puts the driver of the policy in its place."
        )
        return Decision(outcome=Outcome.CHANGE, reasons=(lost,), impossible=(lost,), blocked=True)
    present, change = settings.state == "Present", current.record.change
    if change is not None:
        # Another wish may well work; that of an earlier release, which notes no boot, is resumed as it would do.
        if record.same_load(change.asked, asked) and change.boot != current.boot:
            return _after_crash(settings, again=change.back not in ("", current.boot))
        decided = _change("A change of the driver was begun here and did not end.")
    else:
        decided = _present(settings, current, digest) if present else _absent(settings, current)
    if decided.outcome is not Outcome.CHANGE:
        return decided
    lacking = verification.impossible(settings, current) if present else ()
    # A change that was begun has to end, whatever is in its way.
    begins = decided.reload and change is None
    obstructing = obstacles(settings, current, replace=decided.replace) if begins else ()
    return structs.replace(
        decided,
        reasons=(*decided.reasons, *lacking, *obstructing),
        impossible=(*lacking, *obstructing),
        blocked=not lacking and bool(obstructing),
    )


def other_pool(settings: driver_config.Config, kernel: str) -> str | None:
    """Return why a kernel is none of this pool's; None if it is one."""
    kernels = settings.kernels
    if kernels is None:
        return None
    # NFD writes it so into the label that selects the pool, with `_` for invalid characters.
    reported = re.sub(r"[^-A-Za-z0-9_.]", "_", kernel).strip("-_.")
    earlier = next((pattern for pattern in kernels.unless if _matches(pattern, reported)), None)
    if earlier is None and _matches(kernels.pattern, reported):
        return None
    belongs = f"is another pool's ('{earlier}')" if earlier is not None else f"does not match '{kernels.pattern}'"
    return (
        f"The running kernel {kernel} {belongs}: the node's labels are older than its last boot. Nothing is changed"
        " until they are new, and this pod goes."
    )


def _other_system(settings: driver_config.Config, release: tuple[str, str]) -> str | None:
    """Return why an operating system, by ID and VERSION_ID, is none of this pool's; None if it is one."""
    kernels = settings.kernels
    if kernels is None or not kernels.system:
        return None
    system, version = release
    if system == kernels.system and (not kernels.versions or version in kernels.versions):
        return None
    wanted = " or ".join(f"{kernels.system} {each}" for each in kernels.versions) or kernels.system
    return (
        f"The operating system {' '.join(release).strip() or '(unknown)'} is not {wanted}: the node's labels are older"
        " than its upgrade. Nothing is changed until they are new, and this pod goes."
    )


def _matches(pattern: str, kernel: str) -> bool:
    """Return whether an RE2 pattern occurs in a kernel's release; the compiler validates it with the same engine."""
    import re2  # noqa: PLC0415 - only pools with mappings need it

    return re2.search(pattern, kernel) is not None


def _present(settings: driver_config.Config, current: host_state.HostState, digest: str) -> Decision:
    installed = current.record.installed
    if installed is None:
        return _without_record(settings, current)
    if installed.digest != digest:
        was = f"{installed.source} {installed.version} for kernel {installed.kernel}"
        wanted = f"{settings.source.name} {settings.driver_version} for kernel {current.kernel}"
        return _change(
            f"The installed driver is {was}; the policy asks for {wanted}."
            if was != wanted
            else f"The installed driver is {was} too, but its content is another one."
        )
    faults = verification.faults(settings, current, installed)
    if not faults:
        kinds = driver_class.of(settings).served(current)
        dead = [f"{kind} {address}" for kind, served in kinds.items() for address, has in served.items() if not has]
        without = f" Without an entry in /sys/class/uacce: {', '.join(dead)}." if dead else ""
        said = f"The driver {installed.version} is loaded and verified.{without}"
        return Decision(outcome=Outcome.RIGHT, reasons=(said,))
    decided = Decision(outcome=Outcome.CHANGE, reasons=tuple(fault.text for fault in faults), faults=faults)
    return structs.replace(decided, replace=decided.repairs(verification.Sort.FILES))


def _after_crash(settings: driver_config.Config, *, again: bool) -> Decision:
    present = settings.state == "Present"
    what = f"change to the driver {settings.driver_version}" if present else "removal of the driver"
    reason = f"The host went down during the {what}."
    if again:
        reason = (
            f"The host went down during the {what}, and again on the way back to the previous driver, so no driver is"
            " loaded: find out why, then call 'python -m installer retry'."
        )
    return structs.replace(_change(reason), impossible=(reason,) if again else (), back=True)


def _without_record(settings: driver_config.Config, current: host_state.HostState) -> Decision:
    driver = driver_class.of(settings)
    if lacking := driver.lacks(current):
        return _change(lacking)
    if settings.install_policy == "Always":
        return _change(_of_others("replaced") + _packages(current, ", hidden by the new ones"))
    said, enough = driver.kept(current)
    return Decision(outcome=Outcome.FOREIGN, reasons=(said,), blocked=not enough)


def _of_others(becomes: str) -> str:
    return f"A driver that others installed is at work; the install policy is Always, so it is {becomes}."


def _packages(current: host_state.HostState, otherwise: str) -> str:
    """Return what becomes of the files of a driver of others, after a blank; of the kernel's own, nothing."""
    if current.owners:
        return f" Its packages are erased: {', '.join(sorted(set(current.owners.values())))}."
    return f" No package is known to own its files, so they stay{otherwise}." if current.foreign_files() else ""


def _absent(settings: driver_config.Config, current: host_state.HostState) -> Decision:
    installed, driver = current.record.installed, driver_class.of(settings)
    if installed is not None:
        return _change(f"The driver {installed.version}, which we installed, is to go.")
    others = driver.is_of_others(current)
    # The kernel's own modules may be loaded at any boot without a device entry; a host without a driver looks the same.
    if settings.install_policy == "Always" and (others or current.strangers):
        return _change(_of_others("unloaded") + _packages(current, ", and a boot may load them"))
    if others:
        said = "A driver that others installed is at work; we remove only what we installed."
        return Decision(outcome=Outcome.FOREIGN, reasons=(said,))
    # Without a rule, an announcement needs no change, which would unload the kernel's own modules.
    if settings.device_nodes is not None and (current.has_rule or current.changing):
        return _change(f"'{current.own.rule if current.has_rule else current.own.changing}' was left behind.")
    said = f"No driver of recipe {settings.recipe} is installed, as the policy asks."
    return Decision(outcome=Outcome.RIGHT, reasons=(said,))


def _change(reason: str) -> Decision:
    return Decision(outcome=Outcome.CHANGE, reasons=(reason,), replace=True)


def obstacles(settings: driver_config.Config, current: host_state.HostState, *, replace: bool) -> tuple[str, ...]:
    """Return what would stop a change that unloads the driver, or with `replace` its files, with the remedy."""
    driver = driver_class.of(settings)
    sentences = [*_modules_above(settings, current), *current.network, *driver.kernel_users(current)]
    if settings.state == "Present":
        sentences += _of_recipes(settings, current)
    if replace:
        sentences += _bundles(settings, current)
    if settings.state == "Present":
        sentences += _options(settings, current)
        if replace:
            sentences += _files(current)
            if driver.at_work(current) and current.record.installed is None:
                sentences += _unrestorable(current)
    installed = current.record.installed
    packages = settings.source.packages or current.owners or (installed is not None and installed.packages)
    if replace and packages and current.rpm_user:
        sentences.append(f"The change waits for {current.rpm_user}, which holds the lock of the host's rpm database.")
    return tuple(sentences)


def _modules_above(settings: driver_config.Config, current: host_state.HostState) -> Iterator[str]:
    """Return the modules of others that use one of the driver's: the kernel unloads none that another one uses."""
    known = {*settings.all_modules, *settings.above, *current.loaded}
    for module in (*current.loaded.values(), *current.above.values()):
        for name in module.holders:
            if name in current.others:
                yield (
                    f"Module {name} of recipe '{current.others[name]}' uses {module.name}: have the driver of that"
                    " recipe removed first (driver.state: Absent), and installed again afterwards."
                )
            elif name not in known:
                yield f"Module {name} of others uses {module.name}: unload it (rmmod {name})."


def _of_recipes(settings: driver_config.Config, current: host_state.HostState) -> Iterator[str]:
    """Return the modules of the config that another recipe has, and that cannot be left to it as they are."""
    for name in settings.all_modules:
        told = settings.brings_along and name not in settings.replaced and not settings.parameters.get(name)
        if name in current.others and not told:
            yield (
                f"Module {name} is of the driver of recipe '{current.others[name]}' on this host: have that one removed"
                " (driver.state: Absent), or leave the module to it, without parameters."
            )


def _bundles(settings: driver_config.Config, current: host_state.HostState) -> Iterator[str]:
    """Return the packages of others that hold more than the driver, as a change erases them whole."""
    known = {*settings.all_modules, *settings.above, *settings.related}
    for nvra, names in current.bundles.items():
        if others := [name for name in names if name not in known]:
            which = ", ".join(others)
            yield (
                f"Package {nvra}, which the install policy Always would erase, holds other modules, too ({which}):"
                " replace it by a package without the accelerators' driver, or set IfNotPresent."
            )


def _options(settings: driver_config.Config, current: host_state.HostState) -> Iterator[str]:
    """Return what keeps modprobe from loading a module, and the options that override those of the config.

    Of several options the kernel takes the last.
    """
    for rule in current.rules_elsewhere:
        verb, _, command = rule.words.partition(" ")
        if verb == "install" and command.split(" ")[0].rpartition("/")[2] in ("false", "true", ":"):
            yield f"'{rule.path}' has modprobe run '{command}' in place of loading {rule.module}: remove that line."
    for name in desired.modules(settings, current.functions):
        for key, value in sorted(settings.parameters.get(name, {}).items()):
            said = [
                (word.partition("=")[2], option.path)
                for option in current.options_elsewhere
                if option.module == name
                for word in option.words.split()
                if word.partition("=")[0] == key
            ]
            if said and not desired.is_shown(value, said[-1][0].strip('"')):
                other, path = said[-1]
                yield f"'{path}' sets {key} of module {name} to {other}, over the {value} of the policy: remove that."


def _files(current: host_state.HostState) -> Iterator[str]:
    """Return the files that hide the new driver's."""
    rivals: dict[str, list[str]] = {}
    for name, path in current.rivals.items():
        if path not in current.owners:
            rivals.setdefault(posixpath.dirname(path), []).append(name)
    for folder, names in rivals.items():
        yield (
            f"modprobe may take {', '.join(names)} from '{folder}' instead of the new driver: remove these files or"
            " their package, and run 'depmod -a'."
        )


def _unrestorable(current: host_state.HostState) -> Iterator[str]:
    """Return the modules of others that a failure could not bring back."""
    known = {name: current.files.get(name) for name in current.loaded}
    lost = [name for name, file in known.items() if file is None or kmod.differ(current.loaded[name], file)]
    if lost:
        yield (
            f"The loaded {', '.join(lost)} of others came from no file that modprobe knows (insmod, initramfs), so a"
            f" failure could not bring them back: install their files for kernel {current.kernel}, or unload them."
        )
