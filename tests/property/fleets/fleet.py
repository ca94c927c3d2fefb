"""A random fleet: the documents of a cluster, its machines, and what becomes of them after the compile."""

import dataclasses
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tests.property.fleets import documents, machines, stacks

_CLUSTERS = ("east", "stage-2", "edge.lab", "west-dc1-prod")
_NAMES = ("kp920-r{rack:02}-n{number:02}", "node-{number}", "kae{number:03}.rack{rack}.example.com")
_MIRRORS = (
    {"from": "cr.openfuyao.cn", "to": "mirror.example.com/fuyao"},
    {"from": "cr.openfuyao.cn/openfuyao", "to": "mirror.example.com/longer"},
    {"from": "registry.example.com/team", "to": "mirror.example.com/team"},
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """The input of a compile, and the nodes after it."""

    seed: int
    cluster: documents.Raw
    policies: tuple[documents.Raw, ...]
    nodes: tuple[documents.Raw, ...]
    """The inventory: Nodes as the API server prints them."""
    hosts: tuple[machines.Machine, ...]
    """Those nodes' machines, in the same order."""
    recipes: tuple[documents.Raw, ...] = ()
    """The recipes that there are policies of."""
    later: tuple[machines.Machine, ...]
    """After the compile: machines that joined, that NFD found, that run another kernel, that people labelled anew."""


def drawn(seed: int) -> Fleet:
    """Return the fleet of a seed: up to 30 policies that hold in the cluster, and up to 200 nodes."""
    draw = random.Random(seed)  # noqa: S311 - a test's choice
    cluster = _cluster(draw)
    kernels = draw.sample(machines.KERNELS, draw.randint(1, 5))
    count = min(30, int(draw.expovariate(1 / 7)) + (draw.random() < 0.95))
    pools = draw.sample(machines.POOLS, draw.randint(1, min(len(machines.POOLS), 2 * count + 2)))
    shape = draw.choice(_NAMES)
    names = [shape.format(rack=number // 20, number=number) for number in range(220)]
    present = names[: int(200 * draw.random() ** 1.7) if draw.random() < 0.96 else 200]
    own = tuple(machines.machine(draw, name, kernels, pools) for name in present)
    scene = documents.Scene(
        cluster=cluster["metadata"]["name"], names=(*present, *names[200:204]), kernels=tuple(kernels)
    )
    return Fleet(
        seed=seed,
        cluster=cluster,
        policies=tuple(_policies(draw, count, scene)),
        nodes=tuple(one.node({**one.device_labels, **_stale(draw, one)}) for one in own),
        hosts=own,
        later=tuple(_later(draw, own, [machines.machine(draw, name, kernels, pools) for name in names[200:210]])),
    )


def with_recipes(seed: int) -> Fleet:
    """Return the fleet of a seed, whose machines also have network cards, with policies of several recipes."""
    draw = random.Random(f"recipes {seed}")  # noqa: S311 - a test's choice
    fleet = drawn(seed)
    hosts, later = (
        tuple(dataclasses.replace(one, cards=stacks.cards(draw), labels=_with_opt_outs(draw, one)) for one in members)
        for members in (fleet.hosts, fleet.later)
    )
    scene = documents.Scene(
        cluster=fleet.cluster["metadata"]["name"],
        names=tuple(host.name for host in hosts) or ("nobody",),
        kernels=tuple(sorted({host.kernel for host in hosts})) or machines.KERNELS[:2],
    )
    policies = tuple(stacks.drawn(draw, scene))
    used = {policy["spec"]["recipe"] for policy in policies}
    return dataclasses.replace(
        fleet,
        policies=(*fleet.policies, *policies),
        recipes=tuple(recipe for recipe in stacks.RECIPES if recipe["metadata"]["name"] in used),
        nodes=tuple(
            _labelled(node, {**host.labels, **stacks.labels(host)})
            for node, host in zip(fleet.nodes, hosts, strict=True)
        ),
        hosts=hosts,
        later=later,
    )


def _labelled(node: documents.Raw, labels: Mapping[str, str]) -> documents.Raw:
    metadata = node["metadata"]
    return {**node, "metadata": {**metadata, "labels": {**metadata["labels"], **labels}}}


def _with_opt_outs(draw: random.Random, machine: machines.Machine) -> dict[str, str]:
    found = dict(machine.labels)
    for recipe in stacks.RECIPES:
        if draw.random() < 0.08:
            component = draw.choice(("driver", "device-plugin"))
            found[f"openfuyao.com/{recipe['metadata']['name']}.deploy.{component}"] = draw.choice(("false", "true"))
    return found


def _cluster(draw: random.Random) -> documents.Raw:
    spec: documents.Raw = {"nfd": {"enabled": False, "nodefeaturerules": True}}
    if draw.random() < 0.3:
        spec["nfd"] = {"enabled": True}
    if draw.random() < 0.3:
        spec["images"] = {"mirrors": draw.sample(_MIRRORS, draw.randint(1, 3))}
    return documents.document("KAECluster", draw.choice(_CLUSTERS), spec)


def _policies(draw: random.Random, count: int, scene: documents.Scene) -> list[documents.Raw]:
    terms = documents.leaves(draw, count)
    draw.shuffle(terms)
    found = []
    for number, term in enumerate(terms[:count]):
        spec = documents.spec(draw, scene)
        if term or draw.random() < 0.5:
            spec["nodeSelector"] = documents.selector(draw, term)
        found.append(documents.document("KAEPolicy", f"tls-{number:02}", spec))
    if draw.random() < 0.4:
        found.append(documents.document("KAEPolicy", "others", documents.spec(draw, scene) | {"default": True}))
    if draw.random() < 0.15:
        spec = documents.spec(draw, scene)
        spec["nodeSelector"] = documents.selector(draw, draw.choice(documents.leaves(draw, 4)))
        found.append(documents.document("KAEPolicy", "intruder", spec))
    if draw.random() < 0.3:
        spec = documents.spec(draw, scene) | {"clusters": [f"{scene.cluster}-not*", "elsewhere-*"]}
        found.append(documents.document("KAEPolicy", "tls-00" if draw.random() < 0.5 else "elsewhere", spec))
    draw.shuffle(found)
    return found


def _stale(draw: random.Random, machine: machines.Machine) -> dict[str, str]:
    """Return the label of a pool that an earlier compile's rules have left."""
    if not machine.device_labels or draw.random() < 0.7:
        return {}
    return {f"{machines.KAE}.pool.{draw.choice(('tls-00', 'others', 'forgotten'))}": draw.choice(("rest", "canary"))}


def _later(
    draw: random.Random, own: Sequence[machines.Machine], joining: Sequence[machines.Machine]
) -> list[machines.Machine]:
    found = list(joining)
    for one in own:
        if not one.reported:
            found.append(dataclasses.replace(one, reported=True))
        elif draw.random() < 0.05:
            found.append(dataclasses.replace(one, kernel=draw.choice(machines.KERNELS)))
        elif draw.random() < 0.05:
            found.append(dataclasses.replace(one, labels={**one.labels, "pool": draw.choice(machines.POOLS)}))
    return found
