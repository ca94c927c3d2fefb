"""Reads that hang: they make a device unhealthy, and hold up nothing else."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from device_plugin import plugin, report
from device_plugin.host import paths, reader, reading_process
from device_plugin.kubelet.service import Refusal
from runtime import errors, files
from tests.device_plugin import hosts, kernel, machines, settings
from tests.device_plugin.hangs import Hangs

A, B, ZIP = "0000:79:00.0", "0000:b9:00.0", "0000:75:00.0"
HPRE = settings.kind("hpre").resource


@pytest.fixture
def host(tmp_path: Path) -> hosts.Host:
    return machines.bare_metal(tmp_path)


@pytest.fixture
def node(host: hosts.Host) -> plugin.Plugin:
    return plugin.Plugin(settings.where(host), settings.settings())


@contextlib.asynccontextmanager
async def looking(node: plugin.Plugin, host: hosts.Host, hangs: Hangs, at: str) -> AsyncIterator[None]:
    """Look once; then look again until the end, and wait for a read of this device."""
    await node.look()
    with host.hanging(at), hangs.of(at, "all"):
        look = asyncio.create_task(node.look())
        await hangs.awaited.wait()
        yield
        assert not look.done()
    await look


async def until_healthy(node: plugin.Plugin, address: str) -> None:
    """Look until the thread that hung has ended."""
    while not settings.told(node).get(address):
        await node.look()


def reading_threads() -> int:
    process, _ = reader.other_process()
    return sum(1 for _ in Path(f"/proc/{process.pid}/task").iterdir())


def exchange_numbers(host: hosts.Host) -> None:
    numbers = [kernel.number_of(str(host.states()[address].entry)) for address in (B, A)]
    for address in (A, B):
        host.unbind(address)
    for address, number in zip((A, B), numbers, strict=True):
        host.bind(address, number=number)


def link_to(node: plugin.Plugin, address: str) -> Path:
    return node.where.links / paths.link_name(settings.kind("hpre"), address)


def wrong_links(host: hosts.Host, node: plugin.Plugin) -> list[str]:
    """Return the devices of HPRE whose link leads to the node of another."""
    links = {address: link_to(node, address) for address in (A, B)}
    entries = {address: f"/dev/{state.entry}" for address, state in host.states().items()}
    return [name for name, link in links.items() if link.is_symlink() and str(link.readlink()) != entries[name]]


async def test_the_first_look_shows_nothing_before_all_is_read(host: hosts.Host, hangs: Hangs) -> None:
    reading = reader.Reader(settings.where(host), settings.settings())

    with hangs.at(host, A):
        scans = [scan async for scan in reading.look()]

    assert len(scans) == 1


async def test_a_device_whose_read_hangs_is_unhealthy_until_it_ends(
    host: hosts.Host, node: plugin.Plugin, hangs: Hangs, caplog: pytest.LogCaptureFixture
) -> None:
    await node.look()

    with hangs.at(host, A):
        await node.look()
        assert settings.told(node) == {A: False, B: True}
        assert not link_to(node, A).is_symlink()
        now_s = hangs.now_s
        await node.look()
        assert hangs.now_s == now_s, "it waits for the same read again"
    await until_healthy(node, A)

    assert settings.told(node) == {A: True, B: True}
    assert [record.message for record in caplog.records if record.levelno == logging.WARNING] == [
        "Device does not answer.",
        "Device is unhealthy.",
    ]


async def test_while_a_look_waits_other_devices_are_allocated_and_read(
    host: hosts.Host, node: plugin.Plugin, hangs: Hangs
) -> None:
    async with looking(node, host, hangs, at=A):
        answer = await node.allocate(HPRE, [B])
        host.set_isolate(B, 1)
        with pytest.raises(Refusal, match="isolated"):
            await node.allocate(HPRE, [B])

    assert [Path(device.host_path).name for device in answer.devices] == ["hisi_hpre-47360"]
    # The look may have read it before it was isolated.
    assert settings.told(node) == {A: True, B: False}


async def test_a_device_whose_read_hangs_is_refused_with_the_reason(
    host: hosts.Host, node: plugin.Plugin, hangs: Hangs
) -> None:
    await node.look()

    with hangs.at(host, A, "isolate"), pytest.raises(Refusal, match="unhealthy: A read of its attributes in sysfs"):
        await node.allocate(HPRE, [A])


async def test_a_device_whose_first_read_hangs_is_offered_once_it_ends(
    host: hosts.Host, node: plugin.Plugin, hangs: Hangs
) -> None:
    with hangs.at(host, A):
        await node.look()
        assert settings.told(node) == {B: True}
        with pytest.raises(Refusal, match="is not there"):
            await node.allocate(HPRE, [A])
    await until_healthy(node, A)

    assert settings.told(node) == {A: True, B: True}


async def test_a_device_is_sound_again_once_its_own_read_ends_though_another_hangs(
    host: hosts.Host, node: plugin.Plugin, hangs: Hangs
) -> None:
    await node.look()

    with hangs.at(host, B):
        with hangs.at(host, A):
            await node.look()
            assert settings.told(node) == {A: False, B: False}
            assert all(settings.told(node, "zip").values())
        await until_healthy(node, A)

        assert settings.told(node) == {A: True, B: False}


async def test_many_devices_that_hang_take_hardly_more_time_than_one_and_a_thread_each(
    host: hosts.Host, node: plugin.Plugin, hangs: Hangs
) -> None:
    host.set_vfs(A, 12)
    await node.look()
    threads = reading_threads()
    vfs = host.states()[A].vfs

    with contextlib.ExitStack() as stack:
        for address in vfs:
            stack.enter_context(hangs.at(host, address))
        for _ in range(3):
            await node.look()
        # A thread is there a moment longer than what it found.
        while reading_threads() - threads != len(vfs):
            await asyncio.sleep(0)

    assert settings.told(node) == dict.fromkeys(vfs, False) | {B: True}
    assert hangs.now_s < 2 * reader.PATIENCE_S


async def test_other_changes_are_told_while_a_look_waits(host: hosts.Host, node: plugin.Plugin, hangs: Hangs) -> None:
    await node.look()

    with host.hanging(A), hangs.of(A, "less"):
        host.set_isolate(B, 1)
        look = asyncio.create_task(node.look())
        while settings.told(node)[B]:
            await asyncio.sleep(0)
        assert not look.done()
        assert settings.told(node) == {A: True, B: False}
    await look


async def test_an_allocation_while_a_look_waits_makes_no_link_to_the_node_of_another(
    host: hosts.Host, node: plugin.Plugin, hangs: Hangs
) -> None:
    async with looking(node, host, hangs, at=ZIP):
        host.set_driver_changing("upgrade")
        for link in node.where.links.iterdir():
            link.unlink()
        exchange_numbers(host)
        host.set_driver_changing(None)
        await node.allocate(HPRE, [A])

        assert wrong_links(host, node) == []
        assert link_to(node, A).is_symlink()


async def test_a_look_that_waits_makes_no_link_out_of_what_it_read_before(
    host: hosts.Host, node: plugin.Plugin, hangs: Hangs
) -> None:
    async with looking(node, host, hangs, at="0000:b6:00.0"):  # Behind A, and before B.
        for link in node.where.links.iterdir():
            link.unlink()
        exchange_numbers(host)

    assert wrong_links(host, node) == []


async def test_a_device_that_goes_after_it_was_allocated_while_a_look_waits_stays_away(
    host: hosts.Host, node: plugin.Plugin, hangs: Hangs
) -> None:
    async with looking(node, host, hangs, at=ZIP):
        await node.allocate(HPRE, [B])
        host.unplug(B)

    assert settings.told(node) == {A: True}
    assert not link_to(node, B).is_symlink()


async def test_a_device_that_was_never_read_is_listed_as_one_that_does_not_answer(
    host: hosts.Host, node: plugin.Plugin, hangs: Hangs
) -> None:
    with hangs.at(host, A):
        await node.look()
        with contextlib.closing(files.Lock(node.where.lock)) as lock:
            lock.acquire()
            by_the_plugin = await report.current(node.where, node.settings)
        without_a_plugin = await report.current(node.where, node.settings)

    assert by_the_plugin.notes == without_a_plugin.notes[1:]
    assert by_the_plugin.notes[0] == (
        f"{A} does not answer, so it is not known and not offered: a read of its attributes in sysfs hangs. The kernel"
        " resets it, or is stuck (dmesg)."
    )


async def test_a_bus_that_cannot_be_listed_ends_the_program(node: plugin.Plugin, hangs: Hangs) -> None:
    with (
        hangs.of(reading_process.BUS),
        pytest.raises(errors.Failure, match=r"bus/pci/devices' cannot be listed: the read hangs\.$"),
    ):
        await node.look()


@pytest.mark.usefixtures("reads_here")
async def test_a_bug_in_the_process_that_reads_is_raised(node: plugin.Plugin, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runtime.pci.addresses", lambda _: 1 / 0)

    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        await node.look()
