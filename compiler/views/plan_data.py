"""The plan for programs: as JSON that is written node by node, as a fleet may have a million."""

import dataclasses
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from json.encoder import encode_basestring as quoted
from typing import Any

from compiler import diagnostic_formats
from compiler.planning import image_matrix, plan, pools
from compiler.views import gaps

_NODES = re.compile(r'\n( +)"nodes": \[\]')
"""The place of the nodes in the text of a plan; no string of JSON has a line break."""
_CHUNK = 5_000
"""The nodes that are written at a time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Nodes:
    """The nodes of a plan as JSON: nodes with one decision differ in their names alone, so the rest is there once."""

    before: str
    """The text before its nodes."""
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
        """Yield the text."""
        yield self.before
        rows = zip(self.names, self.decisions, strict=True)
        mark = ""
        while chunk := [f"{self.first}{quoted(name)}{self.rests[index]}" for name, index in islice(rows, _CHUNK)]:
            yield mark + self.between.join(chunk)
            mark = self.between
        yield self.after


Privileges = Mapping[str, Sequence[str]]
"""The privileges of a recipe's programs, by the name of the recipe."""


def item(view: plan.Plan, privileges: Privileges) -> tuple[Nodes, ...]:
    """Return a cluster as an item of a list in JSON: the nodes of each recipe's plan, with the text around them."""
    *parts, after = _NODES.split(diagnostic_formats.item(_cluster(view, privileges)))
    befores, indents = parts[::2], parts[1::2]
    ends = ["" for _ in befores[1:]] + [after]
    return tuple(map(_nodes, view.recipes, befores, indents, ends))


def _nodes(view: plan.RecipePlan, before: str, indent: str, after: str) -> Nodes:
    has_nodes = any(decision.nodes for decision in view.decisions)
    names, decisions = _rows(view)
    rests = [json.dumps({"": "", **_node(decision)}, indent=2, ensure_ascii=False) for decision in view.decisions]
    return Nodes(
        before=f'{before}\n{indent}"nodes": [{"" if has_nodes else "]"}',
        first=f'\n{indent}  {{\n{indent}    "name": ',
        names=names,
        decisions=decisions,
        rests=tuple(rest.removeprefix('{\n  "": ""').replace("\n", f"\n{indent}  ") for rest in rests),
        between=",",
        after=(f"\n{indent}]" if has_nodes else "") + after,
    )


def lines(view: plan.Plan, privileges: Privileges) -> tuple[Nodes, ...]:
    """Return the nodes, pools, images and privileges of each recipe's plan of a cluster, each as a line of JSON."""
    return tuple(_lines(each, privileges.get(each.recipe.name, ())) for each in view.recipes)


def _lines(view: plan.RecipePlan, privileges: Sequence[str]) -> Nodes:
    whole = _parts(view)
    head = {"cluster": view.cluster.name, **({} if view.recipe.builtin else {"recipe": view.recipe.name})}
    more = [
        *(("pool", pool) for pool in whole["pools"]),
        *(("image", need) for need in whole["images"]),
        *(("privilege", {"privilege": text}) for text in privileges),
    ]
    names, decisions = _rows(view)
    rests = [diagnostic_formats.line({"": "", **_node(decision)}) for decision in view.decisions]
    first = diagnostic_formats.line({"kind": "node", **head, "name": ""})
    return Nodes(
        before="",
        first=first.removesuffix('""}\n'),
        names=names,
        decisions=decisions,
        rests=tuple(rest.removeprefix('{"": ""') for rest in rests),
        between="",
        after="".join(diagnostic_formats.line({"kind": kind, **head, **fields}) for kind, fields in more),
    )


def _rows(view: plan.RecipePlan) -> tuple[tuple[str, ...], tuple[int, ...]]:
    rows = sorted((name, index) for index, decision in enumerate(view.decisions) for name in decision.names)
    return tuple(name for name, _ in rows), tuple(index for _, index in rows)


def data(view: plan.Plan, privileges: Privileges) -> dict[str, Any]:
    """Return a cluster for programs, its nodes by name."""
    cluster: dict[str, Any] = json.loads("".join(piece for nodes in item(view, privileges) for piece in nodes.pieces()))
    return cluster


def _cluster(view: plan.Plan, privileges: Privileges) -> dict[str, Any]:
    """Return a cluster without its nodes; with the built-in recipe alone it has no `stacks`."""
    others = [
        {
            "recipe": other.recipe.name,
            "nodes": [],
            **_parts(other),
            "privileges": list(privileges.get(other.recipe.name, ())),
        }
        for other in view.others
    ]
    return {"name": view.cluster.name, "nodes": [], **_parts(view.builtin), **({"stacks": others} if others else {})}


def _parts(view: plan.RecipePlan) -> dict[str, Any]:
    """Return the plan of a recipe without its nodes."""
    counts = image_matrix.counted(view.decisions)
    return {
        "pools": [
            {
                "policy": division.policy.name,
                "pool": pool.name,
                **_of_pool(view, pool),
                "state": pool.driver.state,
                "nodes": counts[division.policy.name, pool.name].total(),
            }
            for division in view.divisions
            for pool in division.pools
        ],
        "images": [dataclasses.asdict(need) for need in image_matrix.needs(view.divisions, view.decisions)],
    }


def _of_pool(view: plan.RecipePlan, pool: pools.Pool) -> dict[str, Any]:
    return {"driver": pool.image} if view.recipe.builtin else {"images": dict(pool.images)}


def _node(decision: plan.Decision) -> dict[str, Any]:
    return {
        "policy": decision.policy.name if decision.policy else None,
        "pool": decision.pool.name if decision.pool else None,
        **_components(decision),
        "resources": dict(decision.resources),
        "reasons": reasons(decision),
    }


def _components(decision: plan.Decision) -> dict[str, Any]:
    if decision.recipe.builtin:
        return {"driver": decision.driver.image, "devicePlugin": decision.device_plugin.image}
    return {"images": images(decision)}


def images(decision: plan.Decision) -> dict[str, str]:
    """Return the images that the nodes of a decision get, by their names in its recipe."""
    found = dict(decision.pool.images) if decision.pool else {}
    plugin = decision.policy.offered if decision.policy else None
    if plugin is not None and decision.device_plugin.image:
        found[plugin.image] = decision.device_plugin.image
    return found


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
