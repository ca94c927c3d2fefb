"""Seeded faults against a device plugin and a stand-in kubelet: `python -m tests.device_plugin.faults --count 1000`.

After each fault the kubelet must see exactly the right devices within two seconds, and whatever is allocated on the way
must be the device that was asked for, or be refused.
"""

import argparse
import asyncio
import contextlib
import random
import socket
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path

from compiler import kae
from device_plugin import loop, plugin
from runtime import device_plugin_config as config
from runtime import state
from tests.device_plugin import containers, kubelets, machines
from tests.device_plugin import settings as common

QUIET_S = 2.0
"""Within so much quiet everything is right again."""

_RESCAN_S = 30.0
"""As in production: the faults must be found by events."""


SHARES = {"hpre": 1, "sec": 2, "zip": 1}


def settings() -> config.Config:
    """A config that serves every kind, two shares of each SEC device."""
    return common.settings(*(common.uacce(name, shares=count) for name, count in SHARES.items()))


places_of = common.where


class Rig:
    """A host, a kubelet and a plugin, with the kernel's events led from the first to the last."""

    def __init__(self, root: Path, seed: int, quiet_s: float = QUIET_S) -> None:
        self.random = random.Random(seed)  # noqa: S311 - a test's choice
        self.counts: Counter[str] = Counter()
        self.slowest_s = 0.0
        self._root = root
        self._quiet_s = quiet_s
        self._unplugged: list[str] = []
        self._program: loop.Loop | None = None
        self._task: asyncio.Task[None] | None = None
        self._allocations = 0
        self._history: list[str] = []
        self.host = machines.bare_metal(root, tell=lambda _: self._tell())
        self.kubelet = kubelets.Kubelet(self.host.kubelet)

    async def run(self, count: int) -> None:
        """Start everything, inflict so many faults, and end everything."""
        async with self.kubelet:
            await self.start()
            await self.settle()
            for _ in range(count):
                fault = self.random.choice(FAULTS)
                name = fault.__name__.removeprefix("fault_")
                self.counts[name] += 1
                self._history.append(name)
                await fault(self)
                if self.random.random() < 0.5:
                    await self.allocate_one()
                await self.settle()
                await self.allocate_one()
            await self.stop()

    async def start(self) -> None:
        directory = self._root / "program"
        directory.mkdir(exist_ok=True)
        node = plugin.Plugin(places_of(self.host), settings())
        self._program = loop.Loop(node, state.ProgramDir(directory), _RESCAN_S)
        self._task = asyncio.create_task(self._program.run())

    async def stop(self) -> None:
        """End the plugin, as SIGTERM does."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        self._program = None

    def ended(self) -> bool:
        """Return whether the plugin has ended; raises what ended it."""
        if self._task is None or not self._task.done():
            return False
        self._task.result()
        return True

    async def settle(self) -> None:
        """Wait until the kubelet sees what is right; raises TimeoutError, with what it saw."""
        began = time.monotonic()
        expected = self.expected()
        try:
            await self.kubelet.until(lambda: self._registered() and self.seen() == expected, within_s=self._quiet_s)
        except TimeoutError as error:
            raise TimeoutError(
                f"After {self._history[-5:]}: expected {expected}, saw {self.seen()}. {error}"
            ) from error
        self.slowest_s = max(self.slowest_s, time.monotonic() - began)

    def _registered(self) -> bool:
        self.ended()
        # Until the first list a resource looks like one of no device, and the plugin never sees a stream cut so early.
        if self._program is None or not all(each.registered for each in self._program.registrations):
            return False
        # The kubelet keeps the devices of a connection that it lost, all of them unhealthy, for a while.
        resources = self.kubelet.resources()
        return all(kind.resource in resources and resources[kind.resource].client for kind in kae.KINDS)

    def seen(self) -> dict[str, tuple[int | None, frozenset[str]]]:
        """Capacity and healthy ids of each resource, as the kubelet has them."""
        return {
            kind.resource: (self.kubelet.capacity(kind.resource), self.kubelet.healthy(kind.resource))
            for kind in kae.KINDS
        }

    def expected(self) -> dict[str, tuple[int | None, frozenset[str]]]:
        """The same, out of what was done to the host."""
        changing = (self.host.run / "driver-changing").exists()
        result: dict[str, tuple[int | None, frozenset[str]]] = {}
        for kind in kae.KINDS:
            present = {
                address: state
                for address, state in self.host.states().items()
                if state.function.kind.name == kind.name and not state.vfs and state.driver != "vfio-pci"
            }
            shares = SHARES[kind.name]
            sound = [address for address, state in present.items() if state.entry and state.node and not changing]
            ids = {f"{address}::{share}" if share else address for address in sound for share in range(shares)}
            result[kind.resource] = (len(present) * shares, frozenset(ids))
        return result

    async def allocate_one(self) -> None:
        """Ask for some device, whether it is right to do so or not, and check what is answered."""
        kind = self.random.choice(kae.KINDS)
        known = sorted(
            address for address, state in self.host.states().items() if state.function.kind.name == kind.name
        )
        if not known or not self.kubelet.healthy(kind.resource):
            return
        address = self.random.choice(known)
        self._allocations += 1
        container = f"container-{self._allocations}"
        try:
            answer = await self.kubelet.allocate(container, kind.resource, (address,))
        except (containers.RefusedError, LookupError):
            self.counts["  refused"] += 1
            return
        finally:
            self.kubelet.release(container)
        # Nothing can have changed since: host and plugin take turns in one thread.
        entry = self.host.states()[address].entry
        (device,) = answer.devices
        assert Path(device.host_path).readlink() == Path(f"/dev/{entry}"), f"{address} was answered with another device"
        (given,) = (mount for mount in answer.mounts if "given" in mount.host_path)
        assert str((Path(given.host_path) / "device").readlink()).endswith(f"{address}/uacce/{entry}")
        self.counts["  allocated"] += 1

    async def _look(self) -> None:
        # No event tells of it: the next look finds it.
        self._tell()
        await asyncio.sleep(0.2)

    def _tell(self) -> None:
        if self._program is not None:
            self._program.wake()

    async def fault_kubelet_restart(self) -> None:
        await self.kubelet.restart()

    async def fault_kubelet_away(self) -> None:
        await self.kubelet.stop()
        self.some_change()
        await asyncio.sleep(self.random.uniform(0, 0.3))
        self.kubelet.start()

    async def fault_stream_cut(self) -> None:
        await self.kubelet.cut(self.random.choice(kae.KINDS).resource)

    async def fault_socket_removed(self) -> None:
        for path in self._sockets()[:1]:
            path.unlink()

    async def fault_socket_stolen(self) -> None:
        for path in self._sockets()[:1]:
            path.unlink()
            with socket.socket(socket.AF_UNIX) as thief:
                thief.bind(str(path))
            path.unlink(missing_ok=True)

    async def fault_folder_for_socket(self) -> None:
        for path in self._sockets()[:1]:
            path.unlink()
            path.mkdir()

    async def fault_folder_for_link(self) -> None:
        name = self.random.choice(list(self.host.states()) or ["notes"])
        (self.host.run / f"dev/{name}").unlink(missing_ok=True)
        (self.host.run / f"dev/{name}/made-by-a-runtime").mkdir(parents=True, exist_ok=True)
        await self._look()

    async def fault_file_for_folder(self) -> None:
        (self.host.run / "uacce/given").rename(self.host.run / f"given-{self.random.randrange(10**6)}")
        (self.host.run / "uacce/given").write_text("in the way")
        await self._look()

    async def fault_folder_wiped(self) -> None:
        self.kubelet.wipe()

    async def fault_unplug(self) -> None:
        if known := list(self.host.states()):
            address = self.random.choice(known)
            self.host.unplug(address)
            self._unplugged.append(address)

    async def fault_replug(self) -> None:
        if self._unplugged:
            self.host.replug(self._unplugged.pop(self.random.randrange(len(self._unplugged))))

    async def fault_renumber(self) -> None:
        self.host.renumber()

    async def fault_unbind(self) -> None:
        if bound := [address for address, state in self.host.states().items() if state.driver]:
            self.host.unbind(self.random.choice(bound))

    async def fault_bind(self) -> None:
        for address, found in self.host.states().items():
            if found.driver is None:
                self.host.bind(address)

    async def fault_slow_kubelet(self) -> None:
        self.kubelet.read_slowly(0.3)
        for _ in range(5):
            self.some_change()
            await asyncio.sleep(0.05)
        self.kubelet.read_slowly(0)

    async def fault_driver_changing(self) -> None:
        self.host.set_driver_changing("a test")

    async def fault_driver_changed(self) -> None:
        self.host.set_driver_changing(None)

    async def fault_terminated_while_registering(self) -> None:
        await self.stop()
        await self.start()
        await asyncio.sleep(self.random.uniform(0, 0.15))
        await self.stop()
        await self.start()

    async def fault_killed(self) -> None:
        await self.stop()
        with socket.socket(socket.AF_UNIX) as left:
            (self.host.kubelet / "plugins_registry/kae").mkdir(parents=True, exist_ok=True)
            left.bind(str(self.host.kubelet / f"plugins_registry/kae/hpre-{self.random.randrange(10**6)}.sock"))
        await self.start()

    async def fault_overlap(self) -> None:
        old, earlier = self._task, self._program
        await self.start()
        await asyncio.sleep(self.random.uniform(0, 0.1))
        assert earlier is not None
        assert old is not None
        old.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await old

    def some_change(self) -> None:
        changing = (self.host.run / "driver-changing").exists()
        self.host.set_driver_changing(None if changing else "a test")

    def _sockets(self) -> list[Path]:
        return sorted(filter(Path.is_socket, (self.host.kubelet / "plugins_registry/kae").glob("*.sock")))


FAULTS: tuple[Callable[[Rig], Awaitable[None]], ...] = tuple(
    method for name, method in vars(Rig).items() if name.startswith("fault_")
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kae") as folder:
        rig = Rig(Path(folder), options.seed)
        asyncio.run(rig.run(options.count))
    for name, count in sorted(rig.counts.items()):
        sys.stdout.write(f"{name:30} {count:5}\n")
    sys.stdout.write(f"all right after each, the slowest in {rig.slowest_s:.2f} s\n")


if __name__ == "__main__":
    main()
