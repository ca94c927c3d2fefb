"""The answer to Allocate: a pure function of the devices' PCI addresses and the config.

The same devices give the same answer: the kubelet asks twice for a pod with init containers, and keeps the first answer
for every restart. Several resources in one container give equal mounts for equal paths, so that none conflicts.
"""

import re
from collections import Counter
from collections.abc import Sequence

from device_plugin import config
from device_plugin.api import deviceplugin_v1beta1_pb2 as api
from device_plugin.host import paths, sysfs
from device_plugin.host.recipe import groups, resources
from device_plugin.kubelet import advertised, openssl


def answer(
    where: paths.Paths, inject: config.Inject, devices: Sequence[advertised.Device]
) -> api.ContainerAllocateResponse:
    """Return the answer for one container; several shares of a device are one device."""
    distinct = {device.function.address: device for device in devices}
    if any(device.function.kind.mode == "vfio" for device in devices):
        return _groups(where, inject, [distinct[address] for address in sorted(distinct)])
    response = api.ContainerAllocateResponse()
    for address in sorted(distinct):
        response.devices.append(_node(where, inject, distinct[address].function))
    if inject.mask_sysfs:
        response.mounts.extend(_masks(where, [distinct[address] for address in sorted(distinct)]))
    if inject.libraries:
        if inject.libraries_path is None:
            response.mounts.append(_mount(paths.LIBRARIES, paths.LIBRARIES))
        else:
            response.mounts.append(_mount(f"{paths.LIBRARIES}/lib", inject.libraries_path))
        response.envs["LD_LIBRARY_PATH"] = f"{paths.LIBRARIES}/lib"
    if inject.openssl_conf is not None:
        variant = openssl.Variant(generation=inject.openssl_conf, libraries=inject.libraries)
        response.mounts.append(_mount(openssl.FOLDER, str(where.openssl / variant.name)))
        response.envs["OPENSSL_CONF"] = f"{openssl.FOLDER}/openssl.cnf"
    response.mounts.extend(_mount(inside, host) for inside, host in sorted((inject.mounts or {}).items()))
    response.envs.update(inject.env or {})
    return response


def _groups(
    where: paths.Paths, inject: config.Inject, devices: Sequence[advertised.Device]
) -> api.ContainerAllocateResponse:
    """Return the answer for functions that are bound to vfio-pci: their groups, and their addresses as variables.

    Programs find the addresses in PCIDEVICE_<resource> (SR-IOV network device plugin), KubeVirt, where a host device
    has an externalResourceProvider, in PCI_RESOURCE_<resource> (ResourceNameToEnvVar of its pkg/util).
    """
    response = api.ContainerAllocateResponse()
    response.devices.append(_device("/dev/vfio/vfio", "/dev/vfio/vfio"))
    for device in devices:
        response.devices.append(_node(where, inject, device.function))
    name = re.sub("[^A-Z0-9]", "_", devices[0].resource.upper())
    for prefix in ("PCIDEVICE", "PCI_RESOURCE"):
        addresses = (address for device in devices for address in (device.function.address, *device.companions))
        response.envs[f"{prefix}_{name}"] = ",".join(addresses)
    return response


def add(
    response: api.ContainerAllocateResponse,
    where: paths.Paths,
    resource: config.AnyResource,
    found: tuple[Sequence[groups.Group], resources.OnHost],
) -> str | None:
    """Add a recipe's device nodes and what it injects; return a path in the container that would be two things."""
    of_class_char, on_host = found
    for group in of_class_char:
        for index, node in enumerate(group.nodes):
            host = str(where.group_link(resource.name, group.id, index)) if group.by_address else node.path
            response.devices.append(_device(node.container, host, node.permissions))
    response.devices.extend(_device(node.container, node.path, node.permissions) for node in on_host.nodes)
    response.mounts.extend(_mount(mount.container, mount.path, read_only=mount.read_only) for mount in on_host.mounts)
    for file in resource.inject.files:
        response.mounts.append(_mount(file.as_, str(where.files / file.name)))
    response.envs.update(resource.inject.env)
    if resource.inject.preload:
        response.envs["LD_PRELOAD"] = ":".join(resource.inject.preload)
    return _without_repetitions(response)


def _without_repetitions(response: api.ContainerAllocateResponse) -> str | None:
    """Keep one of equal device nodes, which devices may share; return a path in the container of different ones."""
    devices = {(device.container_path, device.host_path): device for device in response.devices}
    del response.devices[:]
    response.devices.extend(devices.values())
    counts = Counter(part.container_path for parts in (response.devices, response.mounts) for part in parts)
    return next((place for place, count in counts.items() if count > 1), None)


def container_node(inject: config.Inject, function: sysfs.Function) -> str:
    """Return the path of a function's node in containers."""
    # Without masks a container sees the kernel's own names, and libwd opens what they say.
    if function.node and (function.kind.mode == "vfio" or not inject.mask_sysfs):
        return f"/dev/{function.node}"
    return f"/dev/{paths.published_name(function.kind.module, function.address)}"


def _node(where: paths.Paths, inject: config.Inject, function: sysfs.Function) -> api.DeviceSpec:
    return _device(container_node(inject, function), str(where.link(function.kind, function.address)))


def _device(container: str, host: str, permissions: str = "rw") -> api.DeviceSpec:
    # libwd opens it to read and to write; making nodes (m) is of no use.
    return api.DeviceSpec(container_path=container, host_path=host, permissions=permissions)


def _masks(where: paths.Paths, devices: Sequence[advertised.Device]) -> list[api.Mount]:
    names = [paths.published_name(device.function.kind.module, device.function.address) for device in devices]
    return [
        _mount("/sys/class/uacce", str(where.shown)),
        *(_mount(f"{paths.CONTAINER_RUN}/uacce/given/{name}", str(where.given / name)) for name in names),
    ]


def _mount(container: str, host: str, *, read_only: bool = True) -> api.Mount:
    return api.Mount(container_path=container, host_path=host, read_only=read_only)
