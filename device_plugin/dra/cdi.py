"""The devices of a node as the container runtime finds them: files of the Container Device Interface (CDI).

The kubelet hands over names alone, and the runtime looks them up when it creates a container. So the file has at all
times what the devices are now: their numbers change as drivers do. A device that no container may open is not in it,
and the container waits.
"""

import os
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from device_plugin.api import deviceplugin_v1beta1_pb2 as api
from device_plugin.host import paths, resources

_VERSION = "0.6.0"
"""The first one with all of these fields, which containerd 2.0 and CRI-O 1.28 read."""

_FLAGS = ("rbind", "rprivate")
"""What the kubelet has runtimes do for the mounts of a device plugin."""


class Edits(msgspec.Struct, frozen=True, kw_only=True):
    """What a container gets."""

    nodes: tuple[Mapping[str, Any], ...] = ()
    mounts: tuple[Mapping[str, Any], ...] = ()
    env: Mapping[str, str] = {}

    def without(self, other: "Edits") -> "Edits":
        """Return what another one does not have."""
        return Edits(
            nodes=tuple(node for node in self.nodes if node not in other.nodes),
            mounts=tuple(mount for mount in self.mounts if mount not in other.mounts),
            env=dict(self.env.items() - other.env.items()),
        )

    def common(self, other: "Edits") -> "Edits":
        """Return what both have."""
        return self.without(self.without(other))

    def data(self) -> dict[str, Any]:
        """Return it as CDI has it."""
        parts = {
            "deviceNodes": [dict(node) for node in self.nodes],
            "mounts": [dict(mount) for mount in self.mounts],
            "env": [f"{name}={value}" for name, value in sorted(self.env.items())],
        }
        return {key: part for key, part in parts.items() if part}


def edits(where: paths.Paths, answer: api.ContainerAllocateResponse) -> Edits | None:
    """Return the edits for an answer to a container; None where a device node of it is not there."""
    nodes = []
    for device in answer.devices:
        node = _node(where, device)
        if node is None:
            return None
        nodes.append(node)
    mounts = [
        {
            "hostPath": mount.host_path,
            "containerPath": mount.container_path,
            "options": ["ro" if mount.read_only else "rw", *_FLAGS],
        }
        for mount in answer.mounts
    ]
    return Edits(nodes=tuple(nodes), mounts=tuple(mounts), env=dict(answer.envs))


def _node(where: paths.Paths, device: api.DeviceSpec) -> dict[str, Any] | None:
    path = device.host_path
    # CDI follows no link: the plugin's own, which other interfaces need, lead to the node.
    if Path(path).parent == where.links:
        try:
            path = os.readlink(path)  # noqa: PTH115 - a path of the host
        except OSError:
            return None
    status = resources.status(where, path)
    if status is None:
        return None
    return {
        "path": device.container_path,
        "hostPath": path,
        "type": "c" if stat.S_ISCHR(status.st_mode) else "b",
        "major": os.major(status.st_rdev),
        "minor": os.minor(status.st_rdev),
        # Without these CDI gives it to the user of the container, and the owner and the group of the host do not hold.
        "fileMode": stat.S_IMODE(status.st_mode) & 0o777,
        "uid": status.st_uid,
        "gid": status.st_gid,
        "permissions": device.permissions,
    }


def spec(kind: str, common: Edits, devices: Mapping[str, Edits]) -> bytes:
    """Return a file with these devices, by name; `common` is for each container that gets one, however many."""
    data: dict[str, Any] = {"cdiVersion": _VERSION, "kind": kind}
    if shared := common.data():
        data["containerEdits"] = shared
    # A device without edits is refused (pkg/cdi of container-device-interface), and tokens may have none.
    data["devices"] = [
        {"name": name, "containerEdits": own.data() or {"env": [f"KAE_DEVICE={name}"]}}
        for name, own in sorted(devices.items())
    ]
    return msgspec.json.format(msgspec.json.encode(data), indent=1) + b"\n"


def kind(driver: str, sort: str) -> str:
    """Return the kind of devices of a driver: `device`, or of a `claim`."""
    return f"{driver}/{sort}"


def file(folder: Path, driver: str, sort: str, name: str = "") -> Path:
    """Return the file with the devices of a kind, or of one claim."""
    return folder / f"{driver}-{sort}{f'-{name}' if name else ''}.json"


def name_of(path: Path, driver: str, sort: str) -> str:
    """Return the name of the claim whose file it is."""
    return path.stem.removeprefix(f"{driver}-{sort}-")


def files(folder: Path, driver: str, sort: str) -> list[Path]:
    """Return the files of a kind of devices that are there."""
    return sorted(folder.glob(f"{driver}-{sort}-*.json"))


def shared(parts: Iterable[Edits]) -> Edits:
    """Return what all of these have in common."""
    first, *others = list(parts) or [Edits()]
    for other in others:
        first = first.common(other)
    return first
