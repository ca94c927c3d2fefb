"""What a compile takes away, by brute force: the manifests before and after, put onto every node of the inventory.

It shares no code with the compiler, and reads nothing of index.json.
"""

import functools
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.property import daemonset_controller as controller
from tests.property import matcher, nfd_rules
from tests.property.fleets import machines

Raw = Mapping[str, Any]

LIMIT = 20
"""A component may leave this share of a policy's nodes, in percent, or one node."""

_COMPONENTS = {"driver": "removes-drivers", "device-plugin": "removes-device-plugins"}
_PROTECTED = ("Namespace", "CustomResourceDefinition", "ClusterRole", "Role", "RoleBinding", "ServiceAccount")


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """The objects of a cluster's output that decide over nodes."""

    rules: tuple[Raw, ...] = ()
    daemon_sets: Mapping[str, tuple[Raw, ...]] = field(default_factory=dict)
    """By component."""
    namespaces: frozenset[str] = frozenset()
    protected: Mapping[str, bool] = field(default_factory=dict)
    """By kind and name, whether an engine leaves the object when the output loses it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """The pod of a component on a node."""

    policy: str
    image: str
    absent: bool

    @property
    def version(self) -> str:
        """The tag or the digest of the image."""
        return self.image.rpartition(":")[2]


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
        found[path.parent.name if data["kind"] in ("DaemonSet", "NodeFeatureRule") else ""].append(data)
        namespaces.add(data["metadata"].get("namespace"))
        if data["kind"] in _PROTECTED:
            annotations = json.dumps(data["metadata"].get("annotations", {}))
            name = f"{data['kind']} {data['metadata']['name']}"
            protected[name] = "Prune=false" in annotations or '"disabled"' in annotations
    return Output(
        rules=tuple(found["node-feature-rule"]),
        daemon_sets={name: tuple(found[name]) for name in _COMPONENTS},
        namespaces=frozenset(name for name in namespaces if name),
        protected=protected,
    )


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
                found[node["metadata"]["name"]] = _placed(item)
    return found


def _placed(item: Raw) -> Placed:
    template = item["spec"]["template"]
    config = json.loads(template["metadata"]["annotations"]["device.openfuyao.com/config"])
    image = template["spec"]["containers"][0]["image"]
    return Placed(policy=config["policy"], image=image, absent=config.get("state") == "Absent")


def labelled_node(rules: Sequence[Raw], node: Raw) -> Raw:
    """Return a node with the labels that the rules of an output give it."""
    own = node["metadata"].get("labels", {})
    devices = _devices(own)
    kept = {key: value for key, value in own.items() if not key.startswith(f"{machines.KAE}.") or ".deploy." in key}
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
    return tuple(
        {"vendor": "19e5", "device": device}
        for kind, ids in machines.IDS.items()
        for function, device in zip(("pf", "vf"), ids, strict=True)
        for _ in range(int(labels.get(f"{machines.KAE}.{kind}.{function}", "0")))
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
    removals = set(_rest(cluster, before, after))
    unlabelled = _labels_devices(before.output) and not _labels_devices(after.output)
    left_out = set()
    for component, code in _COMPONENTS.items():
        was, now = (placed(state.output, after.nodes, component) for state in (before, after))
        kept = {_placed(item).policy for item in after.output.daemon_sets.get(component, ())}
        for policy in _present(before.output, component):
            served = [name for name, pod in was.items() if pod.policy == policy and not pod.absent]
            # Absent in the node's own policy is what a person wrote; in the one that it falls to, it is an accident.
            lost = [n for n in served if n not in now or (now[n].absent and now[n].policy != policy)]
            last = (policy not in kept or unlabelled) and (lost or not served)
            if last or len(lost) > max(1, len(served) * LIMIT / 100):
                removals.add(f"{code}:{cluster}/{policy}")
            elif lost or any(now[name].absent for name in served):
                left_out.add(policy)
    thawed = set(_thaws(cluster, before, after))
    known = {scope for scope in thawed if scope.replace("thaws-nodes", "removes-drivers") in removals}
    return Verdict(
        removals=frozenset(removals | thawed - known), allowed=frozenset(known), left_out=frozenset(left_out)
    )


def _labels_devices(output: Output) -> bool:
    """Return whether the rules that label nodes with devices are in an output."""
    return any(item["metadata"]["name"] == "kae" for item in output.rules)


def _present(output: Output, component: str) -> set[str]:
    return {pod.policy for pod in map(_placed, output.daemon_sets.get(component, ())) if not pod.absent}


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
    was, now = (placed(state.output, after.nodes, "driver") for state in (before, after))
    known = {node["metadata"]["name"] for node in after.nodes}
    for policy, spec in before.policies.items():
        for group in _frozen(spec):
            if policy in after.policies and group not in _frozen(after.policies[policy]):
                continue
            listed = _listed(after.output, policy, group["name"])
            for name in _listed(before.output, policy, group["name"]):
                if name not in known:
                    is_lost = name not in listed
                else:
                    # A mirror or another registry moves no node.
                    has_driver = name in was and not was[name].absent
                    is_lost = has_driver and (
                        name not in now or now[name].absent or now[name].version != was[name].version
                    )
                if is_lost:
                    yield f"thaws-nodes:{cluster}/{policy}"


def _frozen(spec: Raw) -> Sequence[Raw]:
    frozen: Sequence[Raw] = (spec.get("driver", {}).get("rollout") or {}).get("frozen", ())
    return frozen


def _listed(output: Output, policy: str, group: str) -> set[str]:
    """Return the names that the rule of a group lists."""
    return {
        name
        for item in output.rules
        for rule in item["spec"]["rules"]
        if rule.get("vars", {}).get(f"kae.{policy}.group") == group
        for feature in rule.get("matchFeatures", ())
        if feature["feature"] == "system.name"
        for name in feature["matchExpressions"]["nodename"]["value"]
    }


def removed(cluster: str, before: State) -> Verdict:
    """Return what a compile has to say of a cluster that no document names any more."""
    scopes = {
        f"{code}:{cluster}/{name}" for part, code in _COMPONENTS.items() for name in _present(before.output, part)
    }
    return Verdict(removals=frozenset(scopes), left_out=frozenset())
