"""A fleet of one node as the story has it: what people, jobs and the engine do, and waits for what follows."""

import contextlib
import functools
import json
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.cluster.control import control_plane as control_planes
from tests.cluster.control import manifests, pods
from tests.cluster.control import objects as kinds
from tests.cluster.engines import argocd, flux, following
from tests.cluster.local import instances, waiting
from tests.cluster.loop import hardware, repositories
from tests.cluster.nodes import driver_node
from tests.cluster.nodes import images as image_store
from tests.cluster.nodes import node as nodes
from tests.images import stores
from tests.installer import settings

CLUSTER, POLICY, WAVE = "test", "kae", "canary"
HPRE = "openfuyao.com/kae.hpre"
WORKLOAD, BUDGET = "tls-terminator", "keep-one"
DEBIAN = "localhost/debian:1"
SECRET = "kae-inventory-git"  # noqa: S105 - The name of one.
_BRANCH, _INVENTORY = f"inventory/{CLUSTER}", f"inventory/{CLUSTER}.json"
_INSTALLER = f"kae-driver-{POLICY}--{WAVE}"
_DAEMON_SETS = (_INSTALLER, f"kae-device-plugin-{POLICY}")
_USE = (
    "import glob, signal, sys\n"
    "signal.signal(signal.SIGTERM, lambda *_: sys.exit())\n"
    "device = open(glob.glob('/dev/hisi_hpre-*')[0], 'rb+', buffering=0)\n"
    "print('uses', device.name, flush=True)\n"
    "signal.pause()\n"
)


@dataclass(slots=True, kw_only=True)
class Story:
    plane: control_planes.ControlPlane
    objects: kinds.Objects
    fleet: repositories.Fleet
    hardware: hardware.Hardware
    programs: Sequence[waiting.Watched]
    """What has to work all the time."""
    engine: following.Engine
    application: following.Application | None = None
    user: str = ""
    """The pod that has used a device last."""

    @property
    def own(self) -> pods.Namespace:
        return pods.Namespace(name=driver_node.NAMESPACE, plane=self.plane)

    @property
    def users(self) -> pods.Namespace:
        return pods.Namespace(name="default", plane=self.plane)

    def write_policy(self) -> None:
        pace = {"interval": "5s", "quietSeconds": 1, "removalQuietSeconds": 2, "minCommitSeconds": 1}
        repository = {"url": self.fleet.inventory_url, "branch": _BRANCH}
        watcher = {"image": "localhost/kae-watcher:1", "repository": repository, "secretName": SECRET}
        engine = "flux" if isinstance(self.engine, flux.Flux) else "argocd"
        self.fleet.edit(
            "policies/cluster.yaml",
            kubernetesVersion="1.36",
            gitops={"engine": engine, "repository": {"url": self.fleet.url}},
            nfd={"enabled": False, "nodefeaturerules": True},
            watcher={"enabled": True, **watcher, **pace},
        )
        wave = {"name": WAVE, "nodes": [self.hardware.node.name], "version": hardware.OLD}
        rollout = {"minReadySeconds": 0, "waves": [wave]}
        driver = {"repository": "localhost", "version": hardware.OLD, "source": {"prebuilt": {}}, "rollout": rollout}
        plugin = {"repository": "localhost", "version": "1"}
        self.fleet.edit("policies/policy.yaml", driver=driver, devicePlugin=plugin)

    def follow(self) -> None:
        """Make the engine follow the repository, as the bootstrap says, and wait until all is applied."""
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": driver_node.NAMESPACE}}
        self.objects.apply(namespace, yaml.safe_dump(namespace), "person")
        files = {"username": self.fleet.host.user, "password": self.fleet.host.password}
        files["ca.crt"] = self.fleet.host.authority.read_text()
        self.own.apply({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": SECRET}, "stringData": files})
        written = manifests.of(self.fleet.folder / "output" / CLUSTER)
        self.application = self.engine.follow([item for item in written if item.is_bootstrap], self.fleet)
        self.sync()

    def sync(self) -> None:
        """Tell the engine of a new commit, and wait until it has applied the newest."""
        self.notice()
        assert self.application is not None
        head = self.fleet.head()
        self.until(f"a sync of {head}", functools.partial(self.application.is_current, head))

    def notice(self) -> None:
        assert self.application is not None
        self.application.notice()

    def wait_for_programs(self) -> None:
        for name in _DAEMON_SETS:
            self.until(f"the pod of {name}", functools.partial(self._has_pod, "DaemonSet", name))
        self.until("the watcher", functools.partial(self._has_pod, "Deployment", "kae-watcher"))
        self.until("devices", lambda: self.hardware.node.allocatable(HPRE) == 2)

    def wait_for_inventory(self) -> str:
        """Wait until the watcher has committed what `kae inventory` takes of the cluster; return the last subject."""
        access = ("--cluster", CLUSTER, "--kubeconfig", str(self.plane.kubeconfig))

        def is_there() -> bool:
            return _BRANCH in self.fleet.inventory.branches() and (
                self.fleet.inventory.read(_BRANCH, _INVENTORY).decode() == self.fleet.ask("kae", "inventory", *access)
            )

        self.until("the inventory", is_there)
        return self.fleet.inventory("log", "--max-count=1", "--format=%s", _BRANCH)

    def smoke(self) -> str:
        """Apply the Job of `kae smoke`; return what its pod says once its device is fine."""
        self.own.kubectl("delete", "job", "--selector=app.kubernetes.io/name=kae-smoke", "--wait=true")
        text = self.fleet.run("kae", "smoke", "--cluster", CLUSTER, then="kubectl apply -f -")
        self.own.kubectl("apply", "-f", "-", text=text)
        (name,) = (item["metadata"]["name"] for item in yaml.safe_load_all(text))

        def is_complete() -> bool:
            status = json.loads(self.own.kubectl("get", "job", name, "-o", "json"))["status"]
            return bool(status.get("succeeded"))

        self.until(f"job {name}", is_complete)
        return self.kubectl("logs", f"--namespace={self.own.name}", f"job/{name}")

    def use(self) -> None:
        """Make a workload that uses a device, with a budget that lets nobody evict its only pod."""
        container: dict[str, Any] = {"name": "main", "image": DEBIAN, "imagePullPolicy": "Never"}
        container |= {"command": ["python3", "-c", _USE], "resources": {"limits": {HPRE: 1}}}
        labels = {"app": WORKLOAD}
        template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
        spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
        self.users.apply({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": WORKLOAD}, "spec": spec})
        self.set_budget(minAvailable=1)
        self.wait_for_user()

    def set_budget(self, **spec: int) -> None:
        """Make the workload's disruption budget, or another one in its place."""
        self.users.kubectl("delete", "poddisruptionbudget", BUDGET, "--ignore-not-found")
        self.users.apply(pods.budget(BUDGET, WORKLOAD, **spec))

    def wait_for_user(self) -> str:
        """Wait until a pod of the workload has its device open; return what it says."""
        self.until("the workload's pod", functools.partial(self._has_pod, "Deployment", WORKLOAD, self.users.name))

        def alive() -> str | None:
            names = (str(pod["metadata"]["name"]) for pod in self.users.staying(f"app={WORKLOAD}"))
            return next((name for name in names if "uses /dev/" in _logs(self.users, name)), None)

        self.user = str(self.until("its device", alive))
        return _logs(self.users, self.user).strip()

    def wait_for_eviction(self, answer: str) -> str:
        """Wait until the API server has given the installer this answer about the last user; return its reason."""
        wanted = {"pod": f"{self.users.name}/{self.user}", "answer": answer}

        def said() -> Sequence[str]:
            lines = [
                line
                for pod in self._installers()
                for line in _logs(self.own, pod, "--container=installer").splitlines()
            ]
            # In the place of the log of a container that has just ended the kubelet says that there is no such file.
            entries = [json.loads(line) for line in lines if line.startswith("{")]
            return [entry["reason"] for entry in entries if wanted.items() <= entry.items()]

        return str(self.until(f"the answer '{answer}' to an eviction", said)[0])

    def wait_for_driver(self, version: str) -> None:
        """Wait until the last user was evicted, and the node has this driver, which its installer has proved."""
        self.wait_for_eviction("accepted")
        self.until("the user's end", lambda: self.users.pod(self.user) is None)
        self.until(f"driver {version}", lambda: settings.versions(self.hardware.machine) == {version})
        self.wait_for_programs()

    def status(self) -> str:
        """Wait until the cluster is as planned; return what `kae status` says then."""
        command = ("kae", "status", "--cluster", CLUSTER, "--kubeconfig", str(self.plane.kubeconfig))
        said = self.until("the cluster as planned", lambda: self.fleet.ask(*command))
        self.fleet.note(shlex.join(command))
        return str(said).strip()

    def installer_status(self) -> str:
        words = ("python", "-m", "installer", "status")
        return self.kubectl("exec", f"--namespace={self.own.name}", f"daemonset/{_INSTALLER}", "--", *words)

    def kubectl(self, *arguments: str) -> str:
        self.fleet.note(shlex.join(("kubectl", *arguments)))
        return self.plane.kubectl(*arguments).strip()

    def until(self, what: str, probe: Callable[[], Any]) -> Any:
        return waiting.until(what, probe, programs=self.programs, explain=self._explain)

    def installer_log(self) -> str:
        """Return what the newest installer has written."""
        newest = max(
            self.own.pods("app.kubernetes.io/name=kae-driver"), key=lambda pod: pod["metadata"]["creationTimestamp"]
        )
        return _logs(self.own, newest["metadata"]["name"], "--container=installer")

    def order(self) -> int:
        """Return the generation of the installer's DaemonSet, which grows with each change."""
        metadata: Mapping[str, str] = {"name": _INSTALLER, "namespace": driver_node.NAMESPACE}
        found = self.objects.get({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": metadata})
        assert found is not None
        return int(found["metadata"]["generation"])

    def _installers(self) -> list[str]:
        return [str(pod["metadata"]["name"]) for pod in self.own.pods("app.kubernetes.io/name=kae-driver")]

    def _has_pod(self, kind: str, name: str, namespace: str = driver_node.NAMESPACE) -> bool:
        metadata: Mapping[str, str] = {"name": name, "namespace": namespace}
        workload = self.objects.get({"apiVersion": "apps/v1", "kind": kind, "metadata": metadata})
        if workload is None or not kinds.is_available(workload):
            return False
        counts = workload["status"]
        return bool(counts.get("numberAvailable", 0) + counts.get("availableReplicas", 0) == 1)

    def _explain(self) -> str:
        told = [self.application.explain()] if self.application is not None else []
        for namespace in (self.own, self.users):
            told.append(namespace.kubectl("get", "pods", "-o", "wide"))
            told += namespace.events()[-15:]
        told += [_logs(self.own, pod["metadata"]["name"], "--tail=20") for pod in self.own.pods()]
        return "\n".join(told)


def _logs(namespace: pods.Namespace, pod: str, *options: str) -> str:
    """Return what a pod's container has written; nothing where it has not started, or has gone."""
    try:
        return namespace.kubectl("logs", pod, *options)
    except control_planes.KubectlFailed:
        return ""


_Running = Callable[
    [control_planes.ControlPlane, kinds.Objects], contextlib.AbstractContextManager[argocd.ArgoCd | flux.Flux]
]
ENGINES: Mapping[str, _Running] = {"argocd": argocd.running, "flux": flux.running}


@contextlib.contextmanager
def opened(instance: instances.Instance, engine: str, folder: Path) -> Iterator[Story]:
    """Everything at work, before the first commit; the repositories are in the folder."""
    with contextlib.ExitStack() as stack:
        plane = stack.enter_context(control_planes.running(instance))
        objects = kinds.Objects(plane.api)
        objects.define(manifests.definitions_of_engines())
        objects.define([(item.data, item.text) for item in manifests.definitions_of_nfd()])
        node = stack.enter_context(nodes.running(plane))
        fake = hardware.Hardware(node, _images(node), folder / "images")
        roles = stack.enter_context(fake.working(objects))
        host = stack.enter_context(repositories.hosted(folder / "git", instance.address))
        yield Story(
            plane=plane,
            objects=objects,
            fleet=repositories.Fleet(folder, host),
            hardware=fake,
            programs=(*roles, node.kubelet),
            engine=stack.enter_context(ENGINES[engine](plane, objects)),
        )


def _images(node: nodes.Node) -> image_store.Images:
    images = image_store.Images(node.plane.instance)
    for name in ("kae-device-plugin", "kae-watcher"):
        images.load(f"localhost/{name}:1", stores.built_image(name))
    images.debian(DEBIAN)
    return images
