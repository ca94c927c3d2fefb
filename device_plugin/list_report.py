"""The command `list`: the running plugin's report on its devices, for people on the node."""

import dataclasses
import json
from typing import Any

import msgspec

from device_plugin import report
from device_plugin.host import paths, reader
from device_plugin.kubelet import advertised, allocation
from runtime import device_plugin_config as config
from runtime import files, version

_NOTHING = "-"


async def current(where: paths.Paths, settings: config.Config, patience_s: float = reader.PATIENCE_S) -> report.Report:
    """Return what the running plugin told the kubelet; without one, what it would tell. Change nothing."""
    note = "No device plugin is at work on this node; this is what one would tell the kubelet."
    if files.is_locked(where.lock):
        try:
            return msgspec.json.decode(where.report.read_bytes(), type=report.Report)
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
    made = report.of(where, settings, scan, (devices, units, withheld), read.lacking_libraries)
    return dataclasses.replace(made, notes=(note, *made.notes))


def as_json(made: report.Report) -> str:
    """Return the report as JSON, for programs."""
    data = {
        "version": 1,
        "program": version.of_program(),
        "resources": [
            dict(zip(("name", "devices", "shares", "capacity", "allocatable"), values, strict=True))
            for values in made.offered
        ],
        "devices": [*map(_function, made.rows), *map(_unit, made.units)],
        "notes": list(made.notes),
    }
    return json.dumps(data, indent=2, ensure_ascii=False)


def as_table(made: report.Report) -> str:
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
    parts.append("\n".join((*made.notes, version.words("kae-device-plugin"))))
    return "\n\n".join(parts)


def _function(row: report.Row) -> dict[str, Any]:
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
        "health": report.health_of(unit),
        "reasons": list(unit.why),
    }


def _cells(device: dict[str, Any]) -> list[str]:
    node = (device.get("node") or "").removeprefix("/dev/")
    place = " ".join(device.get("nodes", ())) or device.get("entry") or node
    first = (device["id"], device["resource"], device["type"], device.get("driver"), place)
    cells = [*first, device["numaNode"], device.get("freeQueues"), device["health"]]
    return [*(_NOTHING if cell in (None, "") else str(cell) for cell in cells), " ".join(device["reasons"])]
