"""Hollow nodes with the device plugin at work: the program itself on a fake host, and what a kubelet does with it.

The API server, its scheduler and its guard are real. A kubelet of its own for each node gives devices to pods, by a
device plugin or by claims, tells its allocatable, and keeps the oracle: no device is given to two pods.
"""

import asyncio
import contextlib
import json
from collections import Counter
from pathlib import Path
from typing import Any

import grpc
from grpc import aio

from device_plugin import loop, plugin
from device_plugin.api import deviceplugin_v1beta1_pb2 as plugin_pb
from device_plugin.api import dra_v1_pb2 as dra_pb
from device_plugin.api import pluginregistration_v1_pb2 as registration_pb
from device_plugin.dra import api_server, claim_service, driver
from device_plugin.host import paths
from device_plugin.kubelet import service
from runtime import state
from runtime.api import podresources_v1_pb2 as pod_pb
from tests.cluster.control import api
from tests.cluster.simulated import hollow_nodes
from tests.device_plugin import connections, dra_nodes, machines, settings

HPRE = "openfuyao.com/kae.hpre"
_RESCAN_S = 5
_CALL_S = 20


class Nodes(hollow_nodes.Nodes):
    """Nodes whose pods are served by a `Kubelet` of each."""

    def _serve(self, pod: Any) -> None:
        """Leave the pod to its kubelet."""


class Kubelet:
    """One node; `running` are the addresses of the devices of its pods, by uid, and `gives` how often each way was."""

    def __init__(self, name: str, folder: Path, client: api.Api, gives: Counter[str]) -> None:
        self.name, self.folder, self.api, self.gives = name, folder, client, gives
        self.running: dict[str, str] = {}
        self.given: dict[str, tuple[str, ...]] = {}
        host = machines.bare_metal(folder)
        self.where = paths.Paths(
            sysfs=host.sysfs, dev=host.dev, run=host.run, kubelet=host.kubelet, recipe="kae", cdi=folder / "cdi"
        )
        self.where.pod_resources.parent.mkdir(parents=True)
        (folder / "program").mkdir()
        self._claims: dict[str, Any] = {}
        self._listed: dict[str, bool] = {}
        self._told: int | None = None
        self._channels: dict[Path, aio.Channel] = {}
        self._plugin: Any = None
        self._dra: Any = None
        self._readers: set[asyncio.Task[None]] = set()
        self._program: asyncio.Task[None] | None = None
        self.interface = ""

    @property
    def allocatable(self) -> int:
        """The healthy devices of the device plugin; 0 where none is connected, as of a kubelet."""
        return sum(self._listed.values())

    @contextlib.asynccontextmanager
    async def working(self) -> "Any":
        """Answer whom pods' devices are, as the kubelet's pod-resources does."""
        server = aio.server()
        own = service.handler(pod_pb.DESCRIPTOR.services_by_name["PodResourcesLister"], self)
        server.add_generic_rpc_handlers((own,))
        server.add_insecure_port(f"unix:{self.where.pod_resources}")
        await server.start()
        try:
            yield self
        finally:
            await self.stop()
            for task in self._readers:
                task.cancel()
            for channel in self._channels.values():
                await channel.close()
            await server.stop(None)

    async def List(  # noqa: N802 - the service's name
        self, request: pod_pb.ListPodResourcesRequest, context: Any
    ) -> pod_pb.ListPodResourcesResponse:
        devices = [pod_pb.ContainerDevices(resource_name=HPRE, device_ids=ids) for ids in self.given.values()]
        pod = pod_pb.PodResources(name="p", namespace="default", containers=[{"name": "c", "devices": devices}])
        return pod_pb.ListPodResourcesResponse(pod_resources=[pod])

    def start(self, interface: str, address: str, authority: Path, token: str) -> None:
        """Start the program with an interface."""
        self.interface = interface
        (self.folder / "token").write_text(token)
        made = settings.settings(settings.uacce("hpre"), interface=interface)
        node = plugin.Plugin(self.where, made)
        server = api_server.ApiServer(address, 443, self.folder / "token", authority)

        def claiming() -> claim_service.Claiming | None:
            if interface == "DRA":
                return driver.Driver(node, self.name, server)
            return claim_service.Claiming(node) if self.where.claims.exists() else None

        running = loop.Loop(node, state.ProgramDir(self.folder / "program"), _RESCAN_S, claiming)
        self._program = asyncio.create_task(running.run())

    async def stop(self) -> None:
        """End the program as a pod of the DaemonSet ends."""
        program, self._program = self._program, None
        if program is not None:
            program.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await program

    async def look(self, pods: list[Any]) -> None:
        """Do one round of a kubelet: plugins that came, the node's status, pods that come and go."""
        if self._program is not None and self._program.done():
            self._program.result()
        for socket in set(self.where.sockets.glob("*.sock")) - self._channels.keys():
            await self._register(socket)
        for socket in [path for path in self._channels if not path.exists()]:
            await self._channels.pop(socket).close()
        if self.allocatable != self._told:
            self._told = self.allocatable
            own = {HPRE: str(self._told)}
            await self._ask("PATCH", f"/api/v1/nodes/{self.name}/status", {"status": {"allocatable": own}})
            own = {HPRE: str(len(self._listed))}
            await self._ask("PATCH", f"/api/v1/nodes/{self.name}/status", {"status": {"capacity": own}})
        for pod in pods:
            if "deletionTimestamp" in pod["metadata"]:
                await self._end(pod)
            elif pod["status"].get("phase") == "Pending":
                await self._admit(pod)

    @property
    def claimed(self) -> frozenset[str]:
        """The devices that claims of running pods have."""
        return frozenset(device for uid, device in self.running.items() if uid in self._claims)

    def offered_twice(self, published: list[Any]) -> frozenset[str]:
        """Return the devices that either interface offers although a pod has them by the other one."""
        healthy = {name for name, is_healthy in self._listed.items() if is_healthy}
        free = {dra_nodes.address(device["name"]) for device in published if not device.get("taints")}
        return frozenset(healthy & self.claimed | free & {each for ids in self.given.values() for each in ids})

    async def _register(self, socket: Path) -> None:
        try:
            channel = await connections.dialled(socket, 2)
            registration = connections.registration_of(channel)
            info = await registration.GetInfo(registration_pb.InfoRequest(), timeout=_CALL_S)
            await connections.notified(registration)
        except (TimeoutError, aio.AioRpcError):
            return
        self._channels[socket] = channel
        if info.type == "DRAPlugin":
            self._dra = connections.Stub(channel, dra_pb.DESCRIPTOR.services_by_name["DRAPlugin"])
        else:
            self._plugin = connections.plugin_of(channel)
            task = asyncio.create_task(self._read(self._plugin))
            self._readers.add(task)
            task.add_done_callback(self._readers.discard)

    async def _read(self, stub: Any) -> None:
        """Take in the lists of a device plugin; at the end of its stream it has no devices."""
        try:
            async for answer in stub.ListAndWatch(plugin_pb.Empty()):
                self._listed = {device.ID: device.health == "Healthy" for device in answer.devices}
        except aio.AioRpcError:
            pass
        finally:
            if stub is self._plugin:
                self._listed = dict.fromkeys(self._listed, False)

    async def _admit(self, pod: Any) -> None:
        uid, status = pod["metadata"]["uid"], pod["status"].get("extendedResourceClaimStatus")
        try:
            device = await (self._claim(pod, status["resourceClaimName"]) if status else self._allocate(uid))
        except aio.AioRpcError as error:
            if error.code() not in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED):
                raise
            device = ""
        if device:
            assert device not in self.running.values(), f"{self.name}: {device} is given twice: {self.running}"
            self.running[uid] = device
            self.gives["by a claim" if status else "by the device plugin"] += 1
            await self._tell(pod, {"phase": "Running", "conditions": [hollow_nodes.ready("True")]})
        elif not status:
            self.gives["failed"] += 1
            await self._tell(pod, {"phase": "Failed", "reason": "UnexpectedAdmissionError"})

    async def _allocate(self, uid: str) -> str:
        """Return the device that the device plugin gives; none where it has no free one."""
        used = {each for ids in self.given.values() for each in ids}
        free = sorted(name for name, is_healthy in self._listed.items() if is_healthy and name not in used)
        if not free:
            return ""
        request = plugin_pb.AllocateRequest(
            container_requests=[plugin_pb.ContainerAllocateRequest(devices_ids=free[:1])]
        )
        await self._plugin.Allocate(request, timeout=_CALL_S)
        self.given[uid] = (free[0],)
        return free[0]

    async def _claim(self, pod: Any, name: str) -> str:
        """Return the device of a claim that is prepared; none where the pod has to wait."""
        namespace = pod["metadata"]["namespace"]
        stored = await self._ask("GET", f"/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaims/{name}", None)
        if self._dra is None or "metadata" not in stored:
            return ""
        claim = dra_pb.Claim(namespace=namespace, name=name, uid=stored["metadata"]["uid"])
        self._claims[pod["metadata"]["uid"]] = claim
        request = dra_pb.NodePrepareResourcesRequest(claims=[claim])
        answer = (await self._dra.NodePrepareResources(request, timeout=_CALL_S)).claims[claim.uid]
        if answer.error:
            self.gives["refused"] += 1
            return ""
        (device,) = answer.devices
        return dra_nodes.address(device.device_name)

    async def _end(self, pod: Any) -> None:
        """End a pod: its claim first, as a kubelet does, which keeps it in Terminating until then."""
        uid = pod["metadata"]["uid"]
        if (claim := self._claims.get(uid)) is not None:
            try:
                request = dra_pb.NodeUnprepareResourcesRequest(claims=[claim])
                answer = (await self._dra.NodeUnprepareResources(request, timeout=_CALL_S)).claims[claim.uid]
            except aio.AioRpcError:
                return
            if answer.error:
                return
        self._claims.pop(uid, None)
        self.given.pop(uid, None)
        self.running.pop(uid, None)
        path = f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"
        await self._ask("DELETE", path, {"gracePeriodSeconds": 0, "preconditions": {"uid": uid}})

    async def _tell(self, pod: Any, status: Any) -> None:
        path = f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"
        await self._ask("PATCH", f"{path}/status", {"status": status})

    async def _ask(self, method: str, path: str, body: Any) -> Any:
        answer = await asyncio.to_thread(self.api.request, method, path, body)
        assert answer.status in (200, 201, 404, 409), f"{method} {path}: {json.dumps(answer.body)}"
        return answer.body
