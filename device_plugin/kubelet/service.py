"""The two gRPC services of a resource, on one socket, and the list of its devices.

By Registration the kubelet's plugin watcher learns the resource of a socket (kubernetes/kubernetes
pkg/kubelet/pluginmanager); DevicePlugin is the API v1beta1. Only the kubelet calls them.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import grpc
from grpc import aio

from device_plugin.api import deviceplugin_v1beta1_pb2 as api
from device_plugin.api import deviceplugin_v1beta1_pb2_grpc as api_grpc
from device_plugin.api import pluginregistration_v1_pb2 as registry
from device_plugin.api import pluginregistration_v1_pb2_grpc as registry_grpc
from device_plugin.kubelet import advertised, preferred_allocation

LOG = logging.getLogger(__name__)
API_VERSION = "v1beta1"

if TYPE_CHECKING:
    Context = aio.ServicerContext[Any, Any]


class DeviceList:
    """The shares of one resource, as the kubelet sees them.

    Every stream gets the newest list, and skips the lists for which it was too slow.
    """

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


class RegistrationService(registry_grpc.RegistrationServicer):
    """Tell the kubelet the resource of this socket, and learn whether the registration succeeded."""

    def __init__(self, resource: str, told: Callable[[bool, str], None]) -> None:
        self._resource = resource
        self._told = told

    async def GetInfo(  # noqa: N802 - the service's name
        self, request: registry.InfoRequest, context: "Context"
    ) -> registry.PluginInfo:
        """Return the resource; the kubelet asks within a second after the socket appeared."""
        return registry.PluginInfo(type="DevicePlugin", name=self._resource, supported_versions=[API_VERSION])

    async def NotifyRegistrationStatus(  # noqa: N802 - the service's name
        self, request: registry.RegistrationStatus, context: "Context"
    ) -> registry.RegistrationStatusResponse:
        """Take the result; the kubelet calls it after it dialled the socket, or failed to."""
        self._told(request.plugin_registered, request.error)
        return registry.RegistrationStatusResponse()


class DevicePlugin(api_grpc.DevicePluginServicer):
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


def device(replica: advertised.Replica) -> api.Device:
    """Return a share as the kubelet reads it; NUMA node 0 is an empty message, and differs from no node."""
    topology = None
    if replica.numa_node is not None:
        topology = api.TopologyInfo(nodes=[api.NUMANode(ID=replica.numa_node)])
    return api.Device(ID=replica.id, health="Healthy" if replica.healthy else "Unhealthy", topology=topology)
