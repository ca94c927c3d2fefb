"""Settings of the plugin for tests: a config of every kind, and the paths of a fake host."""

import asyncio
import json
from pathlib import Path
from typing import Any

import msgspec

from compiler import kae, recipes
from compiler.formats import canonical
from device_plugin import plugin, served
from device_plugin.host import health, paths, sysfs
from device_plugin.kubelet import advertised
from runtime import device_plugin_config as config
from runtime import pci, shapes
from tests.device_plugin import hosts

HOME = shapes.Home(state="/var/lib/kae", run="/run/kae", prefix="kae", tree=".kae-", files="/opt/kae")
KINDS = tuple(
    shapes.Kind(name=kind.name, vendor=kind.vendor, devices=kind.devices, virtual=kind.virtual, module=kind.module)
    for kind in kae.RECIPE.kinds
)
"""The kinds of KAE, as the compiler states them."""
NIC = msgspec.structs.replace(KINDS[0], name="nic", module="")
"""The first of them, with another name and without a module."""


def uacce(name: str = "hpre", **changes: Any) -> config.Uacce:
    """The resource of a kind of KAE, with these fields changed; openssl.cnf is always kept on the host."""
    stated: dict[str, Any] = {"socket": name, "inject": inject()} | changes
    return config.Uacce(name=f"{recipes.DOMAIN}/kae.{name}", kind=name, **stated)


def vfio(name: str = "hpre", **changes: Any) -> config.Vfio:
    """The same, where its functions are offered as IOMMU groups."""
    stated: dict[str, Any] = {"socket": name, "inject": inject()} | changes
    return config.Vfio(name=f"{recipes.DOMAIN}/kae.{name}.vfio", kind=name, **stated)


def every(**changes: Any) -> tuple[config.Uacce, ...]:
    """The resources of all kinds of KAE, each with these fields changed."""
    return tuple(uacce(kind.name, **changes) for kind in KINDS)


def inject(**fields: Any) -> config.Inject:
    return config.Inject(**{"openssl": config.OpenSsl()} | fields)


def settings(*resources: config.AnyResource, **changes: Any) -> config.Config:
    """A config of these resources, or of all kinds of KAE, that differs from the smallest one in what is said."""
    resources = resources or every()
    named = {getattr(resource, "kind", None) for resource in resources}
    stated: dict[str, Any] = {
        "version": shapes.VERSION,
        "cluster": "east",
        "policy": "tls",
        "recipe": "kae",
        "home": HOME,
        "kinds": tuple(kind for kind in (*KINDS, NIC) if kind.name in named),
        "resources": resources,
        "allocation_policy": "Balanced",
    }
    return config.Config(**stated | changes)


def kind(name: str = "hpre") -> served.Kind:
    """A kind of KAE as the plugin serves it."""
    (found,) = served.kinds(settings(uacce(name)))
    return found


def text(stated: config.Config) -> str:
    """A config as the compiler writes it."""
    return json.dumps(canonical.stated(stated))


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


def looked(host: hosts.Host, stated: config.Config | None = None, **more: Any) -> plugin.Plugin:
    node = plugin.Plugin(where(host), stated or settings(), **more)
    asyncio.run(node.look())
    return node


def told(node: plugin.Plugin, name: str = "hpre") -> dict[str, bool]:
    """Return the shares that the plugin told the kubelet, of a kind or a resource, and whether they are healthy."""
    resource = name if "/" in name else kind(name).resource
    return {replica.id: replica.healthy for replica in node.device_lists[resource].replicas}


def where(host: hosts.Host) -> paths.Paths:
    return paths.Paths(sysfs=host.sysfs, dev=host.dev, run=host.run, kubelet=host.kubelet, recipe="kae")


def scanned(host: hosts.Host) -> sysfs.Scan:
    kinds, places = served.kinds(settings()), where(host)
    return sysfs.scan(places, (sysfs.read(places, kinds, address) for address in pci.addresses(places.sysfs)))


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
