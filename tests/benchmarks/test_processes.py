"""The cost of a command: the memory of its processes at one moment, shared pages once, and its failure."""

import sys
from pathlib import Path

import pytest

from benchmarks import processes

SIZE = 60
_FORKS = f"""\
import os, time
held = bytearray(b"x") * ({SIZE} << 20)
for number in range(3):
    if os.fork() == 0:
        {{work}}
        os._exit(0)
    {{turn}}
while True:
    try:
        os.wait()
    except ChildProcessError:
        break
"""


def cost(work: str, turn: str = "pass") -> processes.Cost:
    """Return the cost of a process that holds memory and has three others do this work."""
    return processes.run((sys.executable, "-c", _FORKS.format(work=work, turn=turn)), Path())


@pytest.mark.long
def test_memory_that_processes_share_counts_once() -> None:
    measured = cost("time.sleep(2)")

    assert SIZE < measured.peak.pss < 2 * SIZE
    assert measured.peak.rss > 4 * SIZE


@pytest.mark.long
def test_memory_that_each_process_has_counts_for_each() -> None:
    measured = cost(f"own = bytearray(b'x') * ({SIZE} << 20); time.sleep(2)")

    assert 4 * SIZE < measured.peak.pss < 5 * SIZE


@pytest.mark.long
def test_memory_of_processes_that_follow_each_other_is_not_added() -> None:
    measured = cost(f"own = bytearray(b'x') * ({SIZE} << 20); time.sleep(2)", "os.wait()")

    assert 2 * SIZE < measured.peak.pss < 3 * SIZE


def test_a_command_that_fails_has_no_cost() -> None:
    with pytest.raises(AssertionError, match="exit"):
        processes.run((sys.executable, "-c", "exit(1)"), Path())
