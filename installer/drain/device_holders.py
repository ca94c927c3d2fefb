"""The device holders: pods to which the kubelet gave a device, and processes that have one open or mapped.

The kubelet's pod-resources socket names the pods, which needs no right to list pods. /proc of the host shows the
processes, as a container that mounts /dev needs no device plugin. A process that vanishes meanwhile holds nothing.
The use count of the module uacce shows whether a user was overlooked.
"""

import contextlib
import os
import re
import stat
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

from installer.host import chroot, pci
from runtime import errors, readings

if TYPE_CHECKING:
    from installer.api import podresources_v1_pb2 as pb

KUBELET = Path("/var/lib/kubelet")
"""The kubelet's root folder; distributions have others, such as /var/lib/k0s/kubelet."""

SOCKET = "pod-resources/kubelet.sock"
"""The path in the kubelet's --root-dir (getPodResourcesDir, pkg/kubelet/kubelet_getters.go; read in 1.24 to 1.36)."""

IN_POD = "KUBERNETES_SERVICE_HOST"
"""The kubelet sets this variable in every container (getServiceEnvVarMap, pkg/kubelet/kubelet_pods.go), and client-go
knows a pod by it. A pod proves that there is a kubelet; a bare host, on which a person removes the driver, has none."""

LOGS = "/var/log/pods"
"""A folder for each pod, <namespace>_<name>_<uid>: the kubelet's BuildPodLogsDirectory, pkg/kubelet/kuberuntime."""

LIST = "/v1.PodResourcesLister/List"
"""The one method that is called (k8s.io/kubelet/pkg/apis/podresources/v1/api.proto)."""

DEADLINE_S = 10
"""The time limit of the kubelet's answer."""

_MESSAGE_BYTES = 64 << 20
"""A node may have more pods than fit in gRPC's default of 4 MiB."""

_MAPS_S = 30
"""The time limit to read all maps: a process that waits in the kernel may keep its own locked."""

# The cgroup drivers cgroupfs and systemd (pkg/kubelet/cm); a static pod's uid is a hash without hyphens.
_POD = re.compile(r"[-/]pod([0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}|[0-9a-f]{32})(?=[./]|$)", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """A process of the host that has a device open or mapped."""

    pid: int
    name: str
    devices: tuple[str, ...]
    """Names of entries, such as hisi_hpre-2."""
    pod_uid: str = ""
    """The uid of its pod; empty for a process of the host."""

    @property
    def text(self) -> str:
        """The process in words, such as "process 4711 (openssl)"."""
        return f"process {self.pid} ({self.name})" + (f" of the pod {self.pod_uid}" if self.pod_uid else "")


@dataclass(frozen=True, slots=True)
class Unnamed:
    """A user of a device that is neither a pod nor a process, as a virtual machine or one that /proc does not show."""

    text: str
    """The user in words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """A pod that holds a device."""

    namespace: str
    name: str
    uid: str = ""
    """Empty where it is unknown."""
    devices: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Containers, and the PCI addresses that the kubelet gave to each."""
    processes: tuple[Process, ...] = ()
    """The processes with an open device, if the kubelet gave the pod none."""

    @property
    def key(self) -> str:
        """Namespace and name."""
        return f"{self.namespace}/{self.name}"

    @property
    def text(self) -> str:
        """The pod in words, such as "pod default/nginx-0 (container web: 0000:79:00.0)"."""
        parts = [f"container {name}: {', '.join(addresses)}" for name, addresses in self.devices]
        parts += [f"process {process.pid}, {process.name}" for process in self.processes]
        return f"pod {self.key} ({'; '.join(parts)})"


Holder = Pod | Process | Unnamed


@dataclass(frozen=True, slots=True, kw_only=True)
class Holders:
    """The device holders: pods by namespace and name, processes of no known pod by number, then guests."""

    holders: tuple[Holder, ...] = ()
    notes: tuple[str, ...] = ()
    """Sentences about what could not be read."""


def find(
    host: chroot.Host, resources: Collection[str], entries: Iterable[pci.Entry], kubelet: Path = KUBELET
) -> Holders:
    """Return the holders of a device of these resources, or of one of these entries.

    `kubelet` is its root folder on the host. Outside of a pod, without its socket, only processes are read, which a
    note says. Raises `Failure` if the kubelet does not answer, or if a pod does not see its socket.
    """
    pods, notes = _pods(host, resources, kubelet)
    names = _pod_names(host)
    live = set(readings.names(host.resolved(str(kubelet)) / "pods"))
    known = {pod.key: replace(pod, uid=_uid(pod, {uid: names[uid] for uid in live & names.keys()})) for pod in pods}
    strangers: list[Process | Unnamed] = []
    for process in processes(host, tuple(entries)):
        if isinstance(process, Unnamed) or (place := names.get(process.pod_uid)) is None:
            strangers.append(process)
            continue
        uid = process.pod_uid if "-" in process.pod_uid else ""  # As in `_uid`.
        pod = known.setdefault("/".join(place), Pod(namespace=place[0], name=place[1], uid=uid))
        if not pod.devices:
            known[pod.key] = replace(pod, processes=(*pod.processes, process))
    return Holders(holders=(*(known[key] for key in sorted(known)), *strangers), notes=notes)


def _pods(host: chroot.Host, resources: Collection[str], kubelet: Path) -> tuple[list[Pod], tuple[str, ...]]:
    shown = kubelet / SOCKET
    # The folder of the kubelet is often a link to a larger disk.
    socket = host.resolved(str(kubelet)) / SOCKET
    if socket.exists():
        return _listed(socket, resources, shown), ()
    if IN_POD in os.environ:
        raise errors.Failure(
            f"The kubelet's socket '{shown}' is not there, so it is unknown which pods hold devices. Name the kubelet's"
            " root folder in the policy's kubeletDir, or start the kubelet."
        )
    return [], (f"The kubelet's socket '{shown}' is not there, so only processes were looked for.",)


def _listed(socket: Path, resources: Collection[str], shown: Path) -> list[Pod]:
    # These imports take 20 MB, which a host that needs no change saves.
    import grpc  # noqa: PLC0415 - see above

    from installer.api import podresources_v1_pb2 as messages  # noqa: PLC0415 - see above

    options = (
        ("grpc.default_authority", "localhost"),  # The kubelet's server refuses gRPC's default, the path.
        ("grpc.max_receive_message_length", _MESSAGE_BYTES),
        ("grpc.use_local_subchannel_pool", 1),  # A separate connection, which ends with this call.
    )
    # By the folder's descriptor, as the address of a Unix socket has at most 107 bytes (unix(7)).
    folder = os.open(socket.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with grpc.insecure_channel(f"unix:/proc/self/fd/{folder}/{socket.name}", options) as channel:
            lister: grpc.UnaryUnaryMultiCallable[pb.ListPodResourcesRequest, pb.ListPodResourcesResponse]
            lister = channel.unary_unary(
                LIST,
                request_serializer=messages.ListPodResourcesRequest.SerializeToString,
                response_deserializer=messages.ListPodResourcesResponse.FromString,
            )
            answer = lister(messages.ListPodResourcesRequest(), timeout=DEADLINE_S)
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
    pods = (
        Pod(namespace=pod.namespace, name=pod.name, devices=tuple(_devices(pod.containers, resources)))
        for pod in answer.pod_resources
    )
    return [pod for pod in pods if pod.devices]


def _devices(
    containers: "Iterable[pb.ContainerResources]", resources: Collection[str]
) -> Iterator[tuple[str, tuple[str, ...]]]:
    for container in containers:
        given = [device for device in container.devices if device.resource_name in resources]
        # A device that several containers share has one id for each, such as 0000:79:00.0::1.
        addresses = sorted({name.partition("::")[0] for device in given for name in device.device_ids})
        if addresses:
            yield container.name, tuple(addresses)


def processes(host: chroot.Host, entries: Sequence[pci.Entry]) -> Sequence[Process | Unnamed]:
    """Return the processes that have one of these entries open or mapped; the kubelet is not asked.

    Maps cost more to read than descriptors, so only an unexplained use of uacce makes them read: each open or mapped
    node counts there, also after its descriptor was closed (cdev_get and fops_get of the kernel's fs/char_dev.c).
    Raises `Failure` if the maps cannot be read in time.
    """
    names = {entry.numbers: entry.name for entry in entries if entry.numbers}
    found = tuple(_processes(host, names, _opened)) if names else ()
    uacce = host.path("/sys/module/uacce")
    counted = readings.integer(uacce / "refcnt")  # None where uacce is built into the kernel, which counts nothing.
    uses = (counted or 0) - len(readings.names(uacce / "holders"))
    if found or not names or (counted is not None and uses <= 0):
        return found
    # Such as a descriptor on its way through a socket.
    unseen = f"a user that is not seen in /proc (the module uacce is in use {uses} times more than by modules)"
    return _mapping(host, names) or ((Unnamed(unseen),) if counted is not None else ())


def _mapping(host: chroot.Host, names: Mapping[str, str]) -> Sequence[Process]:
    found: list[Process] = []
    # Such a wait ends with SIGKILL alone (m_start of the kernel's fs/proc/task_mmu.c), so a thread of its own waits.
    reader = threading.Thread(target=lambda: found.extend(_processes(host, names, _mapped)), daemon=True)
    reader.start()
    reader.join(_MAPS_S)
    if reader.is_alive():
        raise errors.Failure(f"The maps in /proc cannot be read within {_MAPS_S} s, so the device holders are unknown.")
    return found


def _processes(
    host: chroot.Host, names: Mapping[str, str], nodes: Callable[[str, Collection[str]], Iterable[str]]
) -> Iterator[Process]:
    """Yield the processes with a node of these, which maps node numbers to entries, among those of `nodes`."""
    known, proc = set(names.values()), host.path("/proc")
    for pid in sorted(int(name) for name in readings.names(proc) if name.isdecimal()):
        folder = proc / str(pid)
        devices = tuple(sorted({names.get(_numbers(path), "") for path in nodes(str(folder), known)} - {""}))
        comm = _text(folder / "comm") if devices else None
        if comm is not None:
            # A process may set any name.
            name = "".join(sign if sign.isprintable() else "?" for sign in comm.rstrip("\n")) or "?"
            yield Process(pid=pid, name=name, devices=devices, pod_uid=_pod_uid(_text(folder / "cgroup") or ""))


def _opened(process: str, known: Collection[str]) -> Iterator[str]:
    """Yield the descriptors of a process that may be of a device, under any path."""
    for descriptor in _names(f"{process}/fd"):
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


def _pod_uid(cgroup: str) -> str:
    match = _POD.search(cgroup)
    return match[1].replace("_", "-") if match else ""


def _pod_names(host: chroot.Host) -> dict[str, tuple[str, str]]:
    """Return namespace and name by the pod's uid; none of the three can contain an underscore."""
    parts = (name.split("_") for name in readings.names(host.resolved(LOGS)))
    return {part[2]: (part[0], part[1]) for part in parts if len(part) == 3}


def _uid(pod: Pod, live: Mapping[str, tuple[str, str]]) -> str:
    """Return the uid of a pod; empty unless exactly one pod of its name has both logs and a folder of the kubelet.

    A former pod of the name may have left either. The API server knows a static pod by another uid than its node.
    """
    uids = [uid for uid, place in live.items() if place == (pod.namespace, pod.name) and "-" in uid]
    return uids[0] if len(uids) == 1 else ""


def _names(folder: str) -> list[str]:
    with contextlib.suppress(OSError):
        return os.listdir(folder)  # noqa: PTH208 - see above
    return []


def _text(path: Path) -> str | None:
    with contextlib.suppress(OSError):
        return path.read_bytes().decode(errors="replace")
    return None
