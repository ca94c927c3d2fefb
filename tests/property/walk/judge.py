"""What a compile takes away, by brute force: the manifests before and after, put onto every node of the inventory.

It shares no code with the compiler, and reads nothing of index.json.
"""

import functools
import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from tests.property import daemonset_controller as controller
from tests.property import matcher, nfd_rules
from tests.property.fleets import machines
from tests.property.walk import recipes

Raw = Mapping[str, Any]

LIMIT = 20
"""A component may leave this share of a policy's nodes, in percent, or one node."""

_COMPONENTS = {
    "driver": "removes-drivers",
    "device-plugin": "removes-device-plugins",
    **{f"{name}{number}": "removes-programs" for name in recipes.PROGRAMS for number in ("", "-2", "-2-2")},
}
PROGRAMS = frozenset(name for name, code in _COMPONENTS.items() if code == "removes-programs")
_DOMAIN = re.compile(r"openfuyao\.com/[a-z0-9-]+\.(?!deploy\.)")
"""The beginning of the labels that rules of KAE and of recipes give nodes."""
_OF_ONE_KERNEL = re.compile("--[0-9a-f]{8}$")
"""The end of the name of a DaemonSet for one kernel."""
_PROTECTED = ("Namespace", "CustomResourceDefinition", "ClusterRole", "Role", "RoleBinding", "ServiceAccount")


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """The objects of a cluster's output that decide over nodes."""

    rules: tuple[Raw, ...] = ()
    daemon_sets: Mapping[str, tuple[Raw, ...]] = field(default_factory=dict)
    """By component."""
    namespaces: frozenset[str] = frozenset()
    admission: frozenset[str] = frozenset()
    """The names of the policies by which the API server adds to pods."""
    protected: Mapping[str, bool] = field(default_factory=dict)
    """By kind and name, whether an engine leaves the object when the output loses it."""


class Owner(NamedTuple):
    """A policy with its recipe, or with `kae`."""

    recipe: str
    policy: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """The pod of a component on a node."""

    owner: Owner
    versions: tuple[str, ...]
    """The tags or the digests of the images that the driver is taken from."""
    absent: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """The documents and the output of a cluster."""

    output: Output
    nodes: tuple[Raw, ...]
    policies: Mapping[str, Raw]
    """The specs that hold in the cluster, by name; empty where they were not read."""


def outputs(folder: Path) -> dict[str, Output]:
    """Return the output of each cluster."""
    if not folder.is_dir():
        return {}
    return {path.name: _output(path) for path in sorted(folder.iterdir()) if (path / "index.json").exists()}


def _output(folder: Path) -> Output:
    found: dict[str, list[Raw]] = defaultdict(list)
    namespaces, protected = set(), {}
    for path in sorted(folder.glob("*/*.yaml")):
        if path.parent.name == "bootstrap":
            continue
        data = loaded(path.read_bytes())
        found[_component(data)].append(data)
        # A cluster may have nothing in its namespace any more, and has not moved.
        namespaces.add(data["metadata"].get("name" if data["kind"] == "Namespace" else "namespace"))
        if data["kind"] in _PROTECTED:
            annotations = json.dumps(data["metadata"].get("annotations", {}))
            name = f"{data['kind']} {data['metadata']['name']}"
            protected[name] = "Prune=false" in annotations or '"disabled"' in annotations
    return Output(
        rules=tuple(found["NodeFeatureRule"]),
        daemon_sets={name: tuple(found[name]) for name in _COMPONENTS},
        namespaces=frozenset(name for name in namespaces if name),
        admission=frozenset(item["metadata"]["name"] for item in found["MutatingAdmissionPolicy"]),
        protected=protected,
    )


def _component(data: Raw) -> str:
    """Return the component of a DaemonSet that has one of these, otherwise the kind of the object."""
    return next((one for one in _COMPONENTS if data["kind"] == "DaemonSet" and _recipe(data, one)), data["kind"])


def _recipe(item: Raw, component: str) -> str:
    """Return the recipe whose component a DaemonSet is; "" where it is none of that component."""
    name: str = item["spec"]["template"]["metadata"]["labels"]["app.kubernetes.io/name"]
    return name.removesuffix(f"-{component}") if name.endswith(f"-{component}") else ""


@functools.lru_cache(maxsize=5000)
def loaded(content: bytes) -> Any:
    """Return the object of a file."""
    return yaml.load(content, yaml.CSafeLoader)


def placed(output: Output, nodes: Sequence[Raw], component: str) -> dict[str, Placed]:
    """Return the pod of a component on each node that has one."""
    found = {}
    for node in nodes:
        labelled = labelled_node(output.rules, node)
        for item in output.daemon_sets.get(component, ()):
            if controller.runs_on(item, labelled):
                found[node["metadata"]["name"]] = _placed(item, component)
    return found


def _placed(item: Raw, component: str) -> Placed:
    template = item["spec"]["template"]
    # A vendor's program has no config of ours.
    config = json.loads(template["metadata"].get("annotations", {}).get("device.openfuyao.com/config", "{}"))
    # The files of a recipe's driver are those of other images than the program's.
    copies = [one for one in template["spec"].get("initContainers", ()) if one["name"].startswith("payload-")]
    containers = copies or template["spec"]["containers"][:1]
    return Placed(
        owner=Owner(_recipe(item, component), template["metadata"]["labels"]["device.openfuyao.com/policy"]),
        versions=tuple(one["image"].rpartition(":")[2] for one in containers),
        absent=config.get("state") == "Absent",
    )


def labelled_node(rules: Sequence[Raw], node: Raw) -> Raw:
    """Return a node with the labels that the rules of an output give it."""
    own = node["metadata"].get("labels", {})
    devices = _devices(own)
    kept = {key: value for key, value in own.items() if not _DOMAIN.match(key)}
    kernel = matcher.clean(node["status"]["nodeInfo"]["kernelVersion"])
    name = node["metadata"]["name"]
    features = nfd_rules.Features(
        attributes={"kernel.version": {"full": kernel}, "system.name": {"nodename": name}},
        instances={"pci.device": devices},
    )
    labels = kept | nfd_rules.labels(rules, features)
    return {**node, "metadata": {**node["metadata"], "labels": labels}}


def _devices(labels: Mapping[str, str]) -> tuple[Mapping[str, str], ...]:
    """Return the devices that the labels of an inventory tell of."""
    counts = {_DOMAIN.sub("", key): count for key, count in labels.items() if _DOMAIN.match(key)}
    return tuple(
        {"vendor": "19e5", "device": device}
        for kind, ids in machines.IDS.items()
        for function, device in zip(("pf", "vf"), ids, strict=True)
        for _ in range(int(counts.get(f"{kind}.{function}", "0")))
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What a compile has to say of a cluster."""

    removals: frozenset[str]
    """The scopes that must be refused."""
    allowed: frozenset[str] = frozenset()
    """Scopes that may be refused too: frozen nodes of a policy whose driver is known to go."""
    left_out: frozenset[str]
    """The policies of smaller losses, of which it has to warn."""


def judged(cluster: str, before: State, after: State) -> Verdict:
    """Return what a compile has to say of a cluster."""
    removals, allowed = set(_rest(cluster, before, after)), set[str]()
    shifted = _shifted(before.output, after.output)
    # What an inventory tells is what the earlier match took; what another one takes of its nodes is asked apart.
    matched = _with_hardware(after.output, before.output, shifted)
    unlabelled = _labelling(before.output) - _labelling(after.output)
    left_out = set()
    for component, code in _COMPONENTS.items():
        was, now, seen = (placed(output, after.nodes, component) for output in (before.output, matched, after.output))
        kept = {_placed(item, component).owner for item in after.output.daemon_sets.get(component, ())}
        for owner in _present(before.output, component):
            served = [name for name, pod in was.items() if pod.owner == owner and not pod.absent]
            if owner.recipe in shifted:
                mine = [name for name, pod in now.items() if pod.owner == owner]
                scopes = removals if any(name not in seen for name in mine) else allowed
                scopes.add(f"match-narrowed:{cluster}/{owner.policy}")
            lost = [name for name in served if _is_lost(owner, now.get(name))]
            last = (owner not in kept or owner.recipe in unlabelled) and (lost or not served)
            kernels, left = (_of_kernels(state.output, component, owner) for state in (before, after))
            unknown = before.nodes and not after.nodes and kernels - left
            if last or unknown or len(lost) > max(1, len(served) * LIMIT / 100):
                removals.add(f"{code}:{cluster}/{owner.policy}")
            elif lost or any(now[name].absent for name in served):
                left_out.add(owner.policy)
    thawed = set(_thaws(cluster, before, after))
    known = {scope for scope in thawed if scope.replace("thaws-nodes", "removes-drivers") in removals}
    return Verdict(
        removals=frozenset(removals | thawed - known), allowed=frozenset(known | allowed), left_out=frozenset(left_out)
    )


def _shifted(before: Output, after: Output) -> set[str]:
    """Return the recipes whose rules for hardware differ."""
    was, now = ({item["metadata"]["name"]: item["spec"] for item in output.rules} for output in (before, after))
    return {name for name in was.keys() & now.keys() if "-pool-" not in name and was[name] != now[name]}


def _with_hardware(after: Output, before: Output, recipes: set[str]) -> Output:
    """Return an output whose rules for the hardware of some recipes are those of another one."""
    kept = [item for item in before.rules if item["metadata"]["name"] in recipes]
    others = [item for item in after.rules if item["metadata"]["name"] not in recipes]
    own = [_for_any(item) if item["metadata"]["name"].partition("-pool-")[0] in recipes else item for item in others]
    return replace(after, rules=(*kept, *own))


def _for_any(pools: Raw) -> Raw:
    """Return the rules of pools for any hardware: DaemonSets ask for it themselves."""
    rules = [
        {
            **{key: value for key, value in rule.items() if key != "matchAny"},
            "matchFeatures": [one for one in rule.get("matchFeatures", ()) if one["feature"] != "pci.device"],
        }
        for rule in pools["spec"]["rules"]
    ]
    return {**pools, "spec": {"rules": rules}}


def _is_lost(owner: Owner, now: Placed | None) -> bool:
    """Return whether a node of a policy has lost its component: another recipe's is another one."""
    if now is None or now.owner.recipe != owner.recipe:
        return True
    # Absent in the node's own policy is what a person wrote; in the one that it falls to, it is an accident.
    return now.absent and now.owner != owner


def _of_kernels(output: Output, component: str, owner: Owner) -> set[str]:
    """Return the DaemonSets of a policy for single kernels: they go with an inventory, and their nodes may be there."""
    items = output.daemon_sets.get(component, ())
    own = (item["metadata"]["name"] for item in items if _placed(item, component).owner == owner)
    return {name for name in own if _OF_ONE_KERNEL.search(name)}


def _labelling(output: Output) -> set[str]:
    """Return the names of the rules; those that label nodes with the devices of a recipe have its name."""
    return {item["metadata"]["name"] for item in output.rules}


def _present(output: Output, component: str) -> set[Owner]:
    items = (_placed(item, component) for item in output.daemon_sets.get(component, ()))
    return {pod.owner for pod in items if not pod.absent}


def _rest(cluster: str, before: State, after: State) -> Iterator[str]:
    if before.output.namespaces - after.output.namespaces:
        yield f"moves-namespace:{cluster}"
    kept = after.output.protected
    if any(was and not kept.get(name, True) for name, was in before.output.protected.items()):
        yield f"drops-protection:{cluster}"
    if before.nodes and not after.nodes:
        yield f"inventory-empty:{cluster}"


def _thaws(cluster: str, before: State, after: State) -> Iterator[str]:
    """Yield the policies whose frozen nodes lose their version, although nobody has edited their entry."""
    pods = {part: [placed(state.output, after.nodes, part) for state in (before, after)] for part in _COMPONENTS}
    known = {node["metadata"]["name"] for node in after.nodes}
    for policy, spec in before.policies.items():
        for group in _frozen(spec):
            if policy in after.policies and group not in _frozen(after.policies[policy]):
                continue
            listed = _listed(after.output, policy, group["name"])
            for name in _listed(before.output, policy, group["name"]):
                was, now = pods["driver"]
                is_lost = _is_thawed(was.get(name), now.get(name)) if name in known else name not in listed
                # What no entry says of a program is not frozen: it changes with its policy, and only a node that
                # leaves the group may lose what the entry says.
                lost = (
                    name in now and name in was and _is_thawed(was[name], now[name])
                    for part, (was, now) in pods.items()
                    if part in PROGRAMS and name not in listed
                )
                if is_lost or any(lost):
                    yield f"thaws-nodes:{cluster}/{policy}"


def _is_thawed(was: Placed | None, now: Placed | None) -> bool:
    """Return whether a node has a driver, and loses it or its version: a mirror or another registry moves no node."""
    if was is None or was.absent:
        return False
    return now is None or now.absent or (was.owner.recipe, was.versions) != (now.owner.recipe, now.versions)


def _frozen(spec: Raw) -> Sequence[Raw]:
    paced = spec if "recipe" in spec else spec.get("driver", {})
    frozen: Sequence[Raw] = (paced.get("rollout") or {}).get("frozen", ())
    return frozen


def _listed(output: Output, policy: str, group: str) -> set[str]:
    """Return the names that the rule of a group lists."""
    return {
        name
        for item in output.rules
        for rule in item["spec"]["rules"]
        if any(key.endswith(f".{policy}.group") and value == group for key, value in rule.get("vars", {}).items())
        for feature in rule.get("matchFeatures", ())
        if feature["feature"] == "system.name"
        for name in feature["matchExpressions"]["nodename"]["value"]
    }


def removed(cluster: str, before: State) -> Verdict:
    """Return what a compile has to say of a cluster that no document names any more."""
    scopes = {
        f"{code}:{cluster}/{owner.policy}"
        for part, code in _COMPONENTS.items()
        for owner in _present(before.output, part)
    }
    return Verdict(removals=frozenset(scopes), left_out=frozenset())
