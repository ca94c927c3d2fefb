"""The host's /opt/kae: a link to a tree with one driver's libraries beside it, so that a swap exchanges it whole.

A container keeps the tree that it began with, as mount(2) binds the folder that the link leads to. The trees are below
/opt and not in the store, as containers may read what has the label of /opt (usr_t) and not that of /var/lib
(container_selinux(8)).
"""

import contextlib
import itertools
import logging
from pathlib import Path

from installer import paths
from installer.host import chroot, digests, record
from runtime import errors

LOG = logging.getLogger(__name__)

_TREE = ".kae-"
"""The beginning of a tree's name, which ends with the driver's id."""


def refuse(host: chroot.Host) -> None:
    """Raise `Failure` for what others put into /opt/kae, or in its place; a change that had begun goes on."""
    top, known = host.path(paths.LIBRARIES), record.read(host)
    ours = known.installed.libraries if known.installed is not None else {}
    others = ["a link or a file in its place"] if _is_foreign(top) else [*present(host).keys() - ours.keys()]
    if others and known.change is None:
        shown = ", ".join(sorted(others)[:3]) + (", …" if others[3:] else "")
        raise errors.Failure(
            f"'{paths.LIBRARIES}' on the host holds what KAE did not put there ({shown}): move it elsewhere, or add it"
            " to the image."
        )


def present(host: chroot.Host) -> dict[str, str]:
    """Return the digests of the files in /opt/kae, by name."""
    top = host.path(paths.LIBRARIES)
    return {str(path.relative_to(top)): digests.of_file(path) for path in digests.files(top)}


def place(host: chroot.Host, driver: record.Driver, stored: Path) -> None:
    """Make /opt/kae a link to a driver's tree, a copy of its folder in the store; raise `Failure` if it cannot be."""
    refuse(host)
    for name, digest in driver.libraries.items():
        absolute = f"{_above(_TREE)}{driver.id}/{name}"
        here, source = host.path(absolute), stored / name
        if not (here.is_symlink() or here.is_file()) or digests.of_file(here) != digest:
            host.copy(source, absolute, mode=source.stat().st_mode & 0o777 if source.is_file() else 0o644)
    aside = _set_aside(host)
    host.link(f"{_TREE}{driver.id}", paths.LIBRARIES)
    if aside:
        _clear(host, aside)
        if host.path(aside).exists():
            LOG.warning(
                "The host's '%s' was a folder with files that KAE did not put there: see '%s'.", paths.LIBRARIES, aside
            )
    # The previous tree stays as long as its driver: a container that holds no device may still read it.
    _prune(host, {f"{_TREE}{path.name}" for path in host.path(host.own.drivers).glob("[!.]*")})


def remove(host: chroot.Host) -> None:
    """Remove the libraries that KAE placed, and leave those of others; raise `Failure` if one cannot be removed."""
    top = host.path(paths.LIBRARIES)
    if _is_foreign(top):
        return
    _clear(host, paths.LIBRARIES)
    if not top.exists():
        host.remove(paths.LIBRARIES)
    _prune(host, {top.readlink().name} if top.is_symlink() else set())


def _set_aside(host: chroot.Host) -> str:
    """Rename the folder that an earlier release filled, if it is one, and return its new path."""
    top = host.path(paths.LIBRARIES)
    if top.is_symlink() or not top.is_dir():
        return ""
    names = (f"{paths.LIBRARIES}-old-{number}" for number in itertools.count(1))
    aside = next(name for name in names if not host.path(name).exists())
    with chroot.changing(paths.LIBRARIES):
        top.rename(host.path(aside))
    return aside


def _clear(host: chroot.Host, folder: str) -> None:
    """Remove KAE's libraries from a folder, and it if nothing else is in it."""
    installed = record.read(host).installed
    # An interrupted change leaves those of two drivers.
    folders = [*host.path(host.own.drivers).glob("*/libraries")]
    ours = {str(path.relative_to(folder)) for folder in folders for path in digests.files(folder)}
    for name in ours.union(installed.libraries if installed is not None else ()):
        host.remove(f"{folder}/{name}")
    for path in (*sorted(host.path(folder).rglob("*"), reverse=True), host.resolved(folder)):
        with contextlib.suppress(OSError):
            path.rmdir()  # It refuses a file, and a folder that is not empty.


def _is_foreign(top: Path) -> bool:
    return not str(top.readlink()).startswith(_TREE) if top.is_symlink() else top.is_file()


def _above(name: str) -> str:
    return f"{Path(paths.LIBRARIES).parent}/{name}"


def _prune(host: chroot.Host, kept: set[str]) -> None:
    for name in {path.name for path in host.path(_above("")).glob(f"{_TREE}*")} - kept:
        host.remove_folder(_above(name))
