"""Twenty nodes go from device plugins to DRA and back in waves of nodes, while pods hold devices, come and go.

Scheduler, API server, guard and claims are real, and so is the program of each node; hosts and kubelets are hollow. The
waves are two policies with disjoint nodes, and each node has the interface that `kae plan` says.
"""

import asyncio
import contextlib
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

from tests.cli import answers
from tests.cluster.control import control_plane as control_planes
from tests.cluster.control import manifests, pods
from tests.cluster.simulated import hollow_kubelets
from tests.cluster.simulated.hollow_kubelets import HPRE

NAMES = [f"wave-{number:02}" for number in range(20)]
WAVES = (2, 10, 20)
"""The nodes that have DRA after each wave; on the way back the same in reverse order."""
_MARK = "example.com/fleet"
_BOUND_S = 240
_MODES = {None: "DevicePlugin", "DRA": "DRA"}


def policy(name: str, names: Sequence[str], **plugin: Any) -> dict[str, Any]:
    chosen = {"key": "kubernetes.io/hostname", "operator": "In", "values": list(names)}
    spec = {
        "nodeSelector": {"matchExpressions": [chosen]},
        "driver": {"enabled": False},
        "devicePlugin": {"version": "1.4.1", **plugin},
    }
    return manifests.document("KAEPolicy", name, spec)


def labels(name: str) -> dict[str, str]:
    return {"kubernetes.io/hostname": name, _MARK: "1", f"{HPRE}.present": "true", f"{HPRE}.pf": "2"}


class Fleet:
    """The nodes, and the documents that say which of them has which interface."""

    def __init__(self, plane: control_planes.ControlPlane, namespace: pods.Namespace, folder: Path) -> None:
        self.plane, self.namespace, self.folder = plane, namespace, folder
        self.gives: Counter[str] = Counter()
        self.kubelets = [
            hollow_kubelets.Kubelet(name, folder / str(index), plane.api, self.gives)
            for index, name in enumerate(NAMES)
        ]
        info = {"kubeletVersion": "v1.36.3", "containerRuntimeVersion": "containerd://2.1.4", "architecture": "arm64"}
        items = [
            {"kind": "Node", "metadata": {"name": name, "labels": labels(name)}, "status": {"nodeInfo": info}}
            for name in NAMES
        ]
        inventory = {"kind": "List", "apiVersion": "v1", "items": items}
        self._files = {"policies/test.yaml": manifests.cluster(), "inventory/test.json": inventory}

    async def wave(self, count: int, midst: Callable[[], None] = lambda: None) -> None:
        """Have so many nodes have DRA: compile, apply, and restart the programs one by one, with something midst."""
        files = dict(self._files)
        for name, own, interface in (("new", NAMES[:count], "DRA"), ("old", NAMES[count:], "DevicePlugin")):
            path = f"policies/{name}.yaml"
            (self.folder / "project" / path).unlink(missing_ok=True)
            if own:
                files[path] = policy(name, own, interface=interface)
        project = self.folder / "project"
        manifests.compiled(project, files)
        objects = [item.data for item in manifests.of(project / "output/test") if item.component != "bootstrap"]
        wanted = [item for item in objects if item["kind"] not in ("DaemonSet", "CustomResourceDefinition")]
        await asyncio.to_thread(self.plane.apply, *wanted)
        (planned,) = json.loads(answers.told(project, "plan", "-o", "json"))["clusters"]
        modes = {node["name"]: _MODES[node.get("interface")] for node in planned["nodes"]}
        assert Counter(modes.values())["DRA"] == count
        changed = [each for each in self.kubelets if each.interface != modes[each.name]]
        for number, kubelet in enumerate(changed):
            await kubelet.stop()
            address, token = self.plane.instance.address, await self._token(kubelet.name)
            kubelet.start(modes[kubelet.name], address, self.plane.instance.state / "pki/ca.crt", token)
            if number == len(changed) // 2:
                midst()
        for kubelet in changed:
            await self.until(f"devices of {kubelet.name}", lambda: self._is_offering(kubelet))  # noqa: B023 - at once

    def _is_offering(self, kubelet: hollow_kubelets.Kubelet) -> bool:
        """Return whether a node offers each device in its new way, but for those that its pods hold in the other."""
        if kubelet.interface == "DRA":
            return len(self.published().get(kubelet.name, ())) == 2
        return kubelet.allocatable + len(kubelet.claimed) == 2

    def published(self) -> dict[str, list[Any]]:
        """The devices in slices, by node."""
        items = self.plane.api.get("/apis/resource.k8s.io/v1/resourceslices")["items"]
        return {item["spec"]["nodeName"]: item["spec"].get("devices") or [] for item in items}

    async def _token(self, node: str) -> str:
        arguments = ("create", "token", "kae-device-plugin", "-n", manifests.NAMESPACE, "--bound-object-kind=Node")
        return (await asyncio.to_thread(self.plane.kubectl, *arguments, f"--bound-object-name={node}")).strip()

    @contextlib.asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        async with contextlib.AsyncExitStack() as stack:
            for kubelet in self.kubelets:
                await stack.enter_async_context(kubelet.working())
            self._work = asyncio.create_task(self._look())
            try:
                yield
            finally:
                self._work.cancel()
                await asyncio.gather(self._work, return_exceptions=True)

    async def _look(self) -> None:
        """Have the kubelets work, and fail where a device is offered in a way while a pod has it in the other one."""
        before = dict.fromkeys(NAMES, frozenset[str]())
        while True:
            published = await asyncio.to_thread(self.published)
            twice = {each.name: each.offered_twice(published.get(each.name, [])) for each in self.kubelets}
            # An end that the kubelet knows of comes to the scheduler a moment later.
            assert not any(twice[name] & before[name] for name in NAMES), twice
            before = twice
            found = (await asyncio.to_thread(self.plane.api.get, "/api/v1/pods"))["items"]
            own = {name: [pod for pod in found if pod["spec"].get("nodeName") == name] for name in NAMES}
            await asyncio.gather(*(kubelet.look(own[kubelet.name]) for kubelet in self.kubelets))
            await asyncio.sleep(0.1)

    async def until(self, what: str, holds: Callable[[], bool]) -> None:
        try:
            async with asyncio.timeout(_BOUND_S):
                while not await asyncio.to_thread(holds):
                    if self._work.done():
                        self._work.result()
                    await asyncio.sleep(0.2)
        except TimeoutError as error:
            states = Counter(pod["status"].get("phase") for pod in self.namespace.pods())
            raise AssertionError(f"{what}: not in time; {states}, {self.gives}") from error

    def apply(self, *names: str) -> None:
        limits = {"resources": {"limits": {HPRE: 1}}}
        made = (
            pods.pod(name, "example.com/user:1", ["true"], container=limits, nodeSelector={_MARK: "1"})
            for name in names
        )
        self.namespace.apply(*made)

    def phases(self) -> dict[str, str]:
        return {pod["metadata"]["name"]: pod["status"].get("phase", "") for pod in self.namespace.pods()}

    def count(self, phase: str) -> int:
        return Counter(self.phases().values())[phase]

    def holders(self) -> dict[str, str]:
        """The device of each pod, by uid."""
        return {uid: f"{each.name}/{device}" for each in self.kubelets for uid, device in each.running.items()}


async def handed_over(fleet: Fleet) -> None:
    await fleet.wave(0)
    fleet.apply(*(f"first-{number}" for number in range(16)))
    await fleet.until("pods by device plugins", lambda: fleet.count("Running") == 16)
    first = fleet.holders()

    # There: pods hold devices throughout, and others come in the middle of each wave.
    for number, count in enumerate(WAVES):
        await fleet.wave(count, lambda: fleet.apply(f"midst-{number}"))  # noqa: B023 - at once
    fleet.apply(*(f"second-{number}" for number in range(24)))
    await fleet.until("a pod for each device", lambda: fleet.count("Running") == 40)
    assert len(set(fleet.holders().values())) == 40
    assert fleet.holders().items() >= first.items()
    assert fleet.gives["by a claim"] >= 20
    waiting = fleet.count("Pending") + fleet.count("Failed")
    assert waiting == len(fleet.phases()) - 40

    # Back, with the devices of half of the pods still in use.
    gone = [f"first-{number}" for number in range(16)] + [f"second-{number}" for number in range(6)]
    await asyncio.to_thread(fleet.namespace.kubectl, "delete", "pod", "--wait=false", *gone)
    await fleet.until("the end of some", lambda: not set(gone) & fleet.phases().keys())
    second = fleet.holders()
    for number, count in enumerate((*reversed(WAVES[:-1]), 0)):
        await fleet.wave(count, lambda: fleet.apply(f"return-{number}"))  # noqa: B023 - at once
    assert fleet.holders().items() >= second.items()
    assert len(set(fleet.holders().values())) == len(fleet.holders())

    # No pod stays in Terminating, and each device is free again.
    await asyncio.to_thread(fleet.namespace.kubectl, "delete", "pod", "--all", "--wait=false")
    await fleet.until("the end of all", lambda: not fleet.phases())
    await fleet.until("all devices", lambda: all(each.allocatable == 2 for each in fleet.kubelets))
    assert not fleet.published()


def test_twenty_nodes_change_their_interface_by_waves_and_back(
    control_plane: control_planes.ControlPlane,
    namespace: pods.Namespace,
    tmp_path_factory: Any,
    record_property: Callable[[str, object], None],
) -> None:
    folder = tmp_path_factory.mktemp("w")
    fleet = Fleet(control_plane, namespace, folder)

    async def run() -> None:
        async with fleet.working():
            await handed_over(fleet)

    nodes = hollow_kubelets.Nodes(control_plane.api, {name: labels(name) for name in NAMES})
    try:
        with nodes.working():
            asyncio.run(run())
    finally:
        made = [item.data for item in manifests.of(folder / "project/output/test") if item.component != "bootstrap"]
        control_plane.delete(*(item for item in made if item["kind"] not in ("Namespace", "CustomResourceDefinition")))
        record_property("gives", dict(fleet.gives))
