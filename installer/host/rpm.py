"""Packages, by the host's own dnf (else yum) and rpm.

dnf finds and fetches, and changes nothing; rpm puts in and removes what lies on the host, and asks nobody.
"""

import re
import time
from collections.abc import Sequence
from pathlib import PurePosixPath

from installer import paths as host_paths
from installer.host import chroot, package_errors

_DOWNLOAD_S = 1800
_TRANSACTION_S = 1800
LOCK_S = 60.0
_LOCK_POLL_S = 0.5

_OPTIONS = (
    "--assumeyes",
    "--color=never",
    "--debuglevel=2",  # With less it does not tell which packages are on the host already.
    "--best",  # The newest of a name, or none.
    "--setopt=strict=1",
    "--setopt=install_weak_deps=0",
    # With --downloadonly dnf 4.14 does check signatures, after the download: but only where the repository's own
    # gpgcheck says so, and with --assumeyes it first imports whatever key the repository names as gpgkey, which no
    # dry look at a host may do. `check_signatures` trusts what the host's administrator has imported, and nothing else.
    "--nogpgcheck",
)

_ALREADY = re.compile(r"^Package (\S+) is already installed\.$", re.MULTILINE)
_FIELDS = "%{NAME}\t%{NVRA}\n"


def download(
    host: chroot.Host, names: Sequence[str], repositories: Sequence[str], gpg_check: bool, folder: str
) -> tuple[str, ...]:
    """Fetches packages, and what they need beyond what is installed, into a folder of the host; returns their paths.

    Nothing is installed. With `repositories` only these are asked, else the node's own. What is installed already is
    fetched like anything else that is named. Each file is called name-version-release.architecture.rpm.

    Raises:
        errors.Failure: A subclass of `refusals.PackageFailure` says which package, or which repository.
    """
    scratch = f"{folder}/.dnf"
    options = (*_OPTIONS, "--downloadonly", f"--downloaddir={folder}", *_sources(host, repositories, scratch))
    try:
        said = _dnf(host, (*options, "install", "--", *names), repositories, names)
        paths = _by_their_names(host, folder)
        fetched = {_name(PurePosixPath(path).name) for path in paths}
        # Of what is installed in the very version that it wants, dnf fetches nothing.
        there = [full for full in _ALREADY.findall(said) if _name(full) not in fetched]
        if there:
            said = _dnf(host, (*options, "reinstall", "--", *there), repositories, there)
            paths = _by_their_names(host, folder)
        if absent := package_errors.NOT_OFFERED.findall(said):
            raise package_errors.NotOffered(absent, repositories)
    finally:
        host.remove_folder(scratch)
    if gpg_check:
        check_signatures(host, paths)
    return paths


def check_signatures(host: chroot.Host, paths: Sequence[str]) -> None:
    """Makes sure that each of these files is signed with a key in the host's rpm database, and unaltered since.

    Raises:
        errors.Failure: A subclass of `refusals.PackageFailure` names the first that is not.
    """
    _need(host, "rpmkeys")
    for path in paths:
        # By itself rpm 4.18 is content with a package that has digests and no signature. The two macros are those that
        # dnf sets for the same question (dnf/rpm/miscutils.py).
        policy = ("--define", "_pkgverify_level all", "--define", "_pkgverify_flags 0x0")
        try:
            said, fine = host.run("rpmkeys", "--checksig", "--verbose", *policy, path), True
        except chroot.CommandFailed as error:
            said, fine = error.said, False
        failure = package_errors.of_signature(PurePosixPath(path).name, said, fine=fine)
        if failure is not None:
            raise failure


def installed(host: chroot.Host, names: Sequence[str]) -> dict[str, str]:
    """Those of these packages that are installed: name, and name-version-release.architecture.

    `names` may name versions too. Of a package that is there several times the last one counts.

    Raises:
        errors.Failure: There is no rpm, or its database cannot be read.
    """
    return dict(_instances(host, names))


def described(host: chroot.Host, paths: Sequence[str]) -> dict[str, str]:
    """What the packages in these files call themselves: name, and name-version-release.architecture.

    Raises:
        errors.Failure: One is no package.
    """
    found = _pairs(_ask(host, "-qp", "--queryformat", _FIELDS, *paths)) if paths else []
    if len(found) != len(paths):
        raise package_errors.Altered(", ".join(PurePosixPath(path).name for path in paths))
    return dict(found)


def files_of(host: chroot.Host, path: str) -> tuple[str, ...]:
    """The paths that the package in this file brings."""
    return tuple(line for line in _ask(host, "-qpl", path).splitlines() if line.startswith("/"))


def install(host: chroot.Host, paths: Sequence[str], *, lock_s: float = LOCK_S) -> None:
    """Has the host have exactly these packages of their names, whatever version it had; all in one transaction.

    Needs no network. What began is not broken off; what was killed is mended by doing it again.

    Raises:
        errors.Failure: Something stays as it was; a subclass of `refusals.PackageFailure` says why.
    """
    wanted = described(host, paths)
    try:
        _transact(host, ("-U", "--oldpackage", "--replacepkgs", *paths), lock_s)
    except package_errors.ScriptFailed as failure:
        # rpm put the new package in, and kept the old one beside it. Unloading, which %preun is for, we do ourselves.
        old = [nvra for name, nvra in _instances(host, tuple(wanted)) if nvra != wanted[name]]
        if failure.script != "%preun" or not old:
            raise
        _transact(host, ("-e", "--noscripts", *old), lock_s)
    found = set(_instances(host, tuple(wanted)))
    if missing := sorted(nvra for name, nvra in wanted.items() if (name, nvra) not in found):
        raise package_errors.Refused("rpm", [f"{nvra} is not installed, although it says so" for nvra in missing])


def install_from(host: chroot.Host, name: str, repositories: Sequence[str]) -> None:
    """Has the host's package manager install a signed package beside other versions of it, as it does with kernels.

    Raises:
        errors.Failure: As `download` says, or dnf refuses.
    """
    folder = f"{host_paths.BUILD}/packages"
    host.remove_folder(folder)
    try:
        paths = download(host, (name,), repositories, True, folder)
        # Nothing else is asked again: these are complete, and were checked.
        _dnf(host, (*_OPTIONS, "--disablerepo=*", "install", *paths), repositories, (name,), finish=True)
    finally:
        host.remove_folder(folder)


def erase(host: chroot.Host, names: Sequence[str], *, lock_s: float = LOCK_S) -> tuple[str, ...]:
    """Removes those of these packages that are installed, but not what others need; returns what stays.

    Raises:
        errors.Failure: A subclass of `refusals.PackageFailure` says why something cannot be removed.
    """
    going = {nvra for _, nvra in _instances(host, names)}
    staying: set[str] = set()
    while going:
        try:
            _transact(host, ("-e", *sorted(going)), lock_s)
        except package_errors.Unmet as failure:
            # A capability may have a version behind it, which rpm does not want here.
            capabilities = sorted({capability.split(" ")[0] for capability, _ in failure.needed})
            needed = going & {nvra for _, nvra in _instances(host, ("--whatprovides", *capabilities))}
            if not needed:
                raise
            going -= needed
            staying |= needed
        except package_errors.ScriptFailed:
            going = {nvra for _, nvra in _instances(host, sorted(going))}
            _transact(host, ("-e", "--noscripts", *sorted(going)), lock_s)
            break
        else:
            break
    return tuple(sorted(staying))


def _sources(host: chroot.Host, repositories: Sequence[str], scratch: str) -> tuple[str, ...]:
    """The options by which dnf asks these repositories alone, and keeps nothing of what it learned."""
    if not repositories:
        return ("--refresh",)
    lines = []
    for number, url in enumerate(repositories, 1):
        lines += [f"[kae-{number}]", f"name=kae-{number}", f"baseurl={url}", "enabled=1", "skip_if_unavailable=0"]
    host.write(f"{scratch}/repositories/kae.repo", "\n".join((*lines, "")))
    return (f"--setopt=reposdir={scratch}/repositories", f"--setopt=cachedir={scratch}/cache")


def _dnf(
    host: chroot.Host,
    arguments: Sequence[str],
    repositories: Sequence[str],
    names: Sequence[str],
    *,
    finish: bool = False,
) -> str:
    program = next((name for name in ("dnf", "yum") if host.has(name)), None)
    if program is None:
        raise package_errors.NoTools("dnf", "yum")
    try:
        return host.run(program, *arguments, timeout_s=_DOWNLOAD_S, finish=finish)
    except chroot.CommandFailed as error:
        raise package_errors.of_dnf(error, repositories, names) from error


def _by_their_names(host: chroot.Host, folder: str) -> tuple[str, ...]:
    """Renames the packages in a folder to what they are: in a repository a file may be called anything."""
    paths = []
    for path in sorted(host.path(folder).glob("*.rpm")):
        (nvra,) = described(host, (f"{folder}/{path.name}",)).values()
        path.rename(path.with_name(f"{nvra}.rpm"))
        paths.append(f"{folder}/{nvra}.rpm")
    return tuple(sorted(paths))


def _name(full: str) -> str:
    """The name in name-version-release.architecture: neither version nor release has a hyphen."""
    return full.rsplit("-", 2)[0]


def _instances(host: chroot.Host, names: Sequence[str]) -> list[tuple[str, str]]:
    return _pairs(_ask(host, "-q", "--queryformat", _FIELDS, *names)) if names else []


def _pairs(said: str) -> list[tuple[str, str]]:
    # Warnings and 'package x is not installed' stand among the answers.
    return re.findall(r"^(\S+)\t(\S+)$", said, re.MULTILINE)


def _ask(host: chroot.Host, *arguments: str) -> str:
    _need(host, "rpm")
    try:
        return host.run("rpm", *arguments)
    except chroot.CommandFailed as error:
        # It ends with an error also where a package is not installed; and, of a broken database, says just that.
        if "error:" in error.said:
            raise package_errors.of_rpm(error) from error
        return error.said


def _transact(host: chroot.Host, arguments: Sequence[str], lock_s: float) -> None:
    _need(host, "rpm")
    began_s = time.monotonic()
    while True:
        try:
            host.run("rpm", *arguments, timeout_s=_TRANSACTION_S, finish=True)
        except chroot.CommandFailed as error:
            # Away from a terminal rpm does not wait for whoever holds the lock.
            if "can't create transaction lock" not in error.said:
                raise package_errors.of_rpm(error) from error
            waited_s = time.monotonic() - began_s
            if waited_s >= lock_s or host.stop.wait(_LOCK_POLL_S):
                raise package_errors.Locked(round(waited_s)) from error
        else:
            return


def _need(host: chroot.Host, program: str) -> None:
    if not host.has(program):
        raise package_errors.NoTools(program)
