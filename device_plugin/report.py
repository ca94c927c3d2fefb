"""The report of the plugin on its devices: which ones the kubelet was told of, and why; `list` prints it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from device_plugin import served
from device_plugin.host import health, paths, sysfs
from device_plugin.kubelet import advertised
from runtime import device_plugin_config as config


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One function: advertised (healthy or not) or withheld, and why."""

    function: sysfs.Function
    health: str
    """Healthy, Unhealthy or Withheld."""
    why: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The functions of the node, the lists that the kubelet gets, and notes on the node."""

    rows: tuple[Row, ...]
    offered: tuple[tuple[str, int, int, int, int], ...]
    """Resource, devices, shares of each, capacity and allocatable."""
    notes: tuple[str, ...]
    units: tuple[advertised.Unit, ...]


def of(
    where: paths.Paths,
    settings: config.Config,
    scan: sysfs.Scan,
    split: tuple[Iterable[advertised.Device], Iterable[advertised.Unit], Mapping[str, str]],
    lacks: Sequence[str],
) -> Report:
    """Return the report on a scan: its devices, and why others are withheld; `lacks` is what host libraries lack."""
    devices, units, withheld = split
    kinds, of_units = served.kinds(settings), tuple(units)
    known = {device.function.address: device for device in devices}
    rows = tuple(_row(function, known.get(function.address), withheld) for function in scan.functions)
    return Report(
        rows=rows,
        offered=tuple(_offered(each.name, each.shares, rows, of_units) for each in settings.resources),
        notes=(*_notes(where, settings, kinds, scan), *lacks, *_notes_on_numa(kinds, scan)),
        units=of_units,
    )


def health_of(device: advertised.AnyDevice) -> str:
    """Return the health of what is advertised, in a word."""
    return "Healthy" if device.healthy else "Unhealthy"


def _row(function: sysfs.Function, device: advertised.Device | None, withheld: Mapping[str, str]) -> Row:
    if device is None:
        return Row(function=function, health="Withheld", why=(withheld[function.address],))
    return Row(function=function, health=health_of(device), why=device.why)


def _offered(
    resource: str, shares: int, rows: Sequence[Row], units: Sequence[advertised.Unit]
) -> tuple[str, int, int, int, int]:
    health = [row.health for row in rows if row.function.kind.resource == resource and row.health != "Withheld"]
    health += [health_of(unit) for unit in units if unit.resource == resource for _ in unit.ids]
    return resource, len(health), shares, len(health) * shares, health.count("Healthy") * shares


def _notes(
    where: paths.Paths, settings: config.Config, kinds: Sequence[served.Kind], scan: sysfs.Scan
) -> Iterator[str]:
    if kinds and not scan.functions and not scan.silent:
        yield (
            f"No device of a served kind is on the PCI bus below '{where.sysfs}'."
            " Is the accelerator licensed and enabled in the BIOS, or passed to this guest?"
        )
    elif not scan.uacce and not all(kind.vfio for kind in kinds):
        yield "/sys/class/uacce is not there: the module uacce is not loaded."
    if where.changing.exists():
        yield f"'{where.changing}' is there: the driver installer is changing the driver."
    entries = [function.entry for function in scan.functions if function.entry]
    if any(entry.api and entry.api.endswith("_noiommu") for entry in entries):
        yield "The SMMU is off: devices work without it, and need contiguous memory (CMA) for their buffers."
    for address in scan.silent:
        yield (
            f"{address} does not answer, so it is not known and not offered: a read of its attributes in sysfs hangs."
            " The kernel resets it, or is stuck (dmesg)."
        )
    for stranger in scan.strangers:
        yield (
            f"{stranger.address} ({stranger.vendor}:{stranger.device}, {stranger.entry})"
            f" is of no kind that policy '{settings.policy}' serves."
        )


def _notes_on_numa(kinds: Sequence[served.Kind], scan: sysfs.Scan) -> Iterator[str]:
    for kind in kinds:
        ours = [function for function in scan.functions if function.kind == kind and health.withheld(function) is None]
        reasons = [_without_node(function) for function in ours if function.numa_node not in scan.numa_nodes]
        if reasons:
            yield f"The kubelet is told no NUMA node for {kind.resource}, as {' and '.join(reasons)}."


def _without_node(function: sysfs.Function) -> str:
    if function.numa_node is None:
        return f"{function.address} has none"
    return f"{function.address} is on node {function.numa_node}, which is not below /sys/devices/system/node"
