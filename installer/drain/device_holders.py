"""The device holders: pods to which the kubelet gave a device, and processes that have one open or mapped.

A pod got it by a device plugin or by a claim. The kubelet's pod-resources socket names the pods, which needs no right
to list pods. Processes are looked for, too, as a container that mounts /dev needs no device plugin.
"""

import contextlib
import ctypes
import os
import re
import stat
import struct
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

import msgspec

from installer.decide import driver_class
from installer.host import chroot, pci
from runtime import errors, pulse, readings

if TYPE_CHECKING:
    from runtime.api import podresources_v1_pb2 as pb

_LIBC = ctypes.CDLL(None)
_AT_FDCWD, _AT_STATX_DONT_SYNC, _STATX_TYPE = -100, 0x4000, 1
_STATX = struct.Struct("28x H 98x I I")  # stx_mode and stx_rdev of struct statx

# The cgroup drivers cgroupfs and systemd (pkg/kubelet/cm); a static pod's uid is a hash without hyphens.
_POD = re.compile(r"[-/]pod([0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}|[0-9a-f]{32})(?=[./]|$)", re.MULTILINE)


class Holder(msgspec.Struct, frozen=True, kw_only=True):
    """A device holder: a pod, a process, or neither, as a virtual machine or a user that /proc does not show."""

    text: str
    """The holder in words, such as "pod default/nginx-0 (container web: 0000:79:00.0)"."""
    pod: str = ""
    """Namespace and name of a pod, such as default/nginx-0; else empty."""
    uid: str = ""
    """The uid of the pod, also of a process's; empty where it is unknown, and for what is in no pod."""


class Process(Holder, frozen=True, kw_only=True):
    """A process of the host that has a device open or mapped."""

    pid: int
    name: str


def find_processes(
    host: chroot.Host, entries: Iterable[pci.Entry], modules: Collection[str] = driver_class.Uacce.counting
) -> Sequence[Holder]:
    """Return the processes that have one of these entries open or mapped; the kubelet is not asked.

    Maps cost more to read than descriptors, so only an unexplained use of the modules that have the nodes makes them
    read: each open or mapped node counts there, also after its descriptor was closed (cdev_get and fops_get of the
    kernel's fs/char_dev.c). Raises `Failure` if a process hangs a read for too long.
    """
    names = {entry.numbers: entry.name for entry in entries if entry.numbers}
    found = host.look(lambda: tuple(_users(host, names, _opened))) if names else ()
    counts = [(name, uses) for name in modules if (uses := _uses(host, name)) is not None]
    used = [(name, uses) for name, uses in counts if uses > 0]
    if found or not names or (counts and not used):
        return found
    # Such as a descriptor on its way through a socket.
    unseen = (
        f"a user that is not seen in /proc (the module {name} is in use {uses} times more than by modules)"
        for name, uses in used
    )
    # Who reads maps may wait for a process that waits in the kernel (m_start of the kernel's fs/proc/task_mmu.c).
    return host.look(lambda: tuple(_users(host, names, _mapped))) or tuple(Holder(text=text) for text in unseen)


def _uses(host: chroot.Host, module: str) -> int | None:
    """Return the number of users of a module but modules; None where it is built in, as then nothing is counted."""
    folder = host.path(f"/sys/module/{module}")
    counted = readings.integer(folder / "refcnt")
    return None if counted is None else counted - len(readings.names(folder / "holders"))


def _users(
    host: chroot.Host, names: Mapping[str, str], nodes: Callable[[str, Collection[str]], Iterable[str]]
) -> Iterator[Process]:
    """Yield the processes with a node of these, which maps node numbers to entries, among those of `nodes`."""
    known, proc = set(names.values()), host.resolved("/proc")
    for pid in sorted(int(name) for name in readings.names(proc) if name.isdecimal()):
        pulse.beat(f"/proc/{pid}")
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
    """Return whether a path may be a node's, as stat of any file, such as one on a dead server, might hang."""
    # A container's node has its path there (d_path of the kernel's fs/d_path.c), a chroot's the path of the host.
    return path.startswith("/dev/") or path.rpartition("/")[2] in known


def _numbers(path: str) -> str:
    """Return the numbers of the device node that a link leads to; empty if it leads to something else."""
    # What the kernel knows already (statx(2)): stat would ask the server of a file, which may be dead.
    said = ctypes.create_string_buffer(256)
    if _LIBC.statx(_AT_FDCWD, os.fsencode(path), _AT_STATX_DONT_SYNC, _STATX_TYPE, said) == 0:
        mode, major, minor = _STATX.unpack_from(said)
        return f"{major}:{minor}" if stat.S_ISCHR(mode) else ""
    return ""


def _text(path: Path) -> str | None:
    with contextlib.suppress(OSError):
        return path.read_bytes().decode(errors="replace").rstrip("\n")
    return None


KUBELET = Path("/var/lib/kubelet")
"""The kubelet's root folder; distributions have others, such as /var/lib/k0s/kubelet."""

SOCKET = "pod-resources/kubelet.sock"
"""The path in the kubelet's --root-dir (getPodResourcesDir, pkg/kubelet/kubelet_getters.go; read in 1.24 to 1.36)."""

IN_POD = "KUBERNETES_SERVICE_HOST"
"""The kubelet sets this variable in every container (getServiceEnvVarMap, pkg/kubelet/kubelet_pods.go), and client-go
knows a pod by it. A pod proves that there is a kubelet; a bare host, on which a person removes the driver, has none."""

LOGS = "/var/log/pods"
"""A folder for each pod, <namespace>_<name>_<uid>: the kubelet's BuildPodLogsDirectory, pkg/kubelet/kuberuntime."""

DEADLINE_S = 10


class Holders(msgspec.Struct, frozen=True, kw_only=True):
    """The device holders: pods by namespace and name, processes of no known pod by number, then guests."""

    holders: tuple[Holder, ...] = ()
    notes: tuple[str, ...] = ()
    """Sentences about what could not be read."""


def find(
    host: chroot.Host,
    resources: Collection[str],
    entries: Iterable[pci.Entry],
    kubelet: Path = KUBELET,
    modules: Collection[str] = driver_class.Uacce.counting,
) -> Holders:
    """Return the holders of a device of these resources, or of one of these entries, which `modules` count.

    A device of the recipe that a claim was given counts whatever the resources are, which a claim does not name.
    `kubelet` is its root folder on the host; without resources it is not asked. Outside of a pod, without its socket,
    only processes are read, which a note says. Raises `Failure` if the kubelet does not answer, or if a pod does not
    see its socket.
    """
    held, notes = _pods(host, resources, kubelet) if resources else ({}, ())
    # Namespace, name and uid; none of the three can contain an underscore.
    parted = (name.split("_") for name in readings.names(host.resolved(LOGS)))
    pods = {parts[2]: f"{parts[0]}/{parts[1]}" for parts in parted if len(parts) == 3}
    live = pods.keys() & readings.names(host.resolved(str(kubelet)) / "pods")
    uids = {pod: _uid(pod, {uid: pods[uid] for uid in live}) for pod in held}
    opened: dict[str, list[str]] = {}
    strangers: list[Holder] = []
    for user in find_processes(host, entries, modules):
        pod = pods.get(user.uid)
        if pod is None or not isinstance(user, Process):
            strangers.append(user)
        elif pod not in held:
            opened.setdefault(pod, []).append(f"process {user.pid}, {user.name}")
            uids.setdefault(pod, user.uid if "-" in user.uid else "")  # As in `_uid`.
    named = (
        Holder(text=f"pod {pod} ({'; '.join(parts)})", pod=pod, uid=uids[pod])
        for pod, parts in sorted({**held, **opened}.items())
    )
    return Holders(holders=(*named, *strangers), notes=notes)


def _pods(host: chroot.Host, resources: Collection[str], kubelet: Path) -> tuple[dict[str, list[str]], tuple[str, ...]]:
    """Return what each pod holds, in words, and notes."""
    shown = kubelet / SOCKET
    # The folder of the kubelet is often a link to a larger disk.
    socket = host.resolved(str(kubelet)) / SOCKET
    if socket.exists():
        return _listed(socket, resources, host.own.home.dra_driver, shown), ()
    if IN_POD in os.environ:
        raise errors.Failure(
            f"The kubelet's socket '{shown}' is not there, so it is unknown which pods hold devices. Name the kubelet's"
            " root folder in the policy's kubeletDir, or start the kubelet."
        )
    return {}, (f"The kubelet's socket '{shown}' is not there, so only processes were looked for.",)


def _listed(socket: Path, resources: Collection[str], driver: str, shown: Path) -> dict[str, list[str]]:
    # These imports take 20 MB, which a host that needs no change saves.
    import grpc  # noqa: PLC0415 - see above

    from runtime import pod_resources  # noqa: PLC0415 - see above

    # By the folder's descriptor, as the address of a Unix socket has at most 107 bytes (unix(7)).
    folder = os.open(socket.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        address = f"unix:/proc/self/fd/{folder}/{socket.name}"
        with grpc.insecure_channel(address, pod_resources.OPTIONS) as channel:
            answer: pb.ListPodResourcesResponse = pod_resources.listed(channel, DEADLINE_S)
    except grpc.RpcError as error:
        call = cast("grpc.Call", error)  # A stub raises an object of both types.
        said = {
            grpc.StatusCode.UNAVAILABLE: f"nobody answers at '{shown}'",
            grpc.StatusCode.DEADLINE_EXCEEDED: f"no answer at '{shown}' within {DEADLINE_S} seconds",
        }.get(call.code(), f"{call.code().name}, {call.details()}")
        raise errors.Failure(f"The kubelet does not say which pods hold devices: {said}.") from error
    finally:
        os.close(folder)
    # A completed pod that kubelets before 1.34 list has no device left: List calls UpdateAllocatedDevices first
    # (pkg/kubelet/apis/podresources/server_v1.go; read in 1.24 to 1.36).
    pods: dict[str, list[str]] = {}
    for pod in answer.pod_resources:
        if devices := list(_devices(pod.containers, resources, driver)):
            pods.setdefault(f"{pod.namespace}/{pod.name}", []).extend(devices)
    return pods


def _devices(containers: "Iterable[pb.ContainerResources]", resources: Collection[str], driver: str) -> Iterator[str]:
    for container in containers:
        claims = [given for claim in container.dynamic_resources for given in claim.claim_resources]
        claimed = sorted({given.device_name for given in claims if given.driver_name == driver})
        given = [device for device in container.devices if device.resource_name in resources]
        # A device that several containers share has one id for each, such as 0000:79:00.0::1.
        addresses = sorted({name.partition("::")[0] for device in given for name in device.device_ids})
        if addresses or claimed:
            yield f"container {container.name}: {', '.join((*addresses, *claimed))}"


def _uid(pod: str, live: Mapping[str, str]) -> str:
    """Return the uid of a pod; empty unless exactly one pod of its name has both logs and a folder of the kubelet."""
    # A former pod of the name may have left either. The API server knows a static pod by another uid than its node.
    uids = [uid for uid, other in live.items() if other == pod and "-" in uid]
    return uids[0] if len(uids) == 1 else ""
