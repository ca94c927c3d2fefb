"""Work that hangs is killed in time, and work that does not answers as if it were done here."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from installer.host import chroot
from runtime import errors, files, killable, process, pulse

pytestmark = pytest.mark.usefixtures("really_killable")


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """What hangs is known soon."""
    monkeypatch.setattr(killable, "PATIENCE_S", 0.3)


def fifo(folder: Path) -> Path:
    """Return a file that answers nobody: whoever opens it waits for a writer."""
    os.mkfifo(folder / "fifo")
    return folder / "fifo"


def test_an_answer_crosses_whole() -> None:
    answer = ({"a": frozenset({1})}, Path("/x"), "x" * (1 << 20), b"\0\n.")

    assert killable.call(lambda: answer) == answer


def test_a_failure_crosses_with_what_it_tells() -> None:
    def fail() -> None:
        raise chroot.CommandFailed(("rpm", "-q"), 3, "no such package\n")

    with pytest.raises(chroot.CommandFailed, match=r"^'rpm -q' ended with 3: no such package$") as caught:
        killable.call(fail)

    assert (caught.value.command, caught.value.code, caught.value.said) == (("rpm", "-q"), 3, "no such package")


def test_a_mistake_of_our_own_is_no_failure() -> None:
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        killable.call(lambda: 1 // 0)


def test_a_process_that_dies_is_a_failure() -> None:
    with pytest.raises(errors.Failure, match="was killed"):
        killable.call(lambda: os._exit(1))


def test_what_hangs_is_killed_and_named(tmp_path: Path) -> None:
    place = fifo(tmp_path)

    def look() -> bytes:
        pulse.beat("/etc/other.conf")
        pulse.beat("/etc/modprobe.d/site.conf")
        return place.read_bytes()

    with pytest.raises(killable.Hangs, match=r"^'/etc/modprobe\.d/site\.conf' on the host does not answer for \d+ sec"):
        killable.call(look)

    assert not killable._left


def test_work_that_advances_may_take_its_time() -> None:
    def slow() -> str:
        for _ in range(8):
            time.sleep(0.1)
            pulse.beat()
        return "done"

    assert killable.call(slow) == "done"


def test_an_end_ends_what_hangs_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(killable, "PATIENCE_S", 600)
    stop = threading.Event()
    stop.set()

    with pytest.raises(process.Cancelled):
        killable.call(fifo(tmp_path).read_bytes, stop)


def test_no_lock_is_held_by_what_hangs(tmp_path: Path) -> None:
    lock = files.Lock(tmp_path / "lock")
    assert lock.acquire()

    found = killable.call(lambda: len(os.listdir("/proc/self/fd")))  # noqa: PTH208 - descriptors are no paths

    lock.close()
    assert found <= 5  # The three of every process, the answer's, and that of this look.


def test_of_those_that_no_signal_ends_a_few_are_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    def undead(_: int) -> bool:
        return False

    with monkeypatch.context() as patched:
        patched.setattr(killable, "_has_ended", undead)
        patched.setattr(killable, "_KILLED_S", 0)
        for _ in range(killable.MOST_LEFT):
            killable.call(int)
        with pytest.raises(killable.Hangs, match=r"^8 processes hang in the kernel"):
            killable.call(int)

    waits_for_children()  # Once they have ended, others follow.
    assert killable.call(int) == 0


def waits_for_children() -> None:
    for child in list(killable._left):
        while not killable._has_ended(child):
            time.sleep(0.01)


WATCHED = """
import os, sys, threading, time
from runtime import pulse
pulse.LIMIT_S, pulse.ENDING_S, pulse._LOOK_S = {limits}
stop = threading.Event()
def end(sentence):
    print(sentence, flush=True)
    os._exit(3)
with pulse.watched(stop, end):
    {work}
print("ended well", flush=True)
"""


@pytest.mark.parametrize(
    ("limits", "work", "said"),
    [
        ((0.2, 600, 0.02), "pulse.beat('/opt/x'); time.sleep(60)", "'/opt/x' on the host does not answer for 0 sec"),
        (
            (600, 0.2, 0.02),
            "stop.set(); threading.Lock().acquire(); time.sleep(60)",
            "The program does not advance for",
        ),
        ((0.5, 600, 0.02), "pulse.wait(stop, 1.2)", "ended well"),
        ((0.2, 600, 0.02), "pass", "ended well"),
    ],
)
def test_a_program_that_hangs_ends(limits: tuple[float, ...], work: str, said: str) -> None:
    program = (sys.executable, "-c", WATCHED.format(limits=limits, work=work))

    ended = subprocess.run(program, capture_output=True, text=True, check=False, timeout=50)

    assert ended.stdout.startswith(said), ended
    assert ended.returncode == (0 if said == "ended well" else 3)


@pytest.mark.parametrize("act", [lambda stop: stop.set(), lambda stop: None])
def test_a_wait_ends_in_time_or_with_the_program(act: Callable[[threading.Event], None]) -> None:
    stop = threading.Event()
    act(stop)

    assert pulse.wait(stop, 0.05) == stop.is_set()
