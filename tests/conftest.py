"""Fixtures and settings of all tests: deterministic examples, temporary folders in memory, the repository's folder."""

import gc
import os
import signal
import tempfile
from pathlib import Path

import hypothesis
import pytest

from tests import effort, project

hypothesis.settings.register_profile("gate", derandomize=True, deadline=None, database=None, max_examples=25)
hypothesis.settings.register_profile("long", derandomize=True, deadline=None, database=None, max_examples=100)
hypothesis.settings.register_profile("fuzz", derandomize=False, deadline=None, database=None, print_blob=True)
hypothesis.settings.load_profile("long" if effort.LONG else "gate")

_ROOT = Path(__file__).resolve().parents[1]
_MEMORY = Path("/dev/shm")  # noqa: S108 - in it, too, every user of tempfile has a folder of its own
_ROOM_BYTES = 2 << 30
"""A run in which every test fails leaves a fifth of this behind."""


def pytest_configure(config: pytest.Config) -> None:
    """Have ACCEPT=1 accept snapshots, take the ways of the shell and of git away, and put temporary files in memory.

    In memory if it has space and allows programs, unless TMPDIR is set.

    A disk takes twice as long for the small files of fake hosts, and waits where a program wants them to be safe. What
    is not run unless it is named makes device nodes and whole root file systems; it stays with the disk.
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
    if "TMPDIR" in os.environ or any(path.is_relative_to(folder) for path in named for folder in apart):
        return
    if _takes_files():
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
