"""The report of `list`: the devices that the plugin would advertise, and why, for people on the node."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from device_plugin import config
from device_plugin.host import health, paths, sysfs
from runtime import readings, shapes

_NOTHING = "-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One function: advertised (healthy or not) or withheld, and why."""

    function: sysfs.Function
    health: str
    """Healthy, Unhealthy or Withheld."""
    why: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The functions of the node, the lists that the kubelet would get, and notes on the node."""

    rows: tuple[Row, ...]
    offered: tuple[tuple[str, int, int, int, int], ...]
    """Resource, devices, shares of each, capacity and allocatable."""
    notes: tuple[str, ...]


def report(where: paths.Paths, settings: config.Config) -> Report:
    """Scan the node; change nothing."""
    scan = sysfs.scan(where, settings.vendor, settings.kinds)
    changing, damped = where.changing.exists(), _damped(where)
    rows = tuple(_row(function, changing=changing, damped=function.address in damped) for function in scan.functions)
    return Report(
        rows=rows,
        offered=tuple(_offered(kind, settings, rows) for kind in settings.kinds),
        notes=tuple(_notes(where, settings, scan)),
    )


def as_json(made: Report) -> str:
    """Return the report as JSON, for programs."""
    data = {
        "version": 1,
        "resources": [
            dict(zip(("name", "devices", "shares", "capacity", "allocatable"), values, strict=True))
            for values in made.offered
        ],
        "devices": [_json_row(row) for row in made.rows],
        "notes": list(made.notes),
    }
    return json.dumps(data, indent=2, ensure_ascii=False)


def as_table(made: Report) -> str:
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
    if made.notes:
        parts.append("\n".join(made.notes))
    return "\n\n".join(parts)


def _damped(where: paths.Paths) -> frozenset[str]:
    """Return the addresses of the devices that the running plugin keeps unhealthy."""
    return frozenset((readings.text(where.damped) or "").split())


def _row(function: sysfs.Function, *, changing: bool, damped: bool) -> Row:
    why = health.withheld(function)
    if why is not None:
        return Row(function=function, health="Withheld", why=(why,))
    reasons = (*health.reasons(function, changing=changing), *((health.DAMPED,) if damped else ()))
    return Row(
        function=function,
        health="Unhealthy" if reasons else "Healthy",
        why=tuple(reason.text for reason in reasons),
    )


def _offered(kind: shapes.Kind, settings: config.Config, rows: Sequence[Row]) -> tuple[str, int, int, int, int]:
    share = settings.sharing.get(kind.name, 1)
    ours = [row for row in rows if row.function.kind == kind and row.health != "Withheld"]
    return kind.resource, len(ours), share, len(ours) * share, sum(row.health == "Healthy" for row in ours) * share


def _notes(where: paths.Paths, settings: config.Config, scan: sysfs.Scan) -> Iterator[str]:
    if not scan.functions:
        yield (
            f"No device of a served kind is on the PCI bus below '{where.sysfs}'."
            " Is the accelerator licensed and enabled in the BIOS, or passed to this guest?"
        )
    elif not scan.uacce:
        yield "/sys/class/uacce is not there: the module uacce is not loaded."
    if where.changing.exists():
        yield f"'{where.changing}' is there: the driver installer is changing the driver."
    entries = [function.entry for function in scan.functions if function.entry]
    if any(entry.api and entry.api.endswith("_noiommu") for entry in entries):
        yield "The SMMU is off: devices work without it, and need contiguous memory (CMA) for their buffers."
    for stranger in scan.strangers:
        yield (
            f"{stranger.address} ({settings.vendor}:{stranger.device}, {stranger.entry})"
            f" is of no kind that policy '{settings.policy}' serves."
        )
    for kind in settings.kinds:
        ours = [function for function in scan.functions if function.kind == kind and health.withheld(function) is None]
        reasons = [_without_node(function) for function in ours if function.numa_node not in scan.numa_nodes]
        if reasons:
            yield f"The kubelet is told no NUMA node for {kind.resource}, as {' and '.join(reasons)}."


def _without_node(function: sysfs.Function) -> str:
    if function.numa_node is None:
        return f"{function.address} has none"
    return f"{function.address} is on node {function.numa_node}, which is not below /sys/devices/system/node"


def _cells(row: Row) -> tuple[str, ...]:
    function, entry = row.function, row.function.entry
    return (
        function.address,
        function.kind.resource,
        "VF" if function.virtual else "PF",
        function.driver or _NOTHING,
        entry.name if entry else _NOTHING,
        _cell(function.numa_node),
        _cell(entry.free_queues if entry else None),
        row.health,
        " ".join(row.why),
    )


def _json_row(row: Row) -> dict[str, object]:
    function, entry = row.function, row.function.entry
    return {
        "id": function.address,
        "resource": function.kind.resource,
        "type": "VF" if function.virtual else "PF",
        "driver": function.driver,
        "entry": entry.name if entry else None,
        "node": f"/dev/{entry.node}" if entry else None,
        "containerNode": f"/dev/{paths.published_name(function.kind.module, function.address)}",
        "api": entry.api if entry else None,
        "algorithms": list(entry.algorithms) if entry else [],
        "numaNode": function.numa_node,
        "freeQueues": entry.free_queues if entry else None,
        "health": row.health,
        "reasons": list(row.why),
    }


def _cell(value: int | None) -> str:
    return _NOTHING if value is None else str(value)
