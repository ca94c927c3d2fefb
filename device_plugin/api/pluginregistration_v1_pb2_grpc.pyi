"""The service of pluginregistration_v1.proto on asyncio, typed by hand: protoc makes no types for services."""

import grpc.aio

from device_plugin.api import pluginregistration_v1_pb2 as pb

class RegistrationStub:
    """Calls a plugin, as the kubelet does."""

    def __init__(self, channel: grpc.aio.Channel) -> None: ...
    GetInfo: grpc.aio.UnaryUnaryMultiCallable[pb.InfoRequest, pb.PluginInfo]
    NotifyRegistrationStatus: grpc.aio.UnaryUnaryMultiCallable[pb.RegistrationStatus, pb.RegistrationStatusResponse]

class RegistrationServicer:
    """A plugin's side; a method that is not overridden answers UNIMPLEMENTED."""

    async def GetInfo(
        self, request: pb.InfoRequest, context: grpc.aio.ServicerContext[pb.InfoRequest, pb.PluginInfo]
    ) -> pb.PluginInfo: ...
    async def NotifyRegistrationStatus(
        self,
        request: pb.RegistrationStatus,
        context: grpc.aio.ServicerContext[pb.RegistrationStatus, pb.RegistrationStatusResponse],
    ) -> pb.RegistrationStatusResponse: ...

def add_RegistrationServicer_to_server(servicer: RegistrationServicer, server: grpc.aio.Server) -> None: ...
