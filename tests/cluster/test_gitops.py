"""Argo CD and Flux themselves apply the example clusters: all of it, again and again, and whatever comes next."""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
import yaml

from tests.cluster.control import control_plane as control_planes
from tests.cluster.control import manifests
from tests.cluster.control import objects as kinds
from tests.cluster.engines import argocd, flux, following
from tests.cluster.simulated import hollow_nodes

CASES = (("east", "argocd"), ("lab", "argocd"), ("lab", "flux"), ("west", "flux"))
RESYNCS = 5
BROKEN = "0.0.0-broken"

PRUNED = {"east": "vm", "lab": "lab", "west": "vm"}
CHANGED = {"east": ("tls", "driver"), "lab": ("lab", "devicePlugin"), "west": ("tls", "driver")}
"""A policy, and the component that gets other versions; the lab installs no driver."""

DAEMON_SETS = {"driver": "kae-driver", "devicePlugin": "kae-device-plugin"}

_KINDS = {f"openfuyao.com/kae.{kind}": "true" for kind in ("present", "hpre.present", "sec.present", "zip.present")}
_POOLS = {"openfuyao.com/kae.pool.tls": "rest", "openfuyao.com/kae.pool.storage": "oe2203"}
"""The labels that NFD, which does not run here, would set by the rules for pools."""

_NODES = {
    f"hollow-{pool}": {**_KINDS, **_POOLS, "pool": pool, "kubernetes.io/os": "linux"}
    for pool in ("storage", "tls", "vm")
}
_ELSEWHERE = [{"key": "example.com/elsewhere", "effect": "NoSchedule"}]


@dataclass(frozen=True, kw_only=True)
class Followed(following.Followed):
    engine: str
    nodes: hollow_nodes.Nodes

    def programs(self) -> Sequence[hollow_nodes.Nodes]:
        return (self.nodes,)

    def apply(self, documents: Mapping[str, str | None]) -> None:
        commit = self.commit(documents)
        self.wait_until("a sync", lambda: self.application.is_synced(commit))

    @contextlib.contextmanager
    def changed(self, documents: Mapping[str, str | None]) -> Iterator[None]:
        before = {path: (self.repository.folder / path).read_text() for path in documents}
        try:
            self.apply(documents)
            yield
        finally:
            self.nodes.broken = ""
            self.apply(before)

    def with_version(self, version: str) -> Mapping[str, str]:
        policy, component = CHANGED[self.cluster]
        path = f"policies/{policy}.yaml"
        data = yaml.safe_load((self.repository.folder / path).read_text())
        data["spec"][component]["version"] = version
        return {path: yaml.safe_dump(data)}

    def daemon_set(self, component: str, policy: str) -> Any:
        # In west the policy has groups, and its own version is that of the nodes in none of them.
        pool = "--rest" if (self.cluster, component, policy) == ("west", "driver", "tls") else ""
        metadata = {"namespace": manifests.NAMESPACE, "name": f"{DAEMON_SETS[component]}-{policy}{pool}"}
        return self.objects.get({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": metadata})

    def is_at_rest(self) -> bool:
        """Return whether every workload has all its pods, of its last template and available, and the engine agrees."""
        workloads = [item for item in self.manifests if item.kind in ("DaemonSet", "Deployment")]
        live = [self.objects.get(item.data) for item in workloads]
        return all(item is not None and kinds.is_available(item) for item in live) and self.application.is_healthy()


@pytest.fixture(scope="module")
def nodes(control_plane: control_planes.ControlPlane) -> Iterator[hollow_nodes.Nodes]:
    """A node for each pool of the example; no pod of the example gets to any other."""
    api = control_plane.api
    others = [f"/api/v1/nodes/{node['metadata']['name']}" for node in api.get("/api/v1/nodes")["items"]]
    for path in others:
        assert api.request("PATCH", path, {"spec": {"taints": _ELSEWHERE}}).status == 200
    hollow = hollow_nodes.Nodes(api, _NODES)
    with hollow.working():
        yield hollow
    for path in others:
        assert api.request("PATCH", path, {"spec": {"taints": None}}).status == 200


@pytest.fixture(scope="module", params=CASES, ids="-".join)
def followed(
    request: pytest.FixtureRequest,
    engines: Mapping[str, argocd.ArgoCd | flux.Flux],
    nodes: hollow_nodes.Nodes,
    objects: kinds.Objects,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Followed]:
    cluster, engine = request.param
    repository = following.example(tmp_path_factory.mktemp(cluster) / "fleet", cluster, engine)
    fields = {"cluster": cluster, "engine": engine, "nodes": nodes}
    with following.follow(Followed, engines[engine], repository, objects, **fields) as made:
        made.wait_until("rest", made.is_at_rest)
        yield made


def test_every_object_is_there_as_it_was_rendered(followed: Followed) -> None:
    for item in followed.manifests:
        assert list(manifests.differences(item.data, followed.objects.get(item.data))) == [], str(item)


def test_resyncs_find_nothing_to_do(followed: Followed) -> None:
    before = [written(followed.objects.get(item.data)) for item in followed.manifests]

    for _ in range(RESYNCS):
        followed.application.resync()

        followed.wait_until("a sync", followed.is_synced)
    assert [written(followed.objects.get(item.data)) for item in followed.manifests] == before


def written(live: Any) -> Any:
    """Return an object without its status, which controllers write, and their notes about that."""
    meta = {key: value for key, value in live["metadata"].items() if key != "resourceVersion"}
    meta["managedFields"] = [entry for entry in meta["managedFields"] if entry.get("subresource") != "status"]
    return {**live, "metadata": meta, "status": None}


def test_the_next_commit_is_applied_and_what_it_leaves_out_is_pruned(followed: Followed) -> None:
    policy, component = CHANGED[followed.cluster]
    gone = PRUNED[followed.cluster]
    count = len(followed.manifests)

    with followed.changed(followed.with_version("2.9.9")):
        followed.wait_until("rest", followed.is_at_rest)
        image = followed.daemon_set(component, policy)["spec"]["template"]["spec"]["containers"][0]["image"]
    with followed.changed({f"policies/{gone}.yaml": None}):
        followed.wait_until("pruning", lambda: followed.daemon_set("devicePlugin", gone) is None)
        kept = followed.manifests
        missing = [str(item) for item in kept if followed.objects.get(item.data) is None]

    assert image.endswith(":2.9.9")
    assert missing == []
    assert len(kept) < count
    followed.wait_until("rest", followed.is_at_rest)
    assert followed.daemon_set("devicePlugin", gone) is not None


def test_a_repair_is_applied_while_a_daemonset_is_not_healthy(followed: Followed) -> None:
    policy, component = CHANGED[followed.cluster]

    def is_broken() -> bool:
        status = followed.daemon_set(component, policy)["status"]
        return bool(status.get("updatedNumberScheduled") and status.get("numberUnavailable"))

    followed.nodes.broken = BROKEN
    with followed.changed(followed.with_version(BROKEN)):
        followed.wait_until("a pod that is not ready", is_broken)
        is_healthy = followed.engine == "flux"
        followed.wait_until("the engine's view of it", lambda: followed.application.is_healthy() is is_healthy)
        followed.apply(followed.with_version("2.2.1"))

        followed.wait_until("rest", followed.is_at_rest)
