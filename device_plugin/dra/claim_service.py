"""Serve the kubelet as a driver of Dynamic Resource Allocation: claims, one by one, and their end.

The kubelet asks before it makes a pod's sandbox, and again until it has an answer, so that a refusal has the pod wait
(pkg/kubelet/cm/dra/manager.go). It asks for the end of each claim that it asked to prepare, however that went, and
keeps the pod in Terminating until it has it.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any

import grpc

from device_plugin import plugin
from device_plugin.api import dra_v1_pb2 as api
from device_plugin.api import pluginregistration_v1_pb2 as registry
from device_plugin.dra import claims
from device_plugin.host import health
from device_plugin.kubelet import service
from runtime import errors

if TYPE_CHECKING:
    from grpc import aio

    Context = aio.ServicerContext[Any, Any]

LOG = logging.getLogger(__name__)

VERSION = "v1.DRAPlugin"

RETRY_S = 1.0
WIPED_S = 35.0
"""The time after which a kubelet has deleted the slices of a driver that went without doing so."""

Work = Callable[[], Coroutine[object, object, object]]


class Claiming(service.Served):
    """A driver that ends claims, and prepares none: for a node that is back at device plugins."""

    versions: Sequence[str] = (VERSION,)

    def __init__(self, node: plugin.Plugin) -> None:
        self.driver = node.settings.home.dra_driver
        info = registry.PluginInfo(type="DRAPlugin", name=self.driver, supported_versions=self.versions)
        super().__init__(node.where, info, "dra")
        self._node = node
        self._resources = tuple(resource.name for resource in node.settings.resources)
        self.claims = claims.Claims(node.where.claims, self._resources)
        self._is_taken = False

    @property
    def registered(self) -> bool:
        """Return whether a kubelet has taken the driver, as far as is known: its end is not seen."""
        return self._is_taken and self._socket is not None

    @property
    def registrations(self) -> Sequence[service.Served]:
        """Return what has to be registered before the program is ready."""
        return ()

    async def begin(self) -> Sequence[Work]:
        """Learn what is given, before anything is offered; return what is to run."""
        self._keep_back()
        return (self._serve_claims,)

    def _keep_back(self) -> None:
        """Keep the devices of claims from the device plugin."""
        self._node.given = {
            key: health.Reason(code=health.GIVEN_BY_CLAIM, text=f"The claim {claim.text} has it.")
            for key, ((_, claim, _), *_) in self.claims.held().items()
        }

    async def _serve_claims(self) -> None:
        """Serve until no claim is left, and then wait for ever."""
        if len(self.claims):
            # A driver that registers keeps slices from being deleted that the one before may have left.
            LOG.info("Claims have devices from before; they are ended.", extra={"claims": len(self.claims)})
            await asyncio.sleep(WIPED_S if self.claims.is_published else 0)
            served = asyncio.create_task(self.run())
            try:
                while len(self.claims) and not served.done():
                    await asyncio.sleep(RETRY_S)
            finally:
                served.cancel()
                await asyncio.gather(served, return_exceptions=True)
        await asyncio.Event().wait()

    async def NodePrepareResources(  # noqa: N802 - the service's name
        self, request: api.NodePrepareResourcesRequest, context: "Context"
    ) -> api.NodePrepareResourcesResponse:
        """Return the devices of each claim, or why it has none yet."""
        answer = api.NodePrepareResourcesResponse()
        for claim in request.claims:
            try:
                devices = await self._prepare(claim)
            except (service.Refusal, errors.Failure, OSError) as refusal:
                fields = {"claim": f"{claim.namespace}/{claim.name}", "reason": str(refusal)}
                LOG.warning("Refused to prepare a claim.", extra=fields)
                answer.claims[claim.uid].error = str(refusal)
            else:
                answer.claims[claim.uid].devices.extend(devices)
        return answer

    async def NodeUnprepareResources(  # noqa: N802 - the service's name
        self, request: api.NodeUnprepareResourcesRequest, context: "Context"
    ) -> api.NodeUnprepareResourcesResponse:
        """End claims; one that is not known has been ended before."""
        answer = api.NodeUnprepareResourcesResponse()
        for claim in request.claims:
            try:
                self._end(claim.uid)
            except OSError as error:
                answer.claims[claim.uid].error = f"'{error.filename}' cannot be changed: {error.strerror}."
            else:
                answer.claims[claim.uid].SetInParent()
                LOG.info("Ended a claim.", extra={"claim": f"{claim.namespace}/{claim.name}"})
        return answer

    async def _prepare(self, claim: api.Claim) -> list[api.Device]:
        # It has to be ended, too.
        self.claims.put(
            claim.uid, self.claims.get(claim.uid) or claims.Claim(namespace=claim.namespace, name=claim.name)
        )
        raise service.Refusal("The devices of this node are offered by a device plugin: have the pod scheduled anew.")

    def _end(self, uid: str) -> None:
        self.claims.remove(uid)
        self._keep_back()
        self._node.again()

    def _handlers(self) -> Sequence[grpc.GenericRpcHandler]:
        return (service.handler(api.DESCRIPTOR.services_by_name["DRAPlugin"], self),)

    def _taken(self, socket: Any) -> None:
        self._is_taken = True
        self._refusals = 0
        if self.changed is not None:
            self.changed()
