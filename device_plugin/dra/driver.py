"""Serve the kubelet as a driver of Dynamic Resource Allocation: prepare and end claims, and tell the devices' health.

The kubelet asks before it makes a pod's sandbox, and again until it has an answer, so that a refusal has the pod wait
(pkg/kubelet/cm/dra/manager.go). It asks for the end of each claim that it asked to prepare, however that went, and
keeps the pod in Terminating until it has it.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc
import msgspec
from grpc import aio

from device_plugin import plugin
from device_plugin.api import dra_health_v1alpha1_pb2 as health_api
from device_plugin.api import dra_v1_pb2 as api
from device_plugin.api import pluginregistration_v1_pb2 as registry
from device_plugin.dra import api_server, cdi, claims, held, publisher, slices
from device_plugin.host import health, paths
from device_plugin.kubelet import advertised, service
from runtime import errors, files

LOG = logging.getLogger(__name__)

VERSIONS = ("v1.DRAPlugin", "v1alpha1.DRAResourceHealth")

_HEALTH_S = 20
"""The time after which the health is told again."""
_HEALTH_TIMEOUT_S = 60
"""Without a word for so long the kubelet takes the health for unknown; its default of 30 s is short on a busy node."""

_HELD_S = 2.0
_ADMITTED_S = 60.0
"""The time in which pods that a device plugin had been asked for come to the kubelet's list."""
_RETRY_S = 1.0

WIPED_S = 35.0
"""The time after which a kubelet has deleted the slices of a driver that went without doing so."""

Work = Callable[[], Coroutine[object, object, object]]

if TYPE_CHECKING:
    Context = aio.ServicerContext[Any, Any]


class Claiming(service.Served):
    """A driver that ends claims, and prepares none: for a node that is back at device plugins."""

    versions: Sequence[str] = VERSIONS[:1]

    def __init__(self, node: plugin.Plugin) -> None:
        self.driver = node.settings.home.dra_driver
        info = registry.PluginInfo(type="DRAPlugin", name=self.driver, supported_versions=self.versions)
        super().__init__(node.where, info, "dra")
        self.claims = claims.Claims(node.where.claims)
        self._node = node
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
        self._give()
        return (self._serve_claims,)

    def _give(self) -> None:
        """Keep the devices of claims from the device plugin."""
        self._node.given = {
            key: health.Reason(code=health.GIVEN_BY_CLAIM, text=f"The claim {claim} has it.")
            for key, claim in self.claims.held().items()
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
                    await asyncio.sleep(_RETRY_S)
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
        self._give()
        self._node.again()

    def _handlers(self) -> Sequence[grpc.GenericRpcHandler]:
        return (service.handler(api.DESCRIPTOR.services_by_name["DRAPlugin"], self),)

    def _taken(self, socket: Any) -> None:
        self._is_taken = True
        self._refusals = 0
        if self.changed is not None:
            self.changed()


class Driver(Claiming):
    """The driver of a node whose interface is DRA."""

    versions = VERSIONS

    def __init__(self, node: plugin.Plugin, name: str, server: api_server.ApiServer) -> None:
        super().__init__(node)
        self.name = name
        """The node's, which is also that of its pool."""
        self.publisher = publisher.Publisher(server, self.driver, name)
        self.publisher.changed = self._told_changed
        self.publisher.noted = self._note
        self._server = server
        self._offers: Mapping[str, slices.Offer] = {}
        self._edits: Mapping[str, cdi.Edits] = {}
        self._last: Mapping[str, Mapping[str, Any]] = {}
        self._queues: dict[str, int] = {}
        self._health: Sequence[tuple[str, tuple[str, ...]]] = ()
        self._streams: set[asyncio.Event] = set()
        self._lacks = ""
        """Why the container runtime does not find the devices; empty when it does."""
        node.applied = self._apply

    @property
    def registered(self) -> bool:
        """Return whether a kubelet has taken the driver, and the scheduler sees the devices."""
        return super().registered and self.publisher.is_published

    @property
    def registrations(self) -> Sequence[service.Served]:
        """Return this: without it nobody gets a device."""
        return (self,)

    async def begin(self) -> Sequence[Work]:
        """Learn what a device plugin gave, before anything is offered; return what is to run."""
        said = ""
        while True:
            try:
                await self._hold()
            except errors.Failure as failure:
                if str(failure) != said:
                    LOG.warning("Nothing is offered yet.", extra={"reason": str(failure)})
                said = str(failure)
                await asyncio.sleep(_RETRY_S)
            else:
                break
        for path in cdi.files(self._node.where.cdi, self.driver, "claim"):
            if self.claims.get(path.stem.partition("-claim-")[2]) is None:
                path.unlink(missing_ok=True)
        return self.publisher.run, self._watch_held

    async def _watch_held(self) -> None:
        """Look until nothing of a device plugin is left, and then wait for ever."""
        until = time.monotonic() + _ADMITTED_S
        while self._node.given or time.monotonic() < until:
            await asyncio.sleep(_HELD_S)
            with contextlib.suppress(errors.Failure):
                before = self._node.given
                await self._hold()
                if self._node.given != before:
                    self._node.again()
        await asyncio.Event().wait()

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
        for name, why in self._health:
            answer.devices.add(
                device=health_api.DeviceIdentifier(pool_name=self.name, device_name=name),
                health=health_api.UNHEALTHY if why else health_api.HEALTHY,
                last_updated_time=now,
                health_check_timeout_seconds=_HEALTH_TIMEOUT_S,
                message=" ".join(why),
            )
        return answer

    async def _hold(self) -> None:
        resources = [resource.name for resource in self._node.settings.resources]
        given = await held.by_device_plugin(self._node.where.pod_resources, resources)
        text = "A container has it from the device plugin that was here before."
        why = health.Reason(code=health.GIVEN_BY_DEVICE_PLUGIN, text=text)
        self._node.given = dict.fromkeys(sorted(given), why)

    async def _prepare(self, claim: api.Claim) -> list[api.Device]:
        path = f"/apis/{slices.GROUP}/namespaces/{claim.namespace}/resourceclaims/{claim.name}"
        known = self.claims.get(claim.uid) or claims.Claim(namespace=claim.namespace, name=claim.name)
        self.claims.put(claim.uid, known)
        stored = await self._server.ask("GET", path)
        if stored["metadata"]["uid"] != claim.uid:
            raise service.Refusal(f"The claim {known.text} is another one by now.")
        results = [
            result
            for result in ((stored.get("status") or {}).get("allocation") or {}).get("devices", {}).get("results", ())
            if (result["driver"], result["pool"]) == (self.driver, self.name)
        ]
        given = tuple(self._given(result) for result in results)
        if (why := self.claims.conflict(claim.uid, given)) is not None:
            raise service.Refusal(why)
        await self._refresh()
        variables = await self._variables(given)
        self._write_devices()
        if self._lacks:
            raise service.Refusal(self._lacks)
        for device in given:
            if device.device not in self._edits:
                raise service.Refusal(f"Device {device.device} has no device node that a container could open.")
        self._write_claim(claim.uid, variables)
        self.claims.put(claim.uid, msgspec.structs.replace(known, devices=given, is_prepared=True, variables=variables))
        LOG.info("Prepared a claim.", extra={"claim": known.text, "devices": [device.device for device in given]})
        return [self._answered(claim.uid, device, variables) for device in given]

    def _given(self, result: Mapping[str, Any]) -> claims.Given:
        offer = self._offers.get(result["device"])
        if offer is None:
            raise service.Refusal(f"Device {result['device']} is not there.")
        consumed = result.get("consumedCapacity") or {}
        return claims.Given(
            device=offer.name,
            resource=offer.resource,
            id=offer.id,
            # That of an alternative is main/sub, and containers name the main one.
            request=str(result["request"]).partition("/")[0],
            share=str(result.get("shareID") or ""),
            queues=str(consumed.get("queues", "")),
            is_admin=bool(result.get("adminAccess")),
        )

    async def _refresh(self) -> None:
        """Learn of devices of a device plugin that containers came to have late."""
        before = self._node.given
        await self._hold()
        if self._node.given != before:
            self._node.again()

    async def _variables(self, given: Sequence[claims.Given]) -> dict[str, dict[str, str]]:
        """Return the variables that only this claim has, by request; raises `Refusal` for what cannot be used now."""
        requests: dict[tuple[str, str], list[claims.Given]] = {}
        for device in given:
            requests.setdefault((device.request, device.resource), []).append(device)
        made: dict[str, dict[str, str]] = {}
        for (request, resource), devices in requests.items():
            answer = await self._node.allocate(resource, [device.id for device in devices])
            own = [self._edits[device.device].env for device in devices if device.device in self._edits]
            several = {
                name: value
                for name, value in answer.envs.items()
                if any(name in env and env[name] != value for env in own)
            }
            amounts = {name: device.queues for device in devices if device.queues and (name := _variable(device.id))}
            made.setdefault(request, {}).update(several | amounts)
        return {request: variables for request, variables in made.items() if variables}

    def _write_claim(self, uid: str, variables: Mapping[str, Mapping[str, str]]) -> None:
        path = cdi.file(self._node.where.cdi, self.driver, "claim", uid)
        if not variables:
            path.unlink(missing_ok=True)
            return
        devices = {f"{uid}-{request}": cdi.Edits(env=own) for request, own in variables.items()}
        _write(path, cdi.spec(cdi.kind(self.driver, "claim"), cdi.Edits(), devices))

    def _answered(self, uid: str, device: claims.Given, variables: Mapping[str, object]) -> api.Device:
        names = [f"{cdi.kind(self.driver, 'device')}={device.device}"]
        if device.request in variables:
            names.append(f"{cdi.kind(self.driver, 'claim')}={uid}-{device.request}")
        made = api.Device(
            request_names=[device.request], pool_name=self.name, device_name=device.device, cdi_device_ids=names
        )
        if device.share:
            made.share_id = device.share
        return made

    def _end(self, uid: str) -> None:
        cdi.file(self._node.where.cdi, self.driver, "claim", uid).unlink(missing_ok=True)
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
        self._offers = slices.offers(self._node.settings, self._node.offered)
        self._write_devices()
        for uid, claim in self.claims.items():
            with contextlib.suppress(OSError):  # Somebody removed it; what is wrong is told by the other file.
                self._write_claim(uid, claim.variables)
        self._count_queues()
        made = {
            name: slices.device(offer, self._node.settings, self._queues.get(name))
            for name, offer in sorted(self._offers.items())
        }
        claimed = self.claims.names()
        # One that is gone stays to be seen while a claim has it, and nobody else gets it.
        lost = {
            name: {**device, "taints": slices.taints((slices.LOST,))}
            for name, device in self._last.items()
            if name in claimed and name not in made
        }
        self._last = dict(sorted((made | lost).items()))
        self.publisher.show(list(self._last.values()))
        told = [(name, offer.device.why) for name, offer in sorted(self._offers.items())]
        told += [(name, (slices.LOST.text,)) for name in sorted(claimed.keys() - self._offers.keys())]
        if told != self._health:
            self._health = told
            for stream in self._streams:
                stream.set()

    def _write_devices(self) -> None:
        """Write the file of CDI: an answer of the plugin for each device, and once what all have in common."""
        where, resources = self._node.where, self._node.settings.resources
        without = [cdi.edits(where, self._node.edits(resource.name, ())) or cdi.Edits() for resource in resources]
        common = cdi.shared(without)
        made: dict[str, cdi.Edits] = {}
        for name, offer in self._offers.items():
            devices = () if _is_token(offer.device) else (offer.device,)
            if health.CHANGING in offer.device.reasons:
                continue
            if (own := cdi.edits(where, self._node.edits(offer.resource, devices))) is not None:
                made[name] = own.without(common)
        self._edits = made
        path = cdi.file(where.cdi, self.driver, "device")
        try:
            _write(path, cdi.spec(cdi.kind(self.driver, "device"), common, made))
            self._lacks = ""
        except OSError as error:
            self._lacks = f"'{path}' cannot be written: {error.strerror}."
            LOG.warning("%s", self._lacks)

    def _count_queues(self) -> None:
        """Note the most free queues of each device since it appeared: sysfs does not say how many there are."""
        there = {
            name: entry.free_queues or 0
            for name, offer in self._offers.items()
            if isinstance(offer.device, advertised.Device) and (entry := offer.device.function.entry) is not None
        }
        self._queues = {name: max(free, self._queues.get(name, 0)) for name, free in there.items()}


def _is_token(device: advertised.AnyDevice) -> bool:
    return isinstance(device, advertised.Unit) and device.group is None


def _variable(device: str) -> str | None:
    """Return the variable that says how many queues of a device a container may use."""
    with contextlib.suppress(ValueError):
        return f"KAE_QUEUES_{paths.number(device)}"
    return None


def _write(path: Path, content: bytes) -> None:
    with contextlib.suppress(OSError):
        if path.read_bytes() == content:
            return
    path.parent.mkdir(parents=True, exist_ok=True)
    # The runtime reads each file whose name ends with .json.
    with files.replaced(path) as fresh:
        fresh.write_bytes(content)
