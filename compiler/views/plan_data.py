"""The plan for programs: as JSON that is written node by node, as a fleet may have a million."""

import dataclasses
import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from json.encoder import encode_basestring as quoted
from typing import Any

from compiler import diagnostic_formats
from compiler.planning import image_matrix, plan
from compiler.views import gaps

_CHUNK = 5_000
"""The nodes that are written at a time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Nodes:
    """The nodes of a plan as JSON: nodes with one decision differ in their names alone, so the rest is there once."""

    before: str
    """The text of the cluster before its nodes."""
    first: str
    """The beginning of a node, which its name follows."""
    names: tuple[str, ...]
    """In order."""
    decisions: tuple[int, ...]
    """The index of the decision for each node."""
    rests: tuple[str, ...]
    """The text after the name, by decision."""
    between: str
    after: str

    def pieces(self) -> Iterator[str]:
        """Yield the text of the cluster."""
        yield self.before
        rows = zip(self.names, self.decisions, strict=True)
        mark = ""
        while chunk := [f"{self.first}{quoted(name)}{self.rests[index]}" for name, index in islice(rows, _CHUNK)]:
            yield mark + self.between.join(chunk)
            mark = self.between
        yield self.after


def item(view: plan.Plan) -> Nodes:
    """Return a cluster as an item of a list in JSON."""
    text = diagnostic_formats.item(_cluster(view))
    before, mark, after = text.partition('\n      "nodes": []')
    has_nodes = any(decision.nodes for decision in view.decisions)
    names, decisions = _rows(view)
    rests = [json.dumps({"": "", **_node(decision)}, indent=2, ensure_ascii=False) for decision in view.decisions]
    return Nodes(
        before=before + (mark.removesuffix("]") if has_nodes else mark),
        first='\n        {\n          "name": ',
        names=names,
        decisions=decisions,
        rests=tuple(rest.removeprefix('{\n  "": ""').replace("\n", "\n        ") for rest in rests),
        between=",",
        after=("\n      ]" if has_nodes else "") + after,
    )


def lines(view: plan.Plan) -> Nodes:
    """Return the nodes, pools and images of a cluster, each as a line of JSON."""
    whole, cluster = _cluster(view), view.cluster.name
    more = [
        *(("pool", pool) for pool in whole["pools"]),
        *(("image", need) for need in whole["images"]),
    ]
    names, decisions = _rows(view)
    rests = [diagnostic_formats.line({"": "", **_node(decision)}) for decision in view.decisions]
    return Nodes(
        before="",
        first=f'{{"kind": "node", "cluster": {quoted(cluster)}, "name": ',
        names=names,
        decisions=decisions,
        rests=tuple(rest.removeprefix('{"": ""') for rest in rests),
        between="",
        after="".join(diagnostic_formats.line({"kind": kind, "cluster": cluster, **fields}) for kind, fields in more),
    )


def _rows(view: plan.Plan) -> tuple[tuple[str, ...], tuple[int, ...]]:
    rows = sorted((name, index) for index, decision in enumerate(view.decisions) for name in decision.names)
    return tuple(name for name, _ in rows), tuple(index for _, index in rows)


def data(view: plan.Plan) -> dict[str, Any]:
    """Return a cluster for programs, its nodes by name."""
    cluster: dict[str, Any] = json.loads("".join(item(view).pieces()))
    return cluster


def _cluster(view: plan.Plan) -> dict[str, Any]:
    """Return a cluster without its nodes."""
    counts = image_matrix.counted(view.decisions)
    return {
        "name": view.cluster.name,
        "nodes": [],
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


def _node(decision: plan.Decision) -> dict[str, Any]:
    return {
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
