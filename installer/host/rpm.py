"""Packages, by the host's own dnf (else yum) and rpm.

dnf resolves and downloads, and changes nothing; rpm installs and removes without the network.
"""

import contextlib
import fcntl
import os
import re
import struct
import time
import urllib.parse
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import NamedTuple

from installer.host import chroot
from runtime import errors, readings

_DOWNLOAD_S = 1800
_TRANSACTION_S = 1800
LOCK_S = 60.0
_LOCK_POLL_S = 0.5

_OPTIONS = (
    "--assumeyes",
    "--color=never",
    "--debuglevel=2",  # With less dnf does not print which packages are installed.
    "--best",  # The newest of a name, or none.
    "--setopt=strict=1",
    "--setopt=install_weak_deps=0",
    # With --downloadonly dnf 4.14 does check signatures, after the download: but only where the repository's own
    # gpgcheck says so, and with --assumeyes it first imports any key that the repository names as gpgkey.
    # `check_signatures` trusts only the keys that the host's administrator has imported.
    "--nogpgcheck",
)

_VERIFIED = re.compile(r"ignature, key ID \w+: OK")
_UNTRUSTED = re.compile(r": (?:BAD|NOKEY|NOTTRUSTED)")
"""The lines of rpmkeys about signatures of the header or of the payload."""

_LOCKS = ("/var/lib/rpm/.rpm.lock", "/usr/lib/sysimage/rpm/.rpm.lock")
_FLOCK = struct.Struct("hhqqi4x")
"""struct flock of fcntl(2) with 64 bits: type, whence, start, length, process."""

_ALREADY = re.compile(r"^Package (\S+) is already installed\.$", re.MULTILINE)
_FIELDS = "%{NAME}\t%{NVRA}\n"

_LINES = 8
_CHARACTERS = 900

_NOT_AVAILABLE = re.compile(r"^Installed package (\S+?)(?: \(from .*\))? not available\.", re.MULTILINE)
"""Of several packages, dnf prints this, fetches the others and ends with 0."""

_NEEDED = re.compile(r"^\t(\S+)(?: .*)? is needed by (?:\(installed\) )?\S+$", re.MULTILINE)
_SCRIPT = re.compile(r"^error: (%\w+)\(\S+\) scriptlet failed", re.MULTILINE)


class Refused(errors.Failure):
    """The host's dnf, yum, rpm or rpmkeys refused, in the words at the end of its output (LC_ALL=C)."""

    def __init__(self, program: str, output: str) -> None:
        super().__init__(f"The host's {program} refuses: {quoted(output)}.")
        self.needed = tuple(sorted(set(_NEEDED.findall(output))))
        """What other packages need of those that are to be removed, without versions."""
        # Of several scripts, %preun is the one that an upgrade can do without: it belongs to the old package.
        scripts = sorted(_SCRIPT.findall(output), key=lambda script: script == "%preun")
        self.script = scripts[0] if scripts and not self.needed else ""
        """The name of the script that failed, such as %preun."""


def quoted(output: str) -> str:
    """Return the end of a program's output as one line of bounded length; "… " replaces the start of a longer one."""
    lines = list(filter(None, dict.fromkeys(line.strip(" \t-.:;") for line in output.splitlines())))
    end = "; ".join(lines[-_LINES:])
    if len(lines) > _LINES or len(end) > _CHARACTERS:
        return f"… {end[-_CHARACTERS:]}"
    return end or "it does not say why"


class Repositories(NamedTuple):
    """Repositories, and the user who may read them."""

    urls: Sequence[str] = ()
    """None means the node's own."""
    username: str = ""
    password: str = ""


def download(
    host: chroot.Host, names: Sequence[str], repositories: Repositories, gpg_check: bool, folder: str
) -> tuple[str, ...]:
    """Download packages and their missing dependencies into a folder of the host; return the files' paths.

    Nothing is installed. Only `repositories` are used, or the node's own if there are none. A named package is
    downloaded even if it is installed. Each file is called name-version-release.architecture.rpm. A failure is a
    `Failure`, in dnf's words.
    """
    scratch = f"{folder}/.dnf"
    options = (*_OPTIONS, "--downloadonly", f"--downloaddir={folder}", *_sources(host, repositories, scratch))
    try:
        said = _dnf(host, (*options, "install", "--", *names), repositories)
        paths = _by_their_names(host, folder)
        fetched = {name_of(PurePosixPath(path).name) for path in paths}
        # dnf downloads nothing for a package whose wanted version is installed.
        there = [full for full in _ALREADY.findall(said) if name_of(full) not in fetched]
        if there:
            said = _dnf(host, (*options, "reinstall", "--", *there), repositories)
            paths = _by_their_names(host, folder)
        if _NOT_AVAILABLE.search(said):
            raise Refused("dnf", said)
    finally:
        host.remove_folder(scratch)
    if gpg_check:
        check_signatures(host, paths)
    return paths


def check_signatures(host: chroot.Host, paths: Sequence[str]) -> None:
    """Raise `Failure` for a file without a signature of a key in the host's rpm database, or altered since."""
    _program(host, "rpmkeys")
    for path in paths:
        # By default rpm 4.18 accepts a package that has digests and no signature. dnf sets the same two macros for this
        # check (dnf/rpm/miscutils.py).
        policy = ("--define", "_pkgverify_level all", "--define", "_pkgverify_flags 0x0")
        try:
            said, fine = host.run("rpmkeys", "--checksig", "--verbose", *policy, path), True
        except chroot.CommandFailed as error:
            said, fine = error.said, False
        if not fine or not _VERIFIED.search(said) or _UNTRUSTED.search(said):
            raise errors.Failure(
                f"Package '{PurePosixPath(path).name}' has no valid signature of a key that the host trusts: sign it,"
                " run 'rpm --import' with the public key on the host, or set gpgCheck: false. rpmkeys says:"
                f" {quoted(said)}."
            )


def installed(host: chroot.Host, names: Sequence[str]) -> dict[str, str]:
    """Return the installed ones of these packages, with or without version: name, and name-version-release.arch."""
    # Of several installed versions of a package, the last one counts.
    return dict(_instances(host, names))


def locked_by(host: chroot.Host) -> str:
    """Return the program that holds the lock of rpm's transactions (rpmlock.c of librpm); empty if there is none."""
    for path in _LOCKS:
        with contextlib.suppress(OSError), host.resolved(path).open("rb") as file:
            asked = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
            kind, *_, pid = _FLOCK.unpack(fcntl.fcntl(file, fcntl.F_GETLK, asked))
            if kind != fcntl.F_UNLCK:
                pid = pid or holder(host, os.fstat(file.fileno()).st_ino)
                return f"process {pid} ({readings.text(host.path(f'/proc/{pid}/comm')) or 'unknown'})"
    return ""


def holder(host: chroot.Host, inode: int) -> int:
    """Return the process that holds a lock by /proc/locks of the host; 0 if that names none.

    To a pod with processes of its own, fcntl names none of the host (`posix_lock_to_flock` of fs/locks.c).
    """
    found = re.search(rf" ([0-9]+) \S+:{inode} ", readings.text(host.path("/proc/locks")) or "")
    return int(found[1]) if found else 0


def owners(host: chroot.Host, paths: Sequence[str]) -> dict[str, str]:
    """Return the packages that own these files, by path; none without rpm; raise `Failure` for a broken database."""
    if not paths or not host.has("rpm"):
        return {}
    return {path: nvra for path in paths for _, nvra in _pairs(_ask(host, "-qf", "--queryformat", _FIELDS, path))}


def described(host: chroot.Host, paths: Sequence[str]) -> dict[str, str]:
    """Return name and name-version-release.architecture of each package file; raise `Failure` if one is no package."""
    packages = _pairs(_ask(host, "-qp", "--queryformat", _FIELDS, *paths)) if paths else []
    if len(packages) != len(paths):
        names = ", ".join(PurePosixPath(path).name for path in paths)
        raise errors.Failure(f"Not each of these files is an rpm package: {names}.")
    return dict(packages)


def files_of(host: chroot.Host, path: str) -> tuple[str, ...]:
    """Return the paths of the files in a package file."""
    return tuple(line for line in _ask(host, "-qpl", path).splitlines() if line.startswith("/"))


def modules_of(host: chroot.Host, nvra: str) -> tuple[str, ...]:
    """Return the names of the kernel modules in an installed package."""
    found = re.findall(r"([^/\n]+)\.ko(?:\.\w+)?$", _ask(host, "-ql", nvra), re.MULTILINE)
    return tuple(sorted({name.replace("-", "_") for name in found}))


def install(host: chroot.Host, paths: Sequence[str]) -> None:
    """Install these package files in one transaction, in place of any other version; raise `Failure` if one is not."""
    # No network is needed. A transaction that began is not interrupted; after a kill, a second run completes it.
    wanted = described(host, paths)
    try:
        _transact(host, ("-U", "--oldpackage", "--replacepkgs", *paths))
    except Refused as refusal:
        # rpm installed the new package and kept the old one. %preun unloads modules, which the installer does itself.
        old = [nvra for name, nvra in _instances(host, tuple(wanted)) if nvra != wanted[name]]
        if refusal.script != "%preun" or not old:
            raise
        _transact(host, ("-e", "--noscripts", *old))
    present = set(_instances(host, tuple(wanted)))
    if missing := sorted(nvra for name, nvra in wanted.items() if (name, nvra) not in present):
        names = ", ".join(missing)
        raise errors.Failure(f"rpm reports success, but has not installed {names}: see 'rpm -Va'.")


def install_from(host: chroot.Host, name: str, repositories: Repositories) -> None:
    """Install a signed package beside its other versions, as dnf does with kernels; raise `Failure` if dnf refuses."""
    folder = f"{host.own.build}/packages"
    host.remove_folder(folder)
    try:
        paths = download(host, (name,), repositories, True, folder)
        # No repository is needed: the files are complete, and their signatures were verified.
        _dnf(host, (*_OPTIONS, "--disablerepo=*", "install", *paths), Repositories(), finish=True)
    finally:
        host.remove_folder(folder)


def erase(host: chroot.Host, names: Sequence[str]) -> tuple[str, ...]:
    """Remove the installed ones of these packages; return those that others need; raise `Failure` if rpm refuses."""
    going = {nvra for _, nvra in _instances(host, names)}
    staying: set[str] = set()
    while going:
        try:
            _transact(host, ("-e", *sorted(going)))
            break
        except Refused as refusal:
            if refusal.script:
                going = {nvra for _, nvra in _instances(host, sorted(going))}
                _transact(host, ("-e", "--noscripts", *sorted(going)))
                break
            capabilities = ("--whatprovides", *refusal.needed) if refusal.needed else ()
            needed = going & {nvra for _, nvra in _instances(host, capabilities)}
            if not needed:
                raise
            going -= needed
            staying |= needed
    return tuple(sorted(staying))


def _sources(host: chroot.Host, repositories: Repositories, scratch: str) -> tuple[str, ...]:
    """Write a dnf configuration with these repositories only, and return the options that select it."""
    if not repositories.urls:
        return ("--refresh",)
    lines = []
    for number, url in enumerate(repositories.urls, 1):
        lines += [f"[kae-{number}]", f"name=kae-{number}", f"baseurl={url}", "enabled=1", "skip_if_unavailable=0"]
        if repositories.password:
            lines += [f"username={repositories.username}", f"password={repositories.password}"]
    # Every user of the host sees a program's arguments, so the password is in a file that only root reads.
    host.write(f"{scratch}/repositories/kae.repo", "\n".join((*lines, "")), mode=0o600)
    return (f"--setopt=reposdir={scratch}/repositories", f"--setopt=cachedir={scratch}/cache")


def _dnf(host: chroot.Host, arguments: Sequence[str], repositories: Repositories, *, finish: bool = False) -> str:
    program = _program(host, "dnf", "yum")
    try:
        return host.run(program, *arguments, timeout_s=_DOWNLOAD_S, finish=finish)
    except chroot.CommandFailed as error:
        output = error.said
    for number, url in enumerate(repositories.urls, 1):
        # dnf names a repository in quotes, and alone at the start of a line of its progress.
        name = rf"""(['"])kae-{number}\1|^kae-{number}(?=\s)"""
        output = re.sub(name, repr(url).replace("\\", r"\\"), output, flags=re.MULTILINE)
    for secret in filter(None, (repositories.password, urllib.parse.quote(repositories.password, safe=""))):
        output = output.replace(secret, "***")
    # Not from the error of the program, which has its whole output.
    raise Refused(program, output)


def _by_their_names(host: chroot.Host, folder: str) -> tuple[str, ...]:
    """Rename the package files in a folder to their packages' names: a repository may use any file name."""
    paths = []
    for path in sorted(host.resolved(folder).glob("*.rpm")):
        (nvra,) = described(host, (f"{folder}/{path.name}",)).values()
        host.rename(f"{folder}/{path.name}", f"{folder}/{nvra}.rpm")
        paths.append(f"{folder}/{nvra}.rpm")
    return tuple(sorted(paths))


def name_of(full: str) -> str:
    """Return the name in name-version-release.architecture: neither version nor release has a hyphen."""
    return full.rsplit("-", 2)[0]


def _instances(host: chroot.Host, names: Sequence[str]) -> list[tuple[str, str]]:
    return _pairs(_ask(host, "-q", "--queryformat", _FIELDS, *names)) if names else []


def _pairs(said: str) -> list[tuple[str, str]]:
    # Warnings and 'package x is not installed' are printed among the answers.
    return re.findall(r"^(\S+)\t(\S+)$", said, re.MULTILINE)


def _ask(host: chroot.Host, *arguments: str) -> str:
    try:
        return host.run(_program(host, "rpm"), *arguments)
    except chroot.CommandFailed as error:
        # rpm also ends with an error if a package is not installed. Only a broken database prints 'error:'.
        if "error:" in error.said:
            raise Refused("rpm", error.said) from error
        return error.said


def _transact(host: chroot.Host, arguments: Sequence[str]) -> None:
    program, began_s = _program(host, "rpm"), time.monotonic()
    while True:
        try:
            host.run(program, *arguments, timeout_s=_TRANSACTION_S, finish=True)
            return
        except chroot.CommandFailed as error:
            # Without a terminal rpm does not wait for the lock.
            if "can't create transaction lock" not in error.said:
                raise Refused("rpm", error.said) from error
            waited_s = time.monotonic() - began_s
            if waited_s >= LOCK_S or host.stop.wait(_LOCK_POLL_S):
                raise errors.Failure(
                    f"Another program has held the host's rpm database for {waited_s:.0f} seconds:"
                    " 'fuser /var/lib/rpm/.rpm.lock' on the host names it."
                ) from error


def _program(host: chroot.Host, *names: str) -> str:
    """Return the first of these programs that the host has; raise `Failure` if it has none."""
    for name in names:
        if host.has(name):
            return name
    raise errors.Failure(
        f"The host has no {' and no '.join(names)}, which packages need: install it, or choose another source."
    )
