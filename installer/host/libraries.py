"""The host's /opt/kae: a link to a tree with one driver's libraries beside it, so that a swap exchanges it whole.

A recipe has a link for each of its folders, such as /opt/onload, to a part of the tree.

A container keeps the tree that it began with, as mount(2) binds the folder that the link leads to. The trees are below
/opt and not in the store, as containers may read what has the label of /opt (usr_t) and not that of /var/lib
(container_selinux(8)).
"""

import contextlib
import itertools
import logging
import os
from collections.abc import Iterable
from pathlib import Path

import msgspec

from installer import paths
from installer.host import chroot, digests, record
from runtime import errors

LOG = logging.getLogger(__name__)

_OPT = "/opt"
"""The folder with all trees: a driver's has the beginning `paths.Own.tree` and the driver's id."""


class _Kept(msgspec.Struct):
    """The part of a stored driver's description that tells its links."""

    files: tuple[str, ...] = ()


def known(host: chroot.Host) -> tuple[str, ...]:
    """Return the links that this stack's drivers have, or had before an interrupted change: KAE's has /opt/kae."""
    if not host.own.recipe:
        return (paths.LIBRARIES,)
    installed = record.read(host).installed
    found = [*(installed.files if installed is not None else ())]
    for path in sorted(host.path(host.own.drivers).glob("[!.]*/driver.json")):
        with contextlib.suppress(OSError, msgspec.DecodeError):
            found += msgspec.json.decode(path.read_bytes(), type=_Kept).files
    return tuple(dict.fromkeys(found))


def refuse(host: chroot.Host, files: Iterable[str] = ()) -> None:
    """Raise `Failure` for what others put into a folder of the driver, or in its place; a begun change goes on."""
    state = record.read(host)
    ours = state.installed.libraries if state.installed is not None else {}
    for link in files or (paths.LIBRARIES,):
        foreign = _is_foreign(host, link)
        others = ["a link or a file in its place"] if foreign else [*_present(host, link).keys() - ours.keys()]
        if others and state.change is None:
            shown = ", ".join(sorted(others)[:3]) + (", …" if others[3:] else "")
            if host.own.recipe:
                raise errors.Failure(
                    f"'{link}' on the host holds what the driver of recipe {host.own.recipe} did not put there"
                    f" ({shown}): move it elsewhere."
                )
            raise errors.Failure(
                f"'{link}' on the host holds what KAE did not put there ({shown}): move it elsewhere, or add it to the"
                " image."
            )


def present(host: chroot.Host) -> dict[str, str]:
    """Return the digests of the driver's user-space files on the host, by name."""
    return {name: digest for link in known(host) for name, digest in _present(host, link).items()}


def _present(host: chroot.Host, link: str) -> dict[str, str]:
    top, part = host.path(link), _part(host, link)
    return {str(part / path.relative_to(top)): digests.of_file(path) for path in digests.files(top)}


def place(host: chroot.Host, driver: record.Driver, stored: Path) -> None:
    """Make each link lead to a driver's tree, a copy of its folder in the store; raise `Failure` if one cannot."""
    links = driver.files if host.own.recipe else (paths.LIBRARIES,)
    refuse(host, links)
    tree = f"{_OPT}/{host.own.tree}{driver.id}"
    for name, digest in driver.libraries.items():
        absolute = f"{tree}/{name}"
        here, source = host.path(absolute), stored / name
        if not (here.is_symlink() or here.is_file()) or digests.of_file(here) != digest:
            if here.is_dir() and not here.is_symlink():
                # A container runtime makes an empty folder of a host path that it is to mount and that is not there.
                with contextlib.suppress(OSError):
                    here.rmdir()
            host.copy(source, absolute, mode=source.stat().st_mode & 0o777 if source.is_file() else 0o644)
    for link in links:
        _lead(host, link, f"{tree}/{_part(host, link)}")
    for link in set(known(host)).difference(links):
        if not _is_foreign(host, link):
            host.remove(link)
    # The previous tree stays as long as its driver: a container that holds no device may still read it.
    _prune(host, {f"{host.own.tree}{path.name}" for path in host.path(host.own.drivers).glob("[!.]*")})


def remove(host: chroot.Host) -> None:
    """Remove the files that this stack placed, and leave those of others; raise `Failure` if one cannot be removed."""
    kept: set[str] = set()
    for link in known(host):
        top = host.path(link)
        if _is_foreign(host, link):
            continue
        if top.is_symlink() or not host.own.recipe:
            _clear(host, link, link)
        if not top.exists():
            host.remove(link)
        kept |= {Path(_target(host, link)).relative_to(_OPT).parts[0]} if top.is_symlink() else set()
    _prune(host, kept)


def _lead(host: chroot.Host, link: str, target: str) -> None:
    aside = _set_aside(host, link)
    host.link(os.path.relpath(target, Path(link).parent), link)
    if aside:
        _clear(host, link, aside)
        if host.path(aside).exists():
            LOG.warning("The host's '%s' was a folder with files that KAE did not put there: see '%s'.", link, aside)


def _set_aside(host: chroot.Host, link: str) -> str:
    """Rename the folder that an earlier release filled, if it is one, and return its new path."""
    top = host.path(link)
    if top.is_symlink() or not top.is_dir():
        return ""
    names = (f"{link}-old-{number}" for number in itertools.count(1))
    aside = next(name for name in names if not host.path(name).exists())
    with chroot.changing(link):
        top.rename(host.path(aside))
    return aside


def _clear(host: chroot.Host, link: str, folder: str) -> None:
    """Remove the files of a link from a folder, and it if nothing else is in it."""
    installed, part = record.read(host).installed, _part(host, link)
    # An interrupted change leaves those of two drivers.
    folders = [*host.path(host.own.drivers).glob("*/libraries")]
    ours = {path.relative_to(folder) for folder in folders for path in digests.files(folder)}
    ours |= {Path(name) for name in (installed.libraries if installed is not None else ())}
    for name in ours:
        absolute = f"{folder}/{name.relative_to(part)}" if name.is_relative_to(part) else ""
        if absolute and (host.path(absolute).is_symlink() or not host.path(absolute).is_dir()):
            host.remove(absolute)
    for path in (*sorted(host.path(folder).rglob("*"), reverse=True), host.resolved(folder)):
        with contextlib.suppress(OSError):
            path.rmdir()  # It refuses a file, and a folder that is not empty.


def _part(host: chroot.Host, link: str) -> Path:
    """Return the part of a driver's tree to which a link leads."""
    return Path(link).relative_to(_OPT) if host.own.recipe else Path()


def _is_foreign(host: chroot.Host, link: str) -> bool:
    top = host.path(link)
    return not _target(host, link).startswith(f"{_OPT}/{host.own.tree}") if top.is_symlink() else top.is_file()


def _target(host: chroot.Host, link: str) -> str:
    """Return the path to which a link leads."""
    return os.path.normpath(Path(link).parent / host.path(link).readlink())


def _prune(host: chroot.Host, kept: set[str]) -> None:
    for name in {path.name for path in host.path(_OPT).glob(f"{host.own.tree}*")} - kept:
        host.remove_folder(f"{_OPT}/{name}")
