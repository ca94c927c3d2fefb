"""Read a ResourceClaim from the API server, with the devices that the scheduler gave it (resource.k8s.io/v1)."""

from collections.abc import Mapping

import msgspec

from device_plugin.dra import api_server, slices


class _Metadata(msgspec.Struct, frozen=True, kw_only=True):
    uid: str


class Result(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A device that the scheduler gave."""

    request: str
    driver: str
    pool: str
    device: str
    share: str | None = msgspec.field(name="shareID", default=None)
    consumed_capacity: Mapping[str, str] | None = None
    admin_access: bool | None = None


class _Devices(msgspec.Struct, frozen=True, kw_only=True):
    results: tuple[Result, ...] | None = None


class _Allocation(msgspec.Struct, frozen=True, kw_only=True):
    devices: _Devices = _Devices()


class _Status(msgspec.Struct, frozen=True, kw_only=True):
    allocation: _Allocation | None = None


class ResourceClaim(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a ResourceClaim that is read."""

    metadata: _Metadata
    status: _Status | None = None

    @property
    def results(self) -> tuple[Result, ...]:
        """Return all devices that it was given."""
        allocation = self.status.allocation if self.status is not None else None
        return (allocation.devices.results or ()) if allocation is not None else ()


async def stored(server: api_server.ApiServer, namespace: str, name: str) -> ResourceClaim:
    """Return a claim as the API server has it; raises `ApiError`, with status 404 where there is none."""
    path = f"/apis/{slices.GROUP}/namespaces/{namespace}/resourceclaims/{name}"
    return api_server.read(await server.ask("GET", path), ResourceClaim)
