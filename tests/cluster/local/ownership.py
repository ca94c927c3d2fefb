"""One process owns a cluster at a time, and nothing of the cluster outlives it."""

import contextlib
import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from tests.cluster.local import cgroups, instances, machine, waiting

_CLEAR_S = 400
_LOCK_S = 60
"""Time for the keeper of a run that was just killed."""


@contextlib.contextmanager
def of(instance: instances.Instance) -> Iterator[None]:
    """Own a cluster: an empty state, the cgroup and the address are there; at the end nothing is."""
    instance.lock.parent.mkdir(parents=True, exist_ok=True)
    with instance.lock.open("a+") as lock, tempfile.TemporaryFile("w+") as complaints:
        _take(lock)
        clear(instance)
        keeper = _keeper(instance, lock, complaints)
        try:
            (instance.state / "log").mkdir(parents=True)
            cgroups.make(instance.cgroup)
            machine.prepare(instance)
            yield
        finally:
            keeper.communicate(timeout=_CLEAR_S)
        complaints.seek(0)
        assert keeper.returncode == 0, f"The cluster was not cleared up:\n{complaints.read()}"


def clear(instance: instances.Instance) -> None:
    """End and remove whatever there is of a cluster. Its mounts are in a namespace that goes with the processes."""
    cgroups.destroy(instance.cgroup)
    machine.unmount(instance.state)
    machine.restore(instance)
    if instance.state.exists():
        shutil.rmtree(instance.state)


def _take(lock: IO[str]) -> None:
    def taken() -> bool:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def holder() -> str:
        lock.seek(0)
        return f"Process {lock.read().strip()} uses the cluster; one test run at a time can."

    waiting.until(f"the lock {lock.name}", taken, timeout_s=_LOCK_S, explain=holder)
    lock.truncate(0)
    lock.write(f"{os.getpid()}\n")
    lock.flush()


def _keeper(instance: instances.Instance, lock: IO[str], complaints: IO[str]) -> subprocess.Popen[bytes]:
    """Return a process that clears up once its standard input ends; it inherits the lock, and holds it until then."""
    return subprocess.Popen(
        (sys.executable, "-m", "tests.cluster.local.ownership", str(instance.number)),
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=complaints,
        cwd=Path(__file__).resolve().parents[3],
        pass_fds=(lock.fileno(),),
        start_new_session=True,  # Ctrl-C is not meant for it.
    )


if __name__ == "__main__":
    sys.stdin.read()
    clear(instances.Instance(number=int(sys.argv[1])))
