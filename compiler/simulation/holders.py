"""The pods that hold devices, and their disruption budgets, from `kubectl get pods,pdb --all-namespaces -o json`."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

import msgspec

from compiler.fleet import selectors
from compiler.simulation.durations import DEFAULT_GRACE_S, LONGEST_S
from compiler.simulation.rollout import Budget

Object = Mapping[str, Any]


class Holder(msgspec.Struct, frozen=True, kw_only=True):
    """A pod of a node that asks for extended resources or by ResourceClaims."""

    name: str
    """With its namespace."""
    resources: frozenset[str]
    budgets: tuple[int, ...]
    """By their numbers in the snapshot."""
    grace_s: float
    claims: bool
    """True for a pod with a ResourceClaim, of which the snapshot does not tell whose device it is."""


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The pods and the budgets of a cluster."""

    budgets: tuple[Budget, ...]
    by_node: Mapping[str, tuple[Holder, ...]]

    @property
    def has_claims(self) -> bool:
        """True where a pod asks by a ResourceClaim."""
        return any(holder.claims for own in self.by_node.values() for holder in own)

    def holding(self, node: str, resources: Collection[str]) -> Iterator[Holder]:
        """Yield the pods of a node that ask for one of these resources, or for any by a ResourceClaim."""
        own = self.by_node.get(node, ())
        return (holder for holder in own if holder.claims or not holder.resources.isdisjoint(resources))


def read(data: Any) -> Snapshot:
    """Return a snapshot; ValueError for data of another shape."""
    try:
        items = [item for item in data["items"] if isinstance(item, Mapping)]
        pods = [item for item in items if item["kind"] == "Pod"]
        budgets = [item for item in items if item["kind"] == "PodDisruptionBudget"]
        return _snapshot(pods, budgets)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError("not the List of `kubectl get pods,pdb --all-namespaces -o json`") from error


def _snapshot(pods: Iterable[Object], budgets: Iterable[Object]) -> Snapshot:
    known: list[Budget] = []
    selecting: dict[str, list[tuple[int, selectors.Term]]] = {}
    for number, item in enumerate(budgets):
        namespace = item["metadata"]["namespace"]
        allowed = int((item.get("status") or {}).get("disruptionsAllowed", 0))
        known.append(Budget(name=f"{namespace}/{item['metadata']['name']}", allowed=max(0, allowed)))
        selector = item["spec"].get("selector")
        if selector is not None:  # None selects no pod, and {} each one of the namespace (policy/v1).
            selecting.setdefault(namespace, []).append((number, _term(selector)))
    by_node: dict[str, list[Holder]] = {}
    for pod in pods:
        node, phase = pod["spec"].get("nodeName"), (pod.get("status") or {}).get("phase")
        if not node or phase in ("Succeeded", "Failed"):
            continue
        resources = _resources(pod["spec"])
        if resources or pod["spec"].get("resourceClaims"):
            by_node.setdefault(node, []).append(_holder(pod, resources, selecting))
    return Snapshot(budgets=tuple(known), by_node={node: tuple(own) for node, own in by_node.items()})


def _holder(
    pod: Object, resources: frozenset[str], selecting: Mapping[str, list[tuple[int, selectors.Term]]]
) -> Holder:
    metadata = pod["metadata"]
    label = (metadata.get("labels") or {}).get
    grace_s = pod["spec"].get("terminationGracePeriodSeconds")
    own = selecting.get(metadata["namespace"], ())
    return Holder(
        name=f"{metadata['namespace']}/{metadata['name']}",
        resources=resources,
        budgets=tuple(number for number, term in own if selectors.term_matches(term, label)),
        grace_s=DEFAULT_GRACE_S if grace_s is None else min(max(0.0, float(grace_s)), LONGEST_S),
        claims=bool(pod["spec"].get("resourceClaims")),
    )


def _resources(spec: Object) -> frozenset[str]:
    """Return the extended resources that a pod is given: names with a domain."""
    containers = (*spec.get("containers", ()), *(spec.get("initContainers") or ()))
    limits = [(each.get("resources") or {}).get("limits") or {} for each in containers]
    return frozenset(name for own in limits for name, number in own.items() if "/" in name and str(number) != "0")


def _term(selector: Object) -> selectors.Term:
    labels = (selectors.Requirement(key, "In", (value,)) for key, value in (selector.get("matchLabels") or {}).items())
    expressions = (
        selectors.Requirement(each["key"], each["operator"], tuple(each.get("values") or ()))
        for each in selector.get("matchExpressions") or ()
    )
    return (*labels, *expressions)
