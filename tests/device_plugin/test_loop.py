"""The running program, as the kubelet and its probes see it while reads hang and kubelets come and go."""

import asyncio
import contextlib
import subprocess
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
import yaml

from device_plugin import loop, plugin, report
from device_plugin.api import deviceplugin_v1beta1_pb2 as pb
from runtime import files, state
from tests.device_plugin import connections, containers, hosts, kubelets, machines, settings
from tests.device_plugin.hangs import Hangs

ROOT = Path(__file__).parents[2]
A, B = "0000:79:00.0", "0000:b9:00.0"
HPRE = settings.kind("hpre").resource


@pytest.fixture
def host(short_path: Path) -> hosts.Host:
    return machines.bare_metal(short_path)


@pytest.fixture
def node(host: hosts.Host) -> plugin.Plugin:
    return plugin.Plugin(settings.where(host), settings.settings())


@pytest.fixture
def program(short_path: Path) -> Path:
    (short_path / "program").mkdir()
    return short_path / "program"


@pytest.fixture
def is_ready(program: Path) -> Callable[[], bool]:
    """Run the readiness probe of the DaemonSet."""
    file = ROOT / "output/east/device-plugin/daemonset-kae-device-plugin-tls.yaml"
    (container,) = yaml.safe_load(file.read_text())["spec"]["template"]["spec"]["containers"]
    command = [word.replace("/run/program", str(program)) for word in container["readinessProbe"]["exec"]["command"]]

    def probe() -> bool:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0

    return probe


@contextlib.asynccontextmanager
async def working(node: plugin.Plugin, program: Path) -> AsyncIterator[loop.Loop]:
    running = loop.Loop(node, state.ProgramDir(program), rescan_s=30)
    task = asyncio.create_task(running.run())
    try:
        yield running
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def until(claim: Callable[[], bool]) -> None:
    while not claim():
        await asyncio.sleep(0.001)


async def test_it_is_ready_once_the_kubelet_watches_every_resource(
    host: hosts.Host, node: plugin.Plugin, program: Path, is_ready: Callable[[], bool]
) -> None:
    async with working(node, program), contextlib.AsyncExitStack() as stack:
        await until(lambda: len(list(node.where.sockets.glob("*.sock"))) == 3)
        for socket in node.where.sockets.glob("*.sock"):
            assert not is_ready()
            channel = await stack.enter_async_context(await connections.dialled(socket, 30))
            await connections.plugin_of(channel).ListAndWatch(pb.Empty()).read()
        assert is_ready()


async def test_a_resource_without_a_healthy_device_is_told_by_a_plugin_that_is_ready(
    host: hosts.Host, node: plugin.Plugin, program: Path, is_ready: Callable[[], bool]
) -> None:
    async with kubelets.Kubelet(host.kubelet), working(node, program) as running:
        await until(is_ready)
        assert (program / state.READY).read_text() == "The kubelet watches every resource.\n"
        for address in (A, B):
            host.set_isolate(address, 1)
        running.wake()

        dead = f"The kubelet watches every resource. No device of {HPRE} is healthy.\n"
        await until(lambda: (program / state.READY).read_text() == dead)
        assert node.dead == [HPRE]


async def test_it_is_not_ready_while_the_kubelet_is_away_nor_after_its_own_end(
    host: hosts.Host, node: plugin.Plugin, program: Path, is_ready: Callable[[], bool]
) -> None:
    async with kubelets.Kubelet(host.kubelet) as kubelet:
        async with working(node, program):
            for _ in range(2):
                await until(is_ready)
                await kubelet.stop()
                await until(lambda: not is_ready())
                kubelet.start()
            await until(is_ready)
        assert not is_ready()


async def test_the_liveness_probe_sees_it_alive_while_its_first_look_waits(
    host: hosts.Host, node: plugin.Plugin, program: Path, hangs: Hangs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "_BEAT_S", 0.001)

    with host.hanging(A), hangs.of(A, "all"):
        async with working(node, program):
            await hangs.awaited.wait()
            beat = (program / state.ALIVE).read_text()
            await until(lambda: (program / state.ALIVE).read_text() != beat)
            assert node.devices == ()


async def test_the_kubelet_gets_its_answers_while_a_look_waits(
    host: hosts.Host, node: plugin.Plugin, program: Path, hangs: Hangs
) -> None:
    async with kubelets.Kubelet(host.kubelet) as kubelet, working(node, program) as running:
        await kubelet.until(lambda: kubelet.allocatable(HPRE) == 2)
        with host.hanging(A), hangs.of(A, "all"):
            running.wake()
            await hangs.awaited.wait()
            answer = await kubelet.allocate("container", HPRE, (B,))

    assert [Path(device.host_path).name for device in answer.devices] == ["hisi_hpre-47360"]


async def test_a_stream_that_breaks_brings_the_resource_back_by_another_socket(
    host: hosts.Host, node: plugin.Plugin, program: Path
) -> None:
    async with kubelets.Kubelet(host.kubelet) as kubelet, working(node, program):
        await kubelet.until(lambda: kubelet.allocatable(HPRE) == 2)
        await kubelet.cut(HPRE)
        assert kubelet.allocatable(HPRE) == 0
        assert kubelet.capacity(HPRE) == 2
        await kubelet.until(lambda: kubelet.allocatable(HPRE) == 2)

    assert len([event for event in kubelet.events if event.what == "info" and event.resource == HPRE]) == 2


async def test_a_pod_gets_the_device_that_the_plugin_prefers_and_no_other_pod_does(
    host: hosts.Host, node: plugin.Plugin, program: Path
) -> None:
    host.set_available_instances(A, 3)
    async with kubelets.Kubelet(host.kubelet) as kubelet, working(node, program):
        await kubelet.until(lambda: kubelet.allocatable(HPRE) == 2)
        given = await kubelet.admit("first", {HPRE: 1})
        assert kubelet.used(HPRE) == {B}
        assert [Path(path).name for path in given.devices] == ["hisi_hpre-47360"]

        with pytest.raises(containers.RefusedError, match=f"2 of {HPRE} wanted, 1 available"):
            await kubelet.admit("second", {HPRE: 2})


async def test_a_plugin_that_begins_removes_the_report_of_its_predecessor(
    host: hosts.Host, node: plugin.Plugin, program: Path, hangs: Hangs
) -> None:
    host.set_isolate(A, 1)
    await node.look()
    host.set_isolate(A, 0)

    with host.hanging(B), hangs.of(B, "all"):
        async with working(node, program):
            await hangs.awaited.wait()
            assert files.is_locked(node.where.lock)
    with hangs.at(host, B), contextlib.closing(files.Lock(node.where.lock)) as lock:
        lock.acquire()
        listed = await report.current(node.where, node.settings)

    assert [row.health for row in listed.rows if row.function.address == A] == ["Healthy"]
    assert listed.notes[0] == (
        "The device plugin at work has written no report (yet); this is what it would tell the kubelet."
    )
    assert listed.notes[1].startswith(f"{B} does not answer")
