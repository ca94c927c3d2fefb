"""A resource stays registered with a slow kubelet, and is offered ever more slowly to one that does not want it."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from pathlib import Path

import grpc.aio
import pytest

from device_plugin import plugin
from device_plugin.api import deviceplugin_v1beta1_pb2 as pb
from device_plugin.api import deviceplugin_v1beta1_pb2_grpc as rpc
from device_plugin.api import pluginregistration_v1_pb2_grpc as registration_rpc
from device_plugin.kubelet import registration, service
from tests.device_plugin import connections, machines, settings


@contextlib.asynccontextmanager
async def offered(root: Path) -> AsyncIterator[registration.Registration]:
    """A resource that is offered to a kubelet."""
    stated = settings.settings("hpre")
    node = plugin.Plugin(settings.where(machines.bare_metal(root)), stated)
    (kind,) = stated.kinds
    shown = node.device_lists[kind.resource]
    answers = service.DevicePlugin(kind.resource, stated, shown, node)
    each = registration.Registration(node.where, kind.name, kind.resource, answers, shown)
    task = asyncio.create_task(each.run())
    try:
        yield each
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def socket(root: Path, *, other_than: Path | None = None) -> Path:
    """Return the socket of the resource, once it is there."""
    folder = root / "kubelet/plugins_registry/kae"
    while True:
        found = [path for path in folder.glob("*.sock") if path != other_than]
        if found:
            return found[0]
        await asyncio.sleep(0.005)


async def took(path: Path) -> grpc.aio.Channel:
    """Dial a socket and say that the resource is registered, without watching it."""
    channel = await connections.dialled(path, 5)
    await connections.notified(registration_rpc.RegistrationStub(channel))
    return channel


async def test_a_kubelet_may_take_its_time_before_it_watches(short_path: Path) -> None:
    async with offered(short_path) as each:
        path = await socket(short_path)
        channel = await took(path)
        await asyncio.sleep(1.5)
        stream = rpc.DevicePluginStub(channel).ListAndWatch(pb.Empty())
        assert await asyncio.wait_for(stream.read(), 5) == pb.ListAndWatchResponse()

        assert each.registered
        assert await socket(short_path) == path
        await channel.close()


async def test_a_kubelet_that_takes_the_resource_and_does_not_watch_it_is_asked_ever_more_slowly(
    short_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registration, "_STREAM_S", 0.01)
    path, pauses = None, []
    async with offered(short_path):
        for _ in range(5):
            began = time.monotonic()
            path = await socket(short_path, other_than=path)
            pauses.append(time.monotonic() - began)
            await (await took(path)).close()

    assert pauses[4] > pauses[3] > pauses[2] > pauses[1] > 0.1
    assert pauses[4] > 1


async def test_mode_and_owner_of_a_socket_may_change(short_path: Path) -> None:
    async with offered(short_path) as each:
        path = await socket(short_path)
        await (await took(path)).close()
        path.chmod(0o700)
        each.check()
        await asyncio.sleep(0.2)

        assert await socket(short_path) == path
