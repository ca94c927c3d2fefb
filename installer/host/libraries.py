"""The user space of a driver: a link for each of its folders, such as /opt/onload, to a part of one tree beside them.

A home of one folder, such as /opt/kae, is itself the link to the tree. So a swap exchanges all files at once. Firmware
has its link below /lib/firmware/updates, where the kernel looks first.

A container keeps the tree that it began with, as mount(2) binds the folder that the link leads to. The trees are below
/opt and not in the store, as containers may read what has the label of /opt (usr_t) and not that of /var/lib
(container_selinux(8)).
"""

import contextlib
import os
from pathlib import Path

from installer import paths
from installer.host import chroot, digests, record
from runtime import errors, pulse


def known(host: chroot.Host) -> tuple[str, ...]:
    """Return the links that the recipe's drivers have, or had before an interrupted change."""
    if host.own.home.files != paths.OPT:
        return (host.own.home.files,)
    installed = record.read(host).installed
    drivers = (*([installed] if installed is not None else ()), *record.stored(host))
    return tuple(dict.fromkeys(link for driver in drivers for link in driver.files))


def links(host: chroot.Host, driver: record.Driver | None) -> tuple[str, ...]:
    """Return the links of a driver, or those known of a removed one, and of one of an earlier release."""
    return (driver.files if driver is not None else ()) or known(host)


def refuse(host: chroot.Host, driver: record.Driver) -> None:
    """Raise `Failure` for what others put into a folder of the driver, or in its place; a begun change goes on."""
    state = record.read(host)
    ours = state.installed.libraries if state.installed is not None else {}
    for link in links(host, driver):
        foreign, is_link, found = _is_foreign(host, link), host.path(link).is_symlink(), _present(host, link)
        # Ours are behind a link: recorded, or of a change whose disk went, and which could not take them back.
        known = {name for name in found if is_link and (name in ours or driver.libraries.get(name) == found[name])}
        others = ["a link or a file in its place"] if foreign else [*found.keys() - known]
        if others and state.change is None:
            shown = ", ".join(sorted(others)[:3]) + (", …" if others[3:] else "")
            raise errors.Failure(
                f"'{link}' on the host holds what we did not put there ({shown}): move it elsewhere, or add it to the"
                " image."
            )


def present(host: chroot.Host) -> dict[str, str]:
    """Return the digests of the driver's user-space files on the host, by name."""
    return {name: digest for link in known(host) for name, digest in _present(host, link).items()}


def _present(host: chroot.Host, link: str) -> dict[str, str]:
    top, part = host.resolved(link), _part(host, link)
    found: dict[str, str] = {}
    for path in digests.files(top):
        pulse.beat(link)
        # A name that is no UTF-8 is of others; nothing that is kept could hold it.
        name = os.fsencode(part / path.relative_to(top)).decode(errors="replace")
        found[name] = digests.of_file(path)
    return found


def place(host: chroot.Host, driver: record.Driver, stored: Path) -> None:
    """Make each link lead to a driver's tree, a copy of its folder in the store; raise `Failure` if one cannot."""
    refuse(host, driver)
    tree, led = f"{host.own.tree}{driver.id}", links(host, driver)
    free(host, driver)
    for name, digest in driver.libraries.items():
        absolute = f"{tree}/{name}"
        here, source = host.path(absolute), stored / name
        if not (here.is_symlink() or here.is_file()) or digests.of_file(here) != digest:
            if here.is_dir() and not here.is_symlink():
                # A container runtime makes an empty folder of a host path that it is to mount and that is not there.
                with contextlib.suppress(OSError):
                    here.rmdir()
            host.copy(source, absolute, mode=source.stat().st_mode & 0o777 if source.is_file() else 0o644)
    for link in led:
        _lead(host, link, f"{tree}/{_part(host, link)}")
    for link in set(known(host)).difference(led):
        if host.path(link).is_symlink() and not _is_foreign(host, link):
            host.remove(link)


def free(host: chroot.Host, driver: record.Driver | None) -> None:
    """Remove the trees that are not needed before a driver is put in place: the disk may be full.

    In a change these are all but its own and that of the driver before. Else a tree stays as long as its driver: a
    container that holds no device may still read it.
    """
    state = record.read(host)
    needed = {path.name for path in host.resolved(host.own.drivers).glob("[!.]*")}
    if state.change is not None:
        needed = {known.id for known in (driver, state.installed, state.change.kept) if known is not None}
    _prune(host, {f"{host.own.tree}{name}" for name in needed})


def remove(host: chroot.Host) -> None:
    """Remove the files that we placed, and leave those of others; raise `Failure` if one cannot be removed."""
    kept: set[str] = set()
    for link in known(host):
        top = host.path(link)
        if _is_foreign(host, link):
            continue
        if top.is_symlink():
            _clear(host, link)
        if not host.resolved(link).exists():
            host.remove(link)
        elif top.is_symlink():
            kept.add(f"{paths.OPT}/{Path(_target(host, link)).relative_to(paths.OPT).parts[0]}")
    _prune(host, kept)


def _lead(host: chroot.Host, link: str, target: str) -> None:
    # Above firmware there may be a link, of /lib to usr/lib, from where a relative one leads elsewhere.
    is_below = link.startswith(f"{paths.OPT}/")
    top, wanted = host.path(link), os.path.relpath(target, Path(link).parent) if is_below else target
    # What is right is not written again: a way back may find a disk that takes nothing.
    if not top.is_symlink() or str(top.readlink()) != wanted:
        if top.is_dir() and not top.is_symlink():
            # As above: an empty one; `refuse` has looked for files.
            with chroot.changing(link):
                for folder in (*sorted(top.rglob("*"), reverse=True), top):
                    folder.rmdir()
        host.link(wanted, link)


def _clear(host: chroot.Host, link: str) -> None:
    """Remove our files from the folder that a link leads to, and it if nothing else is in it."""
    installed, part = record.read(host).installed, _part(host, link)
    # An interrupted change leaves those of two drivers.
    folders = [*host.resolved(host.own.drivers).glob("*/libraries")]
    ours = {path.relative_to(folder) for folder in folders for path in digests.files(folder)}
    ours |= {Path(name) for name in (installed.libraries if installed is not None else ())}
    for name in ours:
        absolute = f"{link}/{name.relative_to(part)}" if name.is_relative_to(part) else ""
        if absolute and (host.path(absolute).is_symlink() or not host.path(absolute).is_dir()):
            host.remove(absolute)
    for path in (*sorted(host.resolved(link).rglob("*"), reverse=True), host.resolved(link)):
        with contextlib.suppress(OSError):
            path.rmdir()  # It refuses a file, and a folder that is not empty.


def _part(host: chroot.Host, link: str) -> Path:
    """Return the part of a driver's tree to which a link leads."""
    return Path(paths.part(host.own.home.files, link))


def _is_foreign(host: chroot.Host, link: str) -> bool:
    top = host.path(link)
    return not _target(host, link).startswith(host.own.tree) if top.is_symlink() else top.is_file()


def _target(host: chroot.Host, link: str) -> str:
    """Return the path to which a link leads."""
    return os.path.normpath(Path(link).parent / host.path(link).readlink())


def _prune(host: chroot.Host, kept: set[str]) -> None:
    trees = host.resolved(paths.OPT).glob(f"{host.own.home.tree}*")
    for tree in {f"{paths.OPT}/{path.name}" for path in trees} - kept:
        with chroot.logged():  # A tree that stays harms nobody.
            host.remove_folder(tree)
