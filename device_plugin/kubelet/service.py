"""Serve a resource to the kubelet: a socket in its registry folder, with two gRPC services and the list of devices.

By Registration the kubelet's plugin watcher learns the resource of a socket (kubernetes/kubernetes
pkg/kubelet/pluginmanager); DevicePlugin is the API v1beta1. Only the kubelet calls them. A driver of DRA has a socket
of the same sort.

The kubelet dials every socket that appears in the folder, and every socket that it finds there when it starts. It never
dials a socket twice while it runs, even if the stream broke: then a socket of a new name must appear. Names are never
reused: a gRPC server that ends removes the file at its path, and a kubelet refuses a second registration at one path
(kubernetes/kubernetes#139338).
"""

import abc
import asyncio
import contextlib
import logging
import re
import secrets
from collections.abc import AsyncGenerator, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import grpc
import msgspec
from google.protobuf import message_factory
from google.protobuf.descriptor import ServiceDescriptor
from grpc import aio

from device_plugin.api import deviceplugin_v1beta1_pb2 as api
from device_plugin.api import pluginregistration_v1_pb2 as registry
from device_plugin.host import paths
from device_plugin.kubelet import advertised, preferred_allocation
from runtime import device_plugin_config as config
from runtime import errors

LOG = logging.getLogger(__name__)
API_VERSION = "v1beta1"

_LONGEST_PATH = 107
"""The longest address of a Unix socket, in bytes (unix(7))."""

_APART_S = 0.1
"""Between two sockets: a kubelet that keys by resource must see the end of the old one first."""

_STREAM_S = 10.0
"""Between the kubelet's notice that it registered the resource and a check of its stream.

It begins to open the stream before it gives notice (RegisterPlugin of pkg/kubelet/cm/devicemanager/plugin/v1beta1), and
a busy node delays it. The stream is missing when the late end of an older one ended this registration too
(kubernetes/kubernetes#121994)."""

_LONGEST_PAUSE_S = 60.0
"""Between two sockets, when the kubelet refuses one after the other, or watches none of them."""

_LONGEST_DOUBLING = 10

if TYPE_CHECKING:
    Context = aio.ServicerContext[Any, Any]


class DeviceList:
    """The shares of one resource: each stream gets the newest list, and skips those for which it was too slow."""

    def __init__(self) -> None:
        self.replicas: tuple[advertised.Replica, ...] = ()
        self.watched: Callable[[], None] | None = None
        """Called when a stream opens or closes."""
        self._streams: set[asyncio.Event] = set()

    @property
    def streams(self) -> int:
        """Return the number of open streams."""
        return len(self._streams)

    def show(self, replicas: tuple[advertised.Replica, ...]) -> None:
        """Replace the list; streams wake only if it differs."""
        if replicas != self.replicas:
            self.replicas = replicas
            for stream in self._streams:
                stream.set()

    async def lists(self) -> AsyncGenerator[tuple[advertised.Replica, ...], None]:
        """Yield the current list and every newer one, until the caller closes the stream."""
        changed = asyncio.Event()
        self._streams.add(changed)
        self._streams_changed()
        try:
            while True:
                changed.clear()
                yield self.replicas
                await changed.wait()
        finally:
            self._streams.discard(changed)
            self._streams_changed()

    def _streams_changed(self) -> None:
        if self.watched is not None:
            self.watched()


class Refusal(Exception):  # noqa: N818 - a refusal is an answer, not an error
    """A container cannot have its devices; the message is one sentence for the pod's events."""


class Node(Protocol):
    """The parts of the node that the services use."""

    async def allocate(self, resource: str, ids: Sequence[str]) -> api.ContainerAllocateResponse:
        """Return the answer for one container; raises `Refusal`."""

    def loads(self, resource: str) -> dict[str, preferred_allocation.Load]:
        """Return the NUMA node and the free queues of each device of a resource."""


class RegistrationService:
    """Tell the kubelet what this socket serves, and learn whether the registration succeeded."""

    def __init__(self, info: registry.PluginInfo, told: Callable[[bool, str], None]) -> None:
        self._info = info
        self._told = told

    async def GetInfo(  # noqa: N802 - the service's name
        self, request: registry.InfoRequest, context: "Context"
    ) -> registry.PluginInfo:
        """Return what is served; the kubelet asks within a second after the socket appeared."""
        return self._info

    async def NotifyRegistrationStatus(  # noqa: N802 - the service's name
        self, request: registry.RegistrationStatus, context: "Context"
    ) -> registry.RegistrationStatusResponse:
        """Take the result; the kubelet calls it after it dialled the socket, or failed to."""
        self._told(request.plugin_registered, request.error)
        return registry.RegistrationStatusResponse()


class DevicePlugin:
    """Advertise and allocate the devices of one resource."""

    def __init__(self, resource: str, shown: DeviceList, node: Node, *, packed: bool) -> None:
        self._resource = resource
        self._packed = packed
        self._devices = shown
        self._node = node

    async def GetDevicePluginOptions(  # noqa: N802 - the service's name
        self, request: api.Empty, context: "Context"
    ) -> api.DevicePluginOptions:
        """Return the optional calls that the kubelet should use."""
        return api.DevicePluginOptions(get_preferred_allocation_available=True)

    async def ListAndWatch(  # noqa: N802 - the service's name
        self, request: api.Empty, context: "Context"
    ) -> AsyncGenerator[api.ListAndWatchResponse, None]:
        """Yield the devices; every list replaces the one before."""
        LOG.info("The kubelet watches the resource.", extra={"resource": self._resource})
        async with contextlib.aclosing(self._devices.lists()) as lists:
            async for replicas in lists:
                yield api.ListAndWatchResponse(devices=[device(replica) for replica in replicas])

    async def GetPreferredAllocation(  # noqa: N802 - the service's name
        self, request: api.PreferredAllocationRequest, context: "Context"
    ) -> api.PreferredAllocationResponse:
        """Return the preferred devices; never an error, which would make the kubelet reject the pod."""
        loads = self._node.loads(self._resource)
        return api.PreferredAllocationResponse(
            container_responses=[
                api.ContainerPreferredAllocationResponse(
                    deviceIDs=preferred_allocation.preferred(
                        preferred_allocation.Request(
                            available=tuple(asked.available_deviceIDs),
                            required=tuple(asked.must_include_deviceIDs),
                            size=asked.allocation_size,
                        ),
                        loads,
                        packed=self._packed,
                    )
                )
                for asked in request.container_requests
            ]
        )

    async def Allocate(  # noqa: N802 - the service's name
        self, request: api.AllocateRequest, context: "Context"
    ) -> api.AllocateResponse:
        """Return one answer for each container; refuse the request if one container cannot have its devices."""
        answers = []
        for asked in request.container_requests:
            try:
                answers.append(await self._node.allocate(self._resource, tuple(asked.devices_ids)))
            except Refusal as refusal:
                await context.abort(grpc.StatusCode.FAILED_PRECONDITION, str(refusal))
        return api.AllocateResponse(container_responses=answers)

    async def PreStartContainer(  # noqa: N802 - the service's name
        self, request: api.PreStartContainerRequest, context: "Context"
    ) -> api.PreStartContainerResponse:
        """Do nothing: the options do not ask for this call."""
        return api.PreStartContainerResponse()


def handler(service: ServiceDescriptor, answers: object) -> grpc.GenericRpcHandler:
    """Return the handler of a service; an object has its methods by their names in the .proto file."""
    methods = {}
    for method in service.methods:
        kind = grpc.unary_stream_rpc_method_handler if method.server_streaming else grpc.unary_unary_rpc_method_handler
        request, answer = map(message_factory.GetMessageClass, (method.input_type, method.output_type))
        methods[method.name] = kind(getattr(answers, method.name), request.FromString, answer.SerializeToString)
    return grpc.method_handlers_generic_handler(service.full_name, methods)


def device(replica: advertised.Replica) -> api.Device:
    """Return a share as the kubelet reads it; NUMA node 0 is an empty message, and differs from no node."""
    topology = None
    if replica.numa_node is not None:
        topology = api.TopologyInfo(nodes=[api.NUMANode(ID=replica.numa_node)])
    return api.Device(ID=replica.id, health="Healthy" if replica.healthy else "Unhealthy", topology=topology)


class _Socket(msgspec.Struct, kw_only=True):
    """A socket that the kubelet may dial."""

    path: Path
    identity: tuple[int, int] | None = None
    watched: bool = False
    why_lost: str = ""
    lost: asyncio.Event = msgspec.field(default_factory=asyncio.Event)

    def is_there(self) -> bool:
        """Return whether the file is still this socket; false also when it was removed during its creation."""
        return self.identity is not None and _identity(self.path) == self.identity

    def lose(self, why: str) -> None:
        """Ask for a new socket."""
        if not self.lost.is_set():
            self.why_lost = why
            self.lost.set()


class Served(abc.ABC):
    """Keep a socket of services registered with the kubelet, as long as `run` runs."""

    def __init__(self, where: paths.Paths, info: registry.PluginInfo, stem: str) -> None:
        self.resource = info.name
        """The name of what is served: of a resource, or of a driver."""
        self.results = {"succeeded": 0, "failed": 0}
        self.changed: Callable[[], None] | None = None
        """Called when `registered` may have changed."""
        self._sockets = where.sockets
        self._info = info
        self._name = stem
        self._socket: _Socket | None = None
        self._refusals = 0

    @property
    @abc.abstractmethod
    def registered(self) -> bool:
        """Return whether a kubelet uses it."""

    @abc.abstractmethod
    def _handlers(self) -> Sequence[grpc.GenericRpcHandler]:
        """Return the handlers of its services but Registration."""

    @abc.abstractmethod
    def _taken(self, socket: _Socket) -> None:
        """Do what is due once the kubelet has taken the socket."""

    def check(self) -> None:
        """Replace the socket if its file was removed or replaced; to be called when the folder may have changed."""
        if self._socket is not None and not self._socket.is_there():
            self._socket.lose("Its socket was removed or replaced.")

    async def run(self) -> None:
        """Keep it registered until cancelled; raises `errors.Failure` when no socket can be created."""
        while True:
            socket = _Socket(path=self._sockets / f"{self._name}-{secrets.token_hex(4)}.sock")
            server = await self._serve(socket)
            self._socket = socket
            try:
                await socket.lost.wait()
            finally:
                self._socket = None
                # Without grace: open streams would use all of it, and calls take milliseconds.
                await server.stop(None)
                _remove(socket.path)
            LOG.warning("The resource is offered anew.", extra={"resource": self.resource, "reason": socket.why_lost})
            doublings = min(self._refusals, _LONGEST_DOUBLING)
            await asyncio.sleep(min(_APART_S * 2**doublings, _LONGEST_PAUSE_S))

    async def _serve(self, socket: _Socket) -> aio.Server:
        if len(str(socket.path).encode()) > _LONGEST_PATH:
            raise errors.Failure(f"The path of the socket '{socket.path}' is longer than {_LONGEST_PATH} bytes.")
        server = aio.server()
        registration = RegistrationService(self._info, lambda taken, error: self._told(socket, taken, error))
        own = handler(registry.DESCRIPTOR.services_by_name["Registration"], registration)
        server.add_generic_rpc_handlers((own, *self._handlers()))
        try:
            self._sockets.mkdir(mode=0o750, parents=True, exist_ok=True)
            server.add_insecure_port(f"unix:{socket.path}")
            await server.start()
        except (OSError, RuntimeError) as error:
            raise errors.Failure(f"The socket '{socket.path}' cannot be made: {error}.") from error
        socket.identity = _identity(socket.path)
        return server

    def _told(self, socket: _Socket, taken: bool, error: str) -> None:
        if taken:
            self.results["succeeded"] += 1
            LOG.info("The kubelet took the resource.", extra={"resource": self.resource})
            self._taken(socket)
        else:
            self._refusals += 1
            self.results["failed"] += 1
            socket.lose(f"The kubelet refused it: {error}")


class Registration(Served):
    """Keep one resource registered with the kubelet, as long as `run` runs."""

    def __init__(self, where: paths.Paths, resource: config.Resource, plugin: DevicePlugin, shown: DeviceList) -> None:
        info = registry.PluginInfo(type="DevicePlugin", name=resource.name, supported_versions=[API_VERSION])
        super().__init__(where, info, socket_name(resource))
        self.devices = shown
        self._plugin = plugin
        shown.watched = self._streams_changed

    @property
    def registered(self) -> bool:
        """Return whether a kubelet watches the resource."""
        return self.devices.streams > 0

    def _handlers(self) -> Sequence[grpc.GenericRpcHandler]:
        return (handler(api.DESCRIPTOR.services_by_name["DevicePlugin"], self._plugin),)

    def _taken(self, socket: _Socket) -> None:
        asyncio.get_running_loop().call_later(_STREAM_S, self._expect_stream, socket)

    def _expect_stream(self, socket: _Socket) -> None:
        if not socket.watched and not socket.lost.is_set():
            self._refusals += 1
            socket.lose("The kubelet took it, and does not watch it.")

    def _streams_changed(self) -> None:
        if self._socket is not None:
            if self.registered:
                self._refusals = 0
                self._socket.watched = True
            elif self._socket.watched:
                self._socket.lose("The kubelet's stream ended.")
        if self.changed is not None:
            self.changed()


def socket_name(resource: config.Resource) -> str:
    """Return the beginning of the names of a resource's sockets: short, as the path of a socket is."""
    return resource.socket or re.sub("[^a-z0-9-]", "-", resource.name.partition("/")[2].lower())[:24]


def clear(where: paths.Paths) -> None:
    """Remove the sockets of a killed predecessor: the kubelet would dial them in vain."""
    with contextlib.suppress(FileNotFoundError):
        # What else is in there is not the plugin's, and the kubelet does not dial it.
        for path in filter(Path.is_socket, where.sockets.iterdir()):
            _remove(path)


def _remove(path: Path) -> None:
    # A folder stays: the kubelet dials none, and no socket of ours gets its name.
    with contextlib.suppress(IsADirectoryError):
        path.unlink(missing_ok=True)


def _identity(path: Path) -> tuple[int, int] | None:
    with contextlib.suppress(OSError):
        status = path.lstat()
        # The kernel soon reuses the number of an inode. A socket's modification time is that of its making, and neither
        # chmod nor chown nor restorecon changes it.
        return status.st_ino, status.st_mtime_ns
    return None
