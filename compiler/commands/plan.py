"""`kae plan`: the components of each node, and the reasons."""

import argparse
import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

from compiler import errors, wording
from compiler.cli import findings
from compiler.fleet import definitions, label_selector
from compiler.planning import image_matrix, plan
from compiler.project import load, project_file
from compiler.views import gaps, plan_text, selection


def run(arguments: argparse.Namespace) -> int:
    """Print the plan of the selected clusters, or of the selected nodes."""
    fleet, views, found = load.planned(project_file.of(arguments), arguments.cluster)
    if findings.concluded(arguments, found):
        findings.show(arguments, found, clusters=[])
        return findings.exit_code(arguments, found)
    views = _selected(arguments, fleet, views)
    for_programs = arguments.shape != "text"
    body = "" if for_programs else "".join(f"{line}\n" for line in _lines(arguments, views)).rstrip("\n") + "\n"
    findings.show(arguments, found, body, clusters=[data(view) for view in views] if for_programs else [])
    return findings.exit_code(arguments, found)


def _selected(
    arguments: argparse.Namespace, fleet: definitions.Fleet, views: Sequence[plan.Plan]
) -> Sequence[plan.Plan]:
    """Return the plans of the selected nodes, without clusters that have none of them unless all do."""
    _require_policies(arguments.policy, views)
    chosen = selection.Selection(
        policies=frozenset(arguments.policy),
        nodes=frozenset(
            (cluster.name, name)
            for node in arguments.node
            for cluster, name in load.nodes_named(fleet, node, arguments.cluster)
        ),
        term=label_selector.parse(arguments.selector),
        has_problem=arguments.problems,
    )
    restricted = [selection.restricted(view, chosen) for view in views]
    return [view for view in restricted if view.decisions] or restricted if chosen else views


def _require_policies(wanted: Sequence[str], views: Sequence[plan.Plan]) -> None:
    """Raise WorldError for a wanted policy that holds in none of the clusters."""
    known = sorted({division.policy.name for view in views for division in view.divisions})
    for name in wanted:
        if name not in known:
            known_names = f"Policies are {wording.listed(known)}." if known else "No policy holds there."
            raise errors.WorldError(
                f"there is no policy '{name}'.", hint=f"{wording.did_you_mean(name, known)} {known_names}".lstrip()
            )


def _lines(arguments: argparse.Namespace, views: Sequence[plan.Plan]) -> Iterator[str]:
    options = (
        *(f"--policy {name}" for name in arguments.policy),
        *(f"--node {name}" for name in arguments.node),
        *([f"-l {arguments.selector}"] if arguments.selector else ()),
        *(["--problems"] if arguments.problems else ()),
    )
    yield from plan_text.summary(views, " ".join(options))
    for view in views:
        yield from plan_text.without(view, is_problem=True) if arguments.problems else plan_text.details(view)


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
    lacks = {
        "policy": "no policy, pool, driver and device plugin",
        "driver": "no driver, and so no pool",
        "device plugin": "no device plugin",
    }
    return [f"{lacks[gap.component]}: {gap.reason}" for gap in gaps.of(decision)]
