"""A testbed: a watcher between a stand-in API server and a real repository behind a web server, and its checks."""

import contextlib
import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.watcher import api, branch_check, cluster, forkserver, remotes, servers, settings

_LOOK_S = 0.02
_LARGEST_SCRATCH = 3 << 20
_LARGEST_GROWTH = 16 << 20
_MOST_FILES = 40

_GIT = """#!/bin/sh
cd {folder} || exit
if mv "stop-$1" stopped 2>/dev/null; then
    while [ -e stopped ]; do sleep 0.01; done
fi
if [ -e date ]; then
    read -r GIT_AUTHOR_DATE < date
    export GIT_AUTHOR_DATE GIT_COMMITTER_DATE="$GIT_AUTHOR_DATE"
fi
cd / && exec {git} "$@"
"""
"""The git of the watcher: it waits before the verb of a `stop-` file, and its wall clock can be wrong."""


@dataclass(slots=True)
class Sizes:
    """The largest sizes so far, in bytes, and the largest number of open files."""

    memory: int = 0
    growth: int = 0
    """The growth of one process since its repository was right for the first time."""
    scratch: int = 0
    files: int = 0


class Testbed:
    """The cluster, the repository, the watcher, and their folders."""

    def __init__(self, folder: Path, seed: int, patience_s: float) -> None:
        """Make a repository with files of others; start no process."""
        self.random = random.Random(seed)  # noqa: S311 - a test's choice
        self.sizes = Sizes()
        self.remote = remotes.Remote(folder / "git/remote.git")
        self.remote.configure("core.logAllRefUpdates", "true")
        self.folder = folder
        self.scratch = folder / "scratch"
        self.patience_s = patience_s
        self.watcher = 0
        """The process id of the watcher."""
        self.ended = True
        self._first_memory: int | None = None
        self._serial = 0
        self._read = 0
        self._looked: tuple[str, bytes] | None = None
        """A tip and an inventory that it does not hold."""
        for name in ("scratch", "program", "secrets", "bin"):
            (folder / name).mkdir()
        wrapper = folder / "bin/git"
        wrapper.write_text(_GIT.format(folder=folder / "bin", git=shutil.which("git")))
        wrapper.chmod(0o755)

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Run the servers and a watcher; the first one starts as `python -m watcher` does."""
        with contextlib.ExitStack() as stack:
            self.has_disk = stack.enter_context(_small_disk(self.scratch))
            self.url = f"{stack.enter_context(servers.web(self.remote.path.parent)).url}/remote.git"
            waits = dict.fromkeys(("intervalSeconds", "quietSeconds", "removalQuietSeconds"), 1)
            author = {"name": branch_check.AUTHOR, "email": "kae@example.com"}
            settings.config(self.folder, self.url, author=author, **waits)
            self.api = stack.enter_context(api.serving(self.folder))
            self.cluster = cluster.Cluster(self.api, self.random)
            self.branch = branch_check.BranchCheck(self.remote, self.api, self.cluster.fleeting)
            self.forkserver = stack.enter_context(contextlib.closing(forkserver.ForkServer(self.folder)))
            self._ours = {*_descendants(os.getpid())}
            self.start(plain=True)
            self.settle()
            self.terminate()
            self.start()
            self.settle()
            yield
            self.terminate()
            self.until("everything has ended", lambda: not self._strangers())

    def start(self, *, plain: bool = False) -> None:
        self.ended = False
        folders = ("scratch", "program-dir", "secrets", "signing")
        places = dict(zip(folders, ("scratch", "program", "secrets", "secrets"), strict=True))
        words = [word for name in folders for word in (f"--{name}", str(self.folder / places[name]))]
        words += ["--config", str(self.folder / "config.json"), "--kubeconfig", str(self.api.kubeconfig)]
        path = f"{self.folder / 'bin'}:{os.environ['PATH']}"
        self.watcher = self.forkserver.start(*words, path=path, plain=plain)
        self._first_memory = None

    def kill(self, *, with_all: bool = False) -> None:
        """Kill the watcher if it runs; with `with_all` also its children, as at the end of a container."""
        if self.ended:
            return
        self.ended = True
        self.signal(signal.SIGSTOP if with_all else signal.SIGKILL)
        if with_all:
            for pid in (self.watcher, *_descendants(self.watcher)):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        assert self.forkserver.status(self.watcher) == -signal.SIGKILL

    def terminate(self) -> None:
        """End the watcher as the kubelet does."""
        self.ended = True
        self.signal(signal.SIGTERM)
        assert self.forkserver.status(self.watcher) == 0
        assert not (self.folder / "program/ready").exists()

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the watcher, but not to a process that reuses its id."""
        assert self.watcher in _descendants(self.forkserver.pid), "the watcher has ended by itself"
        os.kill(self.watcher, number)

    def others_commit(self) -> None:
        """Commit as somebody else, who may lose a race."""
        self._serial += 1
        with contextlib.suppress(AssertionError):
            self.remote.commit("main", {f"others/{self._serial % 7}.txt": b"%d\n" % self._serial})

    def pause(self, longest_s: float) -> None:
        """Wait for a random time, so that the next event falls on any step of the watcher."""
        time.sleep(self.random.uniform(0, longest_s))

    def until(self, what: str, condition: Callable[[], bool]) -> None:
        deadline_s = time.monotonic() + self.patience_s
        while not condition():
            assert time.monotonic() < deadline_s, f"never: {what}; {self._situation()}"
            time.sleep(_LOOK_S)

    def until_unready(self, word: str) -> None:
        """Wait until the reason why the watcher is not ready holds this word."""
        self.until(f"unready: {word}", lambda: word in self._told())

    @contextlib.contextmanager
    def held_at(self, verb: str) -> Iterator[None]:
        """Change a node, and hold the watcher before this verb of git until the context ends."""
        if verb == "ls-tree":
            self.others_commit()  # It need not read its own commits.
        stop, stopped = self.folder / f"bin/stop-{verb}", self.folder / "bin/stopped"
        stop.touch()
        self.cluster.change()
        self.until(f"git {verb}", stopped.exists)
        try:
            yield
        finally:
            stopped.unlink()

    def settle(self) -> None:
        """Wait for the recovery, and check the commits, sizes and log since the last call; raise AssertionError."""
        self._looked = None
        self.until("the branch shows the cluster", self._is_right)
        self.until("nothing is left over", lambda: not self._strangers() and not self._leftovers())
        self.branch.check()
        # Commits that a force dropped are meant to dangle.
        assert self.remote("fsck", "--full", "--strict", "--no-dangling") == ""
        self._measure()
        self._read_log()

    def _is_right(self) -> bool:
        if not (self.folder / "program/ready").exists():
            return False
        wanted = self.branch.text()
        look = (self.tip("main"), wanted)
        if look == self._looked:
            return False
        self._looked = look
        entry = self.remote("ls-tree", "main", remotes.PATH)
        return bool(entry) and self.remote.read("main", remotes.PATH) == wanted

    def tip(self, branch: str) -> str:
        """Return the commit of a branch, or an empty text; it reads files, as a run of git takes longer."""
        ref = f"refs/heads/{branch}"
        with contextlib.suppress(FileNotFoundError):
            return (self.remote.path / ref).read_text().strip()
        with contextlib.suppress(FileNotFoundError):
            packed = (self.remote.path / "packed-refs").read_text().splitlines()
            return next((line.split()[0] for line in packed if line.endswith(f" {ref}")), "")
        return ""

    def _strangers(self) -> list[str]:
        """Return processes, also dead ones, beside the servers and the watcher; a git at work is gone soon."""
        alive = _descendants(os.getpid())
        return [f"{pid} {name}" for pid, name in alive.items() if pid not in {*self._ours, self.watcher}]

    def _leftovers(self) -> list[str]:
        places = (self.remote.path, self.scratch)
        locks = [path for place in places for path in _files(place) if path.suffix == ".lock"]
        incoming = [*self.remote.path.glob("objects/*incoming*")]
        clones = sorted(self.scratch.glob("clone-*"))[1:]
        return [str(path) for path in (*locks, *incoming, *clones)]

    def _measure(self) -> None:
        memory = _memory_of(self.watcher)
        self._first_memory = memory if self._first_memory is None else self._first_memory
        size = _size(self.scratch)
        files = len(os.listdir(f"/proc/{self.watcher}/fd"))  # noqa: PTH208 - of which only the number counts
        seen = self.sizes
        seen.memory, seen.growth = max(seen.memory, memory), max(seen.growth, memory - self._first_memory)
        seen.scratch, seen.files = max(seen.scratch, size), max(seen.files, files)
        assert seen.growth < _LARGEST_GROWTH
        assert seen.scratch < _LARGEST_SCRATCH
        assert seen.files < _MOST_FILES

    def _read_log(self) -> None:
        with self.forkserver.log.open() as file:
            file.seek(self._read)
            new = file.read()
            self._read = file.tell()
        assert '"exception"' not in new, new
        assert "Traceback" not in new, new

    def _told(self) -> str:
        with contextlib.suppress(FileNotFoundError):
            return (self.folder / "program/unready").read_text()
        return ""

    def _situation(self) -> str:
        log = self.forkserver.log.read_text()[-1500:]
        return f"unready: {self._told()!r}; strangers: {self._strangers()}; leftovers: {self._leftovers()}; log: {log}"


@contextlib.contextmanager
def _small_disk(folder: Path) -> Iterator[bool]:
    """A disk of its own for a folder, where we may mount one; whether it is."""
    mount = ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(folder)]
    mounted = os.getuid() == 0 and subprocess.run(mount, capture_output=True, check=False).returncode == 0
    try:
        yield mounted
    finally:
        if mounted:
            subprocess.run(["umount", "--lazy", str(folder)], check=True)


def _descendants(top: int) -> dict[int, str]:
    """The processes that a process has started, and those that they have: numbers and names."""
    names, parents = {}, {}
    for path in Path("/proc").iterdir():
        if path.name.isdecimal():
            with contextlib.suppress(OSError):
                name, _, rest = (path / "stat").read_text().rpartition(")")
                names[int(path.name)] = f"{name.partition('(')[2]} {rest.split()[0]}"
                parents[int(path.name)] = int(rest.split()[1])
    below: dict[int, str] = {}
    above = {top}
    while above:
        above = {pid for pid, parent in parents.items() if parent in above}
        below |= {pid: names[pid] for pid in above}
    return below


def _files(folder: Path) -> Iterator[Path]:
    """The files below a folder, of which any may go at any moment."""
    # pathlib raises where a folder goes meanwhile.
    return (Path(place, name) for place, _, names in os.walk(folder) for name in names)


def _size(folder: Path) -> int:
    """Of all files below a folder, in bytes."""
    sizes = 0
    for path in _files(folder):
        with contextlib.suppress(FileNotFoundError):
            sizes += path.stat().st_size
    return sizes


def _memory_of(pid: int) -> int:
    """Return the memory that a process has for itself, in bytes."""
    status = Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) << 10 for line in status.splitlines() if line.startswith("RssAnon"))
