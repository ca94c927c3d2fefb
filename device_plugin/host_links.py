"""Keep the host paths that answers to the kubelet name.

The runtime follows a link when it creates a container, which may be long after the kubelet cached the answer. So the
links are correct at all times, and a wrong link is removed: the container then waits instead of getting another device.
Folders that containers have mounted are changed in place and never replaced: a new folder would not reach them.
"""

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from device_plugin.host import health, paths, sysfs
from device_plugin.kubelet import advertised, openssl
from runtime import files


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """A symbolic link on the host, and its target in a container or for the runtime."""

    path: Path
    target: str


def prepare(where: paths.Paths) -> None:
    """Create the folders and the files that do not depend on devices."""
    for folder in (where.links, where.shown, where.given):
        folder.mkdir(parents=True, exist_ok=True)
    for variant in openssl.variants():
        folder = where.openssl / variant.name
        folder.mkdir(parents=True, exist_ok=True)
        _replace_text(folder / "openssl.cnf", openssl.text(variant))


def publish(where: paths.Paths, devices: Iterable[advertised.Device]) -> None:
    """Bring the links, and the list of damped devices, up to date.

    Wrong links to device nodes go first, then come the links that containers see, and only then new links to device
    nodes: a container that can start finds all of its links.
    """
    offered = tuple(devices)
    nodes = {link.path: link.target for device in offered for link in _node_link(where, device)}
    _remove_others(where.links, nodes)
    entries = {link.path: link.target for device in offered for link in _entry_links(where, device.function)}
    for folder in list(where.given.iterdir()):
        if (link := folder / "device") not in entries and link.is_symlink():
            link.unlink(missing_ok=True)
    for wanted in (entries, nodes):
        for path, target in wanted.items():
            _link(path, target)
    damped = [device.function.address for device in offered if health.DAMPED in device.reasons]
    _replace_text(where.damped, "".join(f"{address}\n" for address in damped))


def _node_link(where: paths.Paths, device: advertised.Device) -> Iterator[Link]:
    entry = device.function.entry
    # During a driver change no container may open the device, not even one that was allocated it.
    if entry is not None and health.usable(device.function) and health.CHANGING not in device.reasons:
        yield Link(path=where.links / device.function.address, target=f"/dev/{entry.node}")


def _entry_links(where: paths.Paths, function: sysfs.Function) -> Iterator[Link]:
    if function.entry is None:
        return
    name = paths.published_name(function.kind.module, function.address)
    yield Link(path=where.given / name / "device", target=f"/sys/{function.entry.folder}")
    yield Link(path=where.shown / name, target=f"{paths.CONTAINER_RUN}/uacce/given/{name}/device")


def _remove_others(folder: Path, wanted: dict[Path, str]) -> None:
    for path in list(folder.iterdir()):
        if path not in wanted or _target(path) != wanted[path]:
            path.unlink(missing_ok=True)


def _link(path: Path, target: str) -> None:
    if _target(path) == target:
        return
    path.parent.mkdir(exist_ok=True)
    with files.replaced(path) as fresh:
        fresh.symlink_to(target)


def _target(path: Path) -> str | None:
    with contextlib.suppress(OSError):
        return str(path.readlink())
    return None


def _replace_text(path: Path, text: str) -> None:
    with contextlib.suppress(OSError):
        if path.read_text() == text:
            return
    with files.replaced(path) as fresh:
        fresh.write_text(text)
