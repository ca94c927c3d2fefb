"""Fixtures and settings of all tests: deterministic examples, temporary folders in memory, the repository's folder."""

import gc
import logging
import os
import pickle
import signal
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import cast

import hypothesis
import pytest

from runtime import errors, killable
from tests import effort, project

hypothesis.settings.register_profile("gate", derandomize=True, deadline=None, database=None, max_examples=25)
hypothesis.settings.register_profile("long", derandomize=True, deadline=None, database=None, max_examples=100)
hypothesis.settings.register_profile("fuzz", derandomize=False, deadline=None, database=None, print_blob=True)
hypothesis.settings.load_profile("long" if effort.LONG else "gate")

_ROOT = Path(__file__).resolve().parents[1]
_MEMORY = Path("/dev/shm")  # noqa: S108 - in it, too, every user of tempfile has a folder of its own
_ROOM_BYTES = 2 << 30
"""A run in which every test fails leaves a fifth of this behind."""

_CALL = killable.call
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def _call_here(work: Callable[[], killable.Answer], stop: threading.Event | None = None) -> killable.Answer:
    del stop
    # As between processes, an answer has to be such that it can be packed.
    try:
        return cast("killable.Answer", pickle.loads(pickle.dumps(work())))  # noqa: S301 - of this program
    except errors.Failure as failure:
        raise pickle.loads(pickle.dumps(failure)) from failure  # noqa: S301


def pytest_configure(config: pytest.Config) -> None:
    """Have ACCEPT=1 accept snapshots, take the ways of the shell and of git away, and spare small files and forks.

    Temporary files are in memory if it has space and allows programs, unless TMPDIR is set: a disk takes twice as long
    for the small files of fake hosts, and waits where a program wants them to be safe. A look at a host is done in this
    process, of which a fork takes ten times as long as the look; `really_killable` has it forked. What is not run
    unless it is named makes device nodes and whole root file systems: it keeps the disk and the forks.
    """
    config.option.update_snapshots |= project.accepting()
    # A shell has its background jobs ignore Ctrl-C, which some tests press.
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # Those of a hook of git would have the tests' own repositories be the one that is pushed.
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        del os.environ[name]
    apart = [_ROOT / folder for folder in config.getini("norecursedirs")]
    named = [(config.invocation_params.dir / argument.partition("::")[0]).resolve() for argument in config.args]
    if any(path.is_relative_to(folder) for path in named for folder in apart):
        return
    killable.call = _call_here
    if "TMPDIR" not in os.environ and _takes_files():
        os.environ["TMPDIR"] = tempfile.tempdir = str(_MEMORY)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Return 1.5 workers a processor: tests wait a third of their time, for programs and deadlines."""
    return (os.cpu_count() or 1) * 3 // 2


def pytest_collection() -> None:
    """Collect no garbage while modules and tests are made, of which nearly all stay."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Freeze what all tests share and collect garbage rarely, which saves a tenth of the time."""
    gc.freeze()
    gc.enable()
    gc.set_threshold(20_000, 20, 20)


def _takes_files() -> bool:
    if not os.access(_MEMORY, os.W_OK | os.X_OK):
        return False
    system = os.statvfs(_MEMORY)
    return not system.f_flag & os.ST_NOEXEC and system.f_bavail * system.f_frsize >= _ROOM_BYTES


@pytest.fixture(scope="session")
def repository_root() -> Path:
    """The folder that holds compiler/, templates/ and schemas/."""
    return _ROOT


@pytest.fixture(autouse=True)
def _own_process() -> Iterator[None]:
    """What a program of a test does about signals and its log ends with the test."""
    before, level = {number: signal.getsignal(number) for number in _SIGNALS}, logging.root.level
    yield
    logging.root.setLevel(level)
    for number, handler in before.items():
        if signal.getsignal(number) is not handler:
            signal.signal(number, handler)
            signal.set_wakeup_fd(-1)


@pytest.fixture
def really_killable(monkeypatch: pytest.MonkeyPatch) -> None:
    """A look at a host is a process of its own, as in the program."""
    monkeypatch.setattr(killable, "call", _CALL)
