"""The device holders: pods to which the kubelet gave a device, and processes that have one open or mapped.

The kubelet's pod-resources socket names the pods, which needs no right to list pods. Processes are looked for, too, as
a container that mounts /dev needs no device plugin.
"""

import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

from installer.decide import driver_class
from installer.drain import processes
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Holders:
    """The device holders: pods by namespace and name, processes of no known pod by number, then guests."""

    holders: tuple[processes.Holder, ...] = ()
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

    `kubelet` is its root folder on the host; without resources it is not asked. Outside of a pod, without its socket,
    only processes are read, which a note says. Raises `Failure` if the kubelet does not answer, or if a pod does not
    see its socket.
    """
    held, notes = _pods(host, resources, kubelet) if resources else ({}, ())
    pods = _pod_names(host)
    live = pods.keys() & readings.names(host.resolved(str(kubelet)) / "pods")
    uids = {pod: _uid(pod, {uid: pods[uid] for uid in live}) for pod in held}
    opened: dict[str, list[str]] = {}
    strangers: list[processes.Holder] = []
    for user in processes.find(host, entries, modules):
        pod = pods.get(user.uid)
        if pod is None or not isinstance(user, processes.Process):
            strangers.append(user)
        elif pod not in held:
            opened.setdefault(pod, []).append(f"process {user.pid}, {user.name}")
            uids.setdefault(pod, user.uid if "-" in user.uid else "")  # As in `_uid`.
    named = (
        processes.Holder(text=f"pod {pod} ({'; '.join(parts)})", pod=pod, uid=uids[pod])
        for pod, parts in sorted({**held, **opened}.items())
    )
    return Holders(holders=(*named, *strangers), notes=notes)


def _pods(host: chroot.Host, resources: Collection[str], kubelet: Path) -> tuple[dict[str, list[str]], tuple[str, ...]]:
    """Return what each pod holds, in words, and notes."""
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
    return {}, (f"The kubelet's socket '{shown}' is not there, so only processes were looked for.",)


def _listed(socket: Path, resources: Collection[str], shown: Path) -> dict[str, list[str]]:
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
    pods: dict[str, list[str]] = {}
    for pod in answer.pod_resources:
        if devices := list(_devices(pod.containers, resources)):
            pods.setdefault(f"{pod.namespace}/{pod.name}", []).extend(devices)
    return pods


def _devices(containers: "Iterable[pb.ContainerResources]", resources: Collection[str]) -> Iterator[str]:
    for container in containers:
        given = [device for device in container.devices if device.resource_name in resources]
        # A device that several containers share has one id for each, such as 0000:79:00.0::1.
        addresses = sorted({name.partition("::")[0] for device in given for name in device.device_ids})
        if addresses:
            yield f"container {container.name}: {', '.join(addresses)}"


def _pod_names(host: chroot.Host) -> dict[str, str]:
    """Return namespace and name by the pod's uid; none of the three can contain an underscore."""
    parts = (name.split("_") for name in readings.names(host.resolved(LOGS)))
    return {part[2]: f"{part[0]}/{part[1]}" for part in parts if len(part) == 3}


def _uid(pod: str, live: Mapping[str, str]) -> str:
    """Return the uid of a pod; empty unless exactly one pod of its name has both logs and a folder of the kubelet.

    A former pod of the name may have left either. The API server knows a static pod by another uid than its node.
    """
    uids = [uid for uid, other in live.items() if other == pod and "-" in uid]
    return uids[0] if len(uids) == 1 else ""
