"""Programs that are run: their environment, their time, and that nothing of them is left."""

import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from watcher.git import children, git_errors

# It starts another program, and says the numbers of both.
FAMILY = 'sleep 600 & echo $$ $! > "$NUMBERS.new"; mv "$NUMBERS.new" "$NUMBERS"; wait'


def limits(timeout_s: float = 20) -> children.Limits:
    return children.Limits(timeout_s=timeout_s, stop=threading.Event())


def until(probe: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + 10
    while not probe():
        assert time.monotonic() < deadline_s
        time.sleep(0.01)


def state(number: int) -> str:
    """As /proc shows it: Z for a zombie; empty where there is no such process."""
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return ""


def test_a_program_gets_its_input_and_gives_both_outputs() -> None:
    ended = children.run(("sh", "-c", "cat; echo why >&2; exit 3"), {}, limits(), b"x" * 300_000)

    assert (ended.code, len(ended.output), ended.said) == (3, 300_000, "why\n")


def test_a_program_that_takes_its_time_gets_all_of_its_input() -> None:
    # More than a pipe holds, and later than it is first looked whether the program has ended.
    ended = children.run(("sh", "-c", "sleep 0.3; wc -c"), {}, limits(5), b"x" * 3_000_000)

    assert ended.output.split() == [b"3000000"]


def test_a_program_without_input_finds_its_end() -> None:
    assert children.run(("cat",), {}, limits(5)).output == b""


def test_a_program_sees_nothing_of_our_own_environment_but_its_path_and_proxies(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in {
        "GIT_DIR": "/x",
        "SSH_AUTH_SOCK": "/x",
        "LANG": "de_DE.UTF-8",
        "https_proxy": "http://p",
    }.items():
        monkeypatch.setenv(name, value)

    seen = children.run(("env",), {"GIVEN": "1"}, limits()).output.decode().split()

    named = {line.partition("=")[0] for line in seen}
    assert {"PATH", "https_proxy", "GIVEN", "LC_ALL", "TZ"} <= named
    assert not named & {"GIT_DIR", "SSH_AUTH_SOCK", "LANG", "HOME"}


def test_a_program_makes_files_by_a_umask_of_its_own() -> None:
    old = os.umask(0o777)
    try:
        said = children.run(("sh", "-c", "umask"), {}, limits()).output
    finally:
        os.umask(old)

    assert said == b"0022\n"


def test_a_program_that_takes_too_long_ends_with_all_that_it_started(tmp_path: Path) -> None:
    numbers = tmp_path / "numbers"

    with pytest.raises(git_errors.TooSlow, match=r"^'family' did not end within 1 seconds\.$"):
        children.run(("sh", "-c", FAMILY), {"NUMBERS": str(numbers)}, limits(1), shown="family")

    ours, theirs = map(int, numbers.read_text().split())
    assert state(ours) == ""
    # The grandchild's collector is the init process, whose matter zombies are.
    until(lambda: state(theirs) in ("", "Z"))


def test_a_stop_breaks_a_program_off(tmp_path: Path) -> None:
    numbers = tmp_path / "numbers"
    limited = limits(600)

    def stop() -> None:
        until(numbers.exists)
        limited.stop.set()

    thread = threading.Thread(target=stop)
    thread.start()

    with pytest.raises(git_errors.Cancelled):
        children.run(("sh", "-c", FAMILY), {"NUMBERS": str(numbers)}, limited)
    thread.join()

    ours, theirs = map(int, numbers.read_text().split())
    assert state(ours) == ""
    until(lambda: state(theirs) in ("", "Z"))


def test_a_program_that_leaves_its_group_does_not_hold_us_up(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(children, "_DRAIN_S", 0.1)
    number = tmp_path / "number"
    program = f"setsid sh -c 'echo $$ > {number}; exec sleep 600' & wait"

    with pytest.raises(git_errors.TooSlow):
        children.run(("sh", "-c", program), {}, limits(1))

    os.kill(int(number.read_text()), signal.SIGKILL)


@pytest.mark.parametrize(("program", "words"), [("no-such-program", "There is no program"), ("/", "cannot be started")])
def test_a_program_that_cannot_be_started_is_named(program: str, words: str) -> None:
    with pytest.raises(git_errors.Failed, match=f"{words}.*'{program}'|'{program}' {words}"):
        children.run((program,), {}, limits())
