"""What a host's situation means for people: what it has, what comes, whom that concerns, what they can do."""

import math
from collections.abc import Iterator

from installer import config
from installer.decide import change_steps, decision
from installer.host import host_state

_LOOK_S = 60
"""Within so many seconds a running installer looks again."""


def wanted(settings: config.Config) -> str:
    """What the policy asks for."""
    present = settings.state == "Present"
    what = f"driver {settings.driver_version} from {settings.source.name}" if present else "no driver"
    return f"{what}, INSTALL_POLICY {settings.install_policy}"


def driver(current: host_state.HostState) -> str:
    """The driver that the host has."""
    installed = current.record.installed
    ours = "none of ours"
    if installed is not None:
        kernel = "" if installed.kernel == current.kernel else f" for kernel {installed.kernel}"
        ours = f"{installed.version} from {installed.source}{kernel}, installed by us at {current.record.since}"
    if current.record.change is not None:
        return f"a change was begun and did not end; before it: {ours}"
    if installed is not None:
        return ours
    if not current.loaded:
        return "none is loaded"
    versions = sorted({module.version for module in current.loaded.values() if module.version})
    which = f"{', '.join(versions)}, installed by others" if versions else "the kernel's own"
    return f"{which}, at work" if current.entries() else f"{which}, loaded, but no device works with it"


def pause_s(decided: decision.Decision, current: host_state.HostState, since_boot_s: float) -> float:
    """How long the installer waits before it tries again; another wish and another boot are tried at once."""
    last = current.record.attempt
    if last is None or (last.digest, last.boot) != (decided.asked, current.boot):
        return 0
    return max(0.0, last.until_s - since_boot_s)


def last_try(current: host_state.HostState) -> str:
    """The last try that did not succeed; empty where there was none."""
    last = current.record.attempt
    if last is None:
        return ""
    times = "once" if last.failures == 1 else f"{last.failures} times in a row"
    return f"{last.state}, {times}: {last.reason}"


def coming(
    settings: config.Config, decided: decision.Decision, steps: tuple[change_steps.Step, ...], held: int, wait_s: float
) -> Iterator[str]:
    """What becomes of the host, and what people can do; `held` is how many hold a device."""
    if decided.kind is decision.Kind.RIGHT:
        yield "Nothing is to be done."
    elif decided.kind is decision.Kind.FOREIGN:
        what = f"replaced by {settings.driver_version}" if settings.state == "Present" else "unloaded"
        yield (
            f"Nothing is done. To have it {what}, set INSTALL_POLICY to Always in driver.env of the policy"
            f" '{settings.policy}'."
        )
    elif decided.kind is decision.Kind.WAIT:
        yield (
            "The labels are new once the NFD worker of this node has run, mostly within a minute. If they are not, look"
            " at that worker, and at the node's label feature.node.kubernetes.io/kernel-version.full."
        )
    else:
        yield _disturbance(settings, decided, steps, held)
        if wait_s or not decided.impossible:
            yield _when(wait_s)


def _disturbance(
    settings: config.Config, decided: decision.Decision, steps: tuple[change_steps.Step, ...], held: int
) -> str:
    if decided.impossible:
        return "No change is begun before that is settled, and nobody is evicted."
    if not decided.disturbs:
        return "Nobody who uses a device notices it."
    if not held:
        return "Nobody holds a device now, so nobody is evicted, and no Lease is needed."
    who = "Who holds a device" if held == 1 else f"The {held} who hold a device"
    if any(step.name == "spare-users" for step in steps):
        return f"{who} may stay. To have it mended sooner, end them yourself."
    limit = f"at most {settings.drain.timeout_seconds} s"
    if not settings.drain.enabled:
        return f"{who}: waited for, {limit}, and nobody is evicted. If one stays, the driver stays as it is."
    return (
        f"{who}: pods are evicted, as their disruption budgets allow, and processes of the host are waited for,"
        f" {limit}. If one stays, the driver stays as it is."
    )


def _when(wait_s: float) -> str:
    if not wait_s:
        return f"A running installer begins within {_LOOK_S} s."
    return (
        f"Mend what the last try names. The next one is in {math.ceil(wait_s / 60)} min, or soon after"
        " 'python -m installer retry', a change of the policy, or a boot."
    )
