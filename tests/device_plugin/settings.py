"""Settings of the plugin for tests: a config of every kind, and the paths of a fake host."""

import asyncio
import json
from pathlib import Path
from typing import Any

import msgspec

from compiler import devices
from device_plugin import config, plugin
from device_plugin.host import health, paths, sysfs
from device_plugin.kubelet import advertised
from runtime import pci, shapes
from tests.device_plugin import hosts


def kind(name: str = "hpre", *, vfio: bool = False) -> shapes.Kind:
    """A kind as the compiler tells it."""
    (found,) = (item for item in devices.KINDS if item.name == name)
    if vfio:
        return msgspec.structs.replace(kind(name), resource=found.vfio_resource, mode="vfio")
    return shapes.Kind(name=name, resource=found.resource, pf=found.pf, vf=found.vf, module=found.module)


def settings(*names: str, **changes: Any) -> config.Config:
    """A config for these kinds, or all of them, that differs from the smallest one in what is said."""
    kinds = tuple(map(kind, names or (item.name for item in devices.KINDS)))
    stated: dict[str, Any] = {
        "cluster": "east",
        "policy": "tls",
        "vendor": devices.VENDOR,
        "kinds": kinds,
        "sharing": {item.name: 1 for item in kinds},
        "allocation_policy": "Balanced",
        "inject": config.Inject(),
    }
    return config.Config(**stated | changes)


def recipe(*resources: config.AnyResource, **changes: Any) -> config.Config:
    """A config of a recipe with these resources, that differs from the smallest one in what is said."""
    stated: dict[str, Any] = {
        "cluster": "east",
        "policy": "desk",
        "recipe": "onload",
        "kinds": (),
        "resources": resources,
        "allocation_policy": "Balanced",
    }
    return config.Config(**stated | changes)


def text(stated: config.Config) -> str:
    """A config as the compiler writes it."""
    return json.dumps(_without_absent(json.loads(msgspec.json.encode(stated))))


def options(host: hosts.Host, folder: Path) -> list[str]:
    """Return the command-line options for a fake host, with a config for all kinds in this folder."""
    file = folder / "config.json"
    file.write_text(text(settings()))
    pairs = {
        "--config": file,
        "--sysfs": host.sysfs,
        "--dev": host.dev,
        "--run-dir": host.run,
        "--kubelet-dir": host.kubelet,
        "--program-dir": folder,
    }
    return [str(word) for pair in pairs.items() for word in pair]


def _without_absent(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_absent(inner) for key, inner in value.items() if inner not in (None, "", [])}
    return list(map(_without_absent, value)) if isinstance(value, list) else value


def looked(host: hosts.Host, stated: config.Config | None = None, **more: Any) -> plugin.Plugin:
    node = plugin.Plugin(where(host), stated or settings(), **more)
    asyncio.run(node.look())
    return node


def told(node: plugin.Plugin, name: str = "hpre") -> dict[str, bool]:
    """Return the shares that the plugin told the kubelet, of a kind or a resource, and whether they are healthy."""
    resource = name if "/" in name else kind(name).resource
    return {replica.id: replica.healthy for replica in node.device_lists[resource].replicas}


def where(host: hosts.Host) -> paths.Paths:
    return paths.Paths(sysfs=host.sysfs, dev=host.dev, run=host.run, kubelet=host.kubelet)


def scanned(host: hosts.Host, *names: str) -> sysfs.Scan:
    stated = settings(*names)
    places = where(host)
    addresses = pci.addresses(places.sysfs)
    return sysfs.scan(places, (sysfs.read(places, stated.vendor, stated.kinds, address) for address in addresses))


def function(host: hosts.Host, address: str) -> sysfs.Function:
    (found,) = (item for item in scanned(host).functions if item.address == address)
    return found


def entry(host: hosts.Host, address: str) -> sysfs.Entry:
    """The entry of a function that has one."""
    found = function(host, address).entry
    assert found is not None
    return found


def offered(host: hosts.Host) -> tuple[advertised.Device, ...]:
    return tuple(
        advertised.Device(function=found, reasons=health.reasons(found, changing=False))
        for found in scanned(host).functions
        if health.withheld(found) is None
    )
