"""`kae plan`: the components of each node, and the reasons."""

import argparse
import dataclasses
from collections.abc import Sequence
from typing import Any

from compiler import diagnostics, pipeline, wording
from compiler.commands import findings
from compiler.planning import image_matrix, plan, rollout_groups
from compiler.project import load


def run(arguments: argparse.Namespace) -> int:
    """Print the plan of the selected clusters."""
    fleet, notes = load.read(arguments.inventory)
    load.require_clusters(arguments.cluster, fleet.clusters)
    planned = [pipeline.plan_cluster(fleet, cluster) for cluster in fleet.selected(arguments.cluster)]
    views = [view for view, _ in planned]
    found = diagnostics.merged([*notes, *(finding for _, findings_ in planned for finding in findings_)])
    if findings.concluded(arguments, found):
        findings.show(arguments, found, clusters=[])
    else:
        for_programs = arguments.shape != "text"
        body = "" if for_programs else "\n".join(table(view) for view in views)
        findings.show(arguments, found, body, clusters=[data(view) for view in views] if for_programs else [])
    return findings.exit_code(arguments, found)


def table(view: plan.Plan) -> str:
    """Return a cluster's nodes as a table for people, with pools, images to build, and every reason below it."""
    rows: list[tuple[str, ...]] = []
    unmet: list[str] = []
    for decision, name in _nodes(view):
        offered = ", ".join(f"{resource.partition('/')[2]}={count}" for resource, count in decision.resources)
        rows.append(
            (
                name,
                decision.policy.name if decision.policy else "-",
                decision.pool.name if decision.pool else "-",
                _short(decision.driver.image),
                _short(decision.device_plugin.image),
                offered or "-",
            )
        )
        unmet.extend(f"  {name}: {reason}" for reason in missing(decision))
    head = ("NODE", "POLICY", "POOL", "DRIVER", "DEVICE PLUGIN", "RESOURCES")
    lines = [
        f"cluster {view.cluster.name}: {wording.counted(len(rows), 'node')}",
        *_drawn(head, rows),
    ]
    for title, found in (("pools:", _pools(view)), ("images to build:", _images(view)), ("why not:", unmet)):
        if found:
            lines += ["", title, *found]
    return "\n".join(lines) + "\n"


def _drawn(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    import tabulate  # noqa: PLC0415 - only people's tables need it

    drawn = tabulate.tabulate(rows, headers=head, tablefmt="plain", disable_numparse=True)
    return [line.rstrip() for line in drawn.splitlines()]


def _pools(view: plan.Plan) -> list[str]:
    """Return a table of pools and their nodes, with a line for policies whose new nodes wait for the next compile."""
    counts = image_matrix.counted(view.decisions)
    rows, notes = [], []
    for division in view.divisions:
        if division.label is None:
            continue
        name = division.policy.name
        for pool in division.pools:
            image = _short(pool.image)
            driver = image if pool.driver.state == "Present" else f"removed by {image}"
            rows.append((name, pool.name, str(counts[name, pool.name].total()), driver))
        if division.groups:
            notes.append(f"A node that joins '{name}' is in its group '{rollout_groups.REST}' until the next compile.")
    return [f"  {line}" for line in (*_drawn(("POLICY", "POOL", "NODES", "DRIVER"), rows), *notes)] if rows else notes


def _images(view: plan.Plan) -> list[str]:
    """Return the images that have to hold modules, kernel by kernel."""
    found = image_matrix.needs(view.divisions, view.decisions)
    rows = [(need.kernel, need.image, need.policy, str(need.nodes)) for need in found]
    return [f"  {line}" for line in _drawn(("KERNEL", "IMAGE", "POLICY", "NODES"), rows)] if rows else []


def _short(image: str | None) -> str:
    name, _, digest = (image or "-").rpartition("/")[2].partition("@sha256:")
    return f"{name}@{digest[:12]}" if digest else name


def data(view: plan.Plan) -> dict[str, Any]:
    """Return a cluster's nodes for programs."""
    counts = image_matrix.counted(view.decisions)
    return {
        "name": view.cluster.name,
        "nodes": [_node(decision, name) for decision, name in _nodes(view)],
        "pools": [
            {
                "policy": division.policy.name,
                "pool": pool.name,
                "driver": pool.image,
                "state": pool.driver.state,
                "nodes": counts[division.policy.name, pool.name].total(),
            }
            for division in view.divisions
            for pool in division.pools
        ],
        "images": [dataclasses.asdict(need) for need in image_matrix.needs(view.divisions, view.decisions)],
    }


def _nodes(view: plan.Plan) -> Sequence[tuple[plan.Decision, str]]:
    pairs = ((decision, name) for decision in view.decisions for name in decision.names)
    return sorted(pairs, key=lambda pair: pair[1])


def _node(decision: plan.Decision, name: str) -> dict[str, Any]:
    return {
        "name": name,
        "policy": decision.policy.name if decision.policy else None,
        "pool": decision.pool.name if decision.pool else None,
        "driver": decision.driver.image,
        "devicePlugin": decision.device_plugin.image,
        "resources": dict(decision.resources),
        "reasons": reasons(decision),
    }


def reasons(decision: plan.Decision) -> list[str]:
    """Return the reason for the policy, and one for each component that the node does not get."""
    return [*([decision.why] if decision.policy else []), *missing(decision)]


def missing(decision: plan.Decision) -> list[str]:
    """Return a reason for each component that the node does not get."""
    if decision.policy is None:
        return [f"no policy, pool, driver and device plugin: {decision.why}"]
    found = []
    if decision.driver.image is None:
        found.append(f"no driver, and so no pool: {decision.driver.reason}")
    if decision.device_plugin.image is None:
        found.append(f"no device plugin: {decision.device_plugin.reason}")
    return found
