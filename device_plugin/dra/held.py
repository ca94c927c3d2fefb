"""Ask the kubelet what containers have: devices of a device plugin, and claims."""

from collections.abc import Collection
from pathlib import Path

from grpc import aio

from device_plugin.dra import claims
from device_plugin.kubelet import advertised
from runtime import errors, pci, pod_resources
from runtime.api import podresources_v1_pb2 as api

_WITHIN_S = 5.0


async def by_device_plugin(socket: Path, resources: Collection[str]) -> frozenset[tuple[str, str]]:
    """Return resource and id of each device that a device plugin gave; raises `errors.Failure` without an answer.

    `resources` are those of the node now. A PCI function with another resource was perhaps given before a renaming.
    """
    answer = await _listed(socket)
    return frozenset(
        key
        for pod in answer.pod_resources
        for container in pod.containers
        for given in container.devices
        for name in map(advertised.address_of, given.device_ids)
        if given.resource_name in resources or pci.ADDRESS.fullmatch(name)
        for key in claims.keys(given.resource_name, name, resources)
    )


async def by_claim(socket: Path) -> frozenset[tuple[str, str]]:
    """Return namespace and name of each claim that a pod has; raises `errors.Failure` without an answer."""
    answer = await _listed(socket)
    return frozenset(
        (claim.claim_namespace, claim.claim_name)
        for pod in answer.pod_resources
        for container in pod.containers
        for claim in container.dynamic_resources
    )


async def _listed(socket: Path) -> api.ListPodResourcesResponse:
    try:
        async with aio.insecure_channel(f"unix:{socket}", options=pod_resources.OPTIONS) as channel:
            answer: api.ListPodResourcesResponse = await pod_resources.listed(channel, _WITHIN_S)
            return answer
    except aio.AioRpcError as error:
        raise errors.Failure(
            f"The kubelet does not say at '{socket}' which pods have devices of a device plugin: {error.details()}."
        ) from error
