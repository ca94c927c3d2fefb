"""Twenty nodes go from device plugins to DRA and back in waves of nodes, while pods hold devices, come and go.

Scheduler, API server, guard and claims are real, and so is the program of each node; hosts and kubelets are hollow. The
waves are two policies with disjoint nodes, and each node has the interface that `kae plan` says. An engine applies and
prunes in one sync, before the first node changes.
"""

import asyncio
import contextlib
import json
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from compiler.changes import objects
from tests.cli import answers
from tests.cluster.control import control_plane as control_planes
from tests.cluster.control import manifests, pods
from tests.cluster.simulated import hollow_kubelets
from tests.cluster.simulated.hollow_kubelets import HPRE

NAMES = [f"wave-{number:02}" for number in range(20)]
WAVES = (2, 10, 20)
"""The nodes that have DRA after each wave."""
_BOUND_S = 240
_NOT_APPLIED = ("DaemonSet", "CustomResourceDefinition")
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
    return {"kubernetes.io/hostname": name, f"{HPRE}.present": "true", f"{HPRE}.pf": "2"}


Midst = Callable[[Sequence[str]], Awaitable[None]]
"""What happens when half of the nodes of a wave have changed; it is told the others."""


async def nothing(_: Sequence[str]) -> None:
    pass


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
        cluster = manifests.cluster(gitops={"engine": "argocd"})
        self._files = {"policies/test.yaml": cluster, "inventory/test.json": inventory}
        self.applied: dict[objects.Ref, Mapping[str, Any]] = {}
        """All that is in the cluster by an output of any wave, but the namespace."""

    async def wave(self, count: int, midst: Midst = nothing) -> None:
        """Have so many nodes have DRA: compile, apply, and restart the programs one by one, with something midst."""
        files = dict(self._files)
        for name, own, interface in (("new", NAMES[:count], "DRA"), ("old", NAMES[count:], "DevicePlugin")):
            path = f"policies/{name}.yaml"
            (self.folder / "project" / path).unlink(missing_ok=True)
            if own:
                files[path] = policy(name, own, interface=interface)
        project = self.folder / "project"
        manifests.compiled(project, files)
        await asyncio.to_thread(self._sync, [item.data for item in manifests.of(project / "output/test")])
        (planned,) = json.loads(answers.told(project, "plan", "-o", "json"))["clusters"]
        modes = {node["name"]: _MODES[node.get("interface")] for node in planned["nodes"]}
        assert Counter(modes.values())["DRA"] == count
        changed = [each for each in self.kubelets if each.interface != modes[each.name]]
        for number, kubelet in enumerate(changed):
            if number == len(changed) // 2:
                await midst([each.name for each in changed[number:]])
            await kubelet.stop()
            address, token = self.plane.instance.address, await self._token(kubelet.name)
            kubelet.start(modes[kubelet.name], address, self.plane.instance.state / "pki/ca.crt", token)
        for kubelet in changed:
            await self.until(f"devices of {kubelet.name}", lambda: self._is_offering(kubelet))  # noqa: B023 - at once

    def _sync(self, output: Sequence[Mapping[str, Any]]) -> None:
        """Apply an output, and delete what has left it and is not marked to stay."""
        wanted = {objects.ref(item): item for item in output if item["kind"] not in _NOT_APPLIED}
        left = [ref for ref in self.applied if ref not in wanted]
        gone = [self.applied.pop(ref) for ref in left if objects.protector(self.applied[ref]) is None]
        self.plane.apply(*wanted.values())
        if gone:
            self.plane.delete(*gone)
        self.applied |= {ref: item for ref, item in wanted.items() if ref.kind != "Namespace"}

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

    async def apply(self, *names: str, nodes: Sequence[str] = NAMES) -> None:
        limits = {"resources": {"limits": {HPRE: 1}}}
        chosen = {"key": "kubernetes.io/hostname", "operator": "In", "values": list(nodes)}
        terms = {"nodeSelectorTerms": [{"matchExpressions": [chosen]}]}
        affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
        made = (pods.pod(name, "example.com/user:1", ["true"], container=limits, affinity=affinity) for name in names)
        await asyncio.to_thread(self.namespace.apply, *made)

    def phases(self) -> dict[str, str]:
        return {pod["metadata"]["name"]: pod["status"].get("phase", "") for pod in self.namespace.pods()}

    def count(self, phase: str) -> int:
        return Counter(self.phases().values())[phase]

    def holders(self) -> dict[str, str]:
        """The device of each pod, by uid."""
        return {uid: f"{each.name}/{device}" for each in self.kubelets for uid, device in each.running.items()}


async def handed_over(fleet: Fleet) -> None:
    await fleet.wave(0)
    await fleet.apply(*(f"first-{number}" for number in range(16)))
    await fleet.until("pods by device plugins", lambda: fleet.count("Running") == 16)
    first = fleet.holders()

    # There: pods hold devices throughout, and others come in the middle of each wave.
    for number, count in enumerate(WAVES):
        await fleet.wave(count, lambda _: fleet.apply(f"midst-{number}"))  # noqa: B023 - at once
    await fleet.apply(*(f"second-{number}" for number in range(24)))
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
    await fleet.wave(WAVES[1], lambda _: fleet.apply("return-0"))

    async def is_served(nodes: Sequence[str]) -> None:
        """Have a pod get a device by a claim on a node whose turn has not come, though DRA has left the output."""
        await fleet.apply("return-1", nodes=nodes)
        await fleet.until(f"a pod on {nodes}", lambda: fleet.phases()["return-1"] == "Running")

    await fleet.wave(0, is_served)
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
        control_plane.delete(*fleet.applied.values())
        record_property("gives", dict(fleet.gives))
