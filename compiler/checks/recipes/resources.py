"""Rules for the resources of a recipe: what a class of devices needs, and what containers get."""

import fnmatch
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import msgspec

from compiler import repeats
from compiler.diagnostics import Diagnostic, shared_rule
from compiler.fleet import injections
from compiler.formats import documents
from runtime import device_plugin_config

shared_rule(
    "resource-class",
    "error",
    "A resource has what its class needs, nothing of another class, and no more than the device plugin takes.",
)
shared_rule(
    "privilege-refused",
    "error",
    "A recipe brings no credentials of the cluster, no runtime's socket and no glob of all devices to pods, and its "
    "programs have no privilege that their cluster refuses.",
)

_NEEDS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"char": ("groups",), "token": ("count",), "uacce": ("kind",), "vfio": ("kind",)}
)
_OWN: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "char": ("groups", "shares"),
        "token": ("count", "shares", "profiles"),
        "uacce": ("kind", "shares"),
        "vfio": ("kind",),
    }
)
"""The fields of a class beside those of all: an IOMMU group is opened by one virtual machine alone."""

_NATIVE = "kubernetes.io"
"""The domain of resources that the kubelet takes from no device plugin: `IsExtendedResourceName` of Kubernetes."""
_QUOTA = "requests."

_REFUSED: Mapping[str, str] = MappingProxyType(
    {
        "/etc/kubernetes": "credentials of the cluster",
        "/proc": "all processes of the host",
        "/var/lib/kubelet": "credentials of the kubelet and of other pods",
        "/run/containerd": "the socket of a container runtime",
        "/run/crio": "the socket of a container runtime",
        "/run/docker.sock": "the socket of a container runtime",
        "/run/k3s": "the socket of a container runtime",
        "/var/run/containerd": "the socket of a container runtime",
        "/var/run/crio": "the socket of a container runtime",
        "/var/run/docker.sock": "the socket of a container runtime",
        "/var/run/k3s": "the socket of a container runtime",
        "/var/lib/rancher": "credentials of the cluster",
        "/var/lib/k0s": "credentials of the cluster",
    }
)
"""Paths of hosts that containers of other people never get, and what is there."""


def privileges(source: documents.Document, kubelet: str | None = None) -> Iterator[Diagnostic]:
    """No container gets credentials of the cluster or the socket of a container runtime; links are not followed.

    What a resource requires is mounted into the device plugin.

    `kubelet` is the root folder of a kubelet, in place of the usual paths.
    """
    refused = _REFUSED if kubelet is None else {kubelet: _REFUSED["/var/lib/kubelet"]}
    found: list[tuple[documents.Path, str]] = []
    plugin: Mapping[str, Any] = source.data["spec"].get("devicePlugin", {})
    for at, resource in enumerate(plugin.get("resources", ())):
        required: documents.Path = ("spec", "devicePlugin", "resources", at, "requires")
        found += [((*required, index), path) for index, path in enumerate(resource.get("requires", ()))]
        for place, injection in enumerate(resource.get("inject", ())):
            path: documents.Path = ("spec", "devicePlugin", "resources", at, "inject", place)
            mounts = injection.get("mounts", ())
            found += [((*path, "mounts", index, "path"), mount["path"]) for index, mount in enumerate(mounts)]
    for path, glob in found:
        for taken, meaning in refused.items():
            if _meets(glob, taken):
                yield Diagnostic(
                    code="privilege-refused",
                    span=source.span(*path),
                    message=f"A recipe may not mount '{glob}'.",
                    notes=(f"'{taken}' holds {meaning}.",),
                    hint="Name the files themselves that containers need.",
                )
                break


def any_device(source: documents.Document) -> Iterator[Diagnostic]:
    """No container gets whatever is in /dev: the name of a device node begins with letters of its own."""
    plugin: Mapping[str, Any] = source.data["spec"].get("devicePlugin", {})
    for at, resource in enumerate(plugin.get("resources", ())):
        path: documents.Path = ("spec", "devicePlugin", "resources", at)
        lists = [
            ((*path, "groups", index, "paths"), one["paths"]) for index, one in enumerate(resource.get("groups", ()))
        ]
        injected = enumerate(resource.get("inject", ()))
        lists += [((*path, "inject", index, "nodes"), one.get("nodes", ())) for index, one in injected]
        for place, index, node in ((place, index, node) for place, nodes in lists for index, node in enumerate(nodes)):
            if node["path"].removeprefix("/dev/").startswith(("*", "?", "[")):
                yield Diagnostic(
                    code="privilege-refused",
                    span=source.span(*place, index, "path"),
                    message=f"A recipe may not offer '{node['path']}', which takes any device of a host.",
                    notes=("'/dev' holds the host's disks and memory.",),
                    hint="Begin the name as those of the devices begin, such as /dev/npu*.",
                )


def _meets(glob: str, taken: str) -> bool:
    """Return whether a glob can match a path, a folder around it or something in it."""
    pairs = zip(glob.split("/"), taken.split("/"), strict=False)
    return all(fnmatch.fnmatchcase(right, left) for left, right in pairs)


def classes(source: documents.Document) -> Iterator[Diagnostic]:
    """A resource has what its class needs, and nothing of another class; its name is one of device plugins."""
    offered: Sequence[Mapping[str, Any]] = source.data["spec"].get("devicePlugin", {}).get("resources", ())
    yield from _kinds(source, offered)
    for index, resource in enumerate(offered):
        path: documents.Path = ("spec", "devicePlugin", "resources", index)
        kind = resource["class"]
        for field in _NEEDS[kind]:
            if not source.has((*path, field)):
                message = f"A resource of class {kind} needs {field}."
                yield _of_class(source, (*path, "class"), message, f"Add {field}, or correct the class.")
        for field in sorted({field for own in _OWN.values() for field in own} - set(_OWN[kind])):
            if source.has((*path, field)):
                message = f"A resource of class {kind} takes no {field}."
                yield _of_class(source, (*path, field), message, "Remove it, or correct the class.", key=True)
        name: str = resource["name"]
        domain = name.partition("/")[0]
        if domain == _NATIVE or domain.endswith(f".{_NATIVE}") or domain.startswith(_QUOTA):
            message = f"Kubernetes takes no resource '{resource['name']}' from a device plugin."
            yield _of_class(source, (*path, "name"), message, "Use a domain of your own, such as example.com.")


def _kinds(source: documents.Document, offered: Sequence[Mapping[str, Any]]) -> Iterator[Diagnostic]:
    """A device is of one resource."""
    of_kinds = ((index, one) for index, one in enumerate(offered) if "kind" in one and "kind" in _NEEDS[one["class"]])
    for (_, first), (index, second) in repeats.of(of_kinds, key=lambda pair: str(pair[1]["kind"])):
        path: documents.Path = ("spec", "devicePlugin", "resources", index, "kind")
        message = f"Resources '{first['name']}' and '{second['name']}' are both of the kind '{second['kind']}'."
        yield _of_class(source, path, message, "Remove one of them, or make two kinds in match.pci.")


def _of_class(
    source: documents.Document, path: documents.Path, message: str, hint: str, *, key: bool = False
) -> Diagnostic:
    span = source.key_span(*path) if key else source.span(*path)
    return Diagnostic(code="resource-class", span=span, message=message, hint=hint)


def parts(resource: Mapping[str, Any]) -> list[injections.Part]:
    """Return what a resource of a filled recipe injects where its condition holds."""
    held = ((index, data) for index, data in enumerate(resource["inject"]) if data["when"])
    return [(("inject", index), _part(data)) for index, data in held]


def _part(data: Mapping[str, Any]) -> device_plugin_config.Inject:
    own = {name: value for name, value in data.items() if name != "when"}
    return msgspec.convert(own, device_plugin_config.Inject)


def conflicts(source: documents.Document, filled: Mapping[str, Any]) -> Iterator[Diagnostic]:
    """The resources of a recipe set no variable and no path of a container differently: a container may have several.

    The kubelet keeps either one, at random; see `injections.conflicts` for those of several policies.
    """
    known: dict[str, tuple[str, str]] = {}
    for index, resource in enumerate(filled.get("devicePlugin", {}).get("resources", ())):
        path: documents.Path = ("spec", "devicePlugin", "resources", index)
        groups = msgspec.convert(resource.get("groups", ()), tuple[device_plugin_config.DeviceGroup, ...])
        for place, target, value in injections.set_by(groups, parts(resource)):
            name, earlier = known.setdefault(target, (resource["name"], value))
            is_one = name == resource["name"]
            # `offers.findings` says so of a variable beside `preload`.
            if earlier != value and not (is_one and target == injections.PRELOAD and place[-1] == "preload"):
                who = f"Resource '{name}' sets" if is_one else f"Resources '{name}' and '{resource['name']}' set"
                yield Diagnostic(
                    code="inject-conflict",
                    span=source.span(*path, *place),
                    message=f"{who} {injections.in_sentence(target)} differently.",
                    notes=() if is_one else ("A container may ask for both, and gets either.",),
                    hint="Give it one value.",
                )
