"""The parts of pods that recipes of documents have: what is copied out of images, and which folders a plugin sees."""

import itertools
from collections.abc import Iterator, Sequence

from compiler import names
from compiler.fleet import definitions, offers, stacks
from compiler.planning import pools
from compiler.rendering import ir

_SEEN = "/dev"
"""Every device plugin sees it."""


def payloads(spec: stacks.Driver, pool: pools.Pool) -> Iterator[ir.Payload]:
    """Yield what init containers copy for the installer, which finds PATH of image NAME at /payload/NAME/PATH."""
    for name, image in pool.payloads:
        for number, path in enumerate(spec.payloads[name], start=1):
            parent = f"{name}{path.rpartition('/')[0]}"
            # A number always: the second path of `a` has another name than the first one of `a-2`.
            yield ir.Payload(name=f"payload-{name}-{number}", image=image, path=path, parent=parent)


def folders(policy: definitions.Policy, spec: stacks.DevicePlugin) -> tuple[str, ...]:
    """Return the folders of the host in which a device plugin looks whether the paths of its resources are there.

    Of a path it is the folder above the path's own, as for KAE's libraries, so that one that is replaced is seen; of a
    path that the installer puts on the host, the folder above all that it puts there.
    """
    own = spec.filled.driver
    placed = [file.to for file in own.files] if own is not None else []
    found = {_folder(path, placed) for path in _paths(policy) if not _is_in(path, _SEEN)}
    return tuple(sorted(path for path in found if not any(path != other and _is_in(path, other) for other in found)))


def _paths(policy: definitions.Policy) -> Iterator[str]:
    for offer in offers.of(policy):
        yield from offer.resource.requires
        yield from (_fixed(mount.path) for part in offer.injections for mount in part.mounts)
        yield from (library for part in offer.injections for library in part.preload)


def _fixed(glob: str) -> str:
    """Return a path in the folder of a glob's first part with a wildcard; a path without one as it is."""
    parts = glob.split("/")
    fixed = list(itertools.takewhile(lambda part: not names.is_glob(part), parts))
    return glob if fixed == parts else "/".join((*fixed, "any"))


def _folder(path: str, placed: Sequence[str]) -> str:
    """Return the folder above that of a path; of one that is in no folder, or in one of the root, the outermost."""
    place = next((one for one in placed if _is_in(path, one)), path.rpartition("/")[0])
    return place.rpartition("/")[0] or place or path


def _is_in(path: str, folder: str) -> bool:
    return f"{path}/".startswith(f"{folder}/")
