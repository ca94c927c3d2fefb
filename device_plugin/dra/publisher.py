"""Keep the ResourceSlices of the node what they should be, whoever changes or deletes them.

A kubelet that starts deletes all slices of its node, in the background and perhaps after the driver has come back
(wipeResourceSlices of pkg/kubelet/cm/dra/plugin). So slices are watched, and looked at after each registration.
"""

import asyncio
import contextlib
import logging
import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib import parse

import msgspec

from device_plugin.dra import api_server, slices
from runtime import dra

LOG = logging.getLogger(__name__)

_PATH = f"/apis/{slices.GROUP}/resourceslices"
_PAUSE_S = 0.3
"""Between two looks: changes come in bursts, and others may undo each write."""
_LONGEST_PAUSE_S = 30.0
_WITHDRAW_S = 5.0
"""What a program that ends has for it; the kubelet deletes slices of a driver that is gone by itself, after 30 s."""


class _Metadata(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    name: str = ""
    resource_version: str = ""


class _Pool(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    name: str
    generation: int
    resource_slice_count: int


class _Spec(msgspec.Struct, frozen=True, kw_only=True):
    pool: _Pool
    devices: list[dict[str, Any]] | None = None


class _Slice(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a slice that is read."""

    metadata: _Metadata
    spec: _Spec

    @property
    def devices(self) -> list[dict[str, Any]]:
        """Return its devices, to be compared."""
        return slices.comparable(self.spec.devices or ())


class _Slices(msgspec.Struct, frozen=True, kw_only=True):
    metadata: _Metadata
    items: list[_Slice] | None = None


class Publisher:
    """The slices of the node, as long as `run` runs."""

    def __init__(self, server: api_server.ApiServer, driver: str, node: str) -> None:
        self.is_published = False
        """True while the API server has what was shown last, as far as is known."""
        self.changed: Callable[[], None] = lambda: None
        """Called when `is_published` changes."""
        self.noted: Callable[[bool], None] = lambda _: None
        """Called before slices are written, with True, and after all are deleted, with False."""
        self._server, self._driver, self._node = server, driver, node
        self._devices: Sequence[Mapping[str, Any]] | None = None
        self._woken = asyncio.Event()
        self._said = ""
        self._suffix = secrets.token_hex(4)
        """A name that others could foresee they could take before."""

    def show(self, devices: Sequence[Mapping[str, Any]]) -> None:
        """Publish these devices, in place of those before."""
        if devices != self._devices:
            self._devices = devices
            self._woken.set()

    def look(self) -> None:
        """Look at the slices soon: somebody may have changed them."""
        self._woken.set()

    async def run(self) -> None:
        """Publish until cancelled, and then withdraw all: without a driver nobody prepares a claim."""
        try:
            pause_s = _PAUSE_S
            while True:
                try:
                    version = await self._reconcile()
                except api_server.ApiError as error:
                    self._tell(str(error))
                    pause_s = await self._paused(pause_s)
                    continue
                self._tell("")
                try:
                    await self._change(version)
                except api_server.ApiError as error:
                    # Without a watch all is listed again: seldom, as the server may have too much to do.
                    if pause_s == _PAUSE_S:
                        LOG.warning("The slices cannot be watched.", extra={"reason": str(error)})
                    pause_s = await self._paused(pause_s)
                else:
                    pause_s = _PAUSE_S
                    await asyncio.sleep(_PAUSE_S)
        finally:
            await self._withdraw()

    async def _paused(self, pause_s: float) -> float:
        """Wait so long, less if others are to be published; return the next pause after another failure."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._woken.wait(), pause_s)
        await asyncio.sleep(_PAUSE_S)
        return min(2 * pause_s, _LONGEST_PAUSE_S)

    def _tell(self, failure: str) -> None:
        if failure and failure != self._said:
            LOG.warning("The slices cannot be published.", extra={"reason": failure})
        elif self._said and not failure:
            LOG.info("The slices are published again.")
        self._said = failure
        if self.is_published == bool(failure):
            self.is_published = not failure
            self.changed()

    async def _change(self, version: str) -> None:
        """Return as soon as the slices, or what should be in them, may have changed; raises `ApiError`."""
        watch = f"{self._own()}&watch=1&resourceVersion={version}&timeoutSeconds={api_server.WATCH_S}"
        woken, changed = asyncio.create_task(self._woken.wait()), asyncio.create_task(self._server.changed(watch))
        try:
            await asyncio.wait((woken, changed), return_when=asyncio.FIRST_COMPLETED)
            if changed.done():
                changed.result()
        finally:
            for task in (woken, changed):
                task.cancel()
            await asyncio.gather(woken, changed, return_exceptions=True)

    def _own(self) -> str:
        selector = parse.quote(f"spec.driver={self._driver},spec.nodeName={self._node}")
        return f"{_PATH}?fieldSelector={selector}"

    async def _reconcile(self) -> str:
        """Bring the slices up to date, and return the version of the list."""
        self._woken.clear()
        listed = await self._listed()
        there = {item.metadata.name: item for item in listed.items or ()}
        version = listed.metadata.resource_version
        if self._devices is None:
            return version
        newest = max((item.spec.pool.generation for item in there.values()), default=0)
        wanted = self._wanted(newest)
        if not _differ(there, wanted):
            return version
        wanted = self._wanted(newest + 1)
        self.noted(True)
        # Those that go first: a pool is complete with all slices of its newest generation.
        for name in there.keys() - wanted.keys():
            await self._delete(name)
        for name, slice_ in wanted.items():
            await self._write(slice_, there.get(name))
        return version

    async def _listed(self) -> _Slices:
        return api_server.read(await self._server.ask("GET", self._own()), _Slices)

    def _wanted(self, generation: int) -> dict[str, dict[str, Any]]:
        uid = self._server.node_uid()
        # With its Node the slices go.
        owner = {"apiVersion": "v1", "kind": "Node", "name": self._node, "uid": uid} if uid else None
        made = slices.slices(self._driver, self._node, owner, self._devices or (), (generation, self._suffix))
        return {slice_["metadata"]["name"]: slice_ for slice_ in made}

    async def _write(self, wanted: dict[str, Any], there: _Slice | None) -> None:
        if there is None:
            try:
                answer = await self._server.ask("POST", _PATH, wanted)
            except api_server.ApiError as error:
                if error.status == 409:
                    # It is taken, by a slice that is not of this node.
                    self._suffix = secrets.token_hex(4)
                raise
        else:
            metadata = wanted["metadata"] | {"resourceVersion": there.metadata.resource_version}
            path = f"{_PATH}/{metadata['name']}"
            answer = await self._server.ask("PUT", path, wanted | {"metadata": metadata})
        if api_server.read(answer, _Slice).devices != slices.comparable(wanted["spec"]["devices"]):
            # Fields of features that are off vanish without a word.
            raise api_server.ApiError(
                "The API server stored the slices without some of their fields: the interface DRA needs Kubernetes"
                f" 1.{dra.SINCE} with the feature gates DRADeviceTaints and DRAConsumableCapacity, which are on"
                " by default."
            )

    async def _delete(self, name: str) -> None:
        try:
            await self._server.ask("DELETE", f"{_PATH}/{name}")
        except api_server.ApiError as error:
            if error.status != 404:
                raise

    async def _withdraw(self) -> None:
        with contextlib.suppress(api_server.ApiError, TimeoutError):
            async with asyncio.timeout(_WITHDRAW_S):
                for item in (await self._listed()).items or ():
                    await self._delete(item.metadata.name)
                self.noted(False)


def _differ(there: Mapping[str, _Slice], wanted: Mapping[str, Mapping[str, Any]]) -> bool:
    if there.keys() != wanted.keys():
        return True
    made = {name: msgspec.convert(slice_, _Slice) for name, slice_ in wanted.items()}
    return any(
        slice_.spec.pool != there[name].spec.pool or slice_.devices != there[name].devices
        for name, slice_ in made.items()
    )
