"""The report of the plugin on its devices: which ones the kubelet was told of, and why; `list` prints it."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import structs

from device_plugin import served
from device_plugin.host import health, paths, reader, sysfs
from device_plugin.kubelet import advertised, allocation
from runtime import device_plugin_config as config
from runtime import files, program

_NOTHING = "-"


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One function: advertised (healthy or not) or withheld, and why."""

    function: sysfs.Function
    health: str
    """Healthy, Unhealthy or Withheld."""
    why: tuple[str, ...]


class Report(msgspec.Struct, frozen=True, kw_only=True):
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


async def current(where: paths.Paths, settings: config.Config, patience_s: float = reader.PATIENCE_S) -> Report:
    """Return what the running plugin told the kubelet; without one, what it would tell. Change nothing."""
    note = "No device plugin is at work on this node; this is what one would tell the kubelet."
    if files.is_locked(where.lock):
        try:
            return msgspec.json.decode(where.report.read_bytes(), type=Report)
        except OSError:
            note = "The device plugin at work has written no report (yet); this is what it would tell the kubelet."
        except msgspec.MsgspecError:
            note = (
                f"'{where.report}' is of another version of the device plugin, which is at work; this is what this one"
                " would tell the kubelet."
            )
    read = reader.Reader(where, settings, patience_s)
    async for _ in read.look():
        pass
    scan = read.scan()
    changing = where.changing.exists()
    on_host = read.on_host()
    devices, withheld = advertised.split(
        scan.functions, lambda function: advertised.reasons(function, on_host, changing=changing)
    )
    units = advertised.units(settings, on_host, (), changing=changing)
    made = of(where, settings, scan, (devices, units, withheld), read.lacking_libraries)
    return structs.replace(made, notes=(note, *made.notes))


def as_json(made: Report) -> str:
    """Return the report as JSON, for programs."""
    data = {
        "version": 1,
        "program": program.version(),
        "resources": [
            dict(zip(("name", "devices", "shares", "capacity", "allocatable"), values, strict=True))
            for values in made.offered
        ],
        "devices": [*map(_function, made.rows), *map(_unit, made.units)],
        "notes": list(made.notes),
    }
    return json.dumps(data, indent=2, ensure_ascii=False)


def as_table(made: Report) -> str:
    """Return the report as a table, for people."""
    # Only the table needs it.
    from tabulate import tabulate  # noqa: PLC0415 - see above

    parts = []
    if rows := [*map(_cells, map(_function, made.rows)), *map(_cells, map(_unit, made.units))]:
        header = ("DEVICE", "RESOURCE", "TYPE", "DRIVER", "ENTRY", "NUMA", "FREE QUEUES", "HEALTH", "WHY")
        parts.append(tabulate(rows, headers=header, tablefmt="plain", disable_numparse=True))
    parts.append(
        tabulate(made.offered, headers=("RESOURCE", "DEVICES", "SHARES", "CAPACITY", "ALLOCATABLE"), tablefmt="plain")
    )
    parts.append("\n".join((*made.notes, program.words("kae-device-plugin"))))
    return "\n\n".join(parts)


def _function(row: Row) -> dict[str, Any]:
    function, entry = row.function, row.function.entry
    return {
        "id": function.address,
        "resource": function.kind.resource,
        "type": "VF" if function.virtual else "PF",
        "driver": function.driver,
        "entry": entry.name if entry else None,
        "node": f"/dev/{function.node}" if function.node else None,
        "containerNode": allocation.container_node(function),
        "api": entry.api if entry else None,
        "algorithms": list(entry.algorithms) if entry else [],
        "numaNode": function.numa_node,
        "freeQueues": entry.free_queues if entry else None,
        "health": row.health,
        "reasons": list(row.why),
    }


def _unit(unit: advertised.Unit) -> dict[str, Any]:
    return {
        "id": unit.ids[0] if len(unit.ids) == 1 else f"{unit.ids[0]}-{unit.ids[-1]}",
        "resource": unit.resource,
        "type": "token" if unit.group is None else "char",
        "nodes": list(unit.nodes or ()),
        "numaNode": unit.numa_node,
        "health": health_of(unit),
        "reasons": list(unit.why),
    }


def _cells(device: dict[str, Any]) -> list[str]:
    node = (device.get("node") or "").removeprefix("/dev/")
    place = " ".join(device.get("nodes", ())) or device.get("entry") or node
    first = (device["id"], device["resource"], device["type"], device.get("driver"), place)
    cells = [*first, device["numaNode"], device.get("freeQueues"), device["health"]]
    return [*(_NOTHING if cell in (None, "") else str(cell) for cell in cells), " ".join(device["reasons"])]
