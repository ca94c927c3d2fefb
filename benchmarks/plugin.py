"""Figures of the device plugin: `python -m benchmarks.plugin`.

The plugin runs as a process of its own where its memory, processor time and start are measured, and beside a stand-in
kubelet, with the kernel's events led to it, where reaction times are.
"""

import asyncio
import contextlib
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import tabulate

from compiler import kae
from device_plugin import loop, plugin
from device_plugin.api import deviceplugin_v1beta1_pb2 as api
from device_plugin.kubelet import advertised, service
from runtime import shapes, state
from tests.device_plugin import dra_faults, dra_kills, faults, hosts, kernel, kubelets, machines

SAMPLES = int(os.environ.get("SAMPLES", "300"))
IDLE_S = float(os.environ.get("IDLE_S", "60"))
RESCAN_S = 30.0
HPRE = kae.KINDS[0].resource


@dataclass(frozen=True)
class Times:
    """The seconds that repeated measurements of one thing took."""

    seconds: Sequence[float]

    def __str__(self) -> str:
        """Return the median, the 99th percentile and the worst."""
        ordered = sorted(self.seconds)
        high = ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]
        return f"median {_ms(statistics.median(ordered))}, p99 {_ms(high)}, worst {_ms(ordered[-1])}, n={len(ordered)}"


@contextlib.asynccontextmanager
async def together(
    root: Path, machine: Callable[..., hosts.Host] = machines.bare_metal
) -> AsyncIterator[tuple[hosts.Host, kubelets.Kubelet, loop.Loop]]:
    """A host, a kubelet that has registered the plugin, and the plugin."""
    running: list[loop.Loop] = []

    def tell(_: kernel.Event) -> None:
        for each in running:
            each.wake()

    host = machine(root, tell=tell)
    (root / "program").mkdir()
    node = plugin.Plugin(faults.places_of(host), faults.settings())
    made = loop.Loop(node, state.ProgramDir(root / "program"), RESCAN_S)
    running.append(made)
    async with kubelets.Kubelet(host.kubelet) as kubelet:
        task = asyncio.create_task(made.run())
        await kubelet.until(lambda: kubelet.allocatable(HPRE) > 0, within_s=60)
        yield host, kubelet, made
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def unplug_times(root: Path) -> Times:
    """Return the times from the unplugging of a device to the list without it."""
    seconds = []
    async with together(root) as (host, kubelet, _):
        for _ in range(SAMPLES):
            began = time.perf_counter()
            host.unplug("0000:79:00.0")
            await kubelet.until(lambda: kubelet.allocatable(HPRE) == 1)
            seconds.append(time.perf_counter() - began)
            host.replug("0000:79:00.0")
            await kubelet.until(lambda: kubelet.allocatable(HPRE) == 2)
    return Times(seconds)


async def isolation_times(root: Path) -> Times:
    """Return the times from the isolation of a device, which sends no event, to the list in which it is unhealthy."""
    seconds = []
    async with together(root) as (host, kubelet, _):
        for left, address in ((1, "0000:79:00.0"), (0, "0000:b9:00.0")):
            # Not at the moment of a rescan.
            await asyncio.sleep(RESCAN_S / 3 if left else 0.0)
            began = time.perf_counter()
            host.set_isolate(address, 1)
            await kubelet.until(lambda: len(kubelet.healthy(HPRE)) <= left, within_s=2 * RESCAN_S)  # noqa: B023 - at once
            seconds.append(time.perf_counter() - began)
    return Times(seconds)


async def allocate_times(root: Path) -> Times:
    """Return the times from the call to its answer."""
    seconds = []
    async with together(root) as (_, kubelet, _):
        for turn in range(SAMPLES):
            began = time.perf_counter()
            await kubelet.allocate(f"container-{turn}", HPRE, ("0000:79:00.0",))
            seconds.append(time.perf_counter() - began)
            kubelet.release(f"container-{turn}")
    return Times(seconds)


def many_functions(root: Path, **options: Any) -> hosts.Host:
    """A machine with 768 functions: twelve devices with 63 virtual functions each."""
    host = machines.new_920(root, **options)
    for address in tuple(host.states()):
        host.set_vfs(address, kae.MAX_VFS)
    return host


async def allocate_times_beside_looks(root: Path, *, hanging: bool) -> Times:
    """Return the times of Allocate on a node of 768 functions, one look after the other, or one that hangs."""
    seconds = []
    async with together(root, many_functions) as (host, kubelet, program):
        stuck, *others = sorted(kubelet.healthy(HPRE))
        with host.hanging(stuck) if hanging else contextlib.nullcontext():
            for turn in range(SAMPLES):
                program.wake()
                began = time.perf_counter()
                await kubelet.allocate(f"container-{turn}", HPRE, (others[turn % len(others)],))
                seconds.append(time.perf_counter() - began)
                kubelet.release(f"container-{turn}")
                await asyncio.sleep(0.01)
    return Times(seconds)


def largest_list() -> int:
    """Return the bytes of the list of 64 devices with 128 replicas each, all on a NUMA node."""
    replicas = tuple(
        advertised.Replica(id=advertised.replica_id(f"0000:{bus:02x}:00.0", share), healthy=False, numa_node=1)
        for bus in range(64)
        for share in range(128)
    )
    return int(api.ListAndWatchResponse(devices=[service.device(replica) for replica in replicas]).ByteSize())


@contextlib.contextmanager
def process(root: Path, *, metrics: bool) -> Iterator[subprocess.Popen[bytes]]:
    """The plugin as a process of its own."""
    host = machines.bare_metal(root)
    settings = msgspec.structs.replace(
        faults.settings(), metrics=shapes.MetricsEndpoint(port=29510) if metrics else None
    )
    (root / "config.json").write_text(json.dumps(msgspec.to_builtins(settings)))
    (root / "program").mkdir()
    folders = (
        ("--config", root / "config.json"),
        ("--sysfs", host.sysfs),
        ("--dev", host.dev),
        ("--run-dir", host.run),
        ("--kubelet-dir", host.kubelet),
        ("--program-dir", root / "program"),
    )
    command = [sys.executable, "-m", "device_plugin", *(str(word) for pair in folders for word in pair)]
    running = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        yield running
    finally:
        running.terminate()
        running.wait(timeout=10)


async def start_times(root: Path) -> Times:
    """Return the times from the start of the process to the kubelet's first list of every resource."""
    seconds = []
    for turn in range(10):
        with process(root / str(turn), metrics=False) as running:
            # The kubelet is there long before the plugin has even imported what it needs.
            async with kubelets.Kubelet(root / str(turn) / "kubelet") as kubelet:
                await kubelet.until(lambda: all(kubelet.allocatable(kind.resource) for kind in kae.KINDS))
                seconds.append(time.time() - _started(running.pid))
    return Times(seconds)


def idle(root: Path, *, metrics: bool) -> tuple[float, float]:
    """Return the resident MiB, and the share of one processor, of an idle plugin."""

    async def watched() -> tuple[float, float]:
        with process(root, metrics=metrics) as running:
            async with kubelets.Kubelet(root / "kubelet") as kubelet:
                await kubelet.until(lambda: all(kubelet.allocatable(kind.resource) for kind in kae.KINDS))
                await asyncio.sleep(3)
                before = _processor_s(running.pid)
                await asyncio.sleep(IDLE_S)
                return _resident_mib(running.pid), (_processor_s(running.pid) - before) / IDLE_S

    return asyncio.run(watched())


async def resident_by_dra(root: Path) -> str:
    """Return the most MiB that the program had, by the interface DRA with 64 devices and 8 claims."""
    async with dra_kills.node(root) as node:
        for address, count in zip(node.host.states(), (11, 11, 11, 11, 10, 10), strict=True):
            node.host.set_vfs(address, count)
        trial = dra_faults.Trial(node, random.Random(1))  # noqa: S311 - any eight devices
        async with dra_kills.program(node) as running:
            while len(node.server.devices) < 64:
                await asyncio.sleep(0.05)
            for _ in range(8):
                trial.schedule()
            while trial.pending:
                await trial.admit()
            await asyncio.sleep(1)
            peak = int(Path(f"/proc/{running.pid}/status").read_text().partition("VmHWM:")[2].split()[0])
            children = Path(f"/proc/{running.pid}/task/{running.pid}/children").read_text().split()
            beside = sum(_private_kib(each) for each in children)
        await trial.kubelet.close()
    return f"{peak / 1024:.1f} MiB, and {beside / 1024:.1f} MiB of the process that reads for it"


def main() -> None:
    """Print the table."""
    rows: list[tuple[str, str]] = []

    def measured(what: str, make: Callable[[Path], object]) -> None:
        with tempfile.TemporaryDirectory(prefix="kae") as folder:
            rows.append((what, str(make(Path(folder)))))

    measured("start to registered", lambda root: asyncio.run(start_times(root)))
    measured("Allocate", lambda root: asyncio.run(allocate_times(root)))
    for hanging in (False, True):
        title = f"Allocate, 768 functions, {'a look hangs' if hanging else 'looks all the time'}"
        measured(title, lambda root: asyncio.run(allocate_times_beside_looks(root, hanging=hanging)))  # noqa: B023 - at once
    measured("unplug to told, by an event", lambda root: asyncio.run(unplug_times(root)))
    measured("isolation to told, by a rescan", lambda root: asyncio.run(isolation_times(root)))
    rows.append(("64 devices x 128 replicas", f"{largest_list() / 1024:.0f} KiB of 4096"))
    for metrics in (False, True):
        with tempfile.TemporaryDirectory(prefix="kae") as folder:
            resident, share = idle(Path(folder), metrics=metrics)
        rows.append(
            (f"idle, {'with' if metrics else 'without'} metrics", f"{resident:.1f} MiB, {share:.3%} of one CPU")
        )
    measured("by DRA, 64 devices and 8 claims", lambda root: asyncio.run(resident_by_dra(root)))
    sys.stdout.write(tabulate.tabulate(rows, tablefmt="plain") + "\n")


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.1f} ms"


def _resident_mib(pid: int) -> float:
    """Return what the plugin and the process that reads for it have in memory; what both share counts once."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return sum(_proportional_kib(each) for each in (str(pid), *children)) / 1024


def _proportional_kib(pid: str) -> int:
    return _kib(pid, "Pss:")


def _private_kib(pid: str) -> int:
    return _kib(pid, "Private_Clean:") + _kib(pid, "Private_Dirty:")


def _kib(pid: str, field: str) -> int:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    (line,) = (line for line in lines if line.startswith(field))
    return int(line.split()[1])


def _started(pid: int) -> float:
    # When the process began, in seconds since the epoch; the clock of ticks since boot has hundredths (proc(5)).
    ticks = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    boot = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
    return boot + ticks / os.sysconf("SC_CLK_TCK")


def _processor_s(pid: int) -> float:
    # utime and stime, behind the command's name in parentheses (proc(5)).
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()
