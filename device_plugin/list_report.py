"""The command `list`: the running plugin's report on its devices, for people on the node."""

import dataclasses
import json

import msgspec

from device_plugin import config, report
from device_plugin.host import health, paths, reader
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
    split = advertised.split(scan.functions, lambda function: health.reasons(function, changing=changing))
    made = report.of(where, settings, scan, split, read.lacking_libraries)
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
        "devices": [_json_row(row) for row in made.rows],
        "notes": list(made.notes),
    }
    return json.dumps(data, indent=2, ensure_ascii=False)


def as_table(made: report.Report) -> str:
    """Return the report as a table, for people."""
    # Only the table needs it.
    from tabulate import tabulate  # noqa: PLC0415 - see above

    parts = []
    if made.rows:
        header = ("DEVICE", "RESOURCE", "TYPE", "DRIVER", "ENTRY", "NUMA", "FREE QUEUES", "HEALTH", "WHY")
        parts.append(
            tabulate([_cells(row) for row in made.rows], headers=header, tablefmt="plain", disable_numparse=True)
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
