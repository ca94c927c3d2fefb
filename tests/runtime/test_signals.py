"""A program ends in good order at the first signal, and at once at the second."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# The programs tell what they have come to, so that nothing has to be waited for by the clock.
ASYNCIO = """
import asyncio
from runtime import signals

async def main():
    stop = signals.stop_on_signals(asyncio.get_running_loop())
    print("runs", flush=True)
    await stop.wait()
    print("stops", flush=True)
    if {slow}:
        await asyncio.sleep(60)

asyncio.run(main())
"""

THREADS = """
import threading
from runtime import signals

stop = threading.Event()
signals.set_on_signals(stop)
print("runs", flush=True)
stop.wait()
print("stops", flush=True)
if {slow}:
    threading.Event().wait(60)
"""

# Between its end and the way there it has more to do, which a signal may break off.
CLEANING = """
import threading
from runtime import signals

stop = threading.Event()
signals.set_on_signals(stop)
print("runs", flush=True)
stop.wait()
stop.clear()
print("cleans", flush=True)
stop.wait()
print("breaks off", flush=True)
threading.Event().wait(60)
"""

PROGRAMS = ((ASYNCIO, signal.SIGTERM), (THREADS, signal.SIGINT))


def signalled(*, slow: bool) -> pytest.MarkDecorator:
    """Try a test with each program, which ends by itself unless it is slow."""
    cases = [(program.format(slow=slow), number) for program, number in PROGRAMS]
    return pytest.mark.parametrize(("child", "number"), cases, indirect=["child"], ids=["asyncio", "threads"])


@pytest.fixture
def child(request: pytest.FixtureRequest) -> Iterator["subprocess.Popen[str]"]:
    """The program, up and running."""
    with subprocess.Popen([sys.executable, "-c", request.param], cwd=ROOT, stdout=subprocess.PIPE, text=True) as found:
        try:
            assert line(found) == "runs\n"
            yield found
        finally:
            found.kill()


def line(child: "subprocess.Popen[str]") -> str:
    """The next line that the program prints."""
    assert child.stdout
    return child.stdout.readline()


@signalled(slow=False)
def test_the_first_signal_lets_a_program_end_by_itself(child: "subprocess.Popen[str]", number: signal.Signals) -> None:
    os.kill(child.pid, number)

    assert line(child) == "stops\n"
    assert child.wait(timeout=30) == 0


@signalled(slow=True)
def test_the_second_signal_ends_it_at_once(child: "subprocess.Popen[str]", number: signal.Signals) -> None:
    os.kill(child.pid, signal.SIGTERM)
    assert line(child) == "stops\n"

    os.kill(child.pid, number)

    assert child.wait(timeout=30) == 128 + number


@pytest.mark.parametrize("child", [CLEANING], ids=["threads"], indirect=True)
def test_a_program_that_clears_the_event_hears_of_the_next_signal(child: "subprocess.Popen[str]") -> None:
    os.kill(child.pid, signal.SIGTERM)
    assert line(child) == "cleans\n"

    os.kill(child.pid, signal.SIGTERM)
    told = line(child)
    os.kill(child.pid, signal.SIGTERM)

    assert told == "breaks off\n"
    assert child.wait(timeout=30) == 128 + signal.SIGTERM
