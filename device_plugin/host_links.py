"""Keep the host paths that answers to the kubelet name.

The runtime follows a link when it creates a container, which may be long after the kubelet cached the answer. So the
links are correct at all times, and a wrong link is removed: the container then waits instead of getting another device.
Folders that containers have mounted are changed in place and never replaced: a new folder would not reach them.

A container runtime makes a folder of each host path that an answer names and that is not there. Such a folder, and
whatever else is in the way, is moved to /run/kae/moved-away.
"""

import contextlib
import logging
import os
import secrets
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TypeVar

from device_plugin.host import health, paths, permissions, sysfs
from device_plugin.kubelet import advertised, openssl
from runtime import device_plugin_config as config
from runtime import files, readings

LOG = logging.getLogger(__name__)

_Key = TypeVar("_Key", str, tuple[str, ...])


def prepare(where: paths.Paths, settings: config.Config) -> None:
    """Make room for what the plugin makes, create what does not depend on devices, and label it."""
    if os.path.lexists(where.lock) and not _is_file(where.lock):
        _move_away(where, where.lock)
    _make_folder(where, where.links)
    keep(where, settings)
    for folder in _mounted(where):
        permissions.let_containers_read(folder)


def keep(where: paths.Paths, settings: config.Config) -> dict[str, str]:
    """Create the folders and the files that do not depend on devices, where somebody removed or changed them.

    Returns in a sentence what a resource lacks, by its name: the disk may be full.
    """
    missing = [folder for folder in _mounted(where) if not folder.is_dir()]
    lacks: dict[str, str] = {}
    for resource in settings.resources:
        with _noted(lacks, resource.name):
            for folder in (where.links, where.shown, where.given):
                _make_folder(where, folder)
            for path, text in _texts(where, resource):
                _make_folder(where, path.parent)
                _replace(where, path, text.encode())
    for folder in missing:
        permissions.let_containers_read(folder)
    return lacks


@contextlib.contextmanager
def _noted(failures: dict[_Key, str], key: _Key, path: str = "") -> Iterator[None]:
    """Note the refusal of the disk, which concerns one thing and no other."""
    try:
        yield
    except OSError as error:
        failures[key] = f"'{path or error.filename}' cannot be changed: {error.strerror}."


def _mounted(where: paths.Paths) -> tuple[Path, ...]:
    return where.shown.parent, where.openssl, where.files


def _texts(where: paths.Paths, resource: config.AnyResource) -> Iterator[tuple[Path, str]]:
    """Yield the files that containers with a resource mount, with their texts."""
    if (stated := resource.inject.openssl) is not None:
        for variant in openssl.variants():
            yield where.openssl / variant.name / "openssl.cnf", openssl.text(variant, stated.settings)
    for file in resource.inject.files:
        yield where.files / file.name, file.text


def publish(
    where: paths.Paths, devices: Iterable[advertised.Device], units: Iterable[advertised.Unit] = ()
) -> dict[tuple[str, ...], str]:
    """Bring the links up to date; return in a sentence what cannot be changed, by the `key` of the device.

    What belongs to no device has an empty one.
    """
    # Wrong links to device nodes go first, then come the links that containers see, and only then new links to device
    # nodes: a container that can start finds all of its links.
    offered, shown, given = tuple(devices), str(where.shown), str(where.given)
    nodes = {path: (target, key(device)) for device in offered for path, target in _node_link(where, device)}
    nodes |= {path: (target, key(unit)) for unit in units for path, target in _group_links(where, unit)}
    failures = _remove_others(where, nodes)
    entries = {
        path: (target, key(device))
        for device in offered
        for path, target in _entry_links(shown, given, device.function)
    }
    for name in readings.names(where.given):
        if (path := f"{given}/{name}/device") not in entries and _target(path) is not None:
            with _noted(failures, (), path):
                Path(path).unlink(missing_ok=True)
    for wanted in (entries, nodes):
        for path, (target, owner) in wanted.items():
            if owner not in failures and _target(path) != target:
                with _noted(failures, owner, path):
                    _make_folder(where, Path(path).parent)
                    with _replaced(where, Path(path)) as fresh:
                        fresh.symlink_to(target)
    return failures


def key(device: advertised.AnyDevice) -> tuple[str, ...]:
    """Return what tells a device from all others."""
    return device.resource, *device.ids


def remove_report(where: paths.Paths) -> None:
    """Remove the report of a predecessor, whose devices the kubelet has forgotten."""
    if not _is_folder(where.report):
        where.report.unlink(missing_ok=True)


def write_report(where: paths.Paths, content: bytes) -> str | None:
    """Write the report that `list` shows; return why it cannot be written, and then leave no older one."""
    try:
        _replace(where, where.report, content)
    except OSError as error:
        with contextlib.suppress(OSError):
            remove_report(where)
        return f"'{where.report}' cannot be written ({error.strerror}), so `list` looks at the node itself."
    return None


def _make_folder(where: paths.Paths, folder: Path) -> None:
    """Make a folder of the plugin, and move away what is none, or a link to one, in its place and above it."""
    for path in (*reversed(folder.parents), folder):
        if where.run in path.parents and os.path.lexists(path) and not _is_folder(path):
            _move_away(where, path)
    folder.mkdir(parents=True, exist_ok=True)


# Strings, as a machine may have thousands of links, and reading them takes less time than making a Path of each.
def _node_link(where: paths.Paths, device: advertised.Device) -> Iterator[tuple[str, str]]:
    """Yield the link, and its target, to the node of a device that a container may open now."""
    # During a driver change no container may open the device, not even one that was allocated it.
    usable = health.usable(device.function) and health.CHANGING not in device.reasons
    # It may have been read a while ago, when the read of another device hangs since.
    if usable and sysfs.is_current(where, device.function):
        name = paths.link_name(device.function.kind, device.function.address)
        yield f"{where.links}/{name}", f"/dev/{device.function.node}"


def _group_links(where: paths.Paths, unit: advertised.Unit) -> Iterator[tuple[str, str]]:
    """Yield the links, and their targets, to the nodes of a device of the class char that has a PCI address."""
    if unit.group is not None and unit.group.by_address and unit.healthy:
        for index, node in enumerate(unit.group.nodes):
            yield str(where.group_link(unit.resource, unit.group.id, index)), node.path


def _entry_links(shown: str, given: str, function: sysfs.Function) -> Iterator[tuple[str, str]]:
    if function.entry is None:
        return
    name = paths.published_name(function.kind.stem, function.address)
    yield f"{given}/{name}/device", f"/sys/{function.entry.folder}"
    yield f"{shown}/{name}", f"{paths.CONTAINER_RUN}/uacce/given/{name}/device"


def _remove_others(where: paths.Paths, wanted: Mapping[str, tuple[str, tuple[str, ...]]]) -> dict[tuple[str, ...], str]:
    """Remove the links that are wrong; return what cannot be removed, as `publish` does."""
    folder = str(where.links)
    failures: dict[tuple[str, ...], str] = {}
    for name in readings.names(where.links):
        path = f"{folder}/{name}"
        target, owner = wanted.get(path, (None, ()))
        if target is None or _target(path) != target:
            with _noted(failures, owner, path):
                if _is_folder(Path(path)):
                    _move_away(where, Path(path))
                else:
                    Path(path).unlink(missing_ok=True)
    return failures


def _target(path: str) -> str | None:
    with contextlib.suppress(OSError):
        return os.readlink(path)  # noqa: PTH115 - see above
    return None


def _replace(where: paths.Paths, path: Path, content: bytes) -> None:
    if not _is_file(path) or path.read_bytes() != content:
        with _replaced(where, path) as fresh:
            fresh.write_bytes(content)


def _replaced(where: paths.Paths, path: Path) -> contextlib.AbstractContextManager[Path]:
    for each in (path, files.beside(path)):
        if _is_folder(each):
            _move_away(where, each)
    return files.replaced(path)


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def _is_file(path: Path) -> bool:
    # Neither a link, whose target is nobody's business here, nor a pipe, whose reader waits for ever.
    return path.is_file() and not path.is_symlink()


def _move_away(where: paths.Paths, path: Path) -> None:
    if os.path.lexists(where.moved) and not _is_folder(where.moved):
        where.moved.replace(where.moved.with_name(f"{where.moved.name}-{secrets.token_hex(4)}"))
    where.moved.mkdir(parents=True, exist_ok=True)
    place = path.replace(where.moved / f"{path.name}-{secrets.token_hex(4)}")
    LOG.warning("'%s' was in the way of the plugin's own, and is now '%s'.", path, place)
