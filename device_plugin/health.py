"""What a function is worth: offered or not, healthy or not, and why."""

from dataclasses import dataclass

from device_plugin import sysfs

_PASSED_ON = ("vfio-pci", "hisi_acc_vfio_pci")
"""Drivers that hand a function to a virtual machine; the second is HiSilicon's own, for live migration."""

_STOPPED = ("stop", "stopped", "closed", "close")
"""What debugfs calls a device whose queues are shut; newer drivers say stop, older ones stopped or closed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """Why a device is not healthy: a stable code for metrics, and a sentence for people."""

    code: str
    text: str
    fault: bool = False
    """The hardware's fault, in contrast to what people or the installer do to it."""


CHANGING = Reason(code="DriverChanging", text="The driver of the node is being changed.")
DAMPED = Reason(code="Damped", text="It failed again and again, and has not been sound for long enough since.")


def withheld(function: sysfs.Function) -> str | None:
    """Why a function is not offered at all, in a sentence; None where it is."""
    if function.vfs:
        return f"Its {function.vfs} virtual functions are offered in its place."
    if function.driver in _PASSED_ON:
        return f"It is bound to {function.driver}, for a virtual machine."
    return None


def reasons(function: sysfs.Function, *, changing: bool) -> tuple[Reason, ...]:
    """Why a function is not healthy; none where it is.

    A device whose queues are all in use is busy, not broken.
    """
    found: list[Reason] = []
    if function.entry is None:
        found.append(_without_entry(function))
    else:
        found += _of_entry(function.entry)
    if function.state in _STOPPED:
        found.append(Reason(code="Stopped", text=f"The driver says '{function.state}' of it in debugfs.", fault=True))
    # Last, as all devices share it, and it must not hide what one of them has.
    return (*found, CHANGING) if changing else tuple(found)


def usable(function: sysfs.Function) -> bool:
    """Whether a container can be started with the function: its entry is whole and its device node is there."""
    entry = function.entry
    return entry is not None and not entry.missing and entry.node_state == "there"


def _without_entry(function: sysfs.Function) -> Reason:
    if function.driver is None:
        return Reason(code="NoDriver", text=f"No driver is bound to it; {function.kind.module} should be.")
    return Reason(
        code="NoEntry",
        text=f"Driver {function.driver} made no entry for it in /sys/class/uacce: loaded with uacce_mode=0?",
    )


def _of_entry(entry: sysfs.Entry) -> list[Reason]:
    found = []
    if entry.missing:
        lacking = ", ".join(entry.missing)
        found.append(
            Reason(
                code="EntryIncomplete",
                text=f"Its entry {entry.name} lacks {lacking}: still being made, or its driver failed (dmesg).",
            )
        )
    if entry.node_state == "missing":
        found.append(Reason(code="NoDeviceNode", text=f"/dev/{entry.node} is not there."))
    elif entry.node_state == "other":
        found.append(Reason(code="WrongDeviceNode", text=f"/dev/{entry.node} is not the device {entry.node_numbers}."))
    if entry.isolated == 1:
        found.append(Reason(code="Isolated", text="The kernel has isolated it after hardware errors.", fault=True))
    elif entry.isolated is not None and entry.isolated != 0:
        found.append(
            Reason(
                code="IsolationUnknown",
                text="The driver cannot say whether it is isolated (dmesg may tell why).",
                fault=True,
            )
        )
    return found
