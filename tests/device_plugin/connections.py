"""One connection of the stand-in kubelet to a plugin, dialled as the kubelet dials."""

import asyncio
import contextlib
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc.aio
from google.protobuf import message_factory
from google.protobuf.descriptor import ServiceDescriptor

from device_plugin.api import deviceplugin_v1beta1_pb2 as pb
from device_plugin.api import pluginregistration_v1_pb2 as registration_pb

_OPTIONS = (
    ("grpc.default_authority", "localhost"),
    # grpc-go's default; above it a stream dies with RESOURCE_EXHAUSTED.
    ("grpc.max_receive_message_length", 4 * 1024 * 1024),
    # A connection of its own: shared ones would outlive the socket that they were dialled on.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.initial_reconnect_backoff_ms", 100),
)


class UnwantedError(Exception):
    """A plugin describes itself in a way that the kubelet does not take."""


class Stub:
    """The calls of a service, by their names in its .proto file."""

    def __init__(self, channel: grpc.aio.Channel, service: ServiceDescriptor) -> None:
        for method in service.methods:
            call = channel.unary_stream if method.server_streaming else channel.unary_unary
            request, answer = map(message_factory.GetMessageClass, (method.input_type, method.output_type))
            path = f"/{service.full_name}/{method.name}"
            setattr(self, method.name, call(path, request.SerializeToString, answer.FromString))

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)


def plugin_of(channel: grpc.aio.Channel) -> Stub:
    return Stub(channel, pb.DESCRIPTOR.services_by_name["DevicePlugin"])


def registration_of(channel: grpc.aio.Channel) -> Stub:
    return Stub(channel, registration_pb.DESCRIPTOR.services_by_name["Registration"])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Client:
    """A plugin that serves a resource on a socket; one object a registration."""

    resource: str
    socket: Path
    channel: grpc.aio.Channel
    plugin: Stub
    options: pb.DevicePluginOptions
    tasks: list[asyncio.Task[None]] = field(default_factory=list)
    """The one that reads the stream, as long as it runs."""


async def dialled(socket: Path, within_s: float) -> grpc.aio.Channel:
    """A new connection; TimeoutError when nobody answers in time."""
    channel = grpc.aio.insecure_channel(f"unix:{socket}", options=_OPTIONS)
    try:
        await asyncio.wait_for(channel.channel_ready(), within_s)
    except BaseException:
        await channel.close()
        raise
    return channel


async def connected(resource: str, socket: Path, within_s: float) -> Client:
    """A client that has asked for the plugin's options."""
    channel = await dialled(socket, within_s)
    plugin = plugin_of(channel)
    try:
        options = await plugin.GetDevicePluginOptions(pb.Empty())
    except BaseException:
        await channel.close()
        raise
    return Client(resource=resource, socket=socket, channel=channel, plugin=plugin, options=options)


async def described(registration: Stub, within_s: float) -> registration_pb.PluginInfo:
    """Return a plugin's information; notify the plugin and raise UnwantedError where it is not acceptable."""
    info: registration_pb.PluginInfo = await registration.GetInfo(registration_pb.InfoRequest(), timeout=within_s)
    fault = _fault(info)
    if fault:
        await notified(registration, fault)
        raise UnwantedError(fault)
    return info


async def notified(registration: Stub, error: str = "") -> None:
    """Tells a plugin how its registration went."""
    status = registration_pb.RegistrationStatus(plugin_registered=not error, error=error)
    # A plugin that is refused ends its server at once, at times before the answer is out; the kubelet logs that alone.
    with contextlib.suppress(grpc.aio.AioRpcError) if error else contextlib.nullcontext():
        await registration.NotifyRegistrationStatus(status, timeout=60)


def _fault(info: registration_pb.PluginInfo) -> str:
    if info.type != "DevicePlugin":
        return f"no handler registered for plugin type: {info.type}"
    if "v1beta1" not in info.supported_versions:
        return f"none of the versions {list(info.supported_versions)} is supported"
    if not _is_extended_resource(info.name):
        return f"the resource name {info.name!r} is invalid"
    return ""


def _is_extended_resource(name: str) -> bool:
    """IsExtendedResourceName of pkg/apis/core/v1/helper."""
    domain, slash, last = name.partition("/")
    return bool(
        slash
        and "kubernetes.io/" not in name
        and not name.startswith("requests.")
        and len(f"requests.{domain}") <= 253
        and re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", domain)
        and re.fullmatch(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?", last)
    )
