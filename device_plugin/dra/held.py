"""The devices that containers have from a device plugin, as the kubelet says."""

from collections.abc import Collection
from pathlib import Path

from grpc import aio

from device_plugin.kubelet import advertised
from runtime import errors, pod_resources
from runtime.api import podresources_v1_pb2 as api

_WITHIN_S = 5.0


async def by_device_plugin(socket: Path, resources: Collection[str]) -> frozenset[tuple[str, str]]:
    """Return resource and id of each device that a device plugin gave; raises `errors.Failure` without an answer."""
    try:
        async with aio.insecure_channel(f"unix:{socket}", options=pod_resources.OPTIONS) as channel:
            answer: api.ListPodResourcesResponse = await pod_resources.listed(channel, _WITHIN_S)
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
