"""A resource stays registered with a slow kubelet, and is offered ever more slowly to one that does not want it."""

import asyncio
import contextlib
import functools
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import grpc.aio
import pytest

from device_plugin import loop, plugin
from device_plugin.api import deviceplugin_v1beta1_pb2 as pb
from device_plugin.kubelet import service
from runtime import state
from tests.device_plugin import connections, machines, settings

REMOVED = "Its socket was removed or replaced."


class Timers:
    """Stands for the module asyncio: every pause ends at once and is noted, and what is due later is kept."""

    Event = asyncio.Event

    def __init__(self) -> None:
        self.pauses_s: list[float] = []
        self.due: list[tuple[float, Callable[[], None]]] = []

    async def sleep(self, seconds: float) -> None:
        self.pauses_s.append(seconds)

    def get_running_loop(self) -> "Timers":
        return self

    def call_later(self, seconds: float, act: Callable[..., None], *arguments: object) -> None:
        self.due.append((seconds, functools.partial(act, *arguments)))


class Offer:
    """A resource that is offered to a kubelet, and the sockets that a test dials in the kubelet's place."""

    def __init__(self, root: Path, timers: Timers) -> None:
        node = plugin.Plugin(settings.where(machines.bare_metal(root)), settings.settings(settings.uacce()))
        self.timers = timers
        (self.registration,) = loop.Loop(node, state.ProgramDir(root), rescan_s=30).registrations
        self.folder = root / "kubelet/plugins_registry/kae"

    async def socket(self, *, other_than: Path | None = None) -> Path:
        """Return the socket of the resource, once it is there."""
        while not (sockets := [path for path in self.folder.glob("*.sock") if path != other_than]):
            await asyncio.sleep(0.001)
        return sockets[0]

    async def told(self, path: Path, error: str = "") -> grpc.aio.Channel:
        channel = await connections.dialled(path, 30)
        await connections.notified(connections.registration_of(channel), error)
        return channel

    async def watched(self, path: Path) -> grpc.aio.Channel:
        channel = await self.told(path)
        assert await connections.plugin_of(channel).ListAndWatch(pb.Empty()).read() == pb.ListAndWatchResponse()
        return channel

    async def removed(self, path: Path) -> None:
        path.unlink()
        self.registration.check()
        await self.socket(other_than=path)


@pytest.fixture
def timers(monkeypatch: pytest.MonkeyPatch) -> Timers:
    found = Timers()
    monkeypatch.setattr(service, "asyncio", found)
    return found


@contextlib.asynccontextmanager
async def offered(root: Path, timers: Timers) -> AsyncIterator[Offer]:
    offer = Offer(root, timers)
    task = asyncio.create_task(offer.registration.run())
    try:
        yield offer
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def reasons(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return why the resource was offered anew, as the log says."""
    records = [vars(record) for record in caplog.records if record.message == "The resource is offered anew."]
    assert {record["resource"] for record in records} <= {settings.kind("hpre").resource}
    return [record["reason"] for record in records]


async def test_a_kubelet_may_take_its_time_before_it_watches(
    short_path: Path, timers: Timers, caplog: pytest.LogCaptureFixture
) -> None:
    async with offered(short_path, timers) as offer:
        path = await offer.socket()
        channel = await offer.watched(path)
        ((seconds, check),) = timers.due
        assert seconds == 10
        check()
        assert offer.registration.registered
        await offer.removed(path)
        await channel.close()

    assert reasons(caplog) == [REMOVED]


async def test_a_kubelet_that_watches_no_resource_is_asked_ever_more_slowly(short_path: Path, timers: Timers) -> None:
    path = None
    async with offered(short_path, timers) as offer:
        for _ in range(12):
            path = await offer.socket(other_than=path)
            await (await offer.told(path)).close()
            timers.due.pop()[1]()
        await offer.socket(other_than=path)

    assert timers.pauses_s == [*(pytest.approx(0.1 * 2**refusals) for refusals in range(1, 10)), 60, 60, 60]


async def test_a_kubelet_that_watched_it_in_between_is_asked_soon_again(short_path: Path, timers: Timers) -> None:
    async with offered(short_path, timers) as offer:
        first = await offer.socket()
        await (await offer.told(first, "wrong")).close()
        second = await offer.socket(other_than=first)
        await (await offer.watched(second)).close()
        await offer.socket(other_than=second)

    assert timers.pauses_s == pytest.approx([0.2, 0.1])


async def refuse(offer: Offer, path: Path) -> None:
    await (await offer.told(path, "no handler")).close()


async def end_the_stream(offer: Offer, path: Path) -> None:
    await (await offer.watched(path)).close()


async def never_watch(offer: Offer, path: Path) -> None:
    await (await offer.told(path)).close()
    offer.timers.due.pop()[1]()


@pytest.mark.parametrize(
    ("act", "reason"),
    [
        (refuse, "The kubelet refused it: no handler"),
        (end_the_stream, "The kubelet's stream ended."),
        (never_watch, "The kubelet took it, and does not watch it."),
        (Offer.removed, REMOVED),
    ],
)
async def test_the_log_says_why_a_resource_is_offered_anew(
    act: Callable[[Offer, Path], Awaitable[None]],
    reason: str,
    short_path: Path,
    timers: Timers,
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with offered(short_path, timers) as offer:
        path = await offer.socket()
        await act(offer, path)
        await offer.socket(other_than=path)

    assert reasons(caplog) == [reason]


async def test_mode_and_owner_of_a_socket_may_change(
    short_path: Path, timers: Timers, caplog: pytest.LogCaptureFixture
) -> None:
    async with offered(short_path, timers) as offer:
        path = await offer.socket()
        path.chmod(0o700)
        offer.registration.check()
        await (await offer.told(path, "the first reason")).close()
        await offer.socket(other_than=path)

    assert reasons(caplog) == ["The kubelet refused it: the first reason"]
