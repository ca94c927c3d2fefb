"""Fleets and policies of a seed: machines as a cluster may have them, and documents that people may write for them."""

import random
from collections.abc import Sequence
from typing import Any

from tests.cluster.control import manifests
from tests.cluster.simulated import stages
from tests.property.fleets import documents, machines

_POOLS = machines.POOLS[:4]
"""Values of the label `pool` by which policies select, and one by which none does."""

_KERNELS = 5


def hosts(draw: random.Random, count: int) -> tuple[machines.Machine, ...]:
    kernels = draw.sample(machines.KERNELS, _KERNELS)
    return tuple(machines.machine(draw, f"plan-{number:03}", kernels, _POOLS) for number in range(count))


def policies(draw: random.Random, members: Sequence[machines.Machine]) -> list[dict[str, Any]]:
    """Return KAEPolicies for these machines; where they contradict each other, the compiler refuses them."""
    scene = documents.Scene(
        cluster=stages.CLUSTER,
        names=tuple(member.name for member in members),
        kernels=tuple(sorted({member.kernel for member in members})),
    )
    specs = {}
    if draw.random() < 0.2:
        specs["all"] = _policy(draw, scene, [_requirement(draw) for _ in range(draw.randint(0, 2))])
    else:
        for pool in draw.sample(_POOLS[:3], draw.randint(1, 3)):
            more = [_requirement(draw)] if draw.random() < 0.4 else []
            specs[f"pool-{pool}"] = _policy(draw, scene, [{"key": "pool", "operator": "In", "values": [pool]}, *more])
    if draw.random() < 0.5:
        specs["others"] = {**_policy(draw, scene, []), "default": True}
        del specs["others"]["nodeSelector"]
    return [manifests.document("KAEPolicy", name, spec) for name, spec in specs.items()]


def _policy(draw: random.Random, scene: documents.Scene, requirements: list[dict[str, Any]]) -> dict[str, Any]:
    spec = documents.spec(draw, scene)
    rollout = spec["driver"].get("rollout", {})
    for group in (*rollout.get("frozen", ()), *rollout.get("waves", ())):
        if "inventorySelector" in group:
            group["inventorySelector"] = {"matchExpressions": [_requirement(draw)]}
    return {**spec, "nodeSelector": {"matchExpressions": requirements}}


def _requirement(draw: random.Random) -> dict[str, Any]:
    key = draw.choice(("zone", "gen", machines.HOSTNAME))
    values = machines.VALUES.get(key)
    operator = draw.choice(("In", "NotIn", "Exists", "DoesNotExist") if values else ("Exists",))
    if key == "gen" and draw.random() < 0.5:
        return {"key": key, "operator": draw.choice(("Gt", "Lt")), "values": [draw.choice(("0", "1", "4"))]}
    if values and operator.endswith("In"):
        return {"key": key, "operator": operator, "values": sorted(draw.sample(values, draw.randint(1, 2)))}
    return {"key": key, "operator": operator}
