"""Tests may be coroutines here, and sockets need short paths."""

import asyncio
import inspect
import shutil
import socket
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from device_plugin.host import reader, reading_process
from tests.device_plugin.hangs import Hangs

_DEADLINE_S = 60.0
"""The time after which a hanging test fails."""


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Runs a coroutine test in an event loop of its own; other tests run as ever."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = inspect.signature(pyfuncitem.obj).parameters
    arguments = {name: pyfuncitem.funcargs[name] for name in names}
    asyncio.run(asyncio.wait_for(pyfuncitem.obj(**arguments), _DEADLINE_S))
    return True


@pytest.fixture(scope="session", autouse=True)
def reads() -> Iterator[None]:
    """End the process that reads sysfs with the tests, as it ends with a device plugin."""
    yield
    if reader.other_process.cache_info().currsize:
        process, connection = reader.other_process()
        connection.close()
        process.wait()


@pytest.fixture
def short_path() -> Iterator[Path]:
    """An empty folder like tmp_path; but the path of a socket in it stays within the 107 bytes that unix(7) allows."""
    folder = Path(tempfile.mkdtemp(prefix="kae-", dir="/tmp"))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def reads_here(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Reads in threads of the test, where it can replace what they call."""
    process, _ = reader.other_process()
    ours, theirs = socket.socketpair()
    thread = threading.Thread(target=reading_process.serve, args=(theirs,), daemon=True)
    thread.start()
    assert ours.recv(1)
    monkeypatch.setattr(reader, "other_process", lambda: (process, ours))
    with ours, theirs:
        yield
        ours.shutdown(socket.SHUT_RDWR)
        # A closed socket under its feet would be an error of the next test.
        thread.join()


@pytest.fixture
def hangs(monkeypatch: pytest.MonkeyPatch) -> Hangs:
    return Hangs(monkeypatch)
