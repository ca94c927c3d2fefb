"""enabledCleanup in a repository: engines prune a policy, and its driver leaves the host with its DaemonSet."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from installer.host import record
from tests.cluster.control import manifests, pods
from tests.cluster.control import objects as kinds
from tests.cluster.engines import argocd, flux, following, gitops
from tests.cluster.nodes import driver_node
from tests.cluster.nodes import images as image_store
from tests.cluster.nodes import node as nodes
from tests.installer import homes, machines, podresources, settings

VERSION = "2.0.1"

LAST, BESIDE = ("cleans",), ("cleans", "other")
"""The policies of a cluster; the first one is deleted."""

CASES = (("argocd", LAST), ("argocd", BESIDE), ("flux", LAST), ("flux", BESIDE))


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    node: nodes.Node
    machine: machines.Machine
    kubelet: podresources.Kubelet


@pytest.fixture(scope="module")
def host(node: nodes.Node, images: image_store.Images, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    machine = driver_node.machine(node.plane, "cleanup-host")
    driver_node.make_images(images, machine, tmp_path_factory.mktemp("images"), VERSION)
    labels = (f"{driver_node.POOL}=cleans", f"{driver_node.HPRE}.present=true")
    node.plane.kubectl("label", "node", node.name, "--overwrite", *labels)
    with podresources.serving(machine.root) as kubelet:
        yield Host(node=node, machine=machine, kubelet=kubelet)


@dataclass(frozen=True, kw_only=True)
class Followed(following.Followed):
    applied: Sequence[manifests.Manifest]
    namespace: pods.Namespace

    def live(self, *wanted: str) -> set[str]:
        """Return the objects of these kinds that the policy `cleans` brought, or shares, and that are there."""
        names = ("kae-driver", "kae-driver-cleans")
        brought = [item for item in self.applied if item.kind in wanted and item.data["metadata"]["name"] in names]
        shared = ("Role kae-driver", "RoleBinding kae-driver")
        return {str(item) for item in brought if str(item) not in shared and self.objects.get(item.data)}

    def explain(self) -> str:
        logs = [self.namespace.logs(pod["metadata"]["name"]) for pod in self.namespace.pods()]
        return "\n".join((super().explain(), *logs))


@pytest.fixture(params=CASES, ids=["argocd-last", "argocd-beside", "flux-last", "flux-beside"])
def followed(
    request: pytest.FixtureRequest,
    engines: Mapping[str, argocd.ArgoCd | flux.Flux],
    objects: kinds.Objects,
    host: Host,
    tmp_path: Path,
) -> Iterator[Followed]:
    engine, policies = request.param
    repository = compiled(tmp_path / "fleet", engine, policies, host.machine.root)
    applied = manifests.of(repository.folder / "output/test")
    namespace = pods.Namespace(name=manifests.NAMESPACE, plane=host.node.plane)
    fields = {"applied": applied, "namespace": namespace}
    with following.follow(Followed, engines[engine], repository, objects, **fields) as made:
        made.wait_until("the driver", lambda: settings.versions(host.machine) == {VERSION})
        made.wait_until("its record", lambda: record.read(host.machine.host).installed is not None)
        yield made


def compiled(folder: Path, engine: str, policies: tuple[str, ...], root: Path) -> gitops.Repository:
    repository = gitops.Repository(folder)
    documents = {"policies/test.yaml": manifests.cluster(gitops=following.settings(engine, repository))}
    for name in policies:
        driver = {"version": VERSION, "drain": {"timeoutSeconds": 60}, "enabledCleanup": name == policies[0]}
        documents[f"policies/{name}.yaml"] = driver_node.policy(name, driver)
    manifests.compiled(folder, documents)
    daemon_set = folder / "output/test/driver/daemonset-kae-driver-cleans.yaml"
    text = daemon_set.read_text()
    assert text.count("          path: /\n") == 1
    daemon_set.write_text(text.replace("          path: /\n", f"          path: {root}\n"))
    repository.commit("Begin")
    return repository


def test_the_driver_leaves_the_host_when_its_policy_leaves_the_repository(
    followed: Followed, host: Host, namespace: pods.Namespace
) -> None:
    with driver_node.holding(host.kubelet, namespace, host.node) as holder:
        followed.commit({"policies/cleans.yaml": None})
        namespace.wait_for_end(holder)
        before = settings.versions(host.machine)
    followed.wait_until("the end of the driver", lambda: not host.machine.loaded())
    followed.wait_until("the end of the pods", lambda: not followed.namespace.pods())
    # The engine deletes the DaemonSet in the foreground: it outlives its pods for a moment.
    followed.wait_until("the end of the DaemonSet", lambda: not followed.live("DaemonSet"))

    assert before == {VERSION}
    assert record.read(host.machine.host).installed is None
    assert not host.machine.host.path(homes.KAE.changing).exists()
    assert followed.live("ServiceAccount", "RoleBinding", "Role") == {
        "ServiceAccount kae-driver",
        *("ServiceAccount kae-driver-cleans", "RoleBinding kae-driver-cleans", "Role kae-driver-cleans"),
    }
