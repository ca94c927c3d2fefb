"""The processes of the host that have a device open or mapped, as /proc shows them.

A process that vanishes meanwhile holds nothing. The use count of the module uacce shows whether a user was overlooked.
"""

import contextlib
import os
import re
import stat
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from installer.decide import driver_class
from installer.host import chroot, pci
from runtime import errors, readings

_MAPS_S = 30
"""The time limit to read all maps: a process that waits in the kernel may keep its own locked."""

# The cgroup drivers cgroupfs and systemd (pkg/kubelet/cm); a static pod's uid is a hash without hyphens.
_POD = re.compile(r"[-/]pod([0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}|[0-9a-f]{32})(?=[./]|$)", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """A device holder: a pod, a process, or neither, as a virtual machine or a user that /proc does not show."""

    text: str
    """The holder in words, such as "pod default/nginx-0 (container web: 0000:79:00.0)"."""
    pod: str = ""
    """Namespace and name of a pod, such as default/nginx-0; else empty."""
    uid: str = ""
    """The uid of the pod, also of a process's; empty where it is unknown, and for what is in no pod."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Process(Holder):
    """A process of the host that has a device open or mapped."""

    pid: int
    name: str


def find(
    host: chroot.Host, entries: Iterable[pci.Entry], modules: Collection[str] = driver_class.Uacce.counting
) -> Sequence[Holder]:
    """Return the processes that have one of these entries open or mapped; the kubelet is not asked.

    Maps cost more to read than descriptors, so only an unexplained use of the modules that have the nodes makes them
    read: each open or mapped node counts there, also after its descriptor was closed (cdev_get and fops_get of the
    kernel's fs/char_dev.c). Raises `Failure` if the maps cannot be read in time.
    """
    names = {entry.numbers: entry.name for entry in entries if entry.numbers}
    found = tuple(_users(host, names, _opened)) if names else ()
    counts = [(name, uses) for name in modules if (uses := _uses(host, name)) is not None]
    used = [(name, uses) for name, uses in counts if uses > 0]
    if found or not names or (counts and not used):
        return found
    # Such as a descriptor on its way through a socket.
    unseen = (
        f"a user that is not seen in /proc (the module {name} is in use {uses} times more than by modules)"
        for name, uses in used
    )
    return _mapping(host, names) or tuple(Holder(text=text) for text in unseen)


def _uses(host: chroot.Host, module: str) -> int | None:
    """Return the number of users of a module but modules; None where it is built in, as then nothing is counted."""
    folder = host.path(f"/sys/module/{module}")
    counted = readings.integer(folder / "refcnt")
    return None if counted is None else counted - len(readings.names(folder / "holders"))


def _mapping(host: chroot.Host, names: Mapping[str, str]) -> Sequence[Process]:
    found: list[Process] = []
    # Such a wait ends with SIGKILL alone (m_start of the kernel's fs/proc/task_mmu.c), so a thread of its own waits.
    reader = threading.Thread(target=lambda: found.extend(_users(host, names, _mapped)), daemon=True)
    reader.start()
    reader.join(_MAPS_S)
    if reader.is_alive():
        raise errors.Failure(f"The maps in /proc cannot be read within {_MAPS_S} s, so the device holders are unknown.")
    return found


def _users(
    host: chroot.Host, names: Mapping[str, str], nodes: Callable[[str, Collection[str]], Iterable[str]]
) -> Iterator[Process]:
    """Yield the processes with a node of these, which maps node numbers to entries, among those of `nodes`."""
    known, proc = set(names.values()), host.path("/proc")
    for pid in sorted(int(name) for name in readings.names(proc) if name.isdecimal()):
        folder = proc / str(pid)
        holds = any(_numbers(path) in names for path in nodes(str(folder), known))
        if holds and (comm := _text(folder / "comm")) is not None:
            # A process may set any name.
            name = "".join(sign if sign.isprintable() else "?" for sign in comm) or "?"
            match = _POD.search(_text(folder / "cgroup") or "")
            uid = match[1].replace("_", "-") if match else ""
            text = f"process {pid} ({name})" + (f" of the pod {uid}" if uid else "")
            yield Process(text=text, pid=pid, name=name, uid=uid)


def _opened(process: str, known: Collection[str]) -> Iterator[str]:
    """Yield the descriptors of a process that may be of a device, under any path."""
    for descriptor in readings.names(Path(process, "fd")):
        path = f"{process}/fd/{descriptor}"
        with contextlib.suppress(OSError):
            # A large host has a hundred thousand of them.
            if _may_be_node(os.readlink(path), known):  # noqa: PTH115 - as said
                yield path


def _mapped(process: str, known: Collection[str]) -> Iterator[str]:
    """Yield the mappings of a process that may be of a device; their names have no leading zeros (proc(5))."""
    with contextlib.suppress(OSError), open(f"{process}/maps", "rb") as lines:  # noqa: PTH123 - as above
        for line in lines:
            field = line.decode(errors="replace").rstrip("\n").split(maxsplit=5)
            if len(field) > 5 and _may_be_node(field[5], known):
                begin, end = field[0].split("-")
                yield f"{process}/map_files/{int(begin, 16):x}-{int(end, 16):x}"


def _may_be_node(path: str, known: Collection[str]) -> bool:
    """Return whether a path may be a node's, as stat of any file, such as one on a dead server, might hang.

    A container's node has its path there (d_path of the kernel's fs/d_path.c), a chroot's the path of the host.
    """
    return path.startswith("/dev/") or path.rpartition("/")[2] in known


def _numbers(path: str) -> str:
    """Return the numbers of the device node that a link leads to; empty if it leads to something else."""
    with contextlib.suppress(OSError):
        node = os.stat(path)  # noqa: PTH116 - as above
        if stat.S_ISCHR(node.st_mode):
            return f"{os.major(node.st_rdev)}:{os.minor(node.st_rdev)}"
    return ""


def _text(path: Path) -> str | None:
    with contextlib.suppress(OSError):
        return path.read_bytes().decode(errors="replace").rstrip("\n")
    return None
