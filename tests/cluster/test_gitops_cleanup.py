"""enabledCleanup in a repository: Argo CD and Flux prune a policy, and its driver leaves the host with its DaemonSet.

The node and the installer's image are real, the engines too; the host is a folder, as in test_driver_installer.
"""

import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from installer import paths
from installer.host import record
from tests import in_process, project
from tests.cluster import test_gitops
from tests.cluster.control import manifests, pods
from tests.cluster.control import objects as kinds
from tests.cluster.engines import argocd, flux, gitops
from tests.cluster.local import waiting
from tests.cluster.nodes import containers, driver_node
from tests.cluster.nodes import images as image_store
from tests.cluster.nodes import node as nodes
from tests.installer import machines, podresources, settings

VERSION, HPRE, DEVICE = "2.0.1", "openfuyao.com/kae.hpre", "0000:79:00.0"
SYNC_S, CLEANUP_S = 120, 150

LAST, BESIDE = ("cleans",), ("cleans", "other")
"""The policies of a cluster; the first one is deleted."""

CASES = (("argocd", LAST), ("argocd", BESIDE), ("flux", LAST), ("flux", BESIDE))


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """A fake host of the node, whose kubelet names the holders of devices."""

    node: nodes.Node
    machine: machines.Machine
    kubelet: podresources.Kubelet


@pytest.fixture(scope="module")
def host(node: nodes.Node, images: image_store.Images, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """A host of the policy `cleans`."""
    machine = driver_node.machine(node.plane, "cleanup-host")
    driver_node.make_images(images, machine, tmp_path_factory.mktemp("images"), VERSION)
    labels = (f"{driver_node.POOL}=cleans", f"{HPRE}.present=true")
    node.plane.kubectl("label", "node", node.name, "--overwrite", *labels)
    with podresources.serving(machine.root) as kubelet:
        yield Host(node=node, machine=machine, kubelet=kubelet)


@dataclass(frozen=True, slots=True, kw_only=True)
class Followed:
    """A repository that an engine follows, synced."""

    applied: Sequence[manifests.Manifest]
    """The objects of the first commit."""
    repository: gitops.Repository
    application: gitops.Application
    objects: kinds.Objects
    namespace: pods.Namespace

    def live(self, *wanted: str) -> set[str]:
        """Return the objects of these kinds that the policy `cleans` brought, or shares, and that are there."""
        names = ("kae-driver", "kae-driver-cleans")
        found = [item for item in self.applied if item.kind in wanted and item.data["metadata"]["name"] in names]
        shared = ("Role kae-driver", "RoleBinding kae-driver")
        return {str(item) for item in found if str(item) not in shared and self.objects.get(item.data)}

    def wait_until(self, what: str, probe: Any, timeout_s: float = SYNC_S) -> None:
        """Wait for the engine or an installer.

        Raises:
            TimedOut: With what both say.
        """
        waiting.until(what, probe, timeout_s=timeout_s, explain=self._explain)

    def _explain(self) -> str:
        logs = [self.namespace.logs(pod["metadata"]["name"]) for pod in self.namespace.pods()]
        return "\n".join((self.application.explain(), *logs))


@pytest.fixture(params=CASES, ids=["argocd-last", "argocd-beside", "flux-last", "flux-beside"])
def followed(
    request: pytest.FixtureRequest,
    engines: Mapping[str, argocd.ArgoCd | flux.Flux],
    objects: kinds.Objects,
    host: Host,
    tmp_path: Path,
) -> Iterator[Followed]:
    """A cluster whose driver is on the host; at the end all that was applied is gone."""
    engine, policies = request.param
    repository = compiled(tmp_path / "fleet", engine, policies, host.machine.root)
    every = manifests.of(repository.folder / "output" / "test")
    application = engines[engine].follow([item for item in every if item.is_bootstrap], repository)
    namespace = pods.Namespace(name=driver_node.NAMESPACE, plane=host.node.plane)
    found = Followed(
        applied=every, repository=repository, application=application, objects=objects, namespace=namespace
    )
    try:
        found.wait_until("the first sync", lambda: application.is_synced(repository.head()))
        found.wait_until("the driver", lambda: settings.versions(host.machine) == {VERSION})
        found.wait_until("its record", lambda: record.read(host.machine.host).installed is not None)
        yield found
    finally:
        application.end()
        for item in every:
            objects.delete(item.data)
        found.wait_until("its end", lambda: not any(objects.get(item.data) for item in every))


def compiled(folder: Path, engine: str, policies: tuple[str, ...], root: Path) -> gitops.Repository:
    """Return a repository with these policies, of which the first cleans up, for a host in a folder."""
    repository = gitops.Repository(folder)
    url = repository.url if engine == "argocd" else test_gitops.NOWHERE
    spec = {
        "kubernetesVersion": "1.36",
        "nfd": {"enabled": False},
        "gitops": {"engine": engine, "repository": {"url": url}},
    }
    documents = {"policies/test.yaml": document("KAECluster", "test", spec)}
    for name in policies:
        driver = {
            "repository": "localhost",
            "version": VERSION,
            "source": {"prebuilt": {}},
            "drain": {"timeoutSeconds": 60},
            "enabledCleanup": name == policies[0],
        }
        selector = {"matchLabels": {driver_node.POOL: name}}
        policy = {"nodeSelector": selector, "driver": driver, "devicePlugin": {"enabled": False}}
        documents[f"policies/{name}.yaml"] = document("KAEPolicy", name, policy)
    project.write(folder, documents)
    answer = in_process.kae(folder, "compile")
    assert answer.code == 0, answer.err
    daemon_set = folder / "output/test/driver/daemonset-kae-driver-cleans.yaml"
    text = daemon_set.read_text()
    assert text.count("          path: /\n") == 1
    daemon_set.write_text(text.replace("          path: /\n", f"          path: {root}\n"))
    repository.commit("Begin")
    return repository


def document(kind: str, name: str, spec: Mapping[str, Any]) -> str:
    """A document in JSON, which is YAML."""
    version = "device.openfuyao.com/v1alpha1"
    return json.dumps({"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": spec})


@contextlib.contextmanager
def holding(host: Host, namespace: pods.Namespace) -> Iterator[str]:
    """A pod of the node that has a device until it has gone; its name."""
    namespace.apply(pods.pod("holder", containers.PAUSE, ["/pause"], nodeName=host.node.name))
    namespace.wait_for_ready("holder")
    key = f"{namespace.name}/holder"
    host.kubelet.give(key, "main", HPRE, DEVICE)
    yield "holder"
    host.kubelet.remove(key)


def test_the_driver_leaves_the_host_when_its_policy_leaves_the_repository(
    followed: Followed, host: Host, namespace: pods.Namespace
) -> None:
    with holding(host, namespace) as holder:
        test_gitops.committed(followed.repository, "test", {"policies/cleans.yaml": None})
        followed.application.notice()
        followed.wait_until("the eviction", lambda: namespace.pod(holder) is None)
        before = settings.versions(host.machine)
    followed.wait_until("the end of the driver", lambda: not host.machine.loaded(), CLEANUP_S)
    followed.wait_until("the end of the pods", lambda: not followed.namespace.pods(), CLEANUP_S)

    assert before == {VERSION}
    assert record.read(host.machine.host).installed is None
    assert not host.machine.host.path(paths.KAE.changing).exists()
    assert followed.live("ServiceAccount", "RoleBinding", "Role", "DaemonSet") == {
        "ServiceAccount kae-driver",
        "RoleBinding kae-driver-cleans",
        "Role kae-driver-cleans",
    }
