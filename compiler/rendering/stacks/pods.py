"""The parts of pods that recipes of documents have: what is copied out of images, and which folders a plugin sees."""

from collections.abc import Iterator
from pathlib import PurePosixPath

from compiler.fleet import definitions, offers, stacks
from compiler.planning import pools
from compiler.rendering import ir

_SEEN = PurePosixPath("/dev")
"""Every device plugin sees it."""


def payloads(spec: stacks.Driver, pool: pools.Pool) -> Iterator[ir.Payload]:
    """Yield what init containers copy for the installer, which finds PATH of image NAME at /payload/NAME/PATH."""
    for name, image in pool.payloads:
        paths = dict.fromkeys(path for one in spec.own.payloads if one.image == name for path in one.paths)
        for number, path in enumerate(paths, start=1):
            parent = f"{name}{path.rpartition('/')[0]}"
            # A number always: the second path of `a` has another name than the first one of `a-2`.
            yield ir.Payload(name=f"payload-{name}-{number}", image=image, path=path, parent=parent)


def folders(policy: definitions.Policy, spec: stacks.DevicePlugin) -> tuple[str, ...]:
    """Return the folders of the host in which a device plugin looks whether the paths of its resources are there.

    Of a path it is the folder above the path's own, as for KAE's libraries, so that one that is replaced is seen; of a
    path that the installer puts on the host, the folder above all that it puts there.
    """
    own = spec.filled.driver
    placed = [PurePosixPath(file.to) for file in own.files] if own is not None else []
    found = {_folder(path, placed) for path in _paths(policy) if not path.is_relative_to(_SEEN)}
    inner = {path for path in found if any(path != other and path.is_relative_to(other) for other in found)}
    return tuple(sorted(map(str, found - inner)))


def _paths(policy: definitions.Policy) -> Iterator[PurePosixPath]:
    for offer in offers.of(policy):
        yield from map(PurePosixPath, offer.resource.requires)
        yield from (PurePosixPath(_fixed(mount.path)) for part in offer.injections for mount in part.mounts)
        yield from (PurePosixPath(library) for part in offer.injections for library in part.preload)


def _fixed(glob: str) -> str:
    """Return a glob up to its first part with a wildcard, and a name in place of that part."""
    parts = glob.split("/")
    first = next((index for index, part in enumerate(parts) if any(sign in part for sign in "*?[")), len(parts))
    return "/".join((*parts[:first], "any")) if first < len(parts) else glob


def _folder(path: PurePosixPath, placed: list[PurePosixPath]) -> PurePosixPath:
    place = next((one for one in placed if path.is_relative_to(one)), path.parent)
    root = PurePosixPath("/")
    return path if place == root else place if place.parent == root else place.parent
