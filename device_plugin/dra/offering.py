"""Have the container runtime and the scheduler see the node's devices: by files of CDI, and by the devices of slices.

Both change with the devices and with the claims, so both are made anew after each look.
"""

import contextlib
import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from device_plugin import plugin
from device_plugin.dra import cdi, claims, slices
from device_plugin.host import health
from device_plugin.kubelet import advertised, service
from runtime import files

LOG = logging.getLogger(__name__)

_Holders = Iterable[tuple[str, claims.Claim, claims.Given]]
"""The claims that have a device, with their uids."""


class Offering:
    """The devices that a node offers, by the names that claims have for them."""

    def __init__(self, node: plugin.Plugin, driver: str, known: claims.Claims) -> None:
        self.lacks = ""
        """Why the container runtime does not find the devices; empty when it does."""
        self.health: Sequence[tuple[str, tuple[str, ...]]] = ()
        """Each device, and why it cannot be used."""
        self._node, self._driver, self._claims = node, driver, known
        self._resources = tuple(resource.name for resource in node.settings.resources)
        self._offers: Mapping[str, slices.Offer] = {}
        self._earlier: Mapping[str, slices.Offer] = {}
        """The offers, by other names that claims have for them."""
        self._edits: Mapping[str, cdi.Edits] = {}
        self._counted = known.queues
        self._last: Mapping[str, Mapping[str, Any]] = {}

    def offer(self, name: str) -> slices.Offer:
        """Return the offer that a claim calls so; raises `Refusal` where it is not there."""
        offer = self._offers.get(name) or self._earlier.get(name)
        if offer is None:
            raise service.Refusal(f"Device {name} is not there.")
        return offer

    def is_open(self, name: str) -> bool:
        """Return whether a container can be given a device now."""
        return name in self._edits

    def variables(self, name: str) -> Mapping[str, str]:
        """Return the variables that a device has for each container with it."""
        return self._edits[name].env if name in self._edits else {}

    def discard(self) -> None:
        """Remove the files of claims that nobody knows."""
        for path in cdi.files(self._node.where.cdi, self._driver, "claim"):
            if self._claims.get(cdi.name_of(path, self._driver, "claim")) is None:
                with contextlib.suppress(OSError):  # A folder, which is not ours and in nobody's way.
                    path.unlink()

    def update(self, unknown: Collection[str]) -> list[Mapping[str, Any]]:
        """Write all files, and return the devices of slices; `unknown` are uids of claims that nobody else knows."""
        self._offers = slices.offers(self._node.settings, self._node.offered)
        given = list(self._claims.given())
        now = self._now(given)
        self._earlier = {name: offer for name, offer in now.items() if name not in self._offers}
        self.write_devices()
        for uid, claim in self._claims.items():
            with contextlib.suppress(OSError):  # Somebody removed it; what is wrong is told by the other file.
                self.write_claim(uid, claim.variables)
        self._count_queues()
        made = dict(self._made(unknown))
        # One that is gone stays to be seen while a claim has it, and nobody else gets it.
        gone = {each.device: each for _, _, each in given if not (each.is_admin or each.device in now)}
        lost = {
            name: {**self._last.get(name, slices.lost(name, each.resource)), "taints": slices.taints((slices.LOST,))}
            for name, each in gone.items()
            if name not in made
        }
        self._last = dict(sorted((made | lost).items()))
        told = [(name, offer.device.why) for name, offer in sorted({**self._earlier, **self._offers}.items())]
        self.health = [*told, *((name, (slices.LOST.text,)) for name in sorted(lost))]
        return list(self._last.values())

    def _now(self, given: _Holders) -> dict[str, slices.Offer]:
        """Return what the devices of claims are now, by the claims' names for them."""
        by_key = {(offer.resource, offer.id): offer for offer in self._offers.values()}
        return {
            each.device: by_key[key]
            for _, _, each in given
            for key in claims.keys(each.resource, each.id, self._resources)
            if key in by_key
        }

    def _made(self, unknown: Collection[str]) -> Iterator[tuple[str, Mapping[str, Any]]]:
        held = self._claims.held()
        for name, offer in sorted(self._offers.items()):
            holders = held.get((offer.resource, offer.id), ())
            queues = _queues(self._counted.get(offer.id), holders)
            reasons = list(self._reasons(offer, holders, unknown))
            yield name, slices.device(offer, self._node.settings, queues, reasons)

    def _reasons(self, offer: slices.Offer, held: _Holders, unknown: Collection[str]) -> Iterator[health.Reason]:
        """Yield the reasons of the driver's own why no other claim may be given a device."""
        if self.lacks:
            yield health.Reason(code="HostPath", text=self.lacks)
        elif offer.name not in self._edits and offer.device.healthy:
            yield health.Reason(code="NoDeviceNode", text="It has no device node that a container could open.")
        for uid, claim, given in held:
            if given.device != offer.name or uid in unknown:
                # The scheduler takes it for free.
                yield health.Reason(code=health.GIVEN_BY_CLAIM, text=f"The claim {claim.text} has it.")

    def write_devices(self) -> None:
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
        path = cdi.file(where.cdi, self._driver, "device")
        try:
            _write(path, cdi.spec(cdi.kind(self._driver, "device"), common, made))
            self.lacks = ""
        except OSError as error:
            self.lacks = f"'{path}' cannot be written: {error.strerror}."
            LOG.warning("%s", self.lacks)

    def write_claim(self, uid: str, variables: Mapping[str, Mapping[str, str]]) -> None:
        """Write the file of what a claim alone has, by request; raises `OSError`."""
        if not variables:
            self.remove_claim(uid)
            return
        devices = {f"{uid}-{request}": cdi.Edits(env=own) for request, own in variables.items()}
        path = cdi.file(self._node.where.cdi, self._driver, "claim", uid)
        _write(path, cdi.spec(cdi.kind(self._driver, "claim"), cdi.Edits(), devices))

    def remove_claim(self, uid: str) -> None:
        """Remove the file of a claim; raises `OSError`."""
        cdi.file(self._node.where.cdi, self._driver, "claim", uid).unlink(missing_ok=True)

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
            self._claims.count(counted)


def _queues(counted: claims.Queues | None, held: _Holders) -> int | None:
    """Return how many queues a device has: those that were free at some time, and no less than what claims have."""
    if counted is None:
        return None
    return max(counted.most, sum(int(given.queues or 0) for _, _, given in held if given.share))


def _is_token(device: advertised.AnyDevice) -> bool:
    return isinstance(device, advertised.Unit) and device.group is None


def _write(path: Path, wanted: bytes) -> None:
    with contextlib.suppress(OSError):
        if files.content(path) == wanted:
            return
    path.parent.mkdir(parents=True, exist_ok=True)
    # The runtime reads each file whose name ends with .json.
    with files.replaced(path) as fresh:
        fresh.write_bytes(wanted)
