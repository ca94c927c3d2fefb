"""Reads that hang: they make a device unhealthy, and hold up nothing else."""

import asyncio
import contextlib
import logging
import time
from pathlib import Path

import pytest

from device_plugin import list_report, loop, plugin
from device_plugin.host import paths, reader
from device_plugin.kubelet.service import Refusal
from runtime import errors, files, state
from tests.device_plugin import hosts, kernel, kubelets, machines, settings

A, B, ZIP = "0000:79:00.0", "0000:b9:00.0", "0000:75:00.0"
HPRE = settings.kind("hpre").resource
PATIENCE_S = 0.2


def told(node: plugin.Plugin) -> dict[str, bool]:
    """The shares of HPRE, and whether they are healthy."""
    return {replica.id: replica.healthy for replica in node.device_lists[HPRE].replicas}


def plugged(host: hosts.Host) -> plugin.Plugin:
    """A plugin that soon counts a read as hanging."""
    return plugin.Plugin(settings.where(host), settings.settings(), patience_s=PATIENCE_S)


async def test_a_look_at_a_device_whose_read_hangs_does_not_hold_up_the_event_loop(tmp_path: Path) -> None:
    host = machines.bare_metal(tmp_path)
    node = plugged(host)
    await node.look()

    with host.hanging(A):
        look = asyncio.create_task(node.look())
        pauses = []
        while not look.done():
            began = time.perf_counter()
            await asyncio.sleep(0.01)
            pauses.append(time.perf_counter() - began)

    assert len(pauses) >= 3
    assert max(pauses) < PATIENCE_S


async def test_a_device_whose_read_hangs_is_unhealthy_until_it_ends(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    host = machines.bare_metal(tmp_path)
    node = plugged(host)
    await node.look()

    with host.hanging(A):
        await node.look()
        assert told(node) == {A: False, B: True}
        assert not (node.where.links / "hisi_hpre-30976").is_symlink()
        # Nobody waits for it a second time.
        began = time.perf_counter()
        await node.look()
        assert time.perf_counter() - began < PATIENCE_S
    await until_read_again(node)

    assert told(node) == {A: True, B: True}
    assert [record.message for record in caplog.records if record.levelno == logging.WARNING] == [
        "Device does not answer.",
        "Device is unhealthy.",
    ]


def reading_threads() -> int:
    """The threads of the process that reads."""
    process, _ = reader.other_process()
    return sum(1 for _ in Path(f"/proc/{process.pid}/task").iterdir())


async def until_read_again(node: plugin.Plugin) -> None:
    """Look until the thread that waited has ended."""
    for _ in range(100):
        await node.look()
        if told(node)[A]:
            return
        await asyncio.sleep(0.01)


async def test_while_a_look_waits_other_devices_are_allocated_and_changes_of_them_are_seen(tmp_path: Path) -> None:
    host = machines.bare_metal(tmp_path)
    node = plugin.Plugin(settings.where(host), settings.settings(), patience_s=60)
    await node.look()

    with host.hanging(A):
        look = asyncio.create_task(node.look())
        await asyncio.sleep(0.05)
        answer = await node.allocate(HPRE, [B])
        host.set_isolate(B, 1)
        with pytest.raises(Refusal, match="isolated"):
            await node.allocate(HPRE, [B])
        assert not look.done()
    await look

    assert [Path(device.host_path).name for device in answer.devices] == ["hisi_hpre-47360"]
    # The look may have read it before it was isolated.
    assert told(node) == {A: True, B: False}


async def test_a_device_whose_read_hangs_is_refused_with_the_reason(tmp_path: Path) -> None:
    host = machines.bare_metal(tmp_path)
    node = plugged(host)
    await node.look()

    with host.hanging(A, "isolate"), pytest.raises(Refusal, match="unhealthy: A read of its attributes in sysfs"):
        await node.allocate(HPRE, [A])


async def test_a_device_whose_first_read_hangs_is_offered_once_it_ends(tmp_path: Path) -> None:
    host = machines.bare_metal(tmp_path)
    node = plugged(host)

    with host.hanging(A):
        await node.look()
        assert told(node) == {B: True}
        with pytest.raises(Refusal, match="is not there"):
            await node.allocate(HPRE, [A])
    for _ in range(100):
        await node.look()
        if A in told(node):
            break
        await asyncio.sleep(0.01)

    assert told(node) == {A: True, B: True}


async def test_several_devices_may_hang_at_once(tmp_path: Path) -> None:
    host = machines.bare_metal(tmp_path)
    node = plugged(host)
    await node.look()

    with host.hanging(A), host.hanging(B):
        await node.look()

        assert told(node) == {A: False, B: False}
        assert all(replica.healthy for replica in node.device_lists[settings.kind("zip").resource].replicas)


@pytest.mark.parametrize("known", [True, False])
async def test_many_devices_that_hang_cost_hardly_more_time_than_one_and_a_thread_each(
    known: bool, tmp_path: Path
) -> None:
    host = machines.bare_metal(tmp_path)
    host.set_vfs(A, 40)
    node = plugged(host)
    if known:
        await node.look()
    threads = reading_threads()
    vfs = host.states()[A].vfs

    with contextlib.ExitStack() as stack:
        for address in vfs:
            stack.enter_context(host.hanging(address))
        began = time.perf_counter()
        await node.look()
        took_s = time.perf_counter() - began
        for _ in range(3):
            await node.look()
        await asyncio.sleep(0.1)  # A thread is there a moment longer than what it found.
        left = reading_threads() - threads

    assert told(node) == (dict.fromkeys(vfs, False) if known else {}) | {B: True}
    assert took_s < 8 * PATIENCE_S
    assert left == 40


async def test_a_device_is_sound_again_once_its_own_read_ends_though_another_hangs(tmp_path: Path) -> None:
    host = machines.bare_metal(tmp_path)
    node = plugged(host)
    await node.look()

    with host.hanging(B):
        with host.hanging(A):
            await node.look()
            assert told(node) == {A: False, B: False}
        await until_read_again(node)

        assert told(node) == {A: True, B: False}


async def test_what_else_changed_is_told_while_a_look_waits(tmp_path: Path) -> None:
    host = machines.bare_metal(tmp_path)
    node = plugin.Plugin(settings.where(host), settings.settings(), patience_s=5)
    await node.look()

    with host.hanging(A):
        host.set_isolate(B, 1)
        look = asyncio.create_task(node.look())
        while told(node)[B]:
            await asyncio.sleep(0.01)
        assert not look.done()
        assert told(node) == {A: True, B: False}
    await look


async def test_an_allocation_while_a_look_waits_makes_no_link_to_the_node_of_another(tmp_path: Path) -> None:
    host = machines.bare_metal(tmp_path)
    node = plugin.Plugin(settings.where(host), settings.settings(), patience_s=60)
    await node.look()

    with host.hanging(ZIP):
        look = asyncio.create_task(node.look())
        await asyncio.sleep(0.05)
        host.set_driver_changing("upgrade")
        for link in node.where.links.iterdir():
            link.unlink()
        renumber(host)
        host.set_driver_changing(None)
        await node.allocate(HPRE, [A])
        assert not look.done()

        assert wrong_links(host) == []
        assert (node.where.links / link_name(A)).is_symlink()
    await look


async def test_a_look_that_waits_makes_no_link_out_of_what_it_read_before(tmp_path: Path) -> None:
    host = machines.bare_metal(tmp_path)
    node = plugin.Plugin(settings.where(host), settings.settings(), patience_s=60)
    await node.look()

    with host.hanging("0000:b6:00.0"):  # Behind A, and before B.
        look = asyncio.create_task(node.look())
        await asyncio.sleep(0.05)
        for link in node.where.links.iterdir():
            link.unlink()
        renumber(host)
    await look

    assert wrong_links(host) == []


async def test_a_device_that_goes_after_it_was_allocated_while_a_look_waits_stays_away(tmp_path: Path) -> None:
    host = machines.bare_metal(tmp_path)
    node = plugin.Plugin(settings.where(host), settings.settings(), patience_s=60)
    await node.look()

    with host.hanging(ZIP):
        look = asyncio.create_task(node.look())
        await asyncio.sleep(0.05)
        await node.allocate(HPRE, [B])
        host.unplug(B)
    await look

    assert told(node) == {A: True}
    assert not (node.where.links / link_name(B)).is_symlink()


def renumber(host: hosts.Host) -> None:
    """Both devices of HPRE get the number of the other."""
    numbers = [kernel.number_of(str(host.states()[address].entry)) for address in (B, A)]
    for address in (A, B):
        host.unbind(address)
    for address, number in zip((A, B), numbers, strict=True):
        host.bind(address, number=number)


def wrong_links(host: hosts.Host) -> list[str]:
    """The links that lead to the node of another device."""
    nodes = {link_name(address): f"/dev/{state.entry}" for address, state in host.states().items()}
    links = {link.name: str(link.readlink()) for link in (host.run / "dev").iterdir()}
    return [name for name, target in links.items() if target != nodes.get(name, target)]


def link_name(address: str) -> str:
    """The name of the link to a device of HPRE."""
    return paths.link_name(settings.kind("hpre"), address)


async def test_the_probes_see_the_program_alive_while_its_first_look_waits(
    short_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "_BEAT_S", 0.05)
    host = machines.bare_metal(short_path)
    (short_path / "program").mkdir()
    node = plugin.Plugin(settings.where(host), settings.settings(), patience_s=60)
    program = loop.Loop(node, state.ProgramDir(short_path / "program"), rescan_s=30)
    beat = short_path / "program" / state.ALIVE
    first = beat.read_text()

    with host.hanging(A):
        task = asyncio.create_task(program.run())
        beats = set()
        for _ in range(200):
            beats.add(beat.read_text())
            if len(beats) > 2:
                break
            await asyncio.sleep(0.01)
        assert node.devices == ()
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    assert len(beats - {first}) >= 2


async def test_a_device_that_was_never_read_is_listed_as_one_that_does_not_answer(tmp_path: Path) -> None:
    host = machines.bare_metal(tmp_path)
    node = plugged(host)

    with host.hanging(A):
        await node.look()
        with contextlib.closing(files.Lock(node.where.lock)) as lock:
            lock.acquire()
            told_by_the_plugin = await list_report.current(node.where, node.settings)
        looked_for = await list_report.current(node.where, node.settings, PATIENCE_S)

    assert told_by_the_plugin.notes == looked_for.notes[1:]
    assert told_by_the_plugin.notes[0] == (
        f"{A} does not answer, so it is not known and not offered: a read of its attributes in sysfs hangs. The kernel"
        " resets it, or is stuck (dmesg)."
    )


@pytest.mark.usefixtures("reads_here")
async def test_a_bus_that_cannot_be_listed_ends_the_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    host = machines.bare_metal(tmp_path)
    node = plugged(host)
    monkeypatch.setattr("runtime.pci.addresses", lambda _: time.sleep(3 * PATIENCE_S))

    with pytest.raises(errors.Failure, match=r"bus/pci/devices' cannot be listed: the read hangs\.$"):
        await node.look()


@pytest.mark.usefixtures("reads_here")
async def test_a_bug_in_the_process_that_reads_is_raised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    node = plugged(machines.bare_metal(tmp_path))
    monkeypatch.setattr("runtime.pci.addresses", lambda _: 1 / 0)

    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        await node.look()


async def test_the_kubelet_gets_its_answers_while_a_look_waits(short_path: Path) -> None:
    host = machines.bare_metal(short_path)
    node = plugin.Plugin(settings.where(host), settings.settings(), patience_s=60)
    (short_path / "program").mkdir()
    program = loop.Loop(node, state.ProgramDir(short_path / "program"), rescan_s=30)
    async with kubelets.Kubelet(host.kubelet) as kubelet:
        task = asyncio.create_task(program.run())
        await kubelet.until(lambda: kubelet.allocatable(HPRE) == 2)
        with host.hanging(A):
            program.wake()
            await asyncio.sleep(0.1)
            began = time.perf_counter()
            answer = await kubelet.allocate("container", HPRE, (B,))
            took_s = time.perf_counter() - began
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    assert [Path(device.host_path).name for device in answer.devices] == ["hisi_hpre-47360"]
    assert took_s < 2
