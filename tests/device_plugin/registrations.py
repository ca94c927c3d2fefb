"""The stand-in kubelet's watch of its folder plugins_registry, and what it learns from the plugins there.

The rules are those of pkg/kubelet/pluginmanager and pkg/kubelet/cm/devicemanager of Kubernetes 1.36.3; only times are
shorter. What looks like a fault here (one client a resource, never a second dial) is the kubelet's.
"""

import asyncio
import dataclasses
import os
import stat
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import grpc.aio

from device_plugin.api import deviceplugin_v1beta1_pb2 as pb
from tests.device_plugin import connections

# Times of a kubelet, those of the real one behind.
_POLL_S = 0.02
_DIAL_S = 2.0  # 10
_INFO_S = 1.0  # 1
_RETRY_S = 0.05  # 0.5, doubled each time, as this one is
GRACE_S = 0.5  # 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened; `kubelets.Kubelet.events` keeps them in order."""

    at_s: float
    """By time.monotonic()."""
    what: str
    """found, info, options, list, notified, ended, disconnected, vanished, failed"""
    socket: Path
    resource: str = ""
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """The kubelet's state of a resource."""

    devices: Mapping[str, pb.Device] = dataclasses.field(default_factory=lambda: MappingProxyType({}))
    """The last list; all of it unhealthy when the connection is lost."""
    client: connections.Client | None = None
    """Whom it asks; nobody until the first registration after a restart, and once the connection is lost."""
    stopped_s: float | None = None
    """When the connection was lost, by time.monotonic()."""

    @property
    def healthy(self) -> frozenset[str]:
        """The devices that pods may get: allocatable counts them."""
        return frozenset(name for name, device in self.devices.items() if device.health == "Healthy")

    def lost(self) -> "Resource":
        devices = {}
        for name, device in self.devices.items():
            devices[name] = pb.Device()
            devices[name].CopyFrom(device)
            devices[name].health = "Unhealthy"
        return dataclasses.replace(self, devices=devices, client=None, stopped_s=time.monotonic())


class Registrations:
    """Plugins found in a folder, and the resources they serve; `resources` is kept up while `run` runs."""

    def __init__(self, folder: Path, tell: Callable[[Event], None]) -> None:
        """`folder` need not exist yet."""
        self.resources: dict[str, Resource] = {}
        self.slow_s = 0.0
        self._folder = folder
        self._told = tell
        self._group = asyncio.TaskGroup()
        self._found: dict[Path, tuple[int, int]] = {}
        self._registering: dict[Path, asyncio.Task[None]] = {}
        self._registered: dict[Path, str] = {}
        self._clients: dict[str, connections.Client] = {}
        """By resource, as in 1.36.3: the end of any stream of a resource drops its one client."""
        self._open: set[connections.Client] = set()

    async def run(self) -> None:
        """Watches until it is cancelled; then no connection is left."""
        try:
            async with self._group:
                while True:
                    await self._reconcile()
                    await asyncio.sleep(_POLL_S)
        finally:
            for client in self._open:
                await client.channel.close()

    async def cut(self, resource: str) -> None:
        """Closes the connection to a resource's plugin; nothing happens where there is none."""
        known = self.resources.get(resource)
        if known and known.client:
            await self._disconnect(known.client)

    async def _reconcile(self) -> None:
        # What is gone, or is another socket of the same name, first; as the kubelet's reconciler does.
        found = _sockets(self._folder)
        for socket in [socket for socket, identity in self._found.items() if found.get(socket) != identity]:
            del self._found[socket]
            await self._vanished(socket)
        for socket in found.keys() - self._found.keys():
            self._found[socket] = found[socket]
            self._tell("found", socket)
            self._registering[socket] = self._group.create_task(self._register(socket))

    async def _vanished(self, socket: Path) -> None:
        await _ended([self._registering.pop(socket)])
        resource = self._registered.pop(socket, None)
        self._tell("vanished", socket, resource or "")
        client = self._clients.get(resource) if resource else None
        if client:
            await self._disconnect(client)

    async def _register(self, socket: Path) -> None:
        pause_s = _RETRY_S
        while socket not in self._registered:
            try:
                await self._introduce(socket)
            except (grpc.aio.AioRpcError, TimeoutError, connections.UnwantedError) as error:
                self._tell("failed", socket, detail=_text(error))
            await asyncio.sleep(pause_s)
            pause_s *= 2

    async def _introduce(self, socket: Path) -> None:
        channel = await connections.dialled(socket, _DIAL_S)
        try:
            registration = connections.registration_of(channel)
            info = await connections.described(registration, _INFO_S)
            self._tell("info", socket, info.name)
            # From here on there is no second try, however this ends.
            self._registered[socket] = info.name
            error = await self._connect(info.name, socket, Path(info.endpoint or socket))
            await connections.notified(registration, error)
            self._tell("notified", socket, info.name, detail=error)
        finally:
            await channel.close()

    async def _connect(self, resource: str, socket: Path, endpoint: Path) -> str:
        try:
            client = await connections.connected(resource, endpoint, _DIAL_S)
        except (grpc.aio.AioRpcError, TimeoutError) as error:
            return _text(error)
        self._open.add(client)
        self._clients[resource] = client
        known = self.resources.get(resource, Resource())
        self.resources[resource] = dataclasses.replace(known, client=client, stopped_s=None)
        self._tell("options", socket, resource)
        client.tasks.append(self._group.create_task(self._read(client, socket)))
        return ""

    async def _read(self, client: connections.Client, socket: Path) -> None:
        try:
            async for message in client.plugin.ListAndWatch(pb.Empty()):
                await asyncio.sleep(self.slow_s)
                self._listed(client, socket, message)
            how = "OK"
        except grpc.aio.AioRpcError as error:
            how = _text(error)
        self._tell("ended", socket, client.resource, detail=how)
        # Not necessarily the client whose stream has ended: server.runClient looks it up by name.
        current = self._clients.get(client.resource)
        if current:
            await self._disconnect(current)
        await self._close(client)

    def _listed(self, client: connections.Client, socket: Path, message: pb.ListAndWatchResponse) -> None:
        resource = self.resources[client.resource]
        devices = {device.ID: device for device in message.devices}
        self.resources[client.resource] = dataclasses.replace(resource, devices=devices)
        self._tell("list", socket, client.resource)

    async def _disconnect(self, client: connections.Client) -> None:
        self._clients = {key: kept for key, kept in self._clients.items() if kept is not client}
        resource = self.resources[client.resource]
        self.resources[client.resource] = resource.lost()
        self._tell("disconnected", client.socket, client.resource)
        await _ended([task for task in client.tasks if task is not asyncio.current_task()])
        await self._close(client)

    async def _close(self, client: connections.Client) -> None:
        self._open.discard(client)
        await client.channel.close()

    def _tell(self, what: str, socket: Path, resource: str = "", *, detail: str = "") -> None:
        self._told(Event(at_s=time.monotonic(), what=what, socket=socket, resource=resource, detail=detail))


def _sockets(folder: Path) -> dict[Path, tuple[int, int]]:
    """The sockets in a folder and those below; inode and birth tell a new one from an old one of its name."""
    found = {}
    for parent, _, names in os.walk(folder):
        for name in names:
            path = Path(parent, name)
            try:
                status = path.stat()
            except FileNotFoundError:
                continue
            if stat.S_ISSOCK(status.st_mode) and not name.startswith("."):
                # A socket's modification time is that of its making.
                found[path] = (status.st_ino, status.st_mtime_ns)
    return found


async def _ended(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _text(error: Exception) -> str:
    if isinstance(error, grpc.aio.AioRpcError):
        return f"{error.code().name}: {error.details()}"
    return str(error) or type(error).__name__
