"""A program ends in good order at the first signal, and at once at the second."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# It tells what it has come to, so that nothing has to be waited for by the clock.
PROGRAM = """
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


@pytest.fixture
def child(request: pytest.FixtureRequest) -> Iterator["subprocess.Popen[str]"]:
    """The program, up and running."""
    script = PROGRAM.format(slow=request.param)
    with subprocess.Popen([sys.executable, "-c", script], cwd=ROOT, stdout=subprocess.PIPE, text=True) as found:
        try:
            assert line(found) == "runs\n"
            yield found
        finally:
            found.kill()


def line(child: "subprocess.Popen[str]") -> str:
    """The next line that the program prints."""
    assert child.stdout
    return child.stdout.readline()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("child", [False], indirect=True)
def test_the_first_signal_lets_the_program_end_by_itself(
    child: "subprocess.Popen[str]", number: signal.Signals
) -> None:
    os.kill(child.pid, number)

    assert line(child) == "stops\n"
    assert child.wait(timeout=30) == 0


@pytest.mark.parametrize("child", [True], indirect=True)
def test_the_second_signal_ends_it_at_once(child: "subprocess.Popen[str]") -> None:
    os.kill(child.pid, signal.SIGTERM)
    assert line(child) == "stops\n"

    os.kill(child.pid, signal.SIGTERM)

    assert child.wait(timeout=30) == 128 + signal.SIGTERM
