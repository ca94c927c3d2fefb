"""Sentences for people about a host: its driver, the last failed try, what happens next and what they can do."""

import math
from collections.abc import Iterator, Mapping, Sequence

from installer import config
from installer.decide import change_steps, decision
from installer.host import host_state


def driver(current: host_state.HostState) -> str:
    """Return the driver that the host has, and who installed it."""
    installed = current.record.installed
    recorded = "none installed by us" if current.own.recipe else "none installed by KAE"
    if installed is not None:
        kernel = "" if installed.kernel == current.kernel else f" for kernel {installed.kernel}"
        recorded = f"{installed.version} from {installed.source}{kernel}, installed by us at {current.record.since}"
    if current.record.change is not None:
        return f"a change was begun and did not end; before it: {recorded}"
    if installed is not None:
        return recorded
    if not current.loaded:
        return "none is loaded"
    versions = sorted({module.version for module in current.loaded.values() if module.version})
    own = f"/lib/modules/{current.kernel}/kernel/"
    foreign = any(not file.path.startswith(own) for name, file in current.files.items() if name in current.loaded)
    which = ", ".join(versions) or "one without a version"
    found = f"{which}, installed by others" if versions or foreign else "the kernel's own"
    return f"{found}, at work" if current.at_work else f"{found}, loaded, but no device works with it"


def last_try(current: host_state.HostState) -> str:
    """Return the last try that failed; empty if there was none."""
    last = current.record.attempt
    if last is None:
        return ""
    times = "once" if last.failures == 1 else f"{last.failures} times in a row"
    return f"{last.state}, {times}: {last.reason}"


def stuck(states: Mapping[str, str], users: Sequence[str]) -> str:
    """Return a sentence about modules that the kernel does not end to load or unload, and what helps."""
    name, state = next(iter(states.items()))
    if state == "coming":
        return (
            f"The kernel does not finish loading module {name}: its start hangs, or a kernel oops ended it (see dmesg"
            " on the host). Only a reboot helps; then call 'python -m installer retry'."
        )
    who = f" It waits for {', '.join(users)}: end that, or reboot." if users else " Reboot the host."
    who += " After a reboot call 'python -m installer retry'."
    return f"The kernel does not finish unloading module {name}, as rmmod hangs in it.{who}"


def coming(
    settings: config.Config, decided: decision.Decision, steps: tuple[change_steps.Step, ...], held: int, wait_s: float
) -> Iterator[str]:
    """Return sentences about the next steps of the installer and of people; `held` is the number of device holders."""
    if decided.outcome is decision.Outcome.FOREIGN:
        what = f"replaced by {settings.driver_version}" if settings.state == "Present" else "unloaded"
        field = "INSTALL_POLICY to Always in driver.env" if settings.uacce else "driver.installPolicy to Always"
        where = "of" if settings.uacce else "in"
        yield f"Nothing is done. To have it {what}, set {field} {where} the policy '{settings.policy}'."
    elif decided.outcome is decision.Outcome.WAIT:
        yield (
            "The NFD worker of this node renews the labels, mostly within a minute. If it does not, look at that"
            " worker, and at the node's label feature.node.kubernetes.io/kernel-version.full."
        )
    elif decided.outcome is decision.Outcome.CHANGE:
        yield _disturbance(settings, decided, steps, held)
        if math.isinf(wait_s):
            yield "Repair what the last try names, or change the policy; then call 'python -m installer retry'."
        elif wait_s:
            yield (
                f"Repair what the last try names. The next try is in {math.ceil(wait_s / 60)} min, or soon after"
                " 'python -m installer retry', a change of the policy, or a boot."
            )
        elif not decided.impossible:
            yield "A running installer begins within 60 s."


def _disturbance(
    settings: config.Config, decided: decision.Decision, steps: tuple[change_steps.Step, ...], held: int
) -> str:
    if decided.impossible:
        return "No change begins before that is fixed, and no pod is evicted."
    if not decided.disturbs:
        return "The change does not disturb the users of devices."
    if not held:
        return "No device is held now, so no pod is evicted, and no Lease is needed."
    holders = "The device holder" if held == 1 else f"The {held} device holders"
    if any(step.name == "spare-users" for step in steps):
        return f"{holders} may stay. To have the driver repaired sooner, end them yourself."
    evicted = "pods are evicted, as their disruption budgets allow" if settings.drain.enabled else "no pod is evicted"
    limit = f"waits for all of them, at most {settings.drain.timeout_seconds} s"
    return f"{holders}: {evicted}; the installer {limit}. If one stays, the driver stays as it is."
