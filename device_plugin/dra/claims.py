"""The claims of the node, in a file that outlives the program: which devices they have, until the kubelet ends them.

A claim whose devices were refused is in it, too: the kubelet has it ended as any other one.
"""

from collections.abc import Iterable, Mapping
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
    """The amount of queues of the share."""
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


class _Stored(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    claims: Mapping[str, Claim] = {}
    is_published: bool = False


class Claims:
    """The claims by their uid; each change is in the file before it holds."""

    def __init__(self, path: Path) -> None:
        """Raises `errors.Failure` for a file that cannot be read: then nobody knows what is given."""
        self._path = path
        self._stored = _Stored()
        try:
            self._stored = msgspec.json.decode(path.read_bytes(), type=_Stored)
        except FileNotFoundError:
            pass
        except (OSError, msgspec.MsgspecError) as error:
            raise errors.Failure(
                f"'{path}' cannot be read, so it is unknown which claims have devices ({error}): drain the node, and"
                " remove the file."
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

    def held(self) -> dict[tuple[str, str], str]:
        """Return the devices that claims have, by resource and id, each with a claim that has it."""
        every = ((given, claim) for claim in self._claims.values() if claim.is_prepared for given in claim.devices)
        return {(given.resource, given.id): claim.text for given, claim in every}

    def names(self) -> dict[str, str]:
        """Return the names of the devices that claims have, each with a claim that has it."""
        every = ((given, claim) for claim in self._claims.values() if claim.is_prepared for given in claim.devices)
        return {given.device: claim.text for given, claim in every}

    def conflict(self, uid: str, devices: Iterable[Given]) -> str | None:
        """Return why a claim cannot have devices, in a sentence: another one has them still.

        The scheduler takes a device for free once the pod's object is gone, and a pod that is deleted by force goes
        before its containers have ended.
        """
        others = [(key, claim) for key, claim in self._claims.items() if key != uid and claim.is_prepared]
        for wanted in devices:
            for _, claim in others:
                for given in claim.devices:
                    alone = not (wanted.share and given.share) and not (wanted.is_admin or given.is_admin)
                    if given.device == wanted.device and alone:
                        return f"Device {wanted.device} is not free yet: the claim {claim.text} has it."
        return None

    def _keep(self, claims: Mapping[str, Claim]) -> None:
        self._write(msgspec.structs.replace(self._stored, claims=claims))

    def _write(self, stored: _Stored) -> None:
        with files.replaced(self._path) as fresh:
            fresh.write_bytes(msgspec.json.encode(stored))
        self._stored = stored
