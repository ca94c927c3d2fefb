"""What happened to pods in a rehearsal, beside what `kae diff` has foretold. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from compiler.changes import objects
from compiler.changes.pods import Fate, PodChange

Pods = Mapping[tuple[objects.Ref, str], frozenset[str]]
"""The identities of the pods of a DaemonSet on a node, and of those of a Deployment, whose node is none of its own."""

Fates = Mapping[objects.Ref, Mapping[str, Fate]]
"""What happens to the pods of a workload, by node; of a Deployment all have one fate."""

ALL = ""
"""In place of the node of a Deployment's pods, which may be on any."""

_HASH = "pod-template-hash"


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """The pods of a workload that have one fate, as foretold and as it happened, by their nodes."""

    ref: objects.Ref
    fate: Fate
    foretold: tuple[str, ...]
    happened: tuple[str, ...]

    @property
    def is_equal(self) -> bool:
        """True where what was foretold happened, and no more."""
        return self.foretold == self.happened


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """The rehearsal of a cluster's change."""

    cluster: str
    nodes: int
    rows: tuple[Row, ...]
    refused: tuple[str, ...] = ()
    """The objects that the API server refuses, with its words."""
    halted: str = ""
    """The workload or pod that did not get done; empty where all did."""
    left_out: tuple[str, ...] = ()
    """The kinds of objects that the API server does not know, so that they were not applied."""

    @property
    def is_equal(self) -> bool:
        """True where all happened as foretold."""
        return not self.refused and not self.halted and all(row.is_equal for row in self.rows)


def foretold(changes: Iterable[PodChange]) -> Fates:
    """Return what a difference says of pods."""
    found: dict[objects.Ref, dict[str, Fate]] = {}
    for change in changes:
        own = found.setdefault(change.ref, {})
        for fate, nodes in _named(change):
            own.update(dict.fromkeys(nodes, fate))
    return {one: own for one, own in found.items() if own}


def _named(change: PodChange) -> Sequence[tuple[Fate, Sequence[str]]]:
    if change.fate is not None:
        # A Deployment of no replicas has no pods.
        return [(change.fate, [ALL] if change.replicas else [])]
    created, replaced, deleted = change.nodes
    return [("created", created), ("replaced", replaced), ("deleted", deleted)]


def pods(items: Iterable[Mapping[str, Any]]) -> Pods:
    """Return the pods of DaemonSets and Deployments among pods as the API server prints them."""
    found: dict[tuple[objects.Ref, str], set[str]] = {}
    for pod in items:
        metadata = pod["metadata"]
        owner = next(iter(metadata.get("ownerReferences") or ()), None)
        if owner is None or "deletionTimestamp" in metadata:
            continue
        if owner["kind"] == "DaemonSet":
            name, node, identity = owner["name"], _node(pod), metadata["uid"]
        else:
            # The ReplicaSet of a template: a pod may go to another node as its own goes.
            identity = (metadata.get("labels") or {}).get(_HASH, metadata["uid"])
            name, node = owner["name"].removesuffix(f"-{identity}"), ALL
        kind = "DaemonSet" if owner["kind"] == "DaemonSet" else "Deployment"
        ref = objects.Ref(kind=kind, namespace=metadata["namespace"], name=name)
        found.setdefault((ref, node), set()).add(identity)
    return {key: frozenset(own) for key, own in found.items()}


def _node(pod: Mapping[str, Any]) -> str:
    """Return the node for which a DaemonSet's pod was made, be it bound or not."""
    if name := pod["spec"].get("nodeName"):
        return str(name)
    affinity = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    fields = (field for term in affinity["nodeSelectorTerms"] for field in term.get("matchFields") or ())
    return next(str(field["values"][0]) for field in fields if field["key"] == "metadata.name")


def fates(was: Pods, now: Pods) -> Fates:
    """Return what has happened to pods between two looks."""
    found: dict[objects.Ref, dict[str, Fate]] = {}
    for key in {**was, **now}:
        old, new = was.get(key, frozenset()), now.get(key, frozenset())
        fate: Fate | None = "created" if not old else "deleted" if not new else None if old & new else "replaced"
        if fate is not None:
            found.setdefault(key[0], {})[key[1]] = fate
    return found


def rows(foretold: Fates, happened: Fates) -> tuple[Row, ...]:
    """Return both beside each other, by workload and fate."""
    every: tuple[Fate, ...] = ("created", "replaced", "deleted")
    found = (
        Row(ref=ref, fate=fate, foretold=_of(foretold, ref, fate), happened=_of(happened, ref, fate))
        for ref in sorted({**foretold, **happened})
        for fate in every
    )
    return tuple(row for row in found if row.foretold or row.happened)


def _of(found: Fates, ref: objects.Ref, fate: Fate) -> tuple[str, ...]:
    return tuple(sorted(node for node, own in found.get(ref, {}).items() if own == fate))
