"""The time and the memory of a command with all the processes that it starts."""

import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

RUNS = int(os.environ.get("RUNS", "5"))
"""The runs of a command whose medians are told."""
KAE = (sys.executable, "-m", "compiler")

_INTERVAL_S = 0.025
_SHARE = 40
"""To find shared pages takes milliseconds in a large process, so they are found again after this many times as long."""
_PAGE = os.sysconf("SC_PAGE_SIZE")


class Memory(NamedTuple):
    """MiB of processes: a page that N processes share counts 1/N in each (PSS), or in full in each (RSS)."""

    pss: float = 0
    rss: float = 0


@dataclass(frozen=True, slots=True)
class Cost:
    """Seconds of wall clock and of processors, and the most memory that all processes together had at one moment."""

    wall_s: float
    cpu_s: float
    peak: Memory


def run(command: Sequence[str], folder: Path, environment: Mapping[str, str] | None = None) -> Cost:
    """Return the cost of a command, whose output is dropped. Memory that is used for a few milliseconds may be missed.

    Raises:
        AssertionError: The command failed.
    """
    start = time.perf_counter()
    process = subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    with _Sampler(process.pid) as sampler:
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, command
    # The ru_maxrss of getrusage(2) says nothing: before exec a process has the image of its parent, which counts too.
    return Cost(wall, usage.ru_utime + usage.ru_stime, sampler.peak)


def cold(folder: Path) -> Callable[[], None]:
    """Delete a project's cache and output."""

    def forget() -> None:
        for name in ("output", ".kae_cache"):
            shutil.rmtree(folder / name, ignore_errors=True)

    return forget


class _Sampler(threading.Thread):
    """Finds the most memory that a process and its descendants have together, for as long as it is entered.

    Of the process itself, which runs its program already, no moment before a sample is missed.
    """

    def __init__(self, pid: int) -> None:
        super().__init__()
        self.peak = Memory()
        self._pid = pid
        self._shared = 0.0
        self._family, self._strangers = {pid}, {os.getpid()}
        self._end = threading.Event()

    def __enter__(self) -> "_Sampler":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self.join()

    def run(self) -> None:
        """Sample until the end; the shared pages are found again where a process began, and now and then."""
        due = 0.0
        while True:
            if self._meet() or time.perf_counter() > due:
                began = time.perf_counter()
                found = {pid: _memory(pid) for pid in self._family}
                # What one process shared with another that ended meanwhile is counted in both.
                if all(_resident(pid) for pid, memory in found.items() if memory.rss):
                    pss, rss = map(sum, zip(*found.values(), strict=True))
                    self._shared = rss - pss
                    self.add(rss)
                    due = time.perf_counter() + _SHARE * (time.perf_counter() - began)
            else:
                self.add(sum(map(_resident, self._family)))
            self.add(_highest(self._pid))
            if self._end.wait(_INTERVAL_S):
                return

    def add(self, rss: float) -> None:
        """Count MiB that processes have at a moment."""
        self.peak = Memory(max(self.peak.pss, rss - self._shared), max(self.peak.rss, rss))

    def _meet(self) -> bool:
        """Add the descendants that began since the last time; return whether any did."""
        before = len(self._family)
        alive = {int(name) for name in os.listdir("/proc") if name.isdigit()}  # noqa: PTH208 - half the time
        parents = {pid: _parent(pid) for pid in alive - self._family - self._strangers}
        while children := {pid for pid, parent in parents.items() if parent in self._family} - self._family:
            self._family |= children
        self._strangers = (self._strangers & alive) | (parents.keys() - self._family)
        return len(self._family) > before


def _parent(pid: int) -> int | None:
    """Return the parent of a process (proc_pid_stat(5): the second field after the name); None if it has ended."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except (FileNotFoundError, ProcessLookupError):
        return None


def _memory(pid: int) -> Memory:
    """Return the memory of a process (proc_pid_smaps(5)); none if it has ended."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return Memory()
    values = {line.partition(":")[0]: line.split()[1] for line in lines[1:]}
    return Memory(pss=int(values["Pss"]) / 1024, rss=int(values["Rss"]) / 1024)


def _resident(pid: int) -> float:
    """Return the MiB of a process in memory (proc_pid_statm(5)), which takes microseconds; none if it has ended."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE / (1 << 20)
    except (FileNotFoundError, ProcessLookupError):
        return 0


def _highest(pid: int) -> float:
    """Return the most MiB that a process had since its exec (VmHWM of proc_pid_status(5)); none if it has ended."""
    try:
        found = re.search("VmHWM:\\s+([0-9]+) kB", Path(f"/proc/{pid}/status").read_text())
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return int(found[1]) / 1024 if found else 0
