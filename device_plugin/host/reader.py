"""Read the devices in threads: a read that hangs holds up neither the event loop nor the other devices.

The kernel may let a reader of an attribute wait while it resets or removes the device, at worst for ever, and a thread
that waits in the kernel cannot be ended. It is left behind, one for each device, and the device counts as unreadable
until it ends.
"""

import asyncio
import dataclasses
import logging
import threading
from collections.abc import Callable, Iterable
from concurrent import futures
from typing import Generic, TypeVar

from device_plugin import config
from device_plugin.host import paths, sysfs
from runtime import errors

LOG = logging.getLogger(__name__)
T = TypeVar("T")

PATIENCE_S = 5.0
"""A read that takes longer hangs. On a busy node a thread may well wait for the processor for a second."""


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
        scan = await self._walk(
            lambda visit: sysfs.scan(self._where, self._settings.vendor, self._settings.kinds, visit)
        )
        self._last |= {function.address: function for function in scan.functions}
        read = {function.address: function for function in scan.functions}
        unread = {address: self._unreadable(address) for address in self._hanging}
        functions = read | {address: function for address, function in unread.items() if function is not None}
        return dataclasses.replace(scan, functions=tuple(functions[address] for address in sorted(functions)))

    async def read(self, addresses: Iterable[str]) -> dict[str, sysfs.Function | None]:
        """Return the functions at these addresses; None where none of a served kind is."""
        wanted = sorted(addresses)

        def read_all(visit: sysfs.Visit) -> dict[str, sysfs.Function | None]:
            return {
                address: sysfs.read(self._where, self._settings.vendor, self._settings.kinds, address)
                for address in wanted
                if visit(address)
            }

        found = await self._walk(read_all)
        return {address: found[address] if address in found else self._unreadable(address) for address in wanted}

    def _unreadable(self, address: str) -> sysfs.Function | None:
        """Return the function as it was read last; None when it never was."""
        last = self._last.get(address)
        return dataclasses.replace(last, unreadable=True) if last is not None else None

    async def _walk(self, read: Callable[[sysfs.Visit], T]) -> T:
        """Return the result of `read`, which a thread calls; begin anew, without the device that hangs, if one does."""
        while True:
            self._hanging = {address: thread for address, thread in self._hanging.items() if thread.is_alive()}
            walk = _Walk(read, frozenset(self._hanging))
            if (result := await walk.result(self._patience_s)) is not None:
                return result
            if not walk.at:
                raise errors.Failure(f"'{self._where.sysfs}/bus/pci/devices' cannot be listed: the read hangs.")
            self._hanging[walk.at] = walk.thread
            LOG.warning("Device does not answer.", extra={"device": walk.at, "reason": "A read in sysfs hangs."})


class _Walk(Generic[T]):
    """A thread that reads one device after the other."""

    def __init__(self, read: Callable[[sysfs.Visit], T], skipped: frozenset[str]) -> None:
        self.at = ""
        """The address of the device that it reads now."""
        self._skipped = skipped
        self._count = 0
        self._done: futures.Future[T] = futures.Future()
        # Not a thread of an executor, which the interpreter joins at its end.
        self.thread = threading.Thread(target=self._run, args=(read,), daemon=True)
        self.thread.start()

    async def result(self, patience_s: float) -> T | None:
        """Return the result; None once a single device has taken so long."""
        done = asyncio.wrap_future(self._done)
        while True:
            before = self._count
            await asyncio.wait([done], timeout=patience_s)
            if done.done():
                return done.result()
            if self._count == before:
                done.cancel()
                return None

    def _run(self, read: Callable[[sysfs.Visit], T]) -> None:
        # Then nobody can cancel it, and what a thread left behind returns at last is dropped.
        self._done.set_running_or_notify_cancel()
        try:
            result = read(self._visit)
        except Exception as error:
            self._done.set_exception(error)
        else:
            self._done.set_result(result)

    def _visit(self, address: str) -> bool:
        if address in self._skipped:
            return False
        self.at = address
        self._count += 1
        return True
