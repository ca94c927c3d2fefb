"""Fleets and policies of a seed: nodes as a cluster may have them, and documents that a person may write for them."""

import random
from collections.abc import Iterator
from typing import Any

from compiler import API_VERSION, devices
from tests.cluster import nfd

MARK = "example.com/fleet"
"""The label of every node of a fleet; no policy asks for it."""

PREFIX = "plan-"
"""With which the names of all nodes of a fleet begin."""

_POOLS = ("a", "b", "c")
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_VALUES = {"zone": ("r1", "r2", "r3"), "gen": ("1", "5", "05", "x", "")}
_OTHERS = (("19e5", "a22e"), ("8086", "1572"))
"""PCI functions that are none of ours."""

_CORDONED = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}


def nodes(chance: random.Random, count: int) -> Iterator[tuple[dict[str, Any], nfd.Functions]]:
    """Nodes without the labels that NFD gives them, and the PCI functions that it would see there."""
    for number in range(count):
        name = f"{PREFIX}{number:03}"
        labels = {MARK: "test", **_own(chance)}
        if chance.random() < 0.9:
            labels["kubernetes.io/hostname"] = name
        yield {"metadata": {"name": name, "labels": labels}, "spec": _taints(chance)}, _functions(chance)


def policies(chance: random.Random) -> dict[str, dict[str, Any]]:
    """KAEPolicies by name; they may contradict one another, and then the compiler says so."""
    if chance.random() < 0.2:
        found = {"all": _policy(chance, [_requirement(chance) for _ in range(chance.randint(0, 2))])}
    else:
        found = {}
        for pool in chance.sample(_POOLS, chance.randint(1, 3)):
            more = [_requirement(chance)] if chance.random() < 0.4 else []
            found[f"pool-{pool}"] = _policy(chance, [{"key": "pool", "operator": "In", "values": [pool]}, *more])
    if chance.random() < 0.5:
        found["rest"] = {**_policy(chance, []), "default": True}
        del found["rest"]["nodeSelector"]
    return {name: _document("KAEPolicy", name, spec) for name, spec in found.items()}


def cluster(name: str) -> dict[str, Any]:
    """The KAECluster: NFD is there, and obeys our rules."""
    return _document("KAECluster", name, {"nfd": {"enabled": False, "nodefeaturerules": True}})


def _own(chance: random.Random) -> dict[str, str]:
    """What people write on nodes."""
    found = {"pool": chance.choice((*_POOLS, "a", "d"))} if chance.random() < 0.9 else {}
    found |= {key: chance.choice(values) for key, values in _VALUES.items() if chance.random() < 0.7}
    for key in (devices.OPT_OUT_DRIVER, devices.OPT_OUT_DEVICE_PLUGIN):
        if chance.random() < 0.08:
            found[key] = chance.choice(("false", "false", "true"))
    return found


def _functions(chance: random.Random) -> nfd.Functions:
    """Some of ours on most machines, virtual ones on a few, and others."""
    found = [{"vendor": vendor, "device": device} for vendor, device in _OTHERS if chance.random() < 0.5]
    for kind in devices.KINDS:
        if chance.random() < 0.6:
            found += [{"vendor": devices.VENDOR, "device": kind.pf}] * chance.choice((1, 2, 4))
        if chance.random() < 0.2:
            found += [{"vendor": devices.VENDOR, "device": kind.vf}] * chance.randint(1, 8)
    return found


def _taints(chance: random.Random) -> dict[str, Any]:
    found = [
        {"key": key, "value": chance.choice(("", "x")), "effect": chance.choice(_EFFECTS)}
        for key in ("dedicated", "gpu")
        if chance.random() < 0.15
    ]
    if chance.random() < 0.05:
        return {"unschedulable": True, "taints": [*found, _CORDONED]}
    return {"taints": found}


def _requirement(chance: random.Random) -> dict[str, Any]:
    key = chance.choice(("zone", "gen", "kubernetes.io/hostname"))
    values = _VALUES.get(key)
    operator = chance.choice(("In", "NotIn", "Exists", "DoesNotExist") if values else ("Exists",))
    if key == "gen" and chance.random() < 0.5:
        return {"key": key, "operator": chance.choice(("Gt", "Lt")), "values": [chance.choice(("0", "1", "4"))]}
    if values and operator.endswith("In"):
        return {"key": key, "operator": operator, "values": sorted(chance.sample(values, chance.randint(1, 2)))}
    return {"key": key, "operator": operator}


def _toleration(chance: random.Random) -> dict[str, Any]:
    if chance.random() < 0.2:
        return {"operator": "Exists"}
    effect = chance.choice((*_EFFECTS, None))
    by_value = {"value": chance.choice(("", "x"))} if chance.random() < 0.5 else {"operator": "Exists"}
    return {"key": chance.choice(("dedicated", "gpu")), **by_value, **({"effect": effect} if effect else {})}


def _policy(chance: random.Random, requirements: list[dict[str, Any]]) -> dict[str, Any]:
    served = chance.choice(((True, False, False), (True, True, False), (False, True, True), (False, False, True)))
    return {
        "nodeSelector": {"matchExpressions": requirements},
        "operator": dict(zip((kind.switch for kind in devices.KINDS), served, strict=True)),
        "daemonSets": {"tolerations": [_toleration(chance) for _ in range(chance.randint(0, 2))]},
        "driver": {
            "enabled": chance.random() < 0.85,
            "version": chance.choice(("2.2.0", "2.3.0")),
            "state": chance.choice(("Present", "Present", "Present", "Absent")),
        },
        "devicePlugin": {"enabled": chance.random() < 0.85, "version": chance.choice(("1.4.1", "1.5.0"))},
    }


def _document(kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": {"name": name}, "spec": spec}
