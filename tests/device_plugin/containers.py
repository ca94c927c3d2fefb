"""The final content of a container: the kubelet's merge of the plugins' answers for it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from device_plugin.api import deviceplugin_v1beta1_pb2 as pb


class RefusedError(Exception):
    """The pod cannot be admitted, or its container not be started; a pod fails with UnexpectedAdmissionError."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocation:
    """The kubelet's checkpoint of a container and a resource."""

    ids: tuple[str, ...]
    answer: pb.ContainerAllocateResponse


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """The merged answers."""

    devices: Mapping[str, pb.DeviceSpec]
    """By path in the container."""
    conflicts: tuple[str, ...]
    """Conflicts of two answers. The kubelet takes either, in no order, and logs the other: a plugin's mistake."""


def merged(answers: Iterable[pb.ContainerAllocateResponse]) -> Given:
    """The first answer for a variable, path or key wins; pkg/kubelet/cm/devicemanager/pod_devices.go.

    The kubelet compares host paths alone; here any difference is a conflict, as it takes the answers in no order.
    """
    taken: dict[str, dict[str, Any]] = {"envs": {}, "mounts": {}, "devices": {}}
    conflicts = []
    for answer in answers:
        for part, key, value in _items(answer):
            if taken[part].setdefault(key, value) != value:
                conflicts.append(f"{part}: {key}")
    return Given(devices=taken["devices"], conflicts=tuple(conflicts))


def _items(answer: pb.ContainerAllocateResponse) -> Iterable[tuple[str, str, object]]:
    yield from (("envs", key, value) for key, value in answer.envs.items())
    yield from (("mounts", mount.container_path, mount) for mount in answer.mounts)
    yield from (("devices", device.container_path, device) for device in answer.devices)
