"""Read the devices in threads: a read that hangs holds up neither the event loop nor the other devices.

The kernel may let a reader of an attribute wait while it resets or removes the device, at worst for ever, and a thread
that waits in the kernel cannot be ended. It is left behind, one for each device, and the device counts as unreadable
until it ends.
"""

import asyncio
import contextlib
import dataclasses
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from concurrent import futures
from typing import Generic, TypeVar

from device_plugin import config
from device_plugin.host import libraries, paths, sysfs
from runtime import errors, pci

LOG = logging.getLogger(__name__)
T = TypeVar("T")

PATIENCE_S = 5.0
"""A read that takes longer hangs. On a busy node a thread may well wait for the processor for a second."""

_AT_ONCE = 64
"""The threads that go on once a read hangs: where one device hangs, others of its kind may, too."""


class Reader:
    """The devices of a node, as read by threads; `patience_s` is how long one of them may take."""

    def __init__(self, where: paths.Paths, settings: config.Config, patience_s: float = PATIENCE_S) -> None:
        self._where = where
        self._settings = settings
        self._patience_s = patience_s
        self._last: dict[str, sysfs.Function] = {}
        self._hanging: dict[str, threading.Thread] = {}

    async def scan(self) -> sysfs.Scan:
        """Return a scan of the node; raises `errors.Failure` when the PCI bus itself cannot be listed."""
        bus = self._where.sysfs / "bus/pci/devices"
        listed = await self._read_each([str(bus)], lambda _: pci.addresses(self._where.sysfs))
        if not listed:
            raise errors.Failure(f"'{bus}' cannot be listed: the read hangs.")
        (addresses,) = listed.values()
        found = await self._read_each(addresses, self._read_one)
        self._last |= {each.address: each for each in found.values() if isinstance(each, sysfs.Function)}
        unread = {address: self._unreadable(address) for address in addresses if address not in found}
        silent = [address for address, function in unread.items() if function is None]
        return sysfs.scan(self._where, [*found.values(), *unread.values()], silent)

    async def read(self, addresses: Iterable[str]) -> dict[str, sysfs.Function | None]:
        """Return the functions at these addresses; None where none of a served kind is."""
        wanted = sorted(addresses)
        found = await self._read_each(wanted, self._read_one)
        each = {address: found[address] if address in found else self._unreadable(address) for address in wanted}
        return {address: seen if isinstance(seen, sysfs.Function) else None for address, seen in each.items()}

    async def lacking_libraries(self) -> str | None:
        """Return what the host's libraries lack, as `libraries.missing` does: they may be on a network file system."""
        place = libraries.folder(self._settings.inject)
        found = await self._read_each([place], lambda _: libraries.missing(self._where, self._settings.inject))
        return found.get(place, f"'{place}' of the host does not answer: is its file system there?")

    def _read_one(self, address: str) -> sysfs.Function | sysfs.Stranger | None:
        return sysfs.read(self._where, self._settings.vendor, self._settings.kinds, address)

    def _unreadable(self, address: str) -> sysfs.Function | None:
        """Return the function as it was read last; None when it never was."""
        last = self._last.get(address)
        return dataclasses.replace(last, unreadable=True) if last is not None else None

    async def _read_each(self, names: Iterable[str], read: Callable[[str], T]) -> dict[str, T]:
        """Return what `read`, called by threads, returns for each name, without those whose read hangs."""
        self._hanging = {name: thread for name, thread in self._hanging.items() if thread.is_alive()}
        rest = [name for name in names if name not in self._hanging]
        found: dict[str, T] = {}
        count = 1
        while rest:
            queue = deque(rest)
            walks = [_Walk(read, queue) for _ in range(min(count, len(rest)))]
            ends = await asyncio.gather(*(walk.ends(self._patience_s) for walk in walks))
            for walk in walks:
                found |= dict(walk.found)
            for walk in (walk for walk, ended in zip(walks, ends, strict=True) if not ended):
                found.pop(walk.at, None)
                self._hanging[walk.at] = walk.thread
                if pci.ADDRESS.fullmatch(walk.at):
                    reason = "A read in sysfs hangs."
                    LOG.warning("Device does not answer.", extra={"device": walk.at, "reason": reason})
            rest = [name for name in rest if name not in found and name not in self._hanging]
            count = _AT_ONCE
        return found


class _Walk(Generic[T]):
    """A thread that reads one name of a queue after the other."""

    def __init__(self, read: Callable[[str], T], queue: deque[str]) -> None:
        self.at = ""
        """The name that it reads now."""
        self.found: dict[str, T] = {}
        self._read = read
        self._queue = queue
        self._began_s = time.monotonic()
        self._done: futures.Future[None] = futures.Future()
        # Not a thread of an executor, which the interpreter joins at its end.
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    async def ends(self, patience_s: float) -> bool:
        """Return true at its end, and false once a single name has taken so long; raises what the read raised."""
        done = asyncio.wrap_future(self._done)
        while True:
            began_s = self._began_s
            await asyncio.wait([done], timeout=max(0.0, began_s + patience_s - time.monotonic()))
            if done.done():
                done.result()
                return True
            if self._began_s == began_s:
                # What it still finds is dropped.
                self._queue = deque()
                done.cancel()
                return False

    def _run(self) -> None:
        # Then nobody can cancel it.
        self._done.set_running_or_notify_cancel()
        try:
            while (name := self._next()) is not None:
                # In this order: whoever finds the time unchanged finds the name that it belongs to.
                self._began_s = time.monotonic()
                self.at = name
                self.found[name] = self._read(name)
        except Exception as error:
            self._done.set_exception(error)
        else:
            self._done.set_result(None)

    def _next(self) -> str | None:
        with contextlib.suppress(IndexError):
            return self._queue.popleft()
        return None
