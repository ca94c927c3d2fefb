"""What a container gets for the devices it was given: a pure function of their PCI addresses and the config.

The same devices give the same answer: init containers make the kubelet ask twice, and it keeps the first answer for
every restart. Several resources in one container give equal mounts where they name equal paths, so that none conflicts.
"""

from collections.abc import Sequence

from device_plugin import advertised, config, openssl, paths
from device_plugin.api import deviceplugin_v1beta1_pb2 as api


def answer(
    where: paths.Places, inject: config.Inject, devices: Sequence[advertised.Device]
) -> api.ContainerAllocateResponse:
    """The answer for one container; several shares of a device are one device."""
    distinct = {device.function.address: device for device in devices}
    response = api.ContainerAllocateResponse()
    for address in sorted(distinct):
        response.devices.append(_node(where, inject, distinct[address]))
    if inject.mask_sysfs:
        response.mounts.extend(_masks(where, [distinct[address] for address in sorted(distinct)]))
    if inject.libraries:
        response.mounts.append(_mount(paths.LIBRARIES, paths.LIBRARIES))
        response.envs["LD_LIBRARY_PATH"] = f"{paths.LIBRARIES}/lib"
    if inject.openssl_conf is not None:
        variant = openssl.Variant(generation=inject.openssl_conf, libraries=inject.libraries)
        response.mounts.append(_mount(openssl.FOLDER, str(where.openssl / variant.name)))
        response.envs["OPENSSL_CONF"] = f"{openssl.FOLDER}/openssl.cnf"
        response.envs["OPENSSL_ENGINES"] = variant.engines
    return response


def _node(where: paths.Places, inject: config.Inject, device: advertised.Device) -> api.DeviceSpec:
    function = device.function
    if inject.mask_sysfs or function.entry is None:
        name = paths.published_name(function.kind.module, function.address)
    else:
        # Without masks a container sees the kernel's own names, and libwd opens what they say.
        name = function.entry.node
    return api.DeviceSpec(
        container_path=f"/dev/{name}",
        host_path=str(where.links / function.address),
        # Reading and writing is what libwd opens it for; making nodes (m) is of no use.
        permissions="rw",
    )


def _masks(where: paths.Places, devices: Sequence[advertised.Device]) -> list[api.Mount]:
    names = [paths.published_name(device.function.kind.module, device.function.address) for device in devices]
    return [
        _mount("/sys/class/uacce", str(where.shown)),
        *(_mount(f"{paths.CONTAINER_RUN}/uacce/given/{name}", str(where.given / name)) for name in names),
    ]


def _mount(container: str, host: str) -> api.Mount:
    return api.Mount(container_path=container, host_path=host, read_only=True)
