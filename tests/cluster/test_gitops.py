"""Argo CD and Flux themselves apply the example clusters: all of it, again and again, and whatever comes next."""

import contextlib
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests import in_process, project
from tests.cluster.control import control_plane as control_planes
from tests.cluster.control import manifests
from tests.cluster.control import objects as kinds
from tests.cluster.engines import argocd, flux, gitops
from tests.cluster.local import waiting
from tests.cluster.simulated import hollow_nodes

CASES = (("east", "argocd"), ("lab", "argocd"), ("lab", "flux"), ("west", "flux"))
RESYNCS = 20
SYNC_S = 120
BROKEN = "0.0.0-broken"
NOWHERE = "https://git.example.com/fleet.git"
"""Flux takes no path for the URL of a repository; this one is never fetched."""

NFD_IS_THERE = ("west",)
"""Clusters whose output does not bring NFD."""

PRUNED = {"east": "vm", "lab": "lab", "west": "vm"}
"""A policy that goes."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Followed:
    """A cluster whose repository an engine follows."""

    cluster: str
    engine: str
    repository: gitops.Repository
    application: gitops.Application
    objects: kinds.Objects
    nodes: hollow_nodes.Nodes

    @property
    def manifests(self) -> Sequence[manifests.Manifest]:
        """The objects that the engine has to apply."""
        return applied(self.repository, self.cluster)

    def apply(self, documents: Mapping[str, str | None]) -> None:
        """Commit other documents, or none where there was one, with what they compile to; wait until it is synced.

        Raises:
            TimedOut: It does not come about.
        """
        commit = committed(self.repository, self.cluster, documents)
        self.application.notice()
        self.wait_until("a sync", lambda: self.application.is_synced(commit))

    @contextlib.contextmanager
    def changed(self, documents: Mapping[str, str | None]) -> Iterator[None]:
        """Commit other documents for as long as the context lasts."""
        before = {path: (self.repository.folder / path).read_text() for path in documents}
        try:
            self.apply(documents)
            yield
        finally:
            self.nodes.broken = ""
            self.apply(before)

    def with_version(self, version: str) -> Mapping[str, str]:
        """Return the policy of CHANGED with another version of its component."""
        policy, component = CHANGED[self.cluster]
        path = f"policies/{policy}.yaml"
        data = yaml.safe_load((self.repository.folder / path).read_text())
        data["spec"][component]["version"] = version
        return {path: yaml.safe_dump(data)}

    def daemon_set(self, component: str, policy: str) -> Any:
        """Return a DaemonSet as it is, or None."""
        # In west the policy has groups, and its own version is that of the nodes in none of them.
        pool = "--rest" if (self.cluster, component, policy) == ("west", "driver", "tls") else ""
        metadata = {"namespace": "kae-operator", "name": f"{DAEMON_SETS[component]}-{policy}{pool}"}
        return self.objects.get({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": metadata})

    def wait_until(self, what: str, probe: Any) -> None:
        """Wait for what the engine, the controllers or the nodes are to do.

        Raises:
            TimedOut: With what the engine says.
        """
        waiting.until(what, probe, timeout_s=SYNC_S, programs=(self.nodes,), explain=self.application.explain)

    def is_at_rest(self) -> bool:
        """Return whether every workload has all its pods, of its last template and available, and the engine agrees."""
        workloads = [item for item in self.manifests if item.kind in ("DaemonSet", "Deployment")]
        live = [self.objects.get(item.data) for item in workloads]
        return all(item is not None and kinds.is_available(item) for item in live) and self.application.is_healthy()


def applied(repository: gitops.Repository, cluster: str) -> Sequence[manifests.Manifest]:
    """Return what the kustomization lists."""
    found = manifests.of(repository.folder / "output" / cluster)
    return [item for item in found if not item.is_bootstrap]


def committed(repository: gitops.Repository, cluster: str, documents: Mapping[str, str | None]) -> str:
    """Commit other documents with what they compile to."""
    for path, text in documents.items():
        (repository.folder / path).unlink(missing_ok=True)
        if text is not None:
            project.write(repository.folder, {path: text})
    codes = ("removes-drivers", "removes-device-plugins", "drops-protection")
    accepted = (f"--accept={code}:{cluster}" for code in codes)
    answer = in_process.kae(repository.folder, "compile", "--no-cache", "--cluster", cluster, *accepted)
    assert answer.code == 0, answer.err
    return repository.commit("Change the policies")


def example(folder: Path, cluster: str, engine: str) -> gitops.Repository:
    """Return a repository with the example fleet, whose bootstrap is for this engine."""
    repository = gitops.Repository(folder)
    for name in ("policies", "inventory"):
        shutil.copytree(manifests.ROOT / name, folder / name)
    path = f"policies/clusters/{cluster}.yaml"
    data = yaml.safe_load((folder / path).read_text())
    data["spec"]["gitops"] |= {
        "engine": engine,
        "repository": {"url": repository.url if engine == "argocd" else NOWHERE},
    }
    committed(repository, cluster, {path: yaml.safe_dump(data)})
    return repository


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
    """A cluster that is synced, and at rest; at the end all that was applied is gone."""
    cluster, engine = request.param
    repository = example(tmp_path_factory.mktemp(cluster) / "fleet", cluster, engine)
    bootstrap = [item for item in manifests.of(repository.folder / "output" / cluster) if item.is_bootstrap]
    platform = manifests.definitions_of_nfd() if cluster in NFD_IS_THERE else []
    for item in platform:
        objects.apply(item.data, item.text, "platform")
        objects.wait_until_established(item.data)
    application = engines[engine].follow(bootstrap, repository)
    found = Followed(
        cluster=cluster, engine=engine, repository=repository, application=application, objects=objects, nodes=nodes
    )
    found.wait_until("the first sync", lambda: application.is_synced(repository.head()))
    found.wait_until("rest", found.is_at_rest)
    yield found
    application.end()
    left = [*platform, *found.manifests]
    for item in left:
        objects.delete(item.data)
    found.wait_until("its end", lambda: not any(objects.get(item.data) for item in left))


def test_every_object_is_there_as_it_was_rendered(followed: Followed) -> None:
    for item in followed.manifests:
        assert list(manifests.differences(item.data, followed.objects.get(item.data))) == [], str(item)


def test_resyncs_find_nothing_to_do(followed: Followed) -> None:
    before = [followed.objects.get(item.data) for item in followed.manifests]

    for _ in range(RESYNCS):
        followed.application.resync()

        assert followed.application.is_synced(followed.repository.head()), followed.application.explain()
    after = [followed.objects.get(item.data) for item in followed.manifests]
    assert after == before


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
    assert (missing, len(kept) < count) == ([], True)
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
        assert followed.application.is_healthy() is (followed.engine == "flux")
        followed.apply(followed.with_version("2.2.1"))

        followed.wait_until("rest", followed.is_at_rest)
