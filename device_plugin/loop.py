"""The running program: registrations, events and scans, from the lock to the signal that ends it."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from device_plugin import host_links, plugin
from device_plugin.host import events
from device_plugin.kubelet import service
from runtime import device_plugin_config as config
from runtime import errors, files, state

if TYPE_CHECKING:
    from device_plugin.dra import claim_service

LOG = logging.getLogger(__name__)

_TOGETHER_S = 0.02
"""Events come in bursts; one scan this long after the first event covers the burst."""

_AFTERWARDS_S = (0.5, 2.0)
"""More scans follow an event: the kernel reports a device before udev, or its driver, has finished with it."""

_BEAT_S = 10.0


class Loop:
    """A device plugin at work."""

    def __init__(
        self,
        node: plugin.Plugin,
        directory: state.ProgramDir,
        rescan_s: float,
        claiming: "Callable[[], claim_service.Claiming | None]" = lambda: None,
    ) -> None:
        """Takes what makes the driver of a node whose interface is DRA, or was so before."""
        self._node = node
        self._directory = directory
        self._rescan_s = rescan_s
        self._woken = asyncio.Event()
        node.surprised = self.wake
        self._shown = ""
        """The text of the readiness file; empty without one."""
        self._claiming = claiming
        self._claims: claim_service.Claiming | None = None
        self.registrations: Sequence[service.Served] = ()
        if node.settings.interface == "DevicePlugin":
            self.registrations = tuple(self._registration(resource) for resource in node.settings.resources)

    def wake(self) -> None:
        """Scan soon, because something happened."""
        self._woken.set()

    async def run(self) -> None:
        """Work until cancelled; raises `errors.Failure` on an I/O error that a restart may mend."""
        async with _lock(self._node.where.lock, self._directory.beat) as lock:
            service.clear(self._node.where)
            host_links.remove_report(self._node.where)
            await first_of(self._beat(), self._work(lock))

    async def _work(self, lock: files.Lock) -> None:
        beside = await self._begin()
        # Host paths first: a container may start as soon as the kubelet knows a device.
        await self._node.look()
        with self._events() as folders:
            try:
                work = (*(each.run() for each in self.registrations), *(part() for part in beside))
                await first_of(*work, self._look_on(folders, lock))
            finally:
                self._directory.set_unready()

    async def _begin(self) -> "Sequence[claim_service.Work]":
        """Learn what the interface before has given, and return what else is to run."""
        made = self._claiming()
        if made is None:
            return ()
        self._claims = made
        made.changed = self._show
        self.registrations = (*self.registrations, *made.registrations)
        return await made.begin()

    async def _look_on(self, folders: events.FolderEvents, lock: files.Lock) -> None:
        loop = asyncio.get_running_loop()
        again: list[float] = []
        rescan = loop.time() + self._rescan_s
        while True:
            due = min([rescan, *again])
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(due):
                    await self._woken.wait()
            if self._woken.is_set():
                await asyncio.sleep(_TOGETHER_S)
                self._woken.clear()
                again = [loop.time() + seconds for seconds in _AFTERWARDS_S]
            else:
                again = [moment for moment in again if moment > due]
            rescan = loop.time() + self._rescan_s
            self._check_lock(lock)
            self._check_folders(folders)
            await self._node.look()
            self._show()

    def _check_lock(self, lock: files.Lock) -> None:
        path = self._node.where.lock
        try:
            if lock.acquire():
                return
        except OSError as error:
            raise errors.Failure(f"'{path}' cannot be made: {error.strerror}.") from error
        raise errors.Failure(
            f"'{path}' was removed, and another device plugin has it now; a restart waits for its end."
        )

    def _check_folders(self, folders: events.FolderEvents) -> None:
        sockets = self._node.where.sockets
        with contextlib.suppress(FileNotFoundError):
            if sockets.stat().st_nlink == 0:
                # A mount keeps the deleted folder; the next container mounts a new one, which its runtime makes.
                raise errors.Failure(f"'{sockets}' was deleted on the host; a restart mounts the new one.")
        for each in self.registrations:
            each.check()
        # On the way back it is none of them: the program is ready without it.
        if self._claims is not None and self._claims not in self.registrations:
            self._claims.check()
        self._watch(folders)

    @contextlib.contextmanager
    def _events(self) -> Iterator[events.FolderEvents]:
        loop = asyncio.get_running_loop()
        folders = events.FolderEvents(loop, self.wake)
        kernel = events.KernelEvents(loop, self.wake)
        self._watch(folders)
        try:
            yield folders
        finally:
            kernel.close()
            folders.close()

    def _watch(self, folders: events.FolderEvents) -> None:
        where = self._node.where
        folders.watch(where.sockets)
        folders.watch(where.run, where.changing.name)
        if self._node.settings.interface == "DRA":
            folders.watch(where.cdi, self._node.settings.home.dra_driver)
        for folder, beginnings in self._node.watched().items():
            folders.watch(folder, *beginnings)

    async def _beat(self) -> None:
        while True:
            self._directory.beat()
            await asyncio.sleep(_BEAT_S)

    def _registration(self, resource: config.AnyResource) -> service.Registration:
        shown = self._node.device_lists[resource.name]
        packed = self._node.settings.allocation_policy == "Packed"
        answers = service.DevicePlugin(resource.name, shown, self._node, packed=packed)
        each = service.Registration(self._node.where, resource, answers, shown)
        each.changed = self._show
        return each

    def _show(self) -> None:
        shown = ""
        if self.registrations and all(each.registered for each in self.registrations):
            shown = "The kubelet watches every resource."
            if self._node.settings.interface == "DRA":
                shown = "The kubelet has the driver, and the scheduler sees the devices."
            if dead := self._node.dead:
                # It says no more than that: a dead device is no reason to halt the rollout of the plugin.
                shown += f" No device of {', '.join(dead)} is healthy."
        if shown and shown != self._shown:
            self._directory.set_ready(shown)
        elif self._shown and not shown:
            self._directory.set_unready()
        self._shown = shown


async def first_of(*work: Coroutine[object, object, object]) -> None:
    """Run all until one ends or fails; then cancel the others, and raise its exception."""
    tasks = [asyncio.create_task(part) for part in work]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in done:
        task.result()


@contextlib.asynccontextmanager
async def _lock(path: Path, beat: Callable[[], None]) -> AsyncIterator[files.Lock]:
    """Be the only device plugin of the node: after a forced deletion the next pod starts beside the old one."""
    with contextlib.closing(files.Lock(path)) as own:
        warned = False
        while not own.acquire():
            if not warned:
                LOG.warning("Another device plugin is at work on this node; waiting for its end.")
                warned = True
            beat()
            await asyncio.sleep(files.RETRY_S)
        yield own
