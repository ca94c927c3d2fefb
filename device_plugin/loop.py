"""The running program: endpoints, events and looks, from the lock to the signal that ends it."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from pathlib import Path

from device_plugin import events, plugin, registration, service
from runtime import errors, lock, shapes, state

LOG = logging.getLogger(__name__)

_TOGETHER_S = 0.02
"""Events come in bursts; this long after the first one, all of a burst is looked at once."""

_AFTERWARDS_S = (0.5, 2.0)
"""After an event it is looked again: the kernel tells of a device before udev, or its driver, is done with it."""

_BEAT_S = 10.0


class Program:
    """A device plugin at work."""

    def __init__(self, node: plugin.Plugin, directory: state.ProgramDir, rescan_s: float) -> None:
        self._node = node
        self._directory = directory
        self._rescan_s = rescan_s
        self._woken = asyncio.Event()
        self._ready = False
        self.endpoints: Sequence[registration.Endpoint] = tuple(map(self._endpoint, node.settings.kinds))

    def wake(self) -> None:
        """Something happened: look soon."""
        self._woken.set()

    async def run(self) -> None:
        """Work until cancelled; raises `errors.Failure` when the world leaves nothing to work with."""
        async with _lock(self._node.where.lock, self._directory.beat):
            registration.clear(self._node.where)
            # Host paths first: a container may start as soon as the kubelet knows of a device.
            self._node.look()
            with self._events() as folders:
                try:
                    await first_of(*(place.run() for place in self.endpoints), self._beat(), self._look_on(folders))
                finally:
                    self._directory.set_unready()

    async def _look_on(self, folders: events.FolderEvents) -> None:
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
            self._check_folders(folders)
            self._node.look()

    def _check_folders(self, folders: events.FolderEvents) -> None:
        registry = self._node.where.registry
        with contextlib.suppress(FileNotFoundError):
            if registry.stat().st_nlink == 0:
                # A mount keeps the folder of old; only a new container gets the one that stands in its place.
                raise errors.Failure(f"'{registry}' was deleted on the host; a restart mounts the new one.")
        for place in self.endpoints:
            place.check()
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
        for folder in (where.kubelet, where.registry, where.sockets):
            folders.watch(folder)
        folders.watch(where.run, where.changing.name)
        # /dev is busy: terminals come and go.
        folders.watch(where.dev, "hisi")

    async def _beat(self) -> None:
        while True:
            self._directory.beat()
            await asyncio.sleep(_BEAT_S)

    def _endpoint(self, kind: shapes.Kind) -> registration.Endpoint:
        shown = self._node.boards[kind.resource]
        answers = service.DevicePlugin(kind, self._node.settings, shown, self._node)
        place = registration.Endpoint(self._node.where, kind.name, kind.resource, answers, shown)
        place.changed = self._registration_changed
        return place

    def _registration_changed(self) -> None:
        ready = all(place.registered for place in self.endpoints)
        if ready and not self._ready:
            self._directory.set_ready("The kubelet watches every resource.")
        elif self._ready and not ready:
            self._directory.set_unready()
        self._ready = ready


async def first_of(*work: Coroutine[object, object, object]) -> None:
    """Do all until one is done, or fails; then end the others, and raise what it raised."""
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
async def _lock(path: Path, beat: Callable[[], None]) -> AsyncIterator[None]:
    """Be the only device plugin of the node: a deletion by force starts the next one beside the one before."""
    with contextlib.closing(lock.Lock(path)) as own:
        warned = False
        while not own.acquire():
            if not warned:
                LOG.warning("Another device plugin is at work on this node; waiting for its end.")
                warned = True
            beat()
            await asyncio.sleep(lock.RETRY_S)
        yield
