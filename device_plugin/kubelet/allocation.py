"""The answer to Allocate: a pure function of the devices' ids, the config, and the files that it names on the host.

The same devices give the same answer: the kubelet asks twice for a pod with init containers, and keeps the first answer
for every restart. Several resources in one container give equal mounts for equal paths, so that none conflicts.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from device_plugin.api import deviceplugin_v1beta1_pb2 as api
from device_plugin.host import paths, resources, sysfs
from device_plugin.kubelet import advertised, openssl
from runtime import device_plugin_config as config


def answer(
    where: paths.Paths, resource: config.AnyResource, devices: Sequence[advertised.AnyDevice], on_host: resources.OnHost
) -> api.ContainerAllocateResponse:
    """Return the answer for one container, for distinct devices in the order of their ids."""
    response = api.ContainerAllocateResponse()
    functions = [device for device in devices if isinstance(device, advertised.Device)]
    if isinstance(resource, config.Vfio):
        response.devices.append(_device("/dev/vfio/vfio", "/dev/vfio/vfio"))
        response.envs.update(_addresses(resource.name, functions))
    for function in (device.function for device in functions):
        link = where.link(function.kind, function.address)
        response.devices.append(_device(container_node(function), str(link)))
    for device in devices:
        if isinstance(device, advertised.Unit):
            response.devices.extend(_group_nodes(where, device))
    if isinstance(resource, config.Uacce) and resource.mask_sysfs:
        response.mounts.extend(_masks(where, functions))
    # A virtual machine has a user space of its own.
    if not isinstance(resource, config.Vfio):
        _add_user_space(response, where, resource.inject)
    response.devices.extend(_device(node.container, node.path, node.permissions) for node in on_host.nodes)
    response.mounts.extend(_mount(mount.container, mount.path, read_only=mount.read_only) for mount in on_host.mounts)
    response.mounts.extend(_mount(file.as_, str(where.files / file.name)) for file in resource.inject.files)
    response.envs.update(resource.inject.env)
    if resource.inject.preload:
        response.envs["LD_PRELOAD"] = ":".join(resource.inject.preload)
    # Devices may share nodes.
    distinct = {(device.container_path, device.host_path): device for device in response.devices}
    del response.devices[:]
    response.devices.extend(distinct.values())
    return response


def crowded(response: api.ContainerAllocateResponse) -> str | None:
    """Return a path in the container that would be two things."""
    counts = Counter(part.container_path for parts in (response.devices, response.mounts) for part in parts)
    return next((place for place, count in counts.items() if count > 1), None)


def container_node(function: sysfs.Function) -> str:
    """Return the path of a function's node in containers."""
    # Without masks a container sees the kernel's own names, and libwd opens what they say.
    if function.node and not function.kind.masked:
        return f"/dev/{function.node}"
    return f"/dev/{paths.published_name(function.kind.stem, function.address)}"


def _addresses(resource: str, devices: Sequence[advertised.Device]) -> Iterator[tuple[str, str]]:
    """Yield the variables with the addresses of functions that are bound to vfio-pci.

    Programs find the addresses in PCIDEVICE_<resource> (SR-IOV network device plugin), KubeVirt, where a host device
    has an externalResourceProvider, in PCI_RESOURCE_<resource> (ResourceNameToEnvVar of its pkg/util).
    """
    name = re.sub("[^A-Z0-9]", "_", resource.upper())
    addresses = [address for device in devices for address in (device.function.address, *device.companions)]
    for prefix in ("PCIDEVICE", "PCI_RESOURCE"):
        yield f"{prefix}_{name}", ",".join(addresses)


def _group_nodes(where: paths.Paths, unit: advertised.Unit) -> Iterator[api.DeviceSpec]:
    if unit.group is not None:
        for index, node in enumerate(unit.group.nodes):
            link = where.group_link(unit.resource, unit.group.id, index)
            yield _device(node.container, str(link) if unit.group.by_address else node.path, node.permissions)


def _masks(where: paths.Paths, devices: Sequence[advertised.Device]) -> Iterator[api.Mount]:
    yield _mount("/sys/class/uacce", str(where.shown))
    for device in devices:
        name = paths.published_name(device.function.kind.stem, device.function.address)
        yield _mount(f"{paths.CONTAINER_RUN}/uacce/given/{name}", str(where.given / name))


def _add_user_space(response: api.ContainerAllocateResponse, where: paths.Paths, inject: config.Inject) -> None:
    """Add the host's libraries, and the openssl.cnf that loads the engine."""
    if inject.libraries is not None:
        path = inject.libraries.path
        response.mounts.append(
            _mount(paths.LIBRARIES, paths.LIBRARIES) if path is None else _mount(f"{paths.LIBRARIES}/lib", path)
        )
        response.envs["LD_LIBRARY_PATH"] = f"{paths.LIBRARIES}/lib"
    if inject.openssl is not None and inject.openssl.conf is not None:
        variant = openssl.Variant(generation=inject.openssl.conf, libraries=inject.libraries is not None)
        response.mounts.append(_mount(openssl.FOLDER, str(where.openssl / variant.name)))
        response.envs["OPENSSL_CONF"] = f"{openssl.FOLDER}/openssl.cnf"


def _device(container: str, host: str, permissions: str = "rw") -> api.DeviceSpec:
    # libwd opens it to read and to write; making nodes (m) is of no use.
    return api.DeviceSpec(container_path=container, host_path=host, permissions=permissions)


def _mount(container: str, host: str, *, read_only: bool = True) -> api.Mount:
    return api.Mount(container_path=container, host_path=host, read_only=read_only)
