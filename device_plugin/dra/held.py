"""The devices that containers have from a device plugin, as the kubelet says."""

from collections.abc import Collection
from pathlib import Path

from grpc import aio

from device_plugin.kubelet import advertised
from runtime import errors
from runtime.api import podresources_v1_pb2 as api

_LIST = "/v1.PodResourcesLister/List"
_WITHIN_S = 5.0
_MESSAGE_BYTES = 64 << 20
"""A node may have more pods than fit in gRPC's default of 4 MiB."""

_OPTIONS = (
    ("grpc.default_authority", "localhost"),  # The kubelet's server refuses gRPC's default, the path.
    ("grpc.max_receive_message_length", _MESSAGE_BYTES),
    ("grpc.use_local_subchannel_pool", 1),
)


async def by_device_plugin(socket: Path, resources: Collection[str]) -> frozenset[tuple[str, str]]:
    """Return resource and id of each device that a device plugin gave; raises `errors.Failure` without an answer."""
    try:
        async with aio.insecure_channel(f"unix:{socket}", options=_OPTIONS) as channel:
            call = channel.unary_unary(
                _LIST,
                request_serializer=api.ListPodResourcesRequest.SerializeToString,
                response_deserializer=api.ListPodResourcesResponse.FromString,
            )
            answer: api.ListPodResourcesResponse = await call(api.ListPodResourcesRequest(), timeout=_WITHIN_S)
    except aio.AioRpcError as error:
        raise errors.Failure(
            f"The kubelet does not say at '{socket}' which pods have devices of a device plugin: {error.details()}."
        ) from error
    return frozenset(
        (given.resource_name, advertised.address_of(name))
        for pod in answer.pod_resources
        for container in pod.containers
        for given in container.devices
        if given.resource_name in resources
        for name in given.device_ids
    )
