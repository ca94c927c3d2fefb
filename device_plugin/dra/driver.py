"""Serve the kubelet as a driver of Dynamic Resource Allocation: prepare and end claims, and tell the devices' health.

The kubelet asks before it makes a pod's sandbox, and again until it has an answer, so that a refusal has the pod wait
(pkg/kubelet/cm/dra/manager.go). It asks for the end of each claim that it asked to prepare, however that went, and
keeps the pod in Terminating until it has it.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc
import msgspec
from grpc import aio

from device_plugin import plugin
from device_plugin.api import dra_health_v1alpha1_pb2 as health_api
from device_plugin.api import dra_v1_pb2 as api
from device_plugin.api import pluginregistration_v1_pb2 as registry
from device_plugin.dra import api_server, cdi, claims, forgotten, held, publisher, quantities, resource_claims, slices
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
        self._give()
        return (self._serve_claims,)

    def _give(self) -> None:
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
        self._earlier: Mapping[str, slices.Offer] = {}
        """The offers, by other names that claims have for them."""
        self._edits: Mapping[str, cdi.Edits] = {}
        self._last: Mapping[str, Mapping[str, Any]] = {}
        self._counted = self.claims.queues
        self._forgotten = forgotten.Forgotten(node.where, server, self.claims)
        self._late = asyncio.Event()
        """Set as a device of a device plugin is found."""
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
                with contextlib.suppress(OSError):  # A folder, which is not ours and in nobody's way.
                    path.unlink()
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
        self._write_devices()
        if self._lacks:
            raise service.Refusal(self._lacks)
        for device in given:
            if device.device not in self._edits and not self._is_left_out(device):
                raise service.Refusal(f"Device {device.device} has no device node that a container could open.")
        self._write_claim(claim.uid, variables)
        self.claims.put(claim.uid, msgspec.structs.replace(known, devices=given, is_prepared=True, variables=variables))
        LOG.info("Prepared a claim.", extra={"claim": known.text, "devices": [device.device for device in given]})
        return [self._answered(claim.uid, device, variables) for device in given]

    def _refuse_held(self, uid: str, given: Sequence[claims.Given]) -> None:
        if (why := self.claims.conflict(uid, given)) is not None:
            self._forgotten.doubt()
            raise service.Refusal(why)

    def _offer(self, name: str) -> slices.Offer:
        offer = self._offers.get(name) or self._earlier.get(name)
        if offer is None:
            raise service.Refusal(f"Device {name} is not there.")
        return offer

    def _is_left_out(self, device: claims.Given) -> bool:
        """Return whether a container does without a device that cannot be used: one that only looks on does."""
        return device.is_admin and health.CHANGING not in self._offer(device.device).device.reasons

    def _given(self, result: resource_claims.Result) -> claims.Given:
        offer = self._offer(result.device)
        amount = (result.consumed_capacity or {}).get("queues", "")
        return claims.Given(
            device=result.device,
            resource=offer.resource,
            id=offer.id,
            # That of an alternative is main/sub, and containers name the main one.
            request=result.request.partition("/")[0],
            share=result.share or "",
            queues=str(quantities.whole(amount)) if amount else "",
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
                found = {offer.device.ids: offer.device for each in devices for offer in (self._offer(each.device),)}
                answer = self._node.edits(resource, list(found.values()))
            else:
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
        names = []
        if device.device in self._edits:
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
        given = list(self.claims.given())
        by_key = {(offer.resource, offer.id): offer for offer in self._offers.values()}
        now = {
            each.device: by_key[key]
            for _, _, each in given
            for key in claims.keys(each.resource, each.id, self._resources)
            if key in by_key
        }
        self._earlier = {name: offer for name, offer in now.items() if name not in self._offers}
        self._write_devices()
        for uid, claim in self.claims.items():
            with contextlib.suppress(OSError):  # Somebody removed it; what is wrong is told by the other file.
                self._write_claim(uid, claim.variables)
        self._count_queues()
        held = self.claims.held()
        made = {
            name: slices.device(
                offer,
                self._node.settings,
                _queues(self._counted.get(offer.id), held.get((offer.resource, offer.id), ())),
                list(self._reasons(offer, held.get((offer.resource, offer.id), ()))),
            )
            for name, offer in sorted(self._offers.items())
        }
        # One that is gone stays to be seen while a claim has it, and nobody else gets it.
        gone = {each.device: each for _, _, each in given if not (each.is_admin or each.device in now)}
        lost = {
            name: {**self._last.get(name, slices.lost(name, each.resource)), "taints": slices.taints((slices.LOST,))}
            for name, each in gone.items()
            if name not in made
        }
        self._last = dict(sorted((made | lost).items()))
        self.publisher.show(list(self._last.values()))
        told = [(name, offer.device.why) for name, offer in sorted({**self._earlier, **self._offers}.items())]
        told += [(name, (slices.LOST.text,)) for name in sorted(lost)]
        if told != self._health:
            self._health = told
            for stream in self._streams:
                stream.set()

    def _reasons(
        self, offer: slices.Offer, held: Iterable[tuple[str, claims.Claim, claims.Given]]
    ) -> Iterator[health.Reason]:
        """Yield the reasons of the driver's own why no other claim may be given a device."""
        if self._lacks:
            yield health.Reason(code="HostPath", text=self._lacks)
        elif offer.name not in self._edits and offer.device.healthy:
            yield health.Reason(code="NoDeviceNode", text="It has no device node that a container could open.")
        for uid, claim, given in held:
            if given.device != offer.name or uid in self._forgotten.unknown:
                # The scheduler takes it for free.
                yield health.Reason(code=health.GIVEN_BY_CLAIM, text=f"The claim {claim.text} has it.")

    def _write_devices(self) -> None:
        """Write the file of CDI: an answer of the plugin for each device, and once what all have in common."""
        where, resources = self._node.where, self._node.settings.resources
        without = [cdi.edits(where, self._node.edits(resource.name, ())) or cdi.Edits() for resource in resources]
        common = cdi.shared(without)
        made: dict[str, cdi.Edits] = {}
        for name, offer in {**self._earlier, **self._offers}.items():
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
        """Remember the most free queues of each device since its driver made its entry: sysfs has no other number."""
        counted = {}
        for device in self._node.devices:
            if (entry := device.function.entry) is None:
                continue
            address = device.function.address
            with contextlib.suppress(OSError):  # It is gone by now.
                made = f"{entry.name}/{(self._node.where.sysfs / entry.folder).stat().st_ino}"
                known = self._counted.get(address)
                most = known.most if known is not None and known.entry == made else 0
                counted[address] = claims.Queues(most=max(entry.free_queues or 0, most), entry=made)
        self._counted = counted
        with contextlib.suppress(OSError):  # The next look does it again.
            self.claims.count(counted)


def _queues(counted: claims.Queues | None, held: Iterable[tuple[str, claims.Claim, claims.Given]]) -> int | None:
    """Return how many queues a device has: those that were free at some time, and no less than what claims have."""
    if counted is None:
        return None
    return max(counted.most, sum(int(given.queues or 0) for _, _, given in held if given.share))


def _is_token(device: advertised.AnyDevice) -> bool:
    return isinstance(device, advertised.Unit) and device.group is None


def _variable(device: str) -> str | None:
    """Return the variable that says how many queues of a device a container may use."""
    with contextlib.suppress(ValueError):
        return f"KAE_QUEUES_{paths.number(device)}"
    return None


def _write(path: Path, wanted: bytes) -> None:
    with contextlib.suppress(OSError):
        if files.content(path) == wanted:
            return
    path.parent.mkdir(parents=True, exist_ok=True)
    # The runtime reads each file whose name ends with .json.
    with files.replaced(path) as fresh:
        fresh.write_bytes(wanted)
