"""Bring both sides of a cluster's change to a control plane, and look at the pods that come, are replaced and go."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from typing import Any, NamedTuple

from compiler import errors, names
from compiler.changes import deletions, objects, sides
from compiler.changes.objects import Ref
from compiler.inventory import snapshot
from compiler.rehearsal import api as apis
from compiler.rehearsal import hollow, outcome
from compiler.rendering import layout

_DAEMON_SETS, _DEPLOYMENTS = "/apis/apps/v1/daemonsets", "/apis/apps/v1/deployments"
_WORKLOADS = ("DaemonSet", "Deployment")
_FIRST = ("Namespace", "CustomResourceDefinition")
_PAUSE_S, _QUIET_S, _CERTAIN_S, _STALLED_S = 0.1, 1.5, 10, 60
"""Between two looks; how long nothing may change before all is done, before a difference is believed, and before a
rollout counts as halted."""


class Side(NamedTuple):
    """A side of a change: the objects that an engine applies, and the nodes."""

    objects: Mapping[Ref, apis.Object] = {}
    machines: Mapping[str, hollow.Machine] = {}


def both(before: sides.Planned | None, after: sides.Planned | None, render: layout.Render) -> tuple[Side, Side]:
    """Return both sides; what no engine deletes is of the later one too."""
    was, now = (_applied(one, render) if one else {} for one in (before, after))
    # The nodes of a cluster that comes or goes are there all the time.
    old, new = before or after, after or before
    if old is None or new is None:
        return Side(), Side()
    deletion = deletions.joined(*(deletions.of(one.planned.cluster.spec.gitops) for one in (old, new)))
    if before is not None and after is not None:
        stays = {one: data for one, data in was.items() if deletion.stays or objects.protector(data)}
        now = {**stays, **now}
    pools = {each.label for one in (old, new) for each in one.planned.divisions}
    gone = _given(was) - _given(now) if before is not None and after is not None else set()
    return Side(was, dict(_machines(old, pools, set()))), Side(now, dict(_machines(new, pools, gone)))


def _applied(one: sides.Planned, render: layout.Render) -> Mapping[Ref, apis.Object]:
    """Return the objects that an engine applies."""
    made = layout.objects(one.manifests, render)
    return {objects.ref(each.data): each.data for each in made if each.component != names.BOOTSTRAP}


def _given(made: Mapping[Ref, apis.Object]) -> set[str]:
    """Return the labels that NFD gives nodes by the rules among objects, and takes from them with the rules."""
    rules = (rule for one, data in made.items() if one.kind == "NodeFeatureRule" for rule in data["spec"]["rules"])
    return {label for rule in rules for label in rule.get("labels") or ()}


def _machines(one: sides.Planned, pools: Set[str | None], gone: Set[str]) -> Iterator[tuple[str, hollow.Machine]]:
    """Yield the nodes of a side, with the labels of pools that the plan gives them, and without those that are gone."""
    labels: dict[str, dict[str, str]] = {}
    resources: dict[str, dict[str, int]] = {}
    for decision in one.planned.decisions:
        division = decision.division
        for node in decision.nodes:
            resources.setdefault(node.name, {}).update({name: amount or 1 for name, amount in decision.resources})
            own = labels.setdefault(node.name, {})
            part = division.part(node) if division and division.label and node.profile.discovered else None
            if division and division.label and part is not None:
                own[division.label] = part.name
    for node in one.planned.inventory.nodes:
        profile = node.profile
        known = {**profile.labels, **node.labels, **({snapshot.HOSTNAME: node.hostname} if node.hostname else {})}
        told = {key: value for key, value in known.items() if key not in pools} | labels.get(node.name, {})
        yield (
            node.name,
            hollow.Machine(
                labels={key: value for key, value in told.items() if key not in gone},
                taints=profile.taints,
                resources=resources.get(node.name, {}),
                facts={
                    "architecture": profile.architecture,
                    "kernelVersion": profile.kernel_version,
                    "kubeletVersion": profile.kubelet_version,
                    "osImage": profile.os_image,
                    "containerRuntimeVersion": profile.container_runtime_version,
                },
            ),
        )


class Stage:
    """A control plane on which clusters are played, one after the other."""

    def __init__(self, api: apis.Api, nodes: hollow.Nodes) -> None:
        """Take the API server, and the nodes, whose kubelets work."""
        self._api = api
        self._nodes = nodes
        self._made: dict[Ref, apis.Object] = {}
        self._kept: dict[Ref, apis.Object] = {}
        """Namespaces and definitions, which `leave` deletes."""
        self._unknown: set[str] = set()
        """The kinds that the API server does not know."""

    def require_empty(self, sides: Sequence[Side]) -> None:
        """Raise RefusedError unless the cluster has no nodes, no pods, no DaemonSets, and none of the objects."""
        # A DaemonSet of others would have pods on the hollow nodes.
        for what, path in (("nodes", "/api/v1/nodes"), ("pods", hollow.PODS), ("DaemonSets", _DAEMON_SETS)):
            if found := self._api.items(path):
                raise self._not_empty(f"it has {what}, such as '{found[0]['metadata']['name']}'")
        for side in sides:
            for one, data in side.objects.items():
                if self._api.has(data):
                    raise self._not_empty(f"it has {one}")

    def _not_empty(self, why: str) -> errors.RefusedError:
        hint = "A rehearsal writes to its cluster: name an empty one, or leave --kubeconfig and --context out."
        return errors.RefusedError(f"the cluster at {self._api.host} is not empty: {why}.", hint=hint)

    def played(self, name: str, before: Side, after: Side, foretold: outcome.Fates) -> outcome.Outcome:
        """Bring the one side, then the other, and return what happens to pods, beside what was foretold."""
        self._unknown = set()
        self._nodes.bring(before.machines)
        refused = [*self._bring(before.objects)]
        halted = self._settle(lambda: True)
        was = self._pods()
        self._nodes.bring(after.machines)
        refused += self._bring(after.objects)
        self._prune(after.objects)
        halted = halted or self._settle(lambda: outcome.fates(was, self._pods()) == foretold)
        happened = outcome.fates(was, self._pods())
        return outcome.Outcome(
            cluster=name,
            nodes=len({*before.machines, *after.machines}),
            rows=outcome.rows(foretold, happened),
            refused=tuple(dict.fromkeys(refused)),
            halted=halted,
            left_out=tuple(sorted(self._unknown)),
        )

    def clear(self) -> None:
        """Delete what was brought, but for namespaces and definitions, and wait until no pod is left."""
        self._prune({})
        self._wait_for_no_pods()
        self._nodes.bring({})

    def leave(self) -> None:
        """Delete the rest, for a cluster that goes on, and wait for its end."""
        for data in self._kept.values():
            self._delete(data)
        deadline = time.monotonic() + _STALLED_S
        while any(map(self._api.has, self._kept.values())) and time.monotonic() < deadline:
            time.sleep(_PAUSE_S)

    def _wait_for_no_pods(self) -> None:
        deadline = time.monotonic() + _STALLED_S
        while (pods := self._api.items(hollow.PODS)) and time.monotonic() < deadline:
            for space in {pod["metadata"]["namespace"] for pod in pods}:
                self._api.do("DELETE", f"/api/v1/namespaces/{space}/pods?gracePeriodSeconds=0")
            time.sleep(_PAUSE_S)

    def _bring(self, wanted: Mapping[Ref, apis.Object]) -> Iterator[str]:
        """Apply objects, workloads last; yield what the server refuses. Those of unknown kinds are left out."""
        spaces = {one.namespace for one in wanted if one.namespace}
        for name in sorted(spaces - {one.name for one in (*wanted, *self._kept) if one.kind == "Namespace"}):
            # Of a cluster whose namespace others manage.
            data: apis.Object = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
            if not self._api.has(data):
                self._apply(objects.ref(data), data)
        for rank in (0, 1, 2):
            for one, item in wanted.items():
                if _rank(one) == rank and (refused := self._apply(one, item)):
                    yield f"{one}: {refused}"
            if rank == 0:
                self._wait_for_definitions()

    def _apply(self, one: Ref, data: apis.Object) -> str:
        path = self._api.path(data)
        known = self._kept if one.kind in _FIRST else self._made
        if path is None:
            self._unknown.add(one.kind)
        if path is None or known.get(one) == data:
            return ""
        known[one] = data
        return self._api.apply(path, data)

    def _wait_for_definitions(self) -> None:
        deadline = time.monotonic() + _STALLED_S
        for one, data in self._kept.items():
            while one.kind == "CustomResourceDefinition" and time.monotonic() < deadline:
                found = self._api.ask("GET", self._api.path(data) or "").body.get("status") or {}
                if any(
                    (told["type"], told["status"]) == ("Established", "True") for told in found.get("conditions") or ()
                ):
                    break
                time.sleep(_PAUSE_S)

    def _prune(self, wanted: Mapping[Ref, apis.Object]) -> None:
        for one in [one for one in self._made if one not in wanted]:
            self._delete(self._made.pop(one))

    def _delete(self, data: apis.Object) -> None:
        if path := self._api.path(data):
            self._api.do("DELETE", f"{path}?propagationPolicy=Background")

    def _pods(self) -> outcome.Pods:
        return outcome.pods(self._api.items(hollow.PODS))

    def _settle(self, is_expected: Callable[[], bool]) -> str:
        """Wait until the controllers have done all; return what is not done where nothing changes for long."""
        seen: Any = None
        since = time.monotonic()
        while True:
            self._nodes.require()
            pods = self._api.items(hollow.PODS)
            sets = [*self._api.items(_DAEMON_SETS), *self._api.items(_DEPLOYMENTS)]
            now = [(one["metadata"]["uid"], one.get("status")) for one in (*pods, *sets)]
            if now != seen:
                seen, since = now, time.monotonic()
            quiet_s = time.monotonic() - since
            undone = _undone(pods, sets)
            if undone and quiet_s > _STALLED_S:
                return undone
            if not undone and quiet_s > _QUIET_S and (quiet_s > _CERTAIN_S or is_expected()):
                return ""
            time.sleep(_PAUSE_S)


def _rank(one: Ref) -> int:
    return 0 if one.kind in _FIRST else 2 if one.kind in _WORKLOADS else 1


def _undone(pods: Sequence[apis.Object], sets: Sequence[apis.Object]) -> str:
    """Return what the controllers or the kubelets have still to do; nothing where all is done."""
    for item in sets:
        kind = "DaemonSet" if "updateStrategy" in item["spec"] else "Deployment"
        if not (_is_done if kind == "DaemonSet" else _is_rolled_out)(item):
            return f"{kind} {item['metadata']['namespace']}/{item['metadata']['name']}"
    for pod in pods:
        if "deletionTimestamp" in pod["metadata"] or (pod["spec"].get("nodeName") and not hollow.is_ready(pod)):
            return f"Pod {pod['metadata']['namespace']}/{pod['metadata']['name']}"
    return ""


def _is_done(item: apis.Object) -> bool:
    status = item["status"]
    counts = {status.get(f"{which}NumberScheduled", 0) for which in ("desired", "current", "updated")}
    return status.get("observedGeneration") == item["metadata"]["generation"] and len(counts) == 1


def _is_rolled_out(item: apis.Object) -> bool:
    status, wanted = item["status"], item["spec"]["replicas"]
    counts = {status.get("replicas", 0), status.get("updatedReplicas", 0), wanted}
    return status.get("observedGeneration") == item["metadata"]["generation"] and len(counts) == 1
