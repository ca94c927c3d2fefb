"""The claims of the node, in a file that outlives the program: which devices they have, until the kubelet ends them.

A claim whose devices were refused is in it, too: the kubelet has it ended as any other one.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path

import msgspec

from runtime import errors, files


class Given(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A device of a claim."""

    device: str
    """Its name in the slices."""
    resource: str
    id: str
    request: str
    share: str = ""
    """The id of its share; empty where the claim has the whole device."""
    queues: str = ""
    """The amount of queues of the share, a whole number."""
    is_admin: bool = False
    """True for a claim that only looks on (adminAccess), and keeps the device from nobody."""


class Claim(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A claim that the kubelet asked for."""

    namespace: str
    name: str
    devices: tuple[Given, ...] = ()
    is_prepared: bool = False
    variables: Mapping[str, Mapping[str, str]] = {}
    """What containers with it get by its own file of CDI, by request."""

    @property
    def text(self) -> str:
        """Return its name for people."""
        return f"{self.namespace}/{self.name}"


class Queues(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The most free queues of a device that were seen since its driver made its entry."""

    most: int
    entry: str
    """The entry in sysfs, with what tells it from a later one of the same name."""


class _Stored(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    claims: Mapping[str, Claim] = {}
    is_published: bool = False
    queues: Mapping[str, Queues] = {}
    """By the PCI address of the device."""


class Claims:
    """The claims by their uid; each change is in the file before it holds."""

    def __init__(self, path: Path, resources: Collection[str] = ()) -> None:
        """Takes the resources of the node now; raises `errors.Failure` for a file that cannot be read."""
        self._path = path
        self._resources = resources
        self._stored = _Stored()
        try:
            self._stored = msgspec.json.decode(files.content(path), type=_Stored)
        except FileNotFoundError:
            pass
        except (OSError, msgspec.MsgspecError) as error:
            raise errors.Failure(
                f"'{path}' cannot be read, so it is unknown which claims have devices ({error}): delete the pods of the"
                " node that have devices by force, and remove the file once their containers have ended."
            ) from error

    @property
    def _claims(self) -> Mapping[str, Claim]:
        return self._stored.claims

    @property
    def is_published(self) -> bool:
        """Return whether slices may be there; false once the driver has deleted them itself."""
        return self._stored.is_published

    def publish(self, *, is_published: bool) -> None:
        """Remember whether slices may be there; raises `OSError` where the file cannot be written."""
        if is_published != self.is_published:
            self._write(msgspec.structs.replace(self._stored, is_published=is_published))

    def __len__(self) -> int:
        """Return their number."""
        return len(self._claims)

    def get(self, uid: str) -> Claim | None:
        """Return the claim of a uid."""
        return self._claims.get(uid)

    def put(self, uid: str, claim: Claim) -> None:
        """Remember a claim; raises `OSError` where the file cannot be written."""
        if self._claims.get(uid) != claim:
            self._keep({**self._claims, uid: claim})

    def remove(self, uid: str) -> None:
        """Forget a claim; raises `OSError` where the file cannot be written."""
        if uid in self._claims:
            self._keep({key: claim for key, claim in self._claims.items() if key != uid})

    def items(self) -> list[tuple[str, Claim]]:
        """Return all claims, with their uids."""
        return list(self._claims.items())

    @property
    def queues(self) -> Mapping[str, Queues]:
        """Return the most free queues of each device, by its PCI address."""
        return self._stored.queues

    def count(self, queues: Mapping[str, Queues]) -> None:
        """Remember the most free queues of devices; raises `OSError` where the file cannot be written."""
        if queues != self.queues:
            self._write(msgspec.structs.replace(self._stored, queues=queues))

    def given(self) -> Iterator[tuple[str, Claim, Given]]:
        """Yield each device that a claim has, or looks on, with the claim's uid."""
        for uid, claim in self._claims.items():
            if claim.is_prepared:
                yield from ((uid, claim, given) for given in claim.devices)

    def held(self) -> dict[tuple[str, str], list[tuple[str, Claim, Given]]]:
        """Return who has a device, by its resource and its id now."""
        found: dict[tuple[str, str], list[tuple[str, Claim, Given]]] = {}
        for uid, claim, given in self.given():
            for key in () if given.is_admin else keys(given.resource, given.id, self._resources):
                found.setdefault(key, []).append((uid, claim, given))
        return found

    def conflict(self, uid: str, devices: Iterable[Given]) -> str | None:
        """Return why a claim cannot have devices, in a sentence: another one has them still.

        The scheduler takes a device for free once the pod's object is gone, and a pod that is deleted by force goes
        before its containers have ended. It knows a device by its name alone, which may have been another one.
        """
        held = self.held()
        for wanted in devices:
            for other, claim, given in held.get((wanted.resource, wanted.id), ()):
                if other != uid and not wanted.is_admin and not (wanted.share and given.share):
                    return f"Device {wanted.device} is not free yet: the claim {claim.text} has it."
        return None

    def _keep(self, claims: Mapping[str, Claim]) -> None:
        self._write(msgspec.structs.replace(self._stored, claims=claims))

    def _write(self, stored: _Stored) -> None:
        with files.replaced(self._path) as fresh:
            fresh.write_bytes(msgspec.json.encode(stored))
        self._stored = stored


def keys(resource: str, device: str, resources: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yield what a given device may be now, by resource and id; `resources` are those of the node now.

    The device of a resource that is there no more is known by its address or path, and a token by nothing.
    """
    if resource in resources or device.isdecimal():
        yield resource, device
    else:
        yield from ((each, device) for each in (resource, *resources))
