"""Paths of hosts in pods: what an installer gets out of images, and which folders a device plugin sees."""

import itertools
from collections.abc import Iterator, Mapping, Sequence

from compiler import names
from compiler.fleet import definitions
from compiler.rendering import ir
from runtime import device_plugin_config

_SEEN = "/dev"
"""Every device plugin sees it."""


def payloads(driver: definitions.Driver, images: Mapping[str, str]) -> Iterator[ir.Payload]:
    """Yield what init containers copy for the installer, which finds PATH of image NAME at /payload/NAME/PATH."""
    for name, paths in driver.payloads.items():
        for number, path in enumerate(paths, start=1):
            parent = f"{name}{path.rpartition('/')[0]}"
            # A number always: the second path of `a` has another name than the first one of `a-2`.
            yield ir.Payload(name=f"payload-{name}-{number}", image=images[name], path=path, parent=parent)


def folders(policy: definitions.Policy, plugin: definitions.Plugin) -> Iterator[ir.HostFolder]:
    """Yield the folders of the host in which a device plugin looks whether the paths of its resources are there.

    Of a path it is the folder above the path's own, so that one that is replaced is seen; of a path that the installer
    puts on the host, the folder above all that it puts there.
    """
    libraries = next((one.inject.libraries for one in plugin.resources if one.inject.libraries is not None), None)
    if libraries is not None:
        # The installer's /opt/kae is a link beside the trees with the libraries.
        yield ir.HostFolder(name="libraries", path=_above(libraries.path) if libraries.path else "/opt")
    placed = [file.to for file in policy.driver.files] if policy.driver else []
    found = {_folder(path, placed) for path in _checked(plugin.resources) if not _is_in(path, _SEEN)}
    outer = sorted(path for path in found if not any(path != other and _is_in(path, other) for other in found))
    yield from (ir.HostFolder(name=f"host-{number}", path=path) for number, path in enumerate(outer, start=1))


def _checked(resources: Sequence[device_plugin_config.AnyResource]) -> Iterator[str]:
    """Yield the paths of the host without which resources are unhealthy."""
    for resource in resources:
        yield from resource.requires
        yield from (_fixed(mount.path) for mount in resource.inject.mounts if mount.checked)
        yield from resource.inject.preload


def _fixed(glob: str) -> str:
    """Return a path in the folder of a glob's first part with a wildcard; a path without one as it is."""
    parts = glob.split("/")
    fixed = list(itertools.takewhile(lambda part: not names.is_glob(part), parts))
    return glob if fixed == parts else "/".join((*fixed, "any"))


def _folder(path: str, placed: Sequence[str]) -> str:
    """Return the folder above that of a path; of one that is in no folder, or in one of the root, the outermost."""
    place = next((one for one in placed if _is_in(path, one)), _above(path))
    return _above(place) or place or path


def _above(path: str) -> str:
    return path.rpartition("/")[0]


def _is_in(path: str, folder: str) -> bool:
    return f"{path}/".startswith(f"{folder}/")
