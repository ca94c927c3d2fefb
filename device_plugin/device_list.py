"""The current list of a resource, and those who watch it."""

import asyncio
from collections.abc import AsyncGenerator, Callable

from device_plugin import advertised


class Board:
    """What the kubelet is to see of one resource.

    Every watcher gets the newest list, and skips those for which it was too slow.
    """

    def __init__(self) -> None:
        self.replicas: tuple[advertised.Replica, ...] = ()
        self.watched: Callable[[], None] | None = None
        """Called whenever a watcher came or went."""
        self._watchers: set[asyncio.Event] = set()

    @property
    def watchers(self) -> int:
        """How many streams are open."""
        return len(self._watchers)

    def show(self, replicas: tuple[advertised.Replica, ...]) -> None:
        """Put up a list; watchers are woken only if it differs."""
        if replicas != self.replicas:
            self.replicas = replicas
            for watcher in self._watchers:
                watcher.set()

    async def lists(self) -> AsyncGenerator[tuple[advertised.Replica, ...], None]:
        """The list of now and every newer one, until the one who asks is gone."""
        changed = asyncio.Event()
        self._watchers.add(changed)
        self._tell()
        try:
            while True:
                changed.clear()
                yield self.replicas
                await changed.wait()
        finally:
            self._watchers.discard(changed)
            self._tell()

    def _tell(self) -> None:
        if self.watched is not None:
            self.watched()
