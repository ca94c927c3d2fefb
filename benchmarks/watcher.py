"""Figures of the watcher: `python -m benchmarks.watcher`.

The real program, as a process of its own, between a stand-in API server and a real git repository. It takes a little
more than MINUTES and three minutes for each of SAMPLES.
"""

import contextlib
import itertools
import json
import multiprocessing
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tabulate

from benchmarks import nodeserver

NODES = int(os.environ.get("NODES", "10000"))
RATE = int(os.environ.get("RATE", "20"))
MINUTES = float(os.environ.get("MINUTES", "5"))
SAMPLES = int(os.environ.get("SAMPLES", "3"))

QUIET_S, COMMIT_S, INTERVAL_S = 10, 60, 60
"""The defaults of a KAECluster, but for the interval: so that full lists fall into the measured minutes."""

MEMORY_MIB = 150
LATE_S = 15.0
"""Seconds that may pass after the debounce before a single change is in the repository: those of a full list."""

GIT = shutil.which("git") or "git"

_LOOK_S = 0.02
_WAIT_S = 300.0


@dataclass
class Api:
    """The stand-in API server."""

    orders: Any
    port: int
    size: int
    """Bytes of a node."""

    def __call__(self, verb: str, number: int = 0) -> Any:
        """Give an order; return the time at which it was done, or the counts."""
        self.orders.send(nodeserver.Order(verb, number))
        return self.orders.recv()


@dataclass
class Memory:
    """The resident MiB of the watcher, sampled repeatedly."""

    peak: float = 0.0
    with_children: float = 0.0
    """The highest sum of the watcher's memory and that of its git processes."""
    steady: list[float] = field(default_factory=list)

    def look(self, pid: int) -> None:
        """Take one sample."""
        own = _status(pid, "VmRSS")
        self.steady.append(own)
        self.peak = max(self.peak, _status(pid, "VmHWM"))
        self.with_children = max(self.with_children, own + sum(_status(child, "VmRSS") for child in _descendants(pid)))


@contextlib.contextmanager
def api() -> Iterator[Api]:
    """The stand-in API server in a process of its own."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=nodeserver.serve, args=(theirs, NODES))
    process.start()
    try:
        yield Api(ours, *ours.recv())
    finally:
        ours.send(nodeserver.Order("end"))
        process.join()


@contextlib.contextmanager
def watcher(root: Path, port: int) -> Iterator[subprocess.Popen[bytes]]:
    """The watcher, which commits to `git` in the folder."""
    settings = {
        "version": 2,
        "cluster": "east",
        "repository": {"url": f"file://{root / 'git'}", "branch": "main", "path": "inventory"},
        "intervalSeconds": INTERVAL_S,
        "quietSeconds": QUIET_S,
        "removalQuietSeconds": 600,
        "minCommitSeconds": COMMIT_S,
        "maxLossPercent": 10,
        "ignoreLabels": [],
        "author": {"name": "kae-watcher", "email": "kae-watcher@example.com"},
        "messageTemplate": "inventory({cluster}): {summary}",
        "metrics": {"port": 29511},
    }
    (root / "config.json").write_text(json.dumps(settings))
    (root / "program").mkdir()
    (root / "kubeconfig").write_text(
        json.dumps(
            {
                "clusters": [{"name": "east", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
                "users": [{"name": "east", "user": {}}],
                "contexts": [{"name": "east", "context": {"cluster": "east", "user": "east"}}],
                "current-context": "east",
            }
        )
    )
    options = {"config": "config.json", "kubeconfig": "kubeconfig", "scratch": "scratch", "program-dir": "program"}
    words = [word for name, path in options.items() for word in (f"--{name}", str(root / path))]
    with (root / "log").open("wb") as log:
        running = subprocess.Popen((sys.executable, "-m", "watcher", *words), stderr=log)
    try:
        yield running
    finally:
        running.terminate()
        running.wait(timeout=30)


def commits(root: Path) -> list[int]:
    """Return the times of the repository's commits in seconds since 1970, the oldest first."""
    command = (GIT, "-C", str(root / "git"), "log", "--reverse", "--format=%ct", "main")
    return [int(line) for line in subprocess.check_output(command, text=True).split()]


def until_pushed(root: Path, old: str, within_s: float = _WAIT_S) -> float | None:
    """Return the time at which the branch left this commit; None where it stays there."""
    path = root / "git/refs/heads/main"
    deadline_s = time.monotonic() + within_s
    while time.monotonic() < deadline_s:
        if path.exists() and path.read_text().strip() != old:
            return path.stat().st_mtime
        time.sleep(_LOOK_S)
    return None


def complaints(root: Path) -> list[str]:
    """Return the lines of the watcher's log above level info."""
    lines = map(json.loads, (root / "log").read_text().splitlines())
    return [f"{line['time']} {line['message']}" for line in lines if line["level"] != "info"]


def tip(root: Path) -> str:
    """Return the branch's commit."""
    return (root / "git/refs/heads/main").read_text().strip()


def lone(root: Path, server: Api) -> list[float]:
    """Return the seconds from single changes to their commits, during full lists or between them."""
    seconds = []
    for turn in range(SAMPLES):
        # Everything that came before is committed, and the next commit is not held up by the last one.
        while until_pushed(root, tip(root), COMMIT_S + QUIET_S + 2 * LATE_S) is not None:
            continue
        began = server("relabel", turn)
        pushed = until_pushed(root, tip(root))
        assert pushed is not None, "a lone change is not committed"
        seconds.append(pushed - began)
    return seconds


def measured(root: Path) -> list[tuple[str, str, str]]:
    """Return the lines of the table: the name, the figure and its limit."""
    subprocess.run((GIT, "init", "--quiet", "--bare", "--initial-branch=main", str(root / "git")), check=True)
    memory, ended = Memory(), threading.Event()
    with api() as server:
        began = time.time()
        with watcher(root, server.port) as running:
            looking = threading.Thread(target=_watched, args=(lambda: memory.look(running.pid), ended), daemon=True)
            looking.start()
            first = until_pushed(root, "")
            assert first is not None, (root / "log").read_text()
            start = _processor_s(running.pid)
            memory.steady.clear()
            before: nodeserver.Counts = server("count")
            since = time.time()
            server("rate", RATE)
            time.sleep(MINUTES * 60)
            server("rate", 0)
            share = (_processor_s(running.pid) - start) / (time.time() - since)
            steady = statistics.median(memory.steady)
            after: nodeserver.Counts = server("count")
            flow = [moment for moment in commits(root)[1:] if moment >= since]
            late = lone(root, server)
            ended.set()
            looking.join()
    scratch = sum(path.stat().st_size for path in (root / "scratch").rglob("*") if path.is_file()) / (1 << 20)
    gaps = [later - earlier for earlier, later in itertools.pairwise(flow)]
    return [
        ("nodes", f"{NODES} of {server.size / 1024:.0f} KiB", ""),
        ("cold start to first commit", f"{first - began:.1f} s", f"quiet time {QUIET_S} s"),
        ("processor until then", f"{start:.1f} s", ""),
        ("memory, median", f"{steady:.0f} MiB", ""),
        ("memory, peak", f"{memory.peak:.0f} MiB", f"{MEMORY_MIB} MiB"),
        ("memory, peak, with its gits", f"{memory.with_children:.0f} MiB", f"{MEMORY_MIB} MiB"),
        ("scratch folder at the end", f"{scratch:.1f} MiB", ""),
        ("complaints in the log", "; ".join(complaints(root)) or "none", ""),
        (f"processor at {RATE} changes a second", f"{share:.1%} of one", ""),
        (
            "served meanwhile",
            f"{after.events - before.events} events, {after.changes - before.changes} of them changes, "
            f"{after.gets - before.gets} GETs, {after.lists - before.lists} full lists of "
            f"{NODES * server.size / 1e6:.0f} MB",
            "",
        ),
        ("longest full list", f"{after.longest_list_s:.1f} s", ""),
        (f"commits in {MINUTES:g} minutes", f"{len(flow)}", f"{MINUTES + 1:.0f}"),
        ("seconds between two of them", f"{min(gaps, default=0)} at least", f"{COMMIT_S}"),
        ("lone change to commit", _seconds(late), f"{QUIET_S + LATE_S:.0f} s"),
    ]


def main() -> None:
    """Print the table."""
    with tempfile.TemporaryDirectory(prefix="kae") as folder:
        rows = measured(Path(folder))
    print(tabulate.tabulate(rows, headers=("", "measured", "at most"), disable_numparse=True))


def _seconds(values: Iterable[float]) -> str:
    return ", ".join(f"{value:.2f} s" for value in values)


def _watched(look: Callable[[], None], ended: threading.Event) -> None:
    while not ended.wait(0.2):
        look()


def _status(pid: int, name: str) -> float:
    """Return one of the figures of proc(5) in MiB; 0 where the process has ended."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1]) / 1024
    return 0.0


def _descendants(pid: int) -> Iterator[int]:
    """Yield all descendants of a process: not every kernel lists children, so all processes are read."""
    parents: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            name, _, facts = path.read_text().rpartition(")")
            # Between fork and exec a child still has its parent's name and memory.
            if "python" not in name:
                parents.setdefault(int(facts.split()[1]), []).append(int(path.parent.name))
    waiting = [pid]
    while waiting:
        found = parents.get(waiting.pop(), [])
        waiting += found
        yield from found


def _processor_s(pid: int) -> float:
    # utime, stime and those of children that ended, behind the command's name in parentheses (proc(5)).
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()
