"""Everything that the resources of a policy set in a container: its environment variables, and its paths."""

from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import PurePosixPath

import msgspec

from compiler.fleet import definitions
from compiler.formats import documents
from runtime import device_plugin_config, shapes

_UACCE = "/sys/class/uacce"
"""The path at which a container sees its own devices of the class alone."""
PRELOAD = "LD_PRELOAD"
"""The variable that names the libraries of `preload`."""


class Setting(msgspec.Struct, frozen=True, kw_only=True, order=True):
    """A variable or a path of a container, as a resource sets it."""

    resource: str
    target: str
    """The variable's name, or the path; a glob stands for the names that it matches on the host."""
    value: str
    """The variable's value, or the path on the host with what the container may do there; for a file, its text."""

    def differs(self, other: "Setting") -> bool:
        """Return whether a container that gets both is set differently by each."""
        if self.target == other.target:
            return self.value != other.value
        for one, glob in ((self, other), (other, self)):
            if "/" in one.target[:1] and fnmatchcase(one.target, glob.target):
                return _folder(one.value) != _folder(glob.value)
        return False


def _folder(value: str) -> str:
    """Return the folder of a path on the host: a glob keeps the names of what it matches."""
    return str(PurePosixPath(value).parent)


Part = tuple[documents.Path, device_plugin_config.Inject]
"""Something that a resource injects, and its place in the resource."""


def gives(policy: definitions.Policy) -> bool:
    """Return whether `inject` of a resource sets variables or mounts of containers."""
    every = (resource.inject for resource in (policy.offered.resources if policy.offered else ()))
    return any(
        one.env or one.mounts or one.files or one.preload or one.libraries or (one.openssl and one.openssl.conf)
        for one in every
    )


def of(policy: definitions.Policy) -> frozenset[Setting]:
    """Return the settings of all resources of a policy; device nodes of class uacce have names that no other has."""
    plugin = policy.offered
    return frozenset(
        Setting(resource=resource.name, target=target, value=value)
        for resource in (plugin.resources if plugin else ())
        for target, value in _of_resource(resource, policy.recipe.home).items()
    )


def _of_resource(resource: device_plugin_config.AnyResource, home: shapes.Home) -> dict[str, str]:
    """Return what the device plugin sets in a container (device_plugin/kubelet/allocation.py), by target."""
    found = dict[str, str]()
    if isinstance(resource, device_plugin_config.Uacce):
        if resource.mask_sysfs:
            found[_UACCE] = f"{home.run} r"
        found |= _of_libraries(resource.inject, home)
    groups = resource.groups if isinstance(resource, device_plugin_config.Char) else ()
    return found | {target: value for _, target, value in set_by(groups, [((), resource.inject)])}


def _of_libraries(inject: device_plugin_config.Inject, home: shapes.Home) -> dict[str, str]:
    found = dict[str, str]()
    if inject.libraries is not None:
        path = inject.libraries.path
        place = home.files if path is None else f"{home.files}/lib"
        found |= {place: f"{path or home.files} r", "LD_LIBRARY_PATH": f"{home.files}/lib"}
    if inject.openssl is not None and inject.openssl.conf is not None:
        conf = f"{home.run}/openssl"
        found |= {conf: f"{inject.openssl.conf} r", "OPENSSL_CONF": f"{conf}/openssl.cnf"}
    return found


def set_by(
    groups: Iterable[device_plugin_config.DeviceGroup], parts: Sequence[Part]
) -> Iterator[tuple[documents.Path, str, str]]:
    """Yield the place in a resource, the target and the value of everything that its devices and its parts set."""
    for index, group in enumerate(groups):
        for number, path in enumerate(group.paths):
            place: documents.Path = ("groups", index, "paths", number)
            yield place, _target(path.path, path.as_), f"{path.path} {path.permissions}"
    for path_of, part in parts:
        for target, value, *at in injected(part):
            yield (*path_of, *at), target, value
    preloading = [path_of for path_of, part in parts if part.preload]
    if preloading:
        libraries = (library for _, part in parts for library in part.preload)
        yield (*preloading[-1], "preload"), PRELOAD, ":".join(libraries)


def injected(part: device_plugin_config.Inject) -> Iterator[tuple[str, str, str, str | int]]:
    """Yield target and value of everything but libraries, each with its field and its place there."""
    yield from ((name, value, "env", name) for name, value in part.env.items())
    for index, node in enumerate(part.nodes):
        yield _target(node.path, node.as_), f"{node.path} {node.permissions}", "nodes", index
    for index, mount in enumerate(part.mounts):
        yield _target(mount.path, mount.as_), f"{mount.path} {'r' if mount.read_only else 'rw'}", "mounts", index
    for index, file in enumerate(part.files):
        yield file.as_, file.text, "files", index


def _target(path: str, to: str | None) -> str:
    """Return the path in a container; a folder gets what lies there under its own name."""
    return path if to is None else f"{to}{path.rpartition('/')[2]}" if to.endswith("/") else to


def in_sentence(target: str) -> str:
    """Return a variable or a path of a container as an object of a sentence."""
    return f"'{target}'" if target.startswith("/") else target
