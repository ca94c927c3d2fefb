"""Child processes get their input and environment, end in time, and leave nothing behind."""

import itertools
import os
import signal
import threading
import types
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import pytest

from runtime import process
from tests import waits

# It starts another program, and says the numbers of both.
FAMILY = 'sleep 600 & echo $$ $! > "$NUMBERS.new"; mv "$NUMBERS.new" "$NUMBERS"; wait'


LIMITS = process.Limits(timeout_s=20)


def run(
    script: str,
    *,
    environment: Mapping[str, str] = MappingProxyType({}),
    limits: process.Limits = LIMITS,
    stdin: bytes = b"",
    merged: bool = False,
) -> process.Ended:
    command = process.Command(
        arguments=("sh", "-c", script),
        environment={"PATH": process.PATH, **environment},
        shown="the script",
        stdin=stdin,
        merged=merged,
    )
    return process.run(command, limits)


@pytest.fixture(autouse=True)
def looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "_POLL_S", 0.01)


@pytest.fixture
def late(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A file that a program writes; once it is there, each look at the clock is an hour after the one before."""
    file = tmp_path / "numbers"
    hours = itertools.count(step=3600)
    clock = types.SimpleNamespace(monotonic=lambda: float(next(hours)) if file.exists() else 0.0)
    monkeypatch.setattr(process, "time", clock)
    return file


def state(number: int) -> str:
    """As /proc shows it: Z for a zombie; empty where there is no such process."""
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return ""


def test_a_program_gets_its_input_and_gives_both_outputs() -> None:
    ended = run("cat; echo why >&2; exit 3", stdin=b"x" * 300_000)

    assert ended.code == 3
    assert len(ended.output) == 300_000
    assert ended.stderr == b"why\n"


def test_a_program_that_takes_its_time_gets_all_of_its_input() -> None:
    # More than a pipe holds, and later than it is first looked whether the program has ended.
    ended = run("sleep 0.03; wc -c", stdin=b"x" * 3_000_000)

    assert ended.output.split() == [b"3000000"]


def test_a_program_without_input_finds_its_end() -> None:
    assert run("cat").output == b""


def test_stderr_joins_the_output_where_that_is_asked_for() -> None:
    ended = run("echo out; echo err >&2", merged=True)

    assert ended.output == b"out\nerr\n"
    assert ended.stderr == b""


def test_a_program_has_no_environment_but_the_given_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_DIR", "/x")

    seen = run("env", environment={"GIVEN": "1"}).output.splitlines()

    assert b"GIVEN=1" in seen
    assert b"GIT_DIR=/x" not in seen


def test_a_program_that_takes_too_long_ends_with_all_that_it_started(late: Path) -> None:
    with pytest.raises(process.TooSlow, match=r"^'the script' did not end within 20 seconds\.$"):
        run(FAMILY, environment={"NUMBERS": str(late)})

    ours, theirs = map(int, late.read_text().split())
    assert state(ours) == ""
    # The grandchild's collector is the init process, whose matter zombies are.
    waits.until(lambda: state(theirs) in ("", "Z"))


def test_a_stop_breaks_a_program_off(tmp_path: Path) -> None:
    numbers = tmp_path / "numbers"
    stop = threading.Event()

    def end() -> None:
        waits.until(numbers.exists)
        stop.set()

    thread = threading.Thread(target=end)
    thread.start()

    with pytest.raises(process.Cancelled, match=r"^'the script' was stopped, because the program is ending\.$"):
        run(FAMILY, environment={"NUMBERS": str(numbers)}, limits=process.Limits(timeout_s=600, stop=stop))
    thread.join()

    ours, theirs = map(int, numbers.read_text().split())
    assert state(ours) == ""
    waits.until(lambda: state(theirs) in ("", "Z"))


def test_a_program_that_leaves_its_group_does_not_hold_us_up(late: Path) -> None:
    program = f"setsid sh -c 'echo $$ > {late}.new; mv {late}.new {late}; exec sleep 600' & wait"

    with pytest.raises(process.TooSlow):
        run(program)

    os.kill(int(late.read_text()), signal.SIGKILL)


@pytest.mark.parametrize(("program", "words"), [("no-such-program", "There is no program"), ("/", "cannot be started")])
def test_a_program_that_cannot_be_started_is_named(program: str, words: str) -> None:
    command = process.Command(arguments=(program,), environment={"PATH": process.PATH}, shown=program)

    with pytest.raises(process.NotStarted, match=f"{words}.*'{program}'|'{program}' {words}"):
        process.run(command, LIMITS)


def test_a_daemon_that_keeps_pipes_makes_no_success_a_timeout(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(process, "_DRAIN_S", 0.05)
    number = tmp_path / "number"
    daemon = f"setsid sh -c 'echo $$ > {number}; exec sleep 600' & until test -s {number}; do :; done"
    program = f"echo out; echo err >&2; {daemon}"

    ended = run(program)

    os.kill(int(number.read_text()), signal.SIGKILL)
    assert ended.code == 0
    assert ended.output == b"out\n"
    assert ended.stderr == b"err\n"


def test_a_child_of_a_program_that_has_ended_ends_too_and_makes_no_success_a_timeout(tmp_path: Path) -> None:
    number = tmp_path / "number"

    ended = run(f"sleep 600 & echo $! > {number}; exit 3")

    assert ended.code == 3
    waits.until(lambda: state(int(number.read_text())) in ("", "Z"))


def test_a_program_that_waits_in_the_kernel_is_left_and_named(monkeypatch: pytest.MonkeyPatch, late: Path) -> None:
    monkeypatch.setattr(process, "_KILLED_S", 0.05)
    monkeypatch.setattr(os, "killpg", lambda *_: None)  # As a kill has no effect on a process in state D.

    with pytest.raises(process.Unkillable, match=r"^'the script' hangs in the kernel, and not even SIGKILL ends it\.$"):
        run(f"echo $$ > {late}.new; mv {late}.new {late}; exec sleep 600")

    (left,) = process.left_behind
    assert left.pid == int(late.read_text())
    left.kill()
    left.wait()
    process.left_behind.clear()


def test_of_what_a_program_says_on_stderr_the_first_mebibyte_is_kept() -> None:
    ended = run("echo out; echo first >&2; head -c 3000000 /dev/zero >&2; exit 3")

    assert ended.code == 3
    assert ended.output == b"out\n"
    assert ended.stderr.startswith(b"first\n")
    assert len(ended.stderr) == 1 << 20


@pytest.mark.parametrize("merged", [False, True])
def test_a_program_that_writes_more_than_is_held_in_memory_is_ended(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, merged: bool
) -> None:
    monkeypatch.setattr(process, "MOST_OUTPUT", 1 << 20)
    number = tmp_path / "number"

    with pytest.raises(process.TooMuch, match=r"^'the script' wrote more than 1 MiB, and was ended\.$"):
        run(f"echo $$ > {number}; exec cat /dev/zero", merged=merged)

    assert state(int(number.read_text())) == ""


def test_a_program_that_closes_its_outputs_is_waited_for() -> None:
    ended = run("exec >/dev/null 2>/dev/null; sleep 0.03; exit 3")

    assert ended.code == 3
    assert ended.output == b""


def test_a_file_that_grows_above_the_limit_is_an_error_of_the_program(tmp_path: Path) -> None:
    command = process.Command(
        arguments=("sh", "-c", f"sleep 0.1; head -c 3000 /dev/zero > {tmp_path / 'file'}"),
        environment={"PATH": process.PATH, "LC_ALL": "C"},
        shown="the script",
        most_file=2000,
    )

    ended = process.run(command, LIMITS)

    assert ended.code == 1
    assert (tmp_path / "file").stat().st_size == 2000
    assert b"File too large" in ended.stderr


def test_what_ends_in_a_moment_is_let_end_although_the_program_is_ending(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "_POLL_S", 60)
    stop = threading.Event()
    stop.set()

    ended = run("echo one; sleep 0.02; echo two", limits=process.Limits(timeout_s=20, stop=stop))

    assert ended.output == b"one\ntwo\n"
