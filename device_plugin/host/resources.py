"""The devices of class char that the host has for a resource, and the files and nodes that containers get with one."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from device_plugin.host import char_groups, host_files, paths
from runtime import device_plugin_config as config


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """A file or folder of the host that a container gets."""

    path: str
    """On the host."""
    container: str
    read_only: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class OnHost:
    """A resource as it was read."""

    lacks: tuple[str, ...] = ()
    """Why no container can start with it, in sentences."""
    devices: tuple[char_groups.Group, ...] = ()
    nodes: tuple[char_groups.Node, ...] = ()
    """The device nodes that containers get beside their devices."""
    mounts: tuple[Mount, ...] = ()
    silent: bool = False
    """True when a read of it hangs; the rest is what was read last."""


def read(where: paths.Paths, resource: config.Resource) -> OnHost:
    """Return what is on the host now; files may be on a file system that does not answer."""
    inject = resource.inject
    nodes = [
        char_groups.node(where, part, path) for part in inject.nodes for path in host_files.matches(where, part.path)
    ]
    mounts = [
        Mount(path=path, container=char_groups.in_container(part.as_, path), read_only=part.read_only)
        for part in inject.mounts
        for path in (host_files.matches(where, part.path) if part.checked else [part.path])
    ]
    places = [*(node.container for node in nodes), *(mount.container for mount in mounts)]
    return OnHost(
        lacks=(
            *_missing(where, resource),
            *(f"{node.path} of the host is no device node." for node in nodes if not node.numbers),
            *_crowded([*places, *(file.as_ for file in inject.files)]),
        ),
        devices=char_groups.walk(where, resource.groups) if isinstance(resource, config.Char) else (),
        nodes=tuple(nodes),
        mounts=tuple(mounts),
    )


def device_globs(resource: config.Resource) -> list[str]:
    """Return every path and glob in /dev that concerns a resource."""
    groups_of = resource.groups if isinstance(resource, config.Char) else ()
    of_devices = [path.path for group in groups_of for path in group.paths]
    required = [path for path in resource.requires if path.startswith("/dev/")]
    return [*of_devices, *required, *(node.path for node in resource.inject.nodes)]


def _missing(where: paths.Paths, resource: config.Resource) -> Iterator[str]:
    nodes = [node.path for node in resource.inject.nodes if not node.optional]
    mounts = [mount.path for mount in resource.inject.mounts if mount.checked and not mount.optional]
    for path in dict.fromkeys((*resource.requires, *nodes, *mounts)):
        if not host_files.matches(where, path):
            yield f"{path} of the host is not there."


def _crowded(places: list[str]) -> Iterator[str]:
    for place, count in Counter(places).items():
        if count > 1:
            yield f"{count} paths of the host would be {place} of a container: end 'as' with '/', for a folder of them."
