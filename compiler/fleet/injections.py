"""Everything that the resources of a policy set in a container: its environment variables, and its paths."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from compiler import devices
from compiler.fleet import definitions
from compiler.formats import documents

if TYPE_CHECKING:  # Projects without DevicePolicies need none of its models.
    from compiler.model.stacks import resources

_LIBRARIES, _RUN = "/opt/kae", "/run/kae"
"""The folders of KAE in containers (device_plugin/host/paths.py)."""
_UACCE = "/sys/class/uacce"
"""The path at which a container sees its own devices of the class alone."""
PRELOAD = "LD_PRELOAD"
"""The variable that names the libraries of `preload`."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Setting:
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


def of(policy: definitions.Policy) -> frozenset[Setting]:
    """Return the settings of all resources of a policy; KAE's device nodes have names that no other has."""
    if policy.recipe is devices.KAE:
        return frozenset(_of_kae(policy))
    return frozenset(_of_stack(policy))


def _of_kae(policy: definitions.Policy) -> Iterator[Setting]:
    """Yield what KAE's device plugin sets (`answer` of device_plugin/kubelet/allocation.py)."""
    plugin = policy.spec.devicePlugin
    inject, found = plugin.inject, dict[str, str]()
    if inject.maskSysfs:
        found[_UACCE] = _RUN
    if inject.libraries:
        place = _LIBRARIES if inject.librariesPath is None else f"{_LIBRARIES}/lib"
        found |= {place: inject.librariesPath or _LIBRARIES, "LD_LIBRARY_PATH": f"{_LIBRARIES}/lib"}
    if inject.opensslConf is not None:
        found |= {f"{_RUN}/openssl": inject.opensslConf, "OPENSSL_CONF": f"{_RUN}/openssl/openssl.cnf"}
    found |= {**(inject.mounts or {}), **(inject.env or {})}
    for kind in policy.kinds if plugin.enabled else ():
        if isinstance(kind, devices.Kind) and getattr(plugin.mode, kind.name) == "uacce":
            for target, value in found.items():
                place = f"{value} r" if target.startswith("/") else value
                yield Setting(resource=kind.resource, target=target, value=place)


def _of_stack(policy: definitions.Policy) -> Iterator[Setting]:
    from compiler.fleet import offers  # noqa: PLC0415 - projects without DevicePolicies need none of its models

    for offer in offers.of(policy):
        # A variable of a profile replaces one of its resource.
        found = {target: value for _, target, value in set_by(offer.resource, offer.injections)}
        if offer.resource.class_ == "uacce":
            found[_UACCE] = f"{_RUN}/recipes/{policy.recipe.name} r"
        for target, value in found.items():
            yield Setting(resource=offer.name, target=target, value=value)


def set_by(
    resource: "resources.RecipeResource", injections: "Sequence[resources.RecipeInjection]"
) -> Iterator[tuple[documents.Path, str, str]]:
    """Yield the place in a resource, the target and the value of everything that it sets with these injections."""
    for index, group in enumerate(resource.groups or ()):
        for number, path in enumerate(group.paths):
            place: documents.Path = ("groups", index, "paths", number)
            yield place, _target(path.path, path.as_), f"{path.path} {path.permissions}"
    held = [(("inject", index), injection) for index, injection in enumerate(injections) if injection.when]
    for path_of, injection in held:
        for target, value, *at in injected(injection):
            yield (*path_of, *at), target, value
    preloading = [path_of for path_of, injection in held if injection.preload]
    if preloading:
        libraries = (library for _, injection in held for library in injection.preload)
        yield (*preloading[-1], "preload"), PRELOAD, ":".join(libraries)


def injected(injection: "resources.RecipeInjection") -> Iterator[tuple[str, str, str, str | int]]:
    """Yield target and value of everything but libraries, each with its field and its place there."""
    yield from ((name, value, "env", name) for name, value in injection.env.items())
    for index, node in enumerate(injection.nodes):
        yield _target(node.path, node.as_), f"{node.path} {node.permissions}", "nodes", index
    for index, mount in enumerate(injection.mounts):
        yield _target(mount.path, mount.as_), f"{mount.path} {'r' if mount.readOnly else 'rw'}", "mounts", index
    for index, file in enumerate(injection.files):
        yield file.as_, file.text, "files", index


def _target(path: str, to: str | None) -> str:
    """Return the path in a container; a folder gets what lies there under its own name."""
    return path if to is None else f"{to}{path.rpartition('/')[2]}" if to.endswith("/") else to


def in_sentence(target: str) -> str:
    """Return a variable or a path of a container as an object of a sentence."""
    return f"'{target}'" if target.startswith("/") else target
