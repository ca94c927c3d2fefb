"""Serve the kubelet as the driver of a node whose interface is DRA: prepare claims, and tell the devices' health."""

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import grpc
import msgspec

from device_plugin import plugin
from device_plugin.api import dra_health_v1alpha1_pb2 as health_api
from device_plugin.api import dra_v1_pb2 as api
from device_plugin.dra import (
    api_server,
    cdi,
    claim_service,
    claims,
    forgotten,
    held,
    offering,
    publisher,
    quantities,
    resource_claims,
)
from device_plugin.host import health, paths
from device_plugin.kubelet import service
from runtime import errors

if TYPE_CHECKING:
    from grpc import aio

    Context = aio.ServicerContext[Any, Any]

LOG = logging.getLogger(__name__)

_HEALTH_S = 20
"""The time after which the health is told again."""
_HEALTH_TIMEOUT_S = 60
"""Without a word for so long the kubelet takes the health for unknown; its default of 30 s is short on a busy node."""

_HELD_S = 2.0
_ADMITTED_S = 60.0
"""The time in which pods that a device plugin had been asked for come to the kubelet's list."""


class Driver(claim_service.Claiming):
    """The driver of a node whose interface is DRA."""

    versions = (claim_service.VERSION, "v1alpha1.DRAResourceHealth")

    def __init__(self, node: plugin.Plugin, name: str, server: api_server.ApiServer) -> None:
        super().__init__(node)
        self.name = name
        """The node's, which is also that of its pool."""
        self.publisher = publisher.Publisher(server, self.driver, name)
        self.publisher.changed = self._told_changed
        self.publisher.noted = self._note
        self._server = server
        self._offering = offering.Offering(node, self.driver, self.claims)
        self._forgotten = forgotten.Forgotten(node.where, server, self.claims)
        self._late = asyncio.Event()
        """Set as a device of a device plugin is found."""
        self._health: Sequence[tuple[str, tuple[str, ...]]] = ()
        self._streams: set[asyncio.Event] = set()
        node.applied = self._apply

    @property
    def registered(self) -> bool:
        """Return whether a kubelet has taken the driver, and the scheduler sees the devices."""
        return super().registered and self.publisher.is_published

    @property
    def registrations(self) -> Sequence[service.Served]:
        """Return this: without it nobody gets a device."""
        return (self,)

    async def begin(self) -> Sequence[claim_service.Work]:
        """Learn what a device plugin gave, before anything is offered; return what is to run."""
        said = ""
        while True:
            try:
                await self._hold()
            except errors.Failure as failure:
                if str(failure) != said:
                    LOG.warning("Nothing is offered yet.", extra={"reason": str(failure)})
                said = str(failure)
                await asyncio.sleep(claim_service.RETRY_S)
            else:
                break
        self._offering.discard()
        return self.publisher.run, self._watch_held, self._watch_claims

    async def _watch_held(self) -> None:
        """Look as long as something of a device plugin is left, and again once something is found late."""
        until = time.monotonic() + _ADMITTED_S
        while True:
            offered = ((device.resource, each) for device in self._node.offered for each in device.ids)
            if time.monotonic() >= until and self._node.given.keys().isdisjoint(offered):
                self._late.clear()
                await self._late.wait()
            await asyncio.sleep(_HELD_S)
            with contextlib.suppress(errors.Failure):
                await self._refresh()

    async def _watch_claims(self) -> None:
        """End claims that nobody knows any more, and have the others that are not known tainted."""
        while True:
            before = self._forgotten.unknown
            for uid in await self._forgotten.look():
                with contextlib.suppress(OSError):  # The next look does it again.
                    self._end(uid)
            if self._forgotten.unknown != before:
                self._apply()
            await self._forgotten.wait()

    async def NodeWatchResources(  # noqa: N802 - the service's name
        self, request: health_api.NodeWatchResourcesRequest, context: "Context"
    ) -> AsyncGenerator[health_api.NodeWatchResourcesResponse, None]:
        """Yield the health of all devices, at each change and from time to time."""
        changed = asyncio.Event()
        self._streams.add(changed)
        try:
            while True:
                changed.clear()
                yield self._told_health()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(changed.wait(), _HEALTH_S)
        finally:
            self._streams.discard(changed)

    def _told_health(self) -> health_api.NodeWatchResourcesResponse:
        now, answer = int(time.time()), health_api.NodeWatchResourcesResponse()
        for name, why in self._offering.health:
            answer.devices.add(
                device=health_api.DeviceIdentifier(pool_name=self.name, device_name=name),
                health=health_api.UNHEALTHY if why else health_api.HEALTHY,
                last_updated_time=now,
                health_check_timeout_seconds=_HEALTH_TIMEOUT_S,
                message=" ".join(why),
            )
        return answer

    async def _hold(self) -> None:
        given = await held.by_device_plugin(self._node.where.pod_resources, self._resources)
        text = "A container has it from the device plugin that was here before."
        why = health.Reason(code=health.GIVEN_BY_DEVICE_PLUGIN, text=text)
        self._node.given = dict.fromkeys(sorted(given), why)

    async def _prepare(self, claim: api.Claim) -> list[api.Device]:
        known = self.claims.get(claim.uid) or claims.Claim(namespace=claim.namespace, name=claim.name)
        self.claims.put(claim.uid, known)
        stored = await resource_claims.stored(self._server, known.namespace, known.name)
        if stored.metadata.uid != claim.uid:
            raise service.Refusal(f"The claim {known.text} is another one by now.")
        own = [result for result in stored.results if (result.driver, result.pool) == (self.driver, self.name)]
        if not own:
            raise service.Refusal(f"The claim {known.text} was given no device of this node.")
        given = tuple(self._given(result) for result in own)
        self._refuse_held(claim.uid, given)
        await self._refresh()
        variables = await self._variables(given, known.devices if known.is_prepared else ())
        # Meanwhile the claim may have ended, and another one have been prepared. From here on nothing is waited for.
        if self.claims.get(claim.uid) is None:
            raise service.Refusal(f"The claim {known.text} has ended meanwhile.")
        self._refuse_held(claim.uid, given)
        self._offering.write_devices()
        if self._offering.lacks:
            raise service.Refusal(self._offering.lacks)
        for device in given:
            if not (self._offering.is_open(device.device) or self._is_left_out(device)):
                raise service.Refusal(f"Device {device.device} has no device node that a container could open.")
        self._offering.write_claim(claim.uid, variables)
        self.claims.put(claim.uid, msgspec.structs.replace(known, devices=given, is_prepared=True, variables=variables))
        LOG.info("Prepared a claim.", extra={"claim": known.text, "devices": [device.device for device in given]})
        return [self._answered(claim.uid, device, variables) for device in given]

    def _refuse_held(self, uid: str, given: Sequence[claims.Given]) -> None:
        if (why := self.claims.conflict(uid, given)) is not None:
            self._forgotten.doubt()
            raise service.Refusal(why)

    def _is_left_out(self, device: claims.Given) -> bool:
        """Return whether a container does without a device that cannot be used: one that only looks on does."""
        return device.is_admin and health.CHANGING not in self._offering.offer(device.device).device.reasons

    def _given(self, result: resource_claims.Result) -> claims.Given:
        offer = self._offering.offer(result.device)
        amount = (result.consumed_capacity or {}).get("queues", "")
        try:
            queues = str(quantities.whole(amount)) if amount else ""
        except ValueError as error:
            raise service.Refusal(f"The claim's amount of queues of device {result.device}: {error}.") from error
        return claims.Given(
            device=result.device,
            resource=offer.resource,
            id=offer.id,
            # That of an alternative is main/sub, and containers name the main one.
            request=result.request.partition("/")[0],
            share=result.share or "",
            queues=queues,
            is_admin=bool(result.admin_access),
        )

    async def _refresh(self) -> None:
        """Learn which devices of a device plugin containers have."""
        before = self._node.given
        await self._hold()
        if self._node.given.keys() - before.keys():
            self._late.set()
            self._node.again()
        elif self._node.given != before:
            # What is free has more free queues now: it is read first.
            self._node.surprised()

    async def _variables(
        self, given: Sequence[claims.Given], before: Sequence[claims.Given]
    ) -> dict[str, dict[str, str]]:
        """Return the variables that only this claim has, by request; raises `Refusal` for what cannot be used now.

        What the claim had before stays its own: a pod comes back with it as by a device plugin, whose answer is kept.
        """
        requests: dict[tuple[str, str], list[claims.Given]] = {}
        for device in given:
            requests.setdefault((device.request, device.resource), []).append(device)
        made: dict[str, dict[str, str]] = {}
        for (request, resource), devices in requests.items():
            if devices[0].is_admin or set(devices) <= set(before):
                # Nobody else may have it now, but who only looks on, and who has it already, may.
                found = {
                    offer.device.ids: offer.device for each in devices for offer in (self._offering.offer(each.device),)
                }
                answer = self._node.edits(resource, list(found.values()))
            else:
                answer = await self._node.allocate(resource, [device.id for device in devices])
            envs = [self._offering.variables(device.device) for device in devices]
            several = {
                name: value
                for name, value in answer.envs.items()
                if any(name in env and env[name] != value for env in envs)
            }
            amounts = {name: device.queues for device in devices if device.queues and (name := _variable(device.id))}
            made.setdefault(request, {}).update(several | amounts)
        return {request: variables for request, variables in made.items() if variables}

    def _answered(self, uid: str, device: claims.Given, variables: Mapping[str, object]) -> api.Device:
        names = []
        if self._offering.is_open(device.device):
            names.append(f"{cdi.kind(self.driver, 'device')}={device.device}")
        if device.request in variables:
            names.append(f"{cdi.kind(self.driver, 'claim')}={uid}-{device.request}")
        made = api.Device(
            request_names=[device.request], pool_name=self.name, device_name=device.device, cdi_device_ids=names
        )
        if device.share:
            made.share_id = device.share
        return made

    def _end(self, uid: str) -> None:
        self._offering.remove_claim(uid)
        self.claims.remove(uid)
        self._apply()

    def _handlers(self) -> Sequence[grpc.GenericRpcHandler]:
        own = service.handler(health_api.DESCRIPTOR.services_by_name["DRAResourceHealth"], self)
        return (*super()._handlers(), own)

    def _taken(self, socket: Any) -> None:
        self.publisher.look()
        super()._taken(socket)

    def _note(self, is_published: bool) -> None:
        # Where the disk refuses, a way back waits as if slices were there; or they are written all the same.
        with contextlib.suppress(OSError):
            self.claims.publish(is_published=is_published)

    def _told_changed(self) -> None:
        if self.changed is not None:
            self.changed()

    def _apply(self) -> None:
        """Have the runtime and the scheduler see the devices as they are: called after each look."""
        before = self._offering.health
        self.publisher.show(self._offering.update(self._forgotten.unknown))
        if self._offering.health != before:
            for stream in self._streams:
                stream.set()


def _variable(device: str) -> str | None:
    """Return the variable that says how many queues of a device a container may use."""
    with contextlib.suppress(ValueError):
        return f"KAE_QUEUES_{paths.number(device)}"
    return None
