"""A stand-in for the kubelet: a real gRPC client on real unix sockets that behaves as the kubelet does.

What it leaves out: NUMA alignment, init containers, and pods beyond their containers. How plugins come and go is in
tests/device_plugin/registrations.py.
"""

import asyncio
import shutil
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Self, TypeVar

import grpc.aio

from device_plugin.api import deviceplugin_v1beta1_pb2 as pb
from tests.device_plugin import connections, containers, registrations

_Answer = TypeVar("_Answer")


class Kubelet:
    """A kubelet whose folder (/var/lib/kubelet on a node) is `folder`; `async with` starts and stops it.

    Sockets' paths must stay within 107 bytes, so `folder` wants a short path. `events` is all that happened so far.
    """

    def __init__(self, folder: Path) -> None:
        self.registry = folder / "plugins_registry"
        self.events: list[registrations.Event] = []
        self._slow_s = 0.0
        self._allocations: dict[str, dict[str, containers.Allocation]] = {}
        self._registrations = self._fresh({})
        self._task: asyncio.Task[None] | None = None
        # The kubelet admits one pod at a time.
        self._admission = asyncio.Lock()

    async def __aenter__(self) -> Self:
        self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    def start(self) -> None:
        """Starts watching; plugins whose sockets are there already are dialled too."""
        self.registry.mkdir(parents=True, exist_ok=True)
        self._task = asyncio.create_task(self._registrations.run())

    async def stop(self) -> None:
        """Drops every connection, and forgets all but the checkpoint: names of resources, and allocations."""
        if self._task:
            self._task.cancel()
            await asyncio.wait([self._task])
            if not self._task.cancelled():
                self._task.result()
        # A resource out of the checkpoint has no devices until its plugin registers again.
        self._registrations = self._fresh(
            {name: registrations.Resource(stopped_s=time.monotonic()) for name in self._registrations.resources}
        )
        self._task = None

    async def restart(self) -> None:
        await self.stop()
        self.start()

    def wipe(self) -> None:
        """Empties plugins_registry, as an administrator may; the kubelet itself never does."""
        for path in self.registry.iterdir():
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()

    async def cut(self, resource: str) -> None:
        """Closes the connection to a resource's plugin, as when it breaks; the kubelet does not dial again."""
        await self._registrations.cut(resource)

    def read_slowly(self, pause_s: float) -> None:
        """From now on waits so many seconds (0: not at all) before it takes in each list."""
        self._slow_s = self._registrations.slow_s = pause_s

    def resources(self) -> dict[str, registrations.Resource]:
        """All resources; those without connection for longer than the grace time are gone."""
        now = time.monotonic()
        for name, resource in list(self._registrations.resources.items()):
            if resource.stopped_s is not None and now - resource.stopped_s > registrations.GRACE_S:
                del self._registrations.resources[name]
        return dict(self._registrations.resources)

    def capacity(self, resource: str) -> int | None:
        """Devices, healthy or not; None where the node does not name the resource."""
        found = self.resources().get(resource)
        return len(found.devices) if found else None

    def allocatable(self, resource: str) -> int:
        """Healthy devices, in use or not."""
        return len(self.healthy(resource))

    def healthy(self, resource: str) -> frozenset[str]:
        return self.resources().get(resource, registrations.Resource()).healthy

    def used(self, resource: str) -> frozenset[str]:
        given = [allocations[resource] for allocations in self._allocations.values() if resource in allocations]
        return frozenset(name for allocation in given for name in allocation.ids)

    async def until(self, claim: Callable[[], bool], within_s: float = 5.0) -> None:
        """Waits until a claim holds; TimeoutError, with what happened last, when it does not in time."""
        deadline = time.monotonic() + within_s
        while not claim():
            if self._task and self._task.done():
                self._task.result()
            if time.monotonic() > deadline:
                last = "\n".join(map(str, self.events[-10:]))
                raise TimeoutError(f"not within {within_s} s; resources {self.resources()}; last:\n{last}")
            await asyncio.sleep(0.005)

    async def admit(self, container: str, wanted: Mapping[str, int]) -> containers.Given:
        """Gives a container so many devices of each resource, by the plugin's choice; RefusedError fails the pod."""
        async with self._admission:
            for resource, count in wanted.items():
                if resource not in self._allocations.get(container, {}):
                    await self._allocate(container, resource, await self._chosen(resource, count))
        return self.given(container)

    async def allocate(self, container: str, resource: str, ids: Sequence[str]) -> pb.ContainerAllocateResponse:
        """Gives a container these devices, once: from then on, also after a restart, the checkpoint answers."""
        async with self._admission:
            return await self._allocate(container, resource, ids)

    async def preferred(self, resource: str, available: Sequence[str], size: int) -> tuple[str, ...]:
        """Which devices the plugin would take; RefusedError where it fails, as that fails the pod."""
        wish = pb.ContainerPreferredAllocationRequest(available_deviceIDs=available, allocation_size=size)
        request = pb.PreferredAllocationRequest(container_requests=[wish])
        response = await _answer(self._client(resource).plugin.GetPreferredAllocation(request))
        return tuple(response.container_responses[0].deviceIDs) if response.container_responses else ()

    def given(self, container: str) -> containers.Given:
        """Return what a container has, merged over its resources."""
        kept = self._allocations.get(container, {})
        return containers.merged(kept[resource].answer for resource in kept)

    def release(self, container: str) -> None:
        """A container ends for good, and others may have its devices. No plugin hears of it."""
        self._allocations.pop(container, None)

    async def _allocate(self, container: str, resource: str, ids: Sequence[str]) -> pb.ContainerAllocateResponse:
        kept = self._allocations.get(container, {}).get(resource)
        if kept:
            return kept.answer
        unusable = set(ids) - (self.healthy(resource) - self.used(resource))
        if unusable:
            raise containers.RefusedError(f"of {resource}, {sorted(unusable)} cannot be given")
        request = pb.AllocateRequest(container_requests=[pb.ContainerAllocateRequest(devices_ids=ids)])
        response: pb.AllocateResponse = await _answer(self._client(resource).plugin.Allocate(request))
        if not response.container_responses:
            raise containers.RefusedError("Allocate: no container responses")
        answer = response.container_responses[0]
        self._allocations.setdefault(container, {})[resource] = containers.Allocation(ids=tuple(ids), answer=answer)
        return answer

    async def _chosen(self, resource: str, count: int) -> tuple[str, ...]:
        available = sorted(self.healthy(resource) - self.used(resource))
        if len(available) < count:
            raise containers.RefusedError(f"{count} of {resource} wanted, {len(available)} available")
        wished: tuple[str, ...] = ()
        if len(available) > count and self._client(resource).options.get_preferred_allocation_available:
            wished = await self.preferred(resource, available, count)
        # A wish may be too long, too short, or for devices that are not free.
        order = [name for name in dict.fromkeys(wished) if name in available]
        return tuple(dict.fromkeys([*order, *available]))[:count]

    def _client(self, resource: str) -> connections.Client:
        client = self.resources().get(resource, registrations.Resource()).client
        if client is None:
            raise containers.RefusedError(f"can't allocate unregistered device {resource}")
        return client

    def _fresh(self, resources: dict[str, registrations.Resource]) -> registrations.Registrations:
        fresh = registrations.Registrations(self.registry, self.events.append)
        fresh.resources |= resources
        fresh.slow_s = self._slow_s
        return fresh


async def _answer(call: Awaitable[_Answer]) -> _Answer:
    try:
        return await call
    except grpc.aio.AioRpcError as error:
        raise containers.RefusedError(f"{error.code().name}: {error.details()}") from error
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        # Not we are cancelled, but the call: the connection was closed on our side meanwhile.
        raise containers.RefusedError("the connection was closed") from None
