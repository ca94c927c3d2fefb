"""The services of deviceplugin_v1beta1.proto on asyncio, typed by hand: protoc makes no types for services."""

from collections.abc import AsyncIterator

import grpc.aio

from device_plugin.api import deviceplugin_v1beta1_pb2 as pb

class RegistrationStub:
    """Calls the kubelet: the older way to register."""

    def __init__(self, channel: grpc.aio.Channel) -> None: ...
    Register: grpc.aio.UnaryUnaryMultiCallable[pb.RegisterRequest, pb.Empty]

class RegistrationServicer:
    """The kubelet's side of the older way to register."""

    async def Register(
        self, request: pb.RegisterRequest, context: grpc.aio.ServicerContext[pb.RegisterRequest, pb.Empty]
    ) -> pb.Empty: ...

class DevicePluginStub:
    """Calls a plugin, as the kubelet does."""

    def __init__(self, channel: grpc.aio.Channel) -> None: ...
    GetDevicePluginOptions: grpc.aio.UnaryUnaryMultiCallable[pb.Empty, pb.DevicePluginOptions]
    ListAndWatch: grpc.aio.UnaryStreamMultiCallable[pb.Empty, pb.ListAndWatchResponse]
    GetPreferredAllocation: grpc.aio.UnaryUnaryMultiCallable[
        pb.PreferredAllocationRequest, pb.PreferredAllocationResponse
    ]
    Allocate: grpc.aio.UnaryUnaryMultiCallable[pb.AllocateRequest, pb.AllocateResponse]
    PreStartContainer: grpc.aio.UnaryUnaryMultiCallable[pb.PreStartContainerRequest, pb.PreStartContainerResponse]

class DevicePluginServicer:
    """A plugin's side; a method that is not overridden answers UNIMPLEMENTED."""

    async def GetDevicePluginOptions(
        self, request: pb.Empty, context: grpc.aio.ServicerContext[pb.Empty, pb.DevicePluginOptions]
    ) -> pb.DevicePluginOptions: ...
    def ListAndWatch(
        self, request: pb.Empty, context: grpc.aio.ServicerContext[pb.Empty, pb.ListAndWatchResponse]
    ) -> AsyncIterator[pb.ListAndWatchResponse]: ...
    async def GetPreferredAllocation(
        self,
        request: pb.PreferredAllocationRequest,
        context: grpc.aio.ServicerContext[pb.PreferredAllocationRequest, pb.PreferredAllocationResponse],
    ) -> pb.PreferredAllocationResponse: ...
    async def Allocate(
        self,
        request: pb.AllocateRequest,
        context: grpc.aio.ServicerContext[pb.AllocateRequest, pb.AllocateResponse],
    ) -> pb.AllocateResponse: ...
    async def PreStartContainer(
        self,
        request: pb.PreStartContainerRequest,
        context: grpc.aio.ServicerContext[pb.PreStartContainerRequest, pb.PreStartContainerResponse],
    ) -> pb.PreStartContainerResponse: ...

def add_RegistrationServicer_to_server(servicer: RegistrationServicer, server: grpc.aio.Server) -> None: ...
def add_DevicePluginServicer_to_server(servicer: DevicePluginServicer, server: grpc.aio.Server) -> None: ...
