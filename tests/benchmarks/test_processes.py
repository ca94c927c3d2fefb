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


def cost(work: str, turn: str) -> processes.Cost:
    """Return the cost of a process that holds memory and has three others do this work."""
    return processes.run((sys.executable, "-c", _FORKS.format(work=work, turn=turn)), Path())


OWN = f"own = bytearray(b'x') * ({SIZE} << 20); time.sleep(2)"


@pytest.mark.long
@pytest.mark.parametrize(
    ("work", "turn", "times"), [("time.sleep(2)", "pass", 1), (OWN, "pass", 4), (OWN, "os.wait()", 2)]
)
def test_memory_counts_once_for_each_process_that_has_it_at_one_moment(work: str, turn: str, times: int) -> None:
    measured = cost(work, turn)

    assert times * SIZE < measured.peak.pss < (times + 1) * SIZE
    assert measured.peak.rss > 4 * SIZE or turn != "pass"


def test_the_memory_of_who_starts_a_process_is_none_of_it() -> None:
    held = bytearray(b"x") * (2 * SIZE << 20)

    measured = processes.run((sys.executable, "-c", "import time; time.sleep(0.1)"), Path())

    assert 1 < measured.peak.pss <= measured.peak.rss < SIZE < len(held) >> 20


def test_memory_of_a_moment_is_seen() -> None:
    work = f"import time; held = bytearray(b'x') * ({SIZE} << 20); del held; time.sleep(0.1)"

    assert processes.run((sys.executable, "-c", work), Path()).peak.rss > SIZE


def test_a_command_that_fails_has_no_cost() -> None:
    with pytest.raises(AssertionError, match="exit"):
        processes.run((sys.executable, "-c", "exit(1)"), Path())
