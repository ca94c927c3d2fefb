"""Read the devices without waiting for those whose read hangs: another process reads (`reading_process`).

A walk that hangs is left behind, one for each device, and ends at its next step; the device counts as unreadable until
then, and another walk goes on behind it.
"""

import asyncio
import contextlib
import functools
import itertools
import logging
import os
import socket
import subprocess
import sys
import time
import weakref
from collections import deque
from collections.abc import AsyncIterator, Iterable, Sequence

import msgspec
from msgspec import structs

from device_plugin import served
from device_plugin.host import paths, reading_process, resources, sysfs
from runtime import device_plugin_config as config
from runtime import errors, pci

LOG = logging.getLogger(__name__)

PATIENCE_S = 5.0
"""A read that takes longer hangs. On a busy node a process may well wait for a processor for a second."""

_HANDOVER = 0.2
"""The part of this time after which other walks go on behind a read."""

_AT_ONCE = 64
"""The walks that go on: where one device hangs, others of its kind may, too."""

_ENCODER = msgspec.json.Encoder(enc_hook=str)
_ANSWERS = msgspec.json.Decoder(reading_process.Answer)


class Reader:
    """The devices of a node, as they were read last; `patience_s` is how long the read of one may take."""

    def __init__(self, where: paths.Paths, settings: config.Config, patience_s: float = PATIENCE_S) -> None:
        self._where = where
        self._kinds = served.kinds(settings)
        self._resources = settings.resources
        self._patience_s = patience_s
        self._bus: Sequence[str] = ()
        self._known: dict[str, sysfs.Function | sysfs.Stranger] = {}
        self._on_host = {resource.name: resources.OnHost() for resource in settings.resources}
        self._lacks: Sequence[str] = ()
        self._whole = False
        self._hanging: dict[str, _Walk] = {}
        other_process()

    async def look(self) -> AsyncIterator[sysfs.Scan]:
        """Read all; yield a scan at the end, and, but for the first time, one before it that waits for nothing."""
        if self._kinds:
            await self._wait(await self._walk([reading_process.BUS]))
        if reading_process.BUS in self._hanging:
            raise errors.Failure(f"'{self._where.sysfs / 'bus/pci/devices'}' cannot be listed: the read hangs.")
        self._known = {address: self._known[address] for address in self._bus if address in self._known}
        waiting = await self._walk([*self._bus, reading_process.LIBRARIES, *map(_resource, self._on_host)])
        if waiting and self._whole:
            yield self.scan()
        await self._wait(waiting)
        self._whole = True
        yield self.scan()

    async def read(
        self, resource: str, addresses: Iterable[str]
    ) -> tuple[resources.OnHost, dict[str, sysfs.Function | None]]:
        """Return what the host has of a resource, and the functions at these addresses; None where none is served."""
        wanted = sorted(addresses)
        await self._wait(await self._walk([_resource(resource), *wanted]))
        return self.on_host()[resource], {address: self._function(address) for address in wanted}

    def on_host(self) -> dict[str, resources.OnHost]:
        """Return what is known now of the resources."""
        return {
            name: structs.replace(found, silent=True) if _resource(name) in self._hanging else found
            for name, found in self._on_host.items()
        }

    def scan(self) -> sysfs.Scan:
        """Return what is known now."""
        functions = [self._function(address) for address in self._known]
        strangers = [each for each in self._known.values() if isinstance(each, sysfs.Stranger)]
        silent = [address for address in self._bus if address in self._hanging and not self._function(address)]
        return sysfs.scan(self._where, [*functions, *strangers], silent)

    def _function(self, address: str) -> sysfs.Function | None:
        found = self._known.get(address)
        if not isinstance(found, sysfs.Function):
            return None
        return structs.replace(found, unreadable=True) if address in self._hanging else found

    @property
    def lacking_libraries(self) -> Sequence[str]:
        """Return what the host's libraries lack, as `resources.missing_libraries` does."""
        if reading_process.LIBRARIES in self._hanging:
            places = resources.library_folders(self._resources)
            return [f"'{place}' of the host does not answer: is its file system there?" for place in places]
        return self._lacks

    async def _walk(self, names: Iterable[str]) -> "list[tuple[str, _Walk]]":
        """Read each name that does not hang already; return those that take long."""
        rest = [name for name in names if name not in self._hanging or self._hanging[name].ended()]
        if not rest:
            return []
        walk = await _begun(
            reading_process.Request(where=self._where, kinds=self._kinds, resources=self._resources, names=rest)
        )
        for index, name in enumerate(rest):
            answer = await walk.answer(self._patience_s * _HANDOVER)
            if answer is None:
                walk.leave(index)
                shares = (rest[index + 1 + share :: _AT_ONCE] for share in range(_AT_ONCE))
                found = await asyncio.gather(*map(self._walk, shares))
                return [(name, walk), *itertools.chain.from_iterable(found)]
            self._take(name, answer)
        return []

    async def _wait(self, waiting: "list[tuple[str, _Walk]]") -> None:
        """Have the rest of the patience with reads that take long; what then hangs is left behind."""
        for name, walk in waiting:
            answer = await walk.answer(self._patience_s)
            if answer is not None:
                self._take(name, answer)
                continue
            self._hanging[name] = walk
            if pci.ADDRESS.fullmatch(name):
                LOG.warning("Device does not answer.", extra={"device": name, "reason": "A read in sysfs hangs."})

    def _take(self, name: str, answer: reading_process.Answer) -> None:
        self._hanging.pop(name, None)
        if name == reading_process.BUS:
            self._bus = answer.addresses
        elif name == reading_process.LIBRARIES:
            self._lacks = answer.lacks
        elif answer.on_host is not None:
            self._on_host[name.removeprefix(reading_process.RESOURCE)] = answer.on_host
        elif (found := answer.function or answer.stranger) is not None:
            self._known[name] = found
        else:
            self._known.pop(name, None)


class _Walk:
    """One walk of the other process, which ends when this is dropped."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._begun = b""
        self._lines: deque[bytes] = deque()
        self._since_s = time.monotonic()
        """The time of the answer before."""
        weakref.finalize(self, connection.close)

    async def answer(self, patience_s: float) -> reading_process.Answer | None:
        """Return the next answer, or None once it has taken so long; raises what the read raised."""
        while not self._lines:
            chunk = await self._received(self._since_s + patience_s - time.monotonic())
            if chunk is None:
                return None
            if not chunk:
                raise _ended()
            *lines, self._begun = (self._begun + chunk).split(b"\n")
            self._lines.extend(lines)
        self._since_s = time.monotonic()
        answer = _ANSWERS.decode(self._lines.popleft())
        if answer.error is not None:
            raise RuntimeError(answer.error)
        return answer

    async def _received(self, within_s: float) -> bytes | None:
        readable = asyncio.Event()
        asyncio.get_running_loop().add_reader(self._connection, readable.set)
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(within_s):
                    await readable.wait()
        finally:
            asyncio.get_running_loop().remove_reader(self._connection)
        # Also after the time: this process may have waited for a processor itself.
        with contextlib.suppress(BlockingIOError):
            return self._connection.recv(1 << 16)
        return None

    def leave(self, index: int) -> None:
        """Have it end after the name of this index."""
        with contextlib.suppress(BrokenPipeError):  # It has just ended.
            self._connection.send(b"%d" % index)

    def ended(self) -> bool:
        """Return whether one that was left has ended."""
        try:
            while self._connection.recv(1 << 16):
                pass
        except BlockingIOError:
            return False
        except ConnectionResetError:  # It ended without having read where to.
            pass
        return True


def _resource(name: str) -> str:
    return reading_process.RESOURCE + name


async def _begun(request: reading_process.Request) -> _Walk:
    ours, theirs = socket.socketpair()
    walk = _Walk(ours)
    ours.setblocking(False)
    try:
        with theirs:
            socket.send_fds(other_process()[1], [b"+"], [theirs.fileno()])
        await asyncio.get_running_loop().sock_sendall(ours, _ENCODER.encode(request) + b"\n")
    except ConnectionError as error:
        raise _ended() from error
    return walk


@functools.cache
def other_process() -> "tuple[subprocess.Popen[bytes], socket.socket]":
    """Start the other process, which ends with this one; return it with the socket that takes walks."""
    ours, theirs = socket.socketpair()
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    with theirs:
        process = subprocess.Popen(  # noqa: S603 - an argument list, no shell
            (sys.executable, "-m", reading_process.__name__),
            stdin=theirs.fileno(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=environment,
            process_group=0,  # Ctrl-C in a terminal is for the plugin alone.
        )
    if not ours.recv(1):
        raise _ended()
    return process, ours


def _ended() -> errors.Failure:
    return errors.Failure("The process that reads sysfs has ended; a restart starts another one.")
