"""A node whose interface is DRA, between stand-ins of its kubelet and of the API server, over real sockets."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

from grpc import aio

from device_plugin import loop, plugin
from device_plugin.api import dra_v1_pb2 as pb
from device_plugin.api import pluginregistration_v1_pb2 as registration_pb
from device_plugin.dra import claim_service, driver
from device_plugin.host import paths
from device_plugin.kubelet import service
from runtime import state
from runtime.api import podresources_v1_pb2 as pod_pb
from tests.device_plugin import api_servers, connections, machines, settings

DRIVER = "kae.openfuyao.com"


def address(device: str) -> str:
    """Return the PCI address in the name of a device, such as hpre-0000-79-00-0."""
    _, domain, bus, slot, function = device.split("-")
    return f"{domain}:{bus}:{slot}.{function}"


async def until(claim: Callable[[], object]) -> None:
    async with asyncio.timeout(60):
        while not claim():
            await asyncio.sleep(0.002)


class PodResources:
    """The kubelet's socket that says which pods have devices of a device plugin."""

    def __init__(self) -> None:
        self.given: dict[str, tuple[str, ...]] = {}
        self.claims: list[str] = []

    async def List(  # noqa: N802 - the service's name
        self, request: pod_pb.ListPodResourcesRequest, context: Any
    ) -> pod_pb.ListPodResourcesResponse:
        devices = [pod_pb.ContainerDevices(resource_name=name, device_ids=ids) for name, ids in self.given.items()]
        claims = [{"claim_namespace": "default", "claim_name": name} for name in self.claims]
        container = {"name": "c", "devices": devices, "dynamic_resources": claims}
        pod = pod_pb.PodResources(name="p", namespace="default", containers=[container])
        return pod_pb.ListPodResourcesResponse(pod_resources=[pod])


class Node:
    """A node with the program at work, as its kubelet and the scheduler see it."""

    def __init__(self, folder: Path, server: api_servers.Server, given: PodResources) -> None:
        self.folder, self.server, self.given = folder, server, given
        self.host = machines.bare_metal(folder)
        self.where = paths.Paths(
            sysfs=self.host.sysfs,
            dev=self.host.dev,
            run=self.host.run,
            kubelet=self.host.kubelet,
            recipe="kae",
            cdi=folder / "cdi",
        )
        (folder / "program").mkdir()

    @contextlib.asynccontextmanager
    async def working(self, **changes: Any) -> AsyncIterator[plugin.Plugin]:
        """Run the program, as the compiler configures it with these changes."""
        made = settings.settings(**{"interface": "DRA"} | changes)
        node = plugin.Plugin(self.where, made)

        def claiming() -> claim_service.Claiming | None:
            if made.interface == "DRA":
                return driver.Driver(node, "n", self.server.client(self.folder))
            return claim_service.Claiming(node) if self.where.claims.exists() else None

        running = loop.Loop(node, state.ProgramDir(self.folder / "program"), 30, claiming)
        task = asyncio.create_task(running.run())
        try:
            yield node
            if task.done():
                task.result()
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    @contextlib.asynccontextmanager
    async def kubelet(self) -> AsyncIterator[connections.Stub]:
        """Register the driver as a kubelet does, and return what it calls."""
        await until(lambda: list(self.where.sockets.glob("dra-*.sock")))
        (socket,) = self.where.sockets.glob("dra-*.sock")
        channel = await connections.dialled(socket, 30)
        try:
            registration = connections.registration_of(channel)
            info = await registration.GetInfo(registration_pb.InfoRequest())
            assert (info.type, info.name) == ("DRAPlugin", DRIVER)
            await connections.notified(registration)
            yield connections.Stub(channel, pb.DESCRIPTOR.services_by_name["DRAPlugin"])
        finally:
            await channel.close()

    async def prepare(self, kubelet: connections.Stub, name: str) -> Any:
        claim = pb.Claim(namespace="default", name=name, uid=f"uid-of-{name}")
        answer = await kubelet.NodePrepareResources(pb.NodePrepareResourcesRequest(claims=[claim]))
        return answer.claims[claim.uid]

    async def end(self, kubelet: connections.Stub, name: str) -> str:
        claim = pb.Claim(namespace="default", name=name, uid=f"uid-of-{name}")
        answer = await kubelet.NodeUnprepareResources(pb.NodeUnprepareResourcesRequest(claims=[claim]))
        return str(answer.claims[claim.uid].error)

    def cdi(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.where.cdi / f"{DRIVER}-device.json").read_text())
        return found

    def cdi_device(self, name: str) -> dict[str, Any] | None:
        if not (self.where.cdi / f"{DRIVER}-device.json").exists():
            return None
        return next((item["containerEdits"] for item in self.cdi()["devices"] if item["name"] == name), None)


@contextlib.asynccontextmanager
async def made(folder: Path, certificate: Path | None = None) -> AsyncIterator[Node]:
    async with api_servers.serving(certificate) as server:
        given = PodResources()
        node = Node(folder, server, given)
        node.where.pod_resources.parent.mkdir(parents=True)
        kubelet = aio.server()
        own = service.handler(pod_pb.DESCRIPTOR.services_by_name["PodResourcesLister"], given)
        kubelet.add_generic_rpc_handlers((own,))
        kubelet.add_insecure_port(f"unix:{node.where.pod_resources}")
        await kubelet.start()
        try:
            yield node
        finally:
            await kubelet.stop(None)
