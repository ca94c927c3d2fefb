"""The two gRPC services of a resource, on one socket.

Registration is how the kubelet's plugin watcher learns what answers there (kubernetes/kubernetes
pkg/kubelet/pluginmanager); DevicePlugin is the API v1beta1. Both are asked by the kubelet alone.
"""

import contextlib
import logging
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import grpc
from grpc import aio

from device_plugin import advertised, config, device_list, preferred_allocation
from device_plugin.api import deviceplugin_v1beta1_pb2 as api
from device_plugin.api import deviceplugin_v1beta1_pb2_grpc as api_grpc
from device_plugin.api import pluginregistration_v1_pb2 as registry
from device_plugin.api import pluginregistration_v1_pb2_grpc as registry_grpc
from runtime import shapes

LOG = logging.getLogger(__name__)
API_VERSION = "v1beta1"

if TYPE_CHECKING:
    Context = aio.ServicerContext[Any, Any]


class Refusal(Exception):  # noqa: N818 - a refusal is an answer, not a bug
    """A container cannot have what it was given; the message is one sentence for the pod's events."""


class Node(Protocol):
    """What the services need to know of the node."""

    def allocate(self, resource: str, ids: Sequence[str]) -> api.ContainerAllocateResponse:
        """The answer for one container; raises `Refusal`."""

    def loads(self, resource: str) -> dict[str, preferred_allocation.Load]:
        """Where each device of a resource is, and how much of it is free."""


class Registration(registry_grpc.RegistrationServicer):
    """Says which resource answers here, and hears whether the kubelet takes it."""

    def __init__(self, resource: str, told: Callable[[bool, str], None]) -> None:
        self._resource = resource
        self._told = told

    async def GetInfo(  # noqa: N802 - the service's name
        self, request: registry.InfoRequest, context: "Context"
    ) -> registry.PluginInfo:
        """Asked within a second of the socket's appearance."""
        return registry.PluginInfo(type="DevicePlugin", name=self._resource, supported_versions=[API_VERSION])

    async def NotifyRegistrationStatus(  # noqa: N802 - the service's name
        self, request: registry.RegistrationStatus, context: "Context"
    ) -> registry.RegistrationStatusResponse:
        """Told after the kubelet has dialled, or failed to."""
        self._told(request.plugin_registered, request.error)
        return registry.RegistrationStatusResponse()


class DevicePlugin(api_grpc.DevicePluginServicer):
    """Offers the devices of one resource."""

    def __init__(self, kind: shapes.Kind, settings: config.Config, shown: device_list.Board, node: Node) -> None:
        self._resource = kind.resource
        self._packed = settings.allocation_policy == "Packed"
        self._board = shown
        self._node = node

    async def GetDevicePluginOptions(  # noqa: N802 - the service's name
        self, request: api.Empty, context: "Context"
    ) -> api.DevicePluginOptions:
        """Which of the optional calls are of use."""
        return api.DevicePluginOptions(get_preferred_allocation_available=True)

    async def ListAndWatch(  # noqa: N802 - the service's name
        self, request: api.Empty, context: "Context"
    ) -> AsyncGenerator[api.ListAndWatchResponse, None]:
        """Every list replaces the one before."""
        LOG.info("The kubelet watches the resource.", extra={"resource": self._resource})
        async with contextlib.aclosing(self._board.lists()) as lists:
            async for replicas in lists:
                yield api.ListAndWatchResponse(devices=[device(replica) for replica in replicas])

    async def GetPreferredAllocation(  # noqa: N802 - the service's name
        self, request: api.PreferredAllocationRequest, context: "Context"
    ) -> api.PreferredAllocationResponse:
        """Never an error: that would reject the pod."""
        loads = self._node.loads(self._resource)
        return api.PreferredAllocationResponse(
            container_responses=[
                api.ContainerPreferredAllocationResponse(
                    deviceIDs=preferred_allocation.preferred(
                        preferred_allocation.Wish(
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
        """One answer for each container; refused as a whole if one cannot have what it was given."""
        answers = []
        for asked in request.container_requests:
            try:
                answers.append(self._node.allocate(self._resource, tuple(asked.devices_ids)))
            except Refusal as refusal:
                await context.abort(grpc.StatusCode.FAILED_PRECONDITION, str(refusal))
        return api.AllocateResponse(container_responses=answers)

    async def PreStartContainer(  # noqa: N802 - the service's name
        self, request: api.PreStartContainerRequest, context: "Context"
    ) -> api.PreStartContainerResponse:
        """Not asked for in the options, hence never called."""
        return api.PreStartContainerResponse()


def device(replica: advertised.Replica) -> api.Device:
    """A share as the kubelet reads it; NUMA node 0 is an empty message, which is not the same as none."""
    topology = None
    if replica.numa_node is not None:
        topology = api.TopologyInfo(nodes=[api.NUMANode(ID=replica.numa_node)])
    return api.Device(ID=replica.id, health="Healthy" if replica.healthy else "Unhealthy", topology=topology)
