"""The smallest device plugin that a kubelet takes, which says what a test says."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import grpc.aio

from device_plugin.api import deviceplugin_v1beta1_pb2 as pb
from device_plugin.api import deviceplugin_v1beta1_pb2_grpc as rpc
from device_plugin.api import pluginregistration_v1_pb2 as registration_pb
from device_plugin.api import pluginregistration_v1_pb2_grpc as registration_rpc


class Registration(registration_rpc.RegistrationServicer):
    """The registration service of a plugin."""

    def __init__(self, name: str) -> None:
        self.info = registration_pb.PluginInfo(type="DevicePlugin", name=name, supported_versions=["v1beta1"])
        self.asked = 0
        self.answers_after = 0
        self.told: list[registration_pb.RegistrationStatus] = []

    async def GetInfo(  # noqa: N802 - the service's name
        self,
        request: registration_pb.InfoRequest,
        context: grpc.aio.ServicerContext[registration_pb.InfoRequest, registration_pb.PluginInfo],
    ) -> registration_pb.PluginInfo:
        self.asked += 1
        if self.asked <= self.answers_after:
            await context.abort(grpc.StatusCode.UNAVAILABLE, "not yet")
        return self.info

    async def NotifyRegistrationStatus(  # noqa: N802 - the service's name
        self,
        request: registration_pb.RegistrationStatus,
        context: grpc.aio.ServicerContext[
            registration_pb.RegistrationStatus, registration_pb.RegistrationStatusResponse
        ],
    ) -> registration_pb.RegistrationStatusResponse:
        self.told.append(request)
        return registration_pb.RegistrationStatusResponse()


class Plugin(rpc.DevicePluginServicer):
    """A plugin that says what a test says."""

    def __init__(self, *devices: pb.Device) -> None:
        self.first = devices
        self.lists: asyncio.Queue[Sequence[pb.Device] | None] = asyncio.Queue()
        """The next lists of the latest stream; `None` ends it."""
        self.options = pb.DevicePluginOptions()
        self.answer = pb.ContainerAllocateResponse(envs={"KAE": "1"})
        self.wish: Sequence[str] = ()
        self.allocated: list[list[str]] = []
        self.streams = 0
        self.released = asyncio.Event()
        """Answers to Allocate wait for it."""
        self.released.set()

    async def GetDevicePluginOptions(  # noqa: N802 - the service's name
        self, request: pb.Empty, context: grpc.aio.ServicerContext[pb.Empty, pb.DevicePluginOptions]
    ) -> pb.DevicePluginOptions:
        return self.options

    async def ListAndWatch(  # noqa: N802 - the service's name
        self, request: pb.Empty, context: grpc.aio.ServicerContext[pb.Empty, pb.ListAndWatchResponse]
    ) -> AsyncIterator[pb.ListAndWatchResponse]:
        self.streams += 1
        lists: asyncio.Queue[Sequence[pb.Device] | None] = asyncio.Queue()
        self.lists = lists
        yield pb.ListAndWatchResponse(devices=self.first)
        while (devices := await lists.get()) is not None:
            yield pb.ListAndWatchResponse(devices=devices)

    async def GetPreferredAllocation(  # noqa: N802 - the service's name
        self,
        request: pb.PreferredAllocationRequest,
        context: grpc.aio.ServicerContext[pb.PreferredAllocationRequest, pb.PreferredAllocationResponse],
    ) -> pb.PreferredAllocationResponse:
        return pb.PreferredAllocationResponse(
            container_responses=[pb.ContainerPreferredAllocationResponse(deviceIDs=self.wish)]
        )

    async def Allocate(  # noqa: N802 - the service's name
        self,
        request: pb.AllocateRequest,
        context: grpc.aio.ServicerContext[pb.AllocateRequest, pb.AllocateResponse],
    ) -> pb.AllocateResponse:
        (one,) = request.container_requests
        self.allocated.append(list(one.devices_ids))
        await self.released.wait()
        return pb.AllocateResponse(container_responses=[self.answer])


@contextlib.asynccontextmanager
async def serving(plugin: Plugin, registration: Registration, socket: Path) -> AsyncIterator[None]:
    """A plugin on a socket, which goes when the plugin ends."""
    socket.parent.mkdir(parents=True, exist_ok=True)
    server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
    rpc.add_DevicePluginServicer_to_server(plugin, server)
    registration_rpc.add_RegistrationServicer_to_server(registration, server)
    server.add_insecure_port(f"unix:{socket}")
    await server.start()
    try:
        yield
    finally:
        await server.stop(None)
