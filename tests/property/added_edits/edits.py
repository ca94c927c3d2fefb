"""Edits of a fleet in memory: what people change of a rollout, of drivers, of supply and of nodes."""

import copy
import random
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tests.property.fleets import machines
from tests.property.supply import trial as supply

Raw = dict[str, Any]
Edit = Callable[[random.Random, Raw], None]
"""Edits the documents and nodes of a fleet; raises IndexError where there is nothing to edit."""


def _driven(fleet: Raw) -> list[Raw]:
    """Return the policies with a driver."""
    return [policy for policy in fleet["policies"] if "driver" in policy["spec"]]


def _paced(policy: Raw) -> Raw:
    """Return the part of a policy that has its groups and its mappings."""
    spec: Raw = policy["spec"]
    return spec["driver"] if policy["kind"] == "KAEPolicy" else spec


def _groups(draw: random.Random, fleet: Raw, sort: str) -> list[Raw]:
    """Return the groups of a sort of a policy that has some."""
    found = [_paced(policy).get("rollout", {}).get(sort) for policy in _driven(fleet)]
    groups: list[Raw] = draw.choice([one for one in found if one])
    return groups


def _bump(draw: random.Random, fleet: Raw) -> None:
    policy = draw.choice(_driven(fleet))
    part = _paced(policy)
    layers = [part] * 3 + [one for name in ("waves", "frozen") for one in part.get("rollout", {}).get(name, ())]
    layer = draw.choice([*layers, *part.get("kernelMappings", ())])
    version = f"{draw.choice((1, 2, 3))}.{draw.randrange(9)}"
    if policy["kind"] == "KAEPolicy":
        layer.update(version=version)
        if layer.get("repository") == "":
            del layer["repository"], layer["image"]
    else:
        for image in layer.setdefault("images", {}).values():
            image["version"] = version


def _clear_waves(draw: random.Random, fleet: Raw) -> None:
    for wave in _groups(draw, fleet, "waves"):
        if draw.random() < 0.7:
            wave["nodes"] = []
            for field in ("percent", "inventorySelector"):
                wave.pop(field, None)


def _drop_group(draw: random.Random, fleet: Raw) -> None:
    groups = _groups(draw, fleet, draw.choice(("waves", "waves", "frozen")))
    if draw.random() < 0.4:
        groups.clear()
    else:
        groups.remove(draw.choice(groups))


def _rename_group(draw: random.Random, fleet: Raw) -> None:
    group = draw.choice(_groups(draw, fleet, draw.choice(("waves", "waves", "frozen"))))
    group["name"] = f"named-{draw.randrange(100)}"


def _move_node(draw: random.Random, fleet: Raw) -> None:
    """Put a node of the fleet into a wave, or exchange the nodes of one."""
    wave = draw.choice([one for one in _groups(draw, fleet, "waves") if "nodes" in one])
    name = draw.choice(fleet["nodes"])["metadata"]["name"]
    wave["nodes"] = [name] if draw.random() < 0.4 else sorted({*wave["nodes"], name})


def _rename_policy(draw: random.Random, fleet: Raw) -> None:
    draw.choice(fleet["policies"])["metadata"]["name"] = f"named-{draw.randrange(100)}"


def _fork_recipe(draw: random.Random, fleet: Raw) -> None:
    """Have the policies of a recipe take a copy of it."""
    recipe = draw.choice(fleet["recipes"])
    name = recipe["metadata"]["name"]
    recipe["metadata"]["name"] = f"{name}-{draw.randrange(100)}"
    for policy in fleet["policies"]:
        if policy["spec"].get("recipe") == name:
            policy["spec"]["recipe"] = recipe["metadata"]["name"]


def _parameters(draw: random.Random, fleet: Raw) -> None:
    policy = draw.choice([one for one in _driven(fleet) if one["kind"] == "KAEPolicy"])
    policy["spec"]["driver"]["moduleParameters"] = {"hisi_hpre": {"pf_q_num": draw.choice((128, 512))}}


def _switch_off(draw: random.Random, fleet: Raw) -> None:
    spec = draw.choice(_driven(fleet))["spec"]
    match draw.randrange(3):
        case 0:
            spec["driver"]["state"] = draw.choice(("Absent", "Present"))
        case 1:
            spec["driver"]["enabled"] = draw.choice((True, False))
        case _:
            spec.setdefault("devicePlugin", {})["enabled"] = draw.choice((True, False))


def _pace(draw: random.Random, fleet: Raw) -> None:
    _paced(draw.choice(_driven(fleet))).setdefault("rollout", {}).update(maxParallel=draw.choice((1, 4, 90)))


def _drop_policy(draw: random.Random, fleet: Raw) -> None:
    fleet["policies"].remove(draw.choice(fleet["policies"]))


def _join(draw: random.Random, fleet: Raw) -> None:
    """Add the twins of many nodes."""
    for node in draw.sample(fleet["nodes"], len(fleet["nodes"])):
        twin = copy.deepcopy(node)
        twin["metadata"]["name"] += "-twin"
        if machines.HOSTNAME in twin["metadata"]["labels"]:
            twin["metadata"]["labels"][machines.HOSTNAME] = twin["metadata"]["name"]
        fleet["nodes"].append(twin)


def _lose(draw: random.Random, fleet: Raw) -> None:
    for node in draw.sample(fleet["nodes"], draw.randrange(1, 5)) if len(fleet["nodes"]) > 5 else ():
        fleet["nodes"].remove(node)


def _boot(draw: random.Random, fleet: Raw) -> None:
    kernel = draw.choice(machines.KERNELS)
    for node in _some(draw, fleet["nodes"]):
        node["status"]["nodeInfo"]["kernelVersion"] = kernel


def _relabel(draw: random.Random, fleet: Raw) -> None:
    for node in _some(draw, fleet["nodes"]):
        node["metadata"]["labels"]["pool"] = draw.choice(machines.POOLS)


def _some(draw: random.Random, nodes: list[Raw]) -> Iterator[Raw]:
    share = draw.choice((0.1, 0.5))
    return (node for node in nodes if draw.random() < share)


EDITS: Mapping[str, Edit] = {
    "a version": _bump,
    "another version": _bump,
    "clear waves": _clear_waves,
    "drop a group": _drop_group,
    "rename a group": _rename_group,
    "move a node into a wave": _move_node,
    "rename a policy": _rename_policy,
    "fork a recipe": _fork_recipe,
    "module parameters": _parameters,
    "switch something off or on": _switch_off,
    "the pace": _pace,
    "drop a policy": _drop_policy,
    "nodes that join": _join,
    "nodes that leave": _lose,
    "nodes that boot": _boot,
    "nodes with other labels": _relabel,
    **supply.EDITS,
}
