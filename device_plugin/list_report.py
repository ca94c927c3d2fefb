"""The command `list`: the running plugin's report on its devices, for people on the node."""

import dataclasses
import json

import msgspec

from device_plugin import config, report
from device_plugin.host import paths, reader
from device_plugin.kubelet import advertised
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
    units = [
        unit
        for resource in settings.resources
        for unit in advertised.units(resource, on_host[resource.name], (), changing=changing)
    ]
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
        "devices": [*map(_json_row, made.rows), *map(_json_unit, made.units)],
        "notes": list(made.notes),
    }
    return json.dumps(data, indent=2, ensure_ascii=False)


def as_table(made: report.Report) -> str:
    """Return the report as a table, for people."""
    # Only the table needs it.
    from tabulate import tabulate  # noqa: PLC0415 - see above

    parts = []
    if made.rows or made.units:
        header = ("DEVICE", "RESOURCE", "TYPE", "DRIVER", "ENTRY", "NUMA", "FREE QUEUES", "HEALTH", "WHY")
        parts.append(
            tabulate(
                [*map(_cells, made.rows), *map(_unit_cells, made.units)],
                headers=header,
                tablefmt="plain",
                disable_numparse=True,
            )
        )
    parts.append(
        tabulate(made.offered, headers=("RESOURCE", "DEVICES", "SHARES", "CAPACITY", "ALLOCATABLE"), tablefmt="plain")
    )
    parts.append("\n".join((*made.notes, version.words(config.Config))))
    return "\n\n".join(parts)


def _cells(row: report.Row) -> tuple[str, ...]:
    function, entry = row.function, row.function.entry
    return (
        function.address,
        function.kind.resource,
        "VF" if function.virtual else "PF",
        function.driver or _NOTHING,
        entry.name if entry else function.node or _NOTHING,
        _cell(function.numa_node),
        _cell(entry.free_queues if entry else None),
        row.health,
        " ".join(row.why),
    )


def _unit_cells(unit: report.UnitRow) -> tuple[str, ...]:
    return (
        _unit_name(unit),
        unit.resource,
        _unit_type(unit),
        _NOTHING,
        " ".join(unit.nodes or ()) or _NOTHING,
        _cell(unit.numa_node),
        _NOTHING,
        unit.health,
        " ".join(unit.why),
    )


def _unit_name(unit: report.UnitRow) -> str:
    return unit.ids[0] if len(unit.ids) == 1 else f"{unit.ids[0]}-{unit.ids[-1]}"


def _unit_type(unit: report.UnitRow) -> str:
    return "token" if unit.nodes is None else "char"


def _json_unit(unit: report.UnitRow) -> dict[str, object]:
    return {
        "id": _unit_name(unit),
        "resource": unit.resource,
        "type": _unit_type(unit),
        "nodes": list(unit.nodes or ()),
        "numaNode": unit.numa_node,
        "health": unit.health,
        "reasons": list(unit.why),
    }


def _json_row(row: report.Row) -> dict[str, object]:
    function, entry = row.function, row.function.entry
    return {
        "id": function.address,
        "resource": function.kind.resource,
        "type": "VF" if function.virtual else "PF",
        "driver": function.driver,
        "entry": entry.name if entry else None,
        "node": f"/dev/{function.node}" if function.node else None,
        "containerNode": row.container_node,
        "api": entry.api if entry else None,
        "algorithms": list(entry.algorithms) if entry else [],
        "numaNode": function.numa_node,
        "freeQueues": entry.free_queues if entry else None,
        "health": row.health,
        "reasons": list(row.why),
    }


def _cell(value: int | None) -> str:
    return _NOTHING if value is None else str(value)
