"""A machine's processes, and what they take of it."""

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

_SIZE = "8m"


@contextlib.contextmanager
def small_disk(folder: Path) -> Iterator[bool]:
    """A disk of its own for a folder, where we may mount one; whether it is."""
    mount = ["mount", "-t", "tmpfs", "-o", f"size={_SIZE}", "tmpfs", str(folder)]
    mounted = os.getuid() == 0 and subprocess.run(mount, capture_output=True, check=False).returncode == 0
    try:
        yield mounted
    finally:
        if mounted:
            subprocess.run(["umount", "--lazy", str(folder)], check=True)


def descendants(top: int) -> dict[int, str]:
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


def files(folder: Path) -> Iterator[Path]:
    """The files below a folder, of which any may go at any moment."""
    # pathlib raises where a folder goes meanwhile.
    return (Path(place, name) for place, _, names in os.walk(folder) for name in names)


def size(folder: Path) -> int:
    """Of all files below a folder, in bytes."""
    sizes = 0
    for path in files(folder):
        with contextlib.suppress(FileNotFoundError):
            sizes += path.stat().st_size
    return sizes


def memory_of(pid: int) -> int:
    """Return the memory that a process has for itself, in bytes."""
    status = Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) << 10 for line in status.splitlines() if line.startswith("RssAnon"))
