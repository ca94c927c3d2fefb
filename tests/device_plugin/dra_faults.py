"""Seeded faults on the interface DRA: what a scheduler, a kubelet, people and hardware do in any order.

`python -m tests.device_plugin.dra_faults --count 1000 --seed 1` inflicts so many, and fails on the first wrong answer:
a device that two pods have, one of other numbers than the host's, or a state that does not mend itself.
"""

import argparse
import asyncio
import contextlib
import logging
import os
import random
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
from grpc import aio

from device_plugin.api import dra_v1_pb2 as pb
from device_plugin.api import pluginregistration_v1_pb2 as registration_pb
from device_plugin.dra import claim_service, driver, publisher
from tests.device_plugin import connections, dra_nodes

_MENDS_S = 60.0
_FAULTS_A_RUN = 50


class WrongError(Exception):
    """Something that must never be."""


class Kubelet:
    """The calls of a kubelet, which dials whatever socket is there; each is made until it succeeds."""

    def __init__(self, node: dra_nodes.Node) -> None:
        self._node = node
        self._known: dict[Path, aio.Channel] = {}

    async def call(self, method: str, request: Any) -> Any:
        """Return the answer; None where nobody gives one now."""
        try:
            for socket in self._node.where.sockets.glob("dra-*.sock"):
                if socket not in self._known:
                    channel = await connections.dialled(socket, 0.5)
                    self._known[socket] = channel
                    registration = connections.registration_of(channel)
                    await registration.GetInfo(registration_pb.InfoRequest(), timeout=1)
                    await connections.notified(registration)
                stub = connections.Stub(self._known[socket], pb.DESCRIPTOR.services_by_name["DRAPlugin"])
                return await getattr(stub, method)(request, timeout=5)
        except (aio.AioRpcError, TimeoutError, grpc.RpcError):
            pass
        await asyncio.sleep(0.01)  # Without a socket nothing else lets the program go on.
        return None

    async def close(self) -> None:
        for channel in self._known.values():
            await channel.close()


class Trial:
    """One node under faults; `running` are the pods by claim, each with the device that it has."""

    def __init__(self, node: dra_nodes.Node, rand: random.Random) -> None:
        self.node, self.rand, self.kubelet = node, rand, Kubelet(node)
        self.pending: list[str] = []
        self.running: dict[str, str] = {}
        self.ending: list[str] = []
        self.counts: Counter[str] = Counter()
        self.restart = asyncio.Event()
        self._number = 0
        self._unplugged: set[str] = set()

    def schedule(self) -> None:
        """Give a free, untainted device to a new pod, as a scheduler that sees the slices."""
        taken = {
            result["device"]
            for claim in self.node.server.claims.values()
            for result in claim["status"]["allocation"]["devices"]["results"]
        }
        free = [name for name, item in self.node.server.devices.items() if name not in taken and not item.get("taints")]
        if free:
            self._number += 1
            name = f"c{self._number}"
            self.node.server.allocate(name, self.rand.choice(sorted(free)))
            self.pending.append(name)

    async def admit(self) -> None:
        """Prepare the claims of pods that wait."""
        for name in tuple(self.pending):
            answer = await self.kubelet.call(
                "NodePrepareResources", self._request(pb.NodePrepareResourcesRequest, name)
            )
            if answer is None or (found := answer.claims[f"uid-of-{name}"]).error:
                self.counts["refused"] += 1
                continue
            (device,) = found.devices
            if device.device_name in self.running.values():
                raise WrongError(f"{device.device_name} is given to {name}, and {self.running} run")
            self.check_numbers(device.device_name)
            self.pending.remove(name)
            self.running[name] = device.device_name
            self.counts["prepared"] += 1

    def check_numbers(self, device: str) -> None:
        """Fail where the runtime would hand out another device node than the host's."""
        edits = self.node.cdi_device(device)
        address = dra_nodes.address(device)
        state = self.node.host.states().get(address)
        if edits is None or state is None or not state.node:
            return  # The container waits.
        status = self.node.host.node(address).stat()
        (said,) = edits["deviceNodes"]
        if (said["major"], said["minor"]) != (os.major(status.st_rdev), os.minor(status.st_rdev)):
            raise WrongError(f"{device} has {said}, and the host's is {status.st_rdev}")

    async def end(self) -> None:
        """Unprepare the claims of pods that have ended; until then their containers may still run."""
        for name in tuple(self.ending):
            request = self._request(pb.NodeUnprepareResourcesRequest, name)
            answer = await self.kubelet.call("NodeUnprepareResources", request)
            if answer is not None and not answer.claims[f"uid-of-{name}"].error:
                self.ending.remove(name)
                self.running.pop(name, None)
                self.node.server.claims.pop(name, None)
                self.counts["ended"] += 1

    def _request(self, kind: Callable[..., Any], name: str) -> Any:
        return kind(claims=[pb.Claim(namespace="default", name=name, uid=f"uid-of-{name}")])

    def stop_pod(self, *, by_force: bool = False) -> None:
        """End a pod; by force its object goes at once, and the scheduler takes the device for free."""
        names = [name for name in (*self.running, *self.pending) if name not in self.ending]
        if names:
            name = self.rand.choice(sorted(names))
            self.ending.append(name)
            if name in self.pending:
                self.pending.remove(name)
            if by_force:
                self.node.server.claims.pop(name, None)

    async def fault(self) -> str:
        """Inflict one fault, and return its name."""
        name = self.rand.choice(FAULTS)
        await getattr(self, f"_{name}")()
        return name

    async def _slices_deleted(self) -> None:
        self.node.server.wipe()

    async def _slice_changed(self) -> None:
        for item in self.node.server.slices.values():
            item["spec"]["devices"] = item["spec"]["devices"][1:]
        self.node.server.tell()

    async def _api_away(self) -> None:
        self.node.server.down()
        await asyncio.sleep(self.rand.random() / 20)
        await self.node.server.up()

    async def _api_slow(self) -> None:
        self.node.server.latency_s = 0.02
        await self.admit()
        self.node.server.latency_s = 0.0

    async def _api_refuses(self) -> None:
        self.node.server.refusal = (503, "a test")
        await self.admit()
        self.node.server.refusal = None

    async def _sockets_gone(self) -> None:
        for path in self.node.where.sockets.glob("*.sock"):
            path.unlink(missing_ok=True)

    async def _cdi_gone(self) -> None:
        for path in self.node.where.cdi.glob("*.json"):
            path.unlink(missing_ok=True)

    async def _restarted(self) -> None:
        self.restart.set()

    async def _unplugged_device(self) -> None:
        there = sorted(self.node.host.states())
        if len(there) > 2:
            address = self.rand.choice(there)
            self.node.host.unplug(address)
            self._unplugged.add(address)

    async def _plugged_in(self) -> None:
        if self._unplugged:
            self.node.host.replug(self._unplugged.pop())

    async def _isolated(self) -> None:
        self._isolate(self.rand.choice(sorted(self.node.host.states())), self.rand.randrange(2))

    async def _renumbered(self) -> None:
        self.node.host.renumber()

    async def _changing(self) -> None:
        self.node.host.set_driver_changing("a test")
        await asyncio.sleep(0.03)
        await self.admit()
        self.node.host.set_driver_changing(None)

    async def _by_force(self) -> None:
        self.stop_pod(by_force=True)

    def _isolate(self, address: str, value: int) -> None:
        with contextlib.suppress(ValueError, FileNotFoundError):
            self.node.host.set_isolate(address, value)

    async def mend(self) -> None:
        """Undo all faults, and fail where not all pods get their devices and not all devices are offered again."""
        server, host = self.node.server, self.node.host
        server.latency_s, server.refusal = 0.0, None
        host.set_driver_changing(None)
        while self._unplugged:
            host.replug(self._unplugged.pop())
        for address in host.states():
            self._isolate(address, 0)
        async with asyncio.timeout(_MENDS_S):
            while self.pending or self.ending:
                await self.end()
                await self.admit()
                await asyncio.sleep(0.01)
            self.ending = list(self.running)
            while self.ending:
                await self.end()
            while not self._is_whole():
                await asyncio.sleep(0.01)

    def _is_whole(self) -> bool:
        devices = self.node.server.devices
        if len(devices) != 6:
            return False
        for name, device in devices.items():
            # Damping is no fault: a device that failed again and again stays unhealthy for minutes.
            reasons = {taint["value"] for taint in device.get("taints", ())}
            if reasons - {"Damped"}:
                return False
            if (edits := self.node.cdi_device(name)) is None or not edits["deviceNodes"]:
                return False
            self.check_numbers(name)
        return True


FAULTS = (
    *("slices_deleted", "slice_changed", "api_away", "api_slow", "api_refuses", "sockets_gone", "cdi_gone"),
    *("restarted", "unplugged_device", "plugged_in", "isolated", "renumbered", "changing", "by_force"),
)


async def run(seed: int, faults: int) -> Counter[str]:
    """Inflict faults on one node; return what was done, by name. Raises `WrongError`, or TimeoutError."""
    folder = Path(tempfile.mkdtemp(prefix="kae-", dir="/tmp"))
    try:
        async with dra_nodes.made(folder) as node:
            trial = Trial(node, random.Random(seed))  # noqa: S311 - it is to be the same each time
            keeper = asyncio.create_task(_keep(node, trial))
            try:
                for _ in range(faults):
                    for _ in range(trial.rand.randrange(3)):
                        trial.schedule()
                    await trial.admit()
                    if trial.rand.random() < 0.4:
                        trial.stop_pod()
                    trial.counts[await trial.fault()] += 1
                    await trial.end()
                    await asyncio.sleep(trial.rand.random() / 30)
                    if keeper.done():
                        keeper.result()
                await trial.mend()
            finally:
                keeper.cancel()
                await asyncio.gather(keeper, return_exceptions=True)
                await trial.kubelet.close()
        return trial.counts
    finally:
        shutil.rmtree(folder, ignore_errors=True)


async def _keep(node: dra_nodes.Node, trial: Trial) -> None:
    while True:
        trial.restart.clear()
        async with node.working():
            await trial.restart.wait()


def quicken(set_to: Callable[[Any, str, float], None] = setattr) -> None:
    """Shorten the pauses of the program, which are for a cluster."""
    set_to(publisher, "_PAUSE_S", 0.01)
    set_to(publisher, "_LONGEST_PAUSE_S", 0.1)
    set_to(driver, "_HELD_S", 0.05)
    set_to(claim_service, "RETRY_S", 0.01)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    quicken()
    total: Counter[str] = Counter()
    for start in range(0, options.count, _FAULTS_A_RUN):
        total += asyncio.run(run(options.seed + start, min(_FAULTS_A_RUN, options.count - start)))
    faults = sum(total[name] for name in FAULTS)
    sys.stdout.write(f"{faults} faults, 0 wrong; {total['prepared']} claims prepared, {total['refused']} refusals\n")


if __name__ == "__main__":
    main()
