"""The cgroup that holds every process of a cluster: its programs, its pods, and whatever those have started.

A process cannot leave it unasked, and its number cannot be mistaken for a later process's, as a recorded one can.
Both versions of cgroups serve; of version 1 (one tree a controller) the tree `pids` tells who belongs to the cluster.
"""

import contextlib
import os
import signal
from pathlib import Path

from tests.cluster.local import waiting

_MOUNT = Path("/sys/fs/cgroup")
_PROGRAMS = "programs"
"""The child of the programs: version 2 allows processes in leaves alone, and the pods have a child of their own."""


def make(name: str) -> None:
    """Make the cgroup in every tree, as the kubelet demands of its `cgroupRoot`."""
    for tree in _trees():
        _hand_down_controllers(tree)
        group = tree / name
        group.mkdir(exist_ok=True)
        _hand_down_controllers(group)
        for setting in ("cpuset.cpus", "cpuset.mems"):
            # Version 1 starts a cpuset empty, and no process can join an empty one.
            if (group / setting).exists() and not _is_version_2():
                (group / setting).write_text((tree / setting).read_text())
    (_members() / name / _PROGRAMS).mkdir(exist_ok=True)


def entrance(name: str) -> Path:
    """Return the file into which a process writes its number to join the cgroup with its children."""
    return _members() / name / _PROGRAMS / "cgroup.procs"


def processes(name: str) -> tuple[int, ...]:
    members: set[int] = set()
    for folder, _, _ in os.walk(_members() / name):
        # A cgroup below may go away while it is read.
        with contextlib.suppress(OSError):
            members.update(map(int, Path(folder, "cgroup.procs").read_text().split()))
    return tuple(sorted(members))


def destroy(name: str) -> None:
    """Kill every process in the cgroup and below, also those that appear meanwhile, and remove it in every tree."""

    def destroyed() -> bool:
        for process in processes(name):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        return all(_is_removed(tree / name) for tree in _trees())

    waiting.until(f"the end of cgroup {name}", destroyed, explain=lambda: str(processes(name)))


def _is_removed(group: Path) -> bool:
    for folder, _, _ in os.walk(group, topdown=False):
        # Busy until its last process has ended.
        with contextlib.suppress(OSError):
            Path(folder).rmdir()
    return not group.exists()


def _hand_down_controllers(group: Path) -> None:
    """Enable the controllers for children: version 2 gives a child only those that its parent hands down."""
    if _is_version_2():
        for controller in (group / "cgroup.controllers").read_text().split():
            (group / "cgroup.subtree_control").write_text(f"+{controller}")


def _is_version_2() -> bool:
    return (_MOUNT / "cgroup.controllers").exists()


def _trees() -> tuple[Path, ...]:
    if _is_version_2():
        return (_MOUNT,)
    # Among them may be one of version 2 without controllers, in which runc makes a cgroup, too.
    return tuple(
        sorted(tree for tree in _MOUNT.iterdir() if not tree.is_symlink() and (tree / "cgroup.procs").exists())
    )


def _members() -> Path:
    return _MOUNT if _is_version_2() else _MOUNT / "pids"
