"""Judge a function: advertised or withheld, healthy or unhealthy, and why.

Flap damping keeps a device unhealthy that fails again and again: every change of a list reaches the scheduler, and a
pod that gets such a device soon fails. So after a few faults the device must stay without fault for a while. Only
hardware faults count: unbinding or changing a driver is intended.
"""

import msgspec
from msgspec.structs import replace

from device_plugin.host import resources, sysfs

FAULTS = 3
"""The number of faults within the window that damp a device."""

WINDOW_S = 600.0
CALM_S = 300.0
"""The time that a damped device must stay without fault."""

_PASSED_ON = ("vfio-pci", "hisi_acc_vfio_pci")
"""Drivers that hand a function to a virtual machine; the second is HiSilicon's own, for live migration."""


class Reason(msgspec.Struct, frozen=True, kw_only=True):
    """A reason why a device is unhealthy: a stable code for metrics, and a sentence for people."""

    code: str
    text: str
    fault: bool = False
    """True for a hardware fault, in contrast to an action of people or of the installer."""


CHANGING = Reason(code="DriverChanging", text="The driver of the node is being changed.")
DAMPED = Reason(code="Damped", text="It failed again and again, and has not been without fault for long enough since.")
GIVEN_BY_DEVICE_PLUGIN, GIVEN_BY_CLAIM = "GivenByDevicePlugin", "GivenByClaim"
"""The codes of devices that containers still hold from before the interface of the node changed."""
_HANGS = "A read of its attributes in sysfs hangs: the kernel resets it, or is stuck (dmesg)."
UNREADABLE = Reason(code="Unreadable", text=_HANGS, fault=True)
UNANSWERED = Reason(code="Unreadable", text="A read of its files on the host hangs: does their file system answer?")


def withheld(function: sysfs.Function) -> str | None:
    """Return why a function is not advertised, in a sentence; None when it is."""
    if function.vfs:
        return f"Its {function.vfs} virtual functions are offered in its place."
    if function.kind.vfio:
        bound = f"bound to {function.driver}" if function.driver else "bound to no driver"
        return None if function.driver in _PASSED_ON else f"It is {bound}; vfio offers functions of vfio-pci alone."
    if function.driver in _PASSED_ON:
        return f"It is bound to {function.driver}, for a virtual machine."
    return None


def reasons(function: sysfs.Function, *, changing: bool) -> tuple[Reason, ...]:
    """Return the reasons why a function is unhealthy; one whose queues are all in use is busy, not broken."""
    if function.unreadable:
        own = [UNREADABLE]
    elif function.kind.vfio:
        own = _of_group(function.group)
    elif function.entry is None:
        own = [_without_entry(function)]
    else:
        own = _of_entry(function.entry)
    # Last: all devices share it, and it must not hide a reason of one device.
    return (*own, CHANGING) if changing else tuple(own)


def of_resource(found: resources.OnHost, *, changing: bool) -> tuple[Reason, ...]:
    """Return the reasons for which no device of a resource is healthy."""
    reasons = [UNANSWERED] if found.silent else [Reason(code="Missing", text=text) for text in found.lacks]
    return (*reasons, CHANGING) if changing else tuple(reasons)


def of_group_nodes(group: resources.Group) -> tuple[Reason, ...]:
    """Return the reasons for which a device of the class char is unhealthy."""
    reasons = []
    for node in group.nodes:
        if not node.numbers:
            reasons.append(Reason(code="NoDeviceNode", text=f"{node.path} is no device node."))
        elif not node.served:
            text = f"{node.path} is {node.numbers}, and no driver of the kernel has this major number (/proc/devices)."
            reasons.append(Reason(code="NoDriver", text=text))
    return tuple(reasons)


def usable(function: sysfs.Function) -> bool:
    """Return whether a container can start with the function: its entry is complete and its device node exists."""
    if function.unreadable:
        return False
    if function.kind.vfio:
        return not _of_group(function.group)
    entry = function.entry
    return entry is not None and not entry.missing and entry.node_state == "there"


def _of_group(group: sysfs.Group | None) -> list[Reason]:
    if group is None:
        return [Reason(code="NoGroup", text="It is in no IOMMU group: the SMMU is off.")]
    if not group.iommu:
        text = f"Its IOMMU group {group.number} is without IOMMU (noiommu): a guest could write all memory of the host."
        return [Reason(code="NoIommu", text=text)]
    if not group.openable:
        return [Reason(code="NoDeviceNode", text="/dev/vfio/vfio is not there.")]
    if group.others:
        others = ", ".join(group.others)
        return [Reason(code="SharedGroup", text=f"Its IOMMU group {group.number} has {others}, too.")]
    return _of_node(f"vfio/{group.number}", group.node_state, f"of IOMMU group {group.number}")


def _of_node(node: str, state: str, owner: str) -> list[Reason]:
    if state == "missing":
        return [Reason(code="NoDeviceNode", text=f"/dev/{node} is not there.")]
    if state == "other":
        return [Reason(code="WrongDeviceNode", text=f"/dev/{node} is not the device {owner}.")]
    return []


def _without_entry(function: sysfs.Function) -> Reason:
    if function.driver is None:
        module = function.kind.pci.module
        should = f"; {module} should be" if module else ""
        return Reason(code="NoDriver", text=f"No driver is bound to it{should}.")
    text = f"Driver {function.driver} made no entry for it in /sys/class/uacce: loaded with uacce_mode=0?"
    return Reason(code="NoEntry", text=text)


def _of_entry(entry: sysfs.Entry) -> list[Reason]:
    reasons = []
    if entry.missing:
        lacking = ", ".join(entry.missing)
        text = f"Its entry {entry.name} lacks {lacking}: still being made, or its driver failed (dmesg)."
        reasons.append(Reason(code="EntryIncomplete", text=text))
    reasons += _of_node(entry.node, entry.node_state, entry.node_numbers)
    if entry.isolated == 1:
        reasons.append(Reason(code="Isolated", text="The kernel has isolated it after hardware errors.", fault=True))
    elif entry.isolated is not None and entry.isolated != 0:
        text = "The driver cannot say whether it is isolated (dmesg may tell why)."
        reasons.append(Reason(code="IsolationUnknown", text=text, fault=True))
    return reasons


class History(msgspec.Struct, frozen=True, kw_only=True):
    """The recent faults of a device; times in seconds of a monotonic clock."""

    faulty: bool = False
    began: tuple[float, ...] = ()
    """The times when its latest faults began."""
    damped: bool = False
    sound_since: float | None = None


def is_recent(history: History, now: float) -> bool:
    """Return whether a fault began within the window."""
    return any(now - time < WINDOW_S for time in history.began)


def next_history(history: History, *, faulty: bool, now: float) -> History:
    """Return the history after one more look at the device."""
    began = tuple(time for time in history.began if now - time < WINDOW_S)
    if faulty:
        if not history.faulty:
            began = (*began, now)[-FAULTS:]
        return History(faulty=True, began=began, damped=history.damped or len(began) == FAULTS)
    since = now if history.faulty or history.sound_since is None else history.sound_since
    if history.damped and now - since >= CALM_S:
        return History(sound_since=since)
    return replace(history, faulty=False, began=began, sound_since=since)
