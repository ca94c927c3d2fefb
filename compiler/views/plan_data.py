"""The plan for programs: as JSON that is written node by node, as a fleet may have a million."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from json.encoder import encode_basestring as quoted
from typing import Any

import msgspec
from msgspec import structs

from compiler import diagnostic_formats
from compiler.fleet import definitions
from compiler.planning import image_matrix, loaded, plan, pools
from compiler.views import gaps

_CHUNK = 5_000
"""The nodes that are written at a time."""


class Nodes(msgspec.Struct, frozen=True, kw_only=True):
    """The nodes of a plan as JSON: nodes with one decision differ in their names alone, so the rest is there once."""

    first: str
    """The beginning of a node, which its name follows."""
    rests: tuple[str, ...]
    """The text after the name, by decision."""
    between: str
    rows: tuple[tuple[str, int], ...]
    """The name of each node and the index of its decision, by name."""

    def pieces(self) -> Iterator[str]:
        """Yield the text."""
        rows = iter(self.rows)
        mark = ""
        while chunk := [f"{self.first}{quoted(name)}{self.rests[index]}" for name, index in islice(rows, _CHUNK)]:
            yield mark + self.between.join(chunk)
            mark = self.between


Text = tuple[str | Nodes, ...]
"""JSON in its order."""

Privileges = Mapping[str, Sequence[str]]
"""The privileges of a recipe's programs, by the name of the recipe."""


def pieces(text: Iterable[str | Nodes]) -> Iterator[str]:
    """Yield a text piece by piece."""
    for part in text:
        yield from (part,) if isinstance(part, str) else part.pieces()


def item(view: plan.Plan, privileges: Privileges) -> Text:
    """Return a cluster as an item of a list in JSON; with the built-in recipe alone it has no stacks."""
    return tuple(_item(view, privileges))


def _item(view: plan.Plan, privileges: Privileges) -> Iterator[str | Nodes]:
    yield f'{{\n      "name": {quoted(view.cluster.name)}'
    first, *others = view.recipes
    yield from _of_recipe(first, "\n      ", {})
    for number, stack in enumerate(others):
        name = stack.recipe.name
        yield "," if number else ',\n      "stacks": ['
        yield f'\n        {{\n          "recipe": {quoted(name)}'
        yield from _of_recipe(stack, "\n          ", {"privileges": list(privileges.get(name, ()))})
        yield "\n        }"
    yield "\n      ]\n    }" if others else "\n    }"


def _of_recipe(view: plan.RecipePlan, line: str, more: Mapping[str, Any]) -> Iterator[str | Nodes]:
    """Yield the plan of a recipe as further members of an object, each on a line that begins with `line`."""
    yield f',{line}"nodes": ['
    if any(decision.nodes for decision in view.decisions):
        parts = tuple(loaded.apart(view.decisions))
        rests = [_members(_node(decision), f"{line}    ") + f"{line}  }}" for decision in parts]
        yield Nodes(first=f'{line}  {{{line}    "name": ', rests=tuple(rests), between=",", rows=_rows(parts))
        yield line
    yield f"]{_members({**_parts(view), **more}, line)}"


def _members(fields: Mapping[str, Any], line: str) -> str:
    """Return fields as further members of an object."""
    text = json.dumps(fields, indent=2, ensure_ascii=False)
    return "," + text[1:-2].replace("\n  ", line)


def lines(view: plan.Plan, privileges: Privileges) -> Text:
    """Return the nodes, pools, images and privileges of each recipe's plan of a cluster, each as a line of JSON."""
    return tuple(part for each in view.recipes for part in _lines(each, privileges.get(each.recipe.name, ())))


def _lines(view: plan.RecipePlan, privileges: Sequence[str]) -> Iterator[str | Nodes]:
    head = {"cluster": view.cluster.name, **({} if view.recipe.builtin else {"recipe": view.recipe.name})}
    first = json.dumps({"kind": "node", **head}, ensure_ascii=False).removesuffix("}")
    parts = tuple(loaded.apart(view.decisions))
    rests = tuple(f", {diagnostic_formats.line(_node(decision))[1:]}" for decision in parts)
    yield Nodes(first=f'{first}, "name": ', rests=rests, between="", rows=_rows(parts))
    whole = _parts(view)
    for kind, found in (
        ("pool", whole["pools"]),
        ("image", whole["images"]),
        ("privilege", [{"privilege": text} for text in privileges]),
    ):
        yield from (diagnostic_formats.line({"kind": kind, **head, **fields}) for fields in found)


def _rows(decisions: Iterable[plan.Decision]) -> tuple[tuple[str, int], ...]:
    return tuple(sorted((name, index) for index, decision in enumerate(decisions) for name in decision.names))


def data(view: plan.Plan, privileges: Privileges) -> dict[str, Any]:
    """Return a cluster for programs, its nodes by name."""
    cluster: dict[str, Any] = json.loads("".join(pieces(_item(view, privileges))))
    return cluster


def _parts(view: plan.RecipePlan) -> dict[str, Any]:
    """Return the plan of a recipe without its nodes."""
    counts = image_matrix.counted(view.decisions)
    return {
        "pools": [
            {
                "policy": division.policy.name,
                "pool": pool.name,
                **({"driver": pool.image} if view.recipe.builtin else {"images": _of_part(division, pool)}),
                "state": pool.driver.state,
                "nodes": counts[division.policy.name, pool.name].total(),
            }
            for division in view.divisions
            for pool in division.pools
        ]
        + [
            {
                "policy": division.policy.name,
                "pool": part.name,
                "images": _of_part(division, part),
                "nodes": sum(len(one.nodes) for one in view.decisions if one.division is division and one.part == part),
            }
            for division in view.divisions
            for part in (() if division.pools else division.parts)
            if not part.is_whole
        ],
        "images": [structs.asdict(need) for need in image_matrix.needs(view.divisions, view.decisions)],
    }


def _node(decision: plan.Decision) -> dict[str, Any]:
    components = {"driver": decision.driver.image, "devicePlugin": decision.device_plugin.image}
    return {
        "policy": decision.policy.name if decision.policy else None,
        "pool": decision.part.name if decision.part else None,
        **(components if decision.recipe.builtin else {"images": images(decision)}),
        **({"programs": dict(_programs(decision))} if decision.recipe.programs else {}),
        "loaded": of_loaded(loaded.of(decision)),
        "resources": dict(decision.resources),
        **of_interface(decision.interface),
        "reasons": reasons(decision),
    }


def _of_part(division: pools.Division, part: pools.Part) -> dict[str, str]:
    """Return the images of a pool by their names in the recipe, those of programs too."""
    made = (one for one in division.deployments if one.part and one.part.name == part.name)
    own = part.images if isinstance(part, pools.Pool) else ()
    return {**dict(own), **{name: image for one in made for name, image in one.images}}


def _programs(decision: plan.Decision) -> Iterator[tuple[str, str]]:
    """Yield the vendors' programs that the nodes get, each with the image of its first container."""
    yield from ((name, landing.image) for name, landing in decision.programs if landing.image is not None)


def of_loaded(known: loaded.Loaded | None) -> dict[str, Any] | None:
    """Return what is loaded beside what is wanted; None where no label of the nodes tells."""
    return None if known is None else {**known._asdict(), "differs": known.differs}


def of_interface(interface: definitions.Interface | None) -> dict[str, str]:
    """Return the field for an interface, which device plugins go without."""
    return {"interface": interface} if interface == "DRA" else {}


def images(decision: plan.Decision) -> dict[str, str]:
    """Return the images that the nodes of a decision get, by their names in its recipe."""
    found = dict(decision.pool.images) if decision.pool else {}
    plugin = decision.policy.offered if decision.policy else None
    if plugin is not None and decision.device_plugin.image:
        found[plugin.image] = decision.device_plugin.image
    for name, landing in decision.programs:
        made = decision.division.deployment(name, decision.node) if decision.division and landing.image else None
        found.update(made.images if made else ())
    return found


def reasons(decision: plan.Decision) -> list[str]:
    """Return the reason for the policy, and one for each component that the node does not get."""
    lacks = {
        "policy": "no policy, pool, driver and device plugin",
        "driver": "no driver, and so no pool",
        "device plugin": "no device plugin",
    }
    missing = [f"{lacks.get(gap.component, f'no {gap.component}')}: {gap.reason}" for gap in gaps.of(decision)]
    return [decision.why, *missing] if decision.policy else missing
