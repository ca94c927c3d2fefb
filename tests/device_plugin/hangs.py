"""Reads that hang, in a time that passes only while the reader has patience with them: no test has to wait."""

import asyncio
import contextlib
import types
import weakref
from collections.abc import Iterator
from typing import Literal

import pytest

from device_plugin.host import reader, reading_process
from tests.device_plugin import hosts

Patience = Literal["lost", "less", "all"]
"""How much patience is left: none, so the read is given up; all but the part after which other walks go on; all."""

_FOR_EVER_S = 3600.0


class Hangs:
    """The reads that hang. A read of any other name is waited for, however busy the machine is."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 0.0
        self.awaited = asyncio.Event()
        """Set once somebody waits for a read that is not given up."""
        self._hanging: dict[str, Patience] = {}
        self._names: weakref.WeakKeyDictionary[reader._Walk, list[str]] = weakref.WeakKeyDictionary()
        self._passed_over: weakref.WeakSet[reader._Walk] = weakref.WeakSet()
        self._begun, self._answer = reader._begun, reader._Walk.answer
        monkeypatch.setattr(reader, "time", types.SimpleNamespace(monotonic=lambda: self.now_s))
        monkeypatch.setattr(reader, "_begun", self._begin)

        async def answer(walk: reader._Walk, patience_s: float) -> reading_process.Answer | None:
            return await self._next(walk, patience_s)

        monkeypatch.setattr(reader._Walk, "answer", answer)

    @contextlib.contextmanager
    def at(self, host: hosts.Host, address: str, attribute: str = "available_instances") -> Iterator[None]:
        """Have each read of an attribute of a device hang, and be given up."""
        with host.hanging(address, attribute), self.of(address):
            yield

    @contextlib.contextmanager
    def of(self, name: str, patience: Patience = "lost") -> Iterator[None]:
        """Take the read of a name for one that hangs, with so much patience left."""
        self._hanging[name] = patience
        try:
            yield
        finally:
            del self._hanging[name]

    async def _begin(self, request: reading_process.Request) -> reader._Walk:
        walk = await self._begun(request)
        self._names[walk] = list(request.names)
        return walk

    async def _next(self, walk: reader._Walk, patience_s: float) -> reading_process.Answer | None:
        (name, *rest) = self._names[walk]
        patience = self._hanging.get(name)
        if patience == "lost" or (patience == "less" and walk not in self._passed_over):
            self._passed_over.add(walk)
            for _ in range(10):  # The time of walks that begin together passes together.
                await asyncio.sleep(0)
            self.now_s = max(self.now_s, walk._since_s + patience_s)
            return None
        while name in self._hanging:
            self.awaited.set()
            await asyncio.sleep(0.001)
        self._names[walk] = rest
        return await self._answer(walk, _FOR_EVER_S)
