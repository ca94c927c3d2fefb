"""The advertised devices of a resource, and the streams that follow them."""

import asyncio
from collections.abc import AsyncGenerator, Callable

from device_plugin.kubelet import advertised


class DeviceList:
    """The shares of one resource, as the kubelet sees them.

    Every stream gets the newest list, and skips the lists for which it was too slow.
    """

    def __init__(self) -> None:
        self.replicas: tuple[advertised.Replica, ...] = ()
        self.watched: Callable[[], None] | None = None
        """Called when a stream opens or closes."""
        self._streams: set[asyncio.Event] = set()

    @property
    def streams(self) -> int:
        """Return the number of open streams."""
        return len(self._streams)

    def show(self, replicas: tuple[advertised.Replica, ...]) -> None:
        """Replace the list; streams wake only if it differs."""
        if replicas != self.replicas:
            self.replicas = replicas
            for stream in self._streams:
                stream.set()

    async def lists(self) -> AsyncGenerator[tuple[advertised.Replica, ...], None]:
        """Yield the current list and every newer one, until the caller closes the stream."""
        changed = asyncio.Event()
        self._streams.add(changed)
        self._streams_changed()
        try:
            while True:
                changed.clear()
                yield self.replicas
                await changed.wait()
        finally:
            self._streams.discard(changed)
            self._streams_changed()

    def _streams_changed(self) -> None:
        if self.watched is not None:
            self.watched()
