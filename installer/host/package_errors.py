"""What dnf and rpm say when they refuse, as failures for people. Their words are those of LC_ALL=C."""

import re
from collections.abc import Sequence

from installer.host import chroot
from runtime import errors

_LINES = 4
"""So many lines of a program's own words stand in a sentence at most."""

_ANEW = "make the index anew with createrepo_c"
_NO_SPACE = "No space left on device"

NOT_OFFERED = re.compile(r"^Installed package (\S+?)(?: \(from .*\))? not available\.", re.MULTILINE)
"""Of several, dnf says this, fetches the others and ends well."""


class PackageFailure(errors.Failure):
    """Packages could not be had, put in or removed."""


class NoTools(PackageFailure):
    """The host lacks a program that packages need."""

    def __init__(self, *names: str) -> None:
        super().__init__(
            f"The host has no {' and no '.join(names)}, which packages need: install it, or choose another source."
        )


class NoSuchPackage(PackageFailure):
    """No repository has a package of a name."""

    def __init__(self, names: Sequence[str], asked: Sequence[str], ignored: Sequence[str]) -> None:
        them = f" (of them {', '.join(ignored)} could not be reached)" if ignored else ""
        super().__init__(f"There is no package {_and(names)} in {_repositories(asked)}{them}.")


class Excluded(PackageFailure):
    """The repositories have the packages, and the host's configuration hides them."""

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__(f"The host's dnf configuration hides {_and(names)}: look for exclude= and versionlock there.")


class NotOffered(PackageFailure):
    """A package is on the host, and cannot be had for its store of drivers."""

    def __init__(self, names: Sequence[str], asked: Sequence[str]) -> None:
        super().__init__(
            f"Package {_and(names)} is on the host, but not in {_repositories(asked)}, so it cannot be kept for a way"
            " back: put it there, or name another version."
        )


class BadRepository(PackageFailure):
    """A repository does not answer, or not what its own index says."""

    def __init__(self, name: str, why: str) -> None:
        super().__init__(f"The repository '{name}' cannot be used: {why}.")


class Unsigned(PackageFailure):
    """A package has no signature at all."""

    def __init__(self, package: str) -> None:
        super().__init__(
            f"Package '{package}' is not signed: take a signed one, sign it with rpmsign, or set gpgCheck: false."
        )


class UnknownKey(PackageFailure):
    """A package is signed by a key that the host does not trust."""

    def __init__(self, package: str, key: str) -> None:
        super().__init__(
            f"Package '{package}' is signed with key {key}, which the host does not trust: if you do, run"
            " 'rpm --import' with its public key on the host."
        )


class Altered(PackageFailure):
    """A package is not what was signed, or no package."""

    def __init__(self, package: str) -> None:
        super().__init__(f"Package '{package}' is damaged, or was altered after it was signed: fetch it anew.")


class Unmet(PackageFailure):
    """What packages need, or conflict with, stands against it; `needed` are what it is and which package says so."""

    def __init__(self, why: Sequence[str], needed: Sequence[tuple[str, str]] = ()) -> None:
        self.needed = tuple(needed)
        super().__init__(f"The packages do not fit the host: {_some(why)}.")


class Replaces(PackageFailure):
    """A package would come along that replaces one of the host's own."""

    def __init__(self, new: str, old: str) -> None:
        super().__init__(
            f"Package {new} would come along as a dependency and replace {old} of the host: update the node first, or"
            " name it in source.packages.names."
        )


class DiskFull(PackageFailure):
    """There is no room."""

    def __init__(self, why: str) -> None:
        super().__init__(f"There is no room for the packages on the host: {why}.")


class Locked(PackageFailure):
    """Another program works on the rpm database."""

    def __init__(self, waited_s: float) -> None:
        super().__init__(
            f"Another program has held the host's rpm database for {waited_s:g} seconds: 'fuser /var/lib/rpm/.rpm.lock'"
            " on the host names it."
        )


class BadDatabase(PackageFailure):
    """The host's rpm database cannot be read."""

    def __init__(self, why: str) -> None:
        super().__init__(f"The host's rpm database cannot be read ({why}): 'rpm --rebuilddb' on the host may mend it.")


class ScriptFailed(PackageFailure):
    """A package's own script ended with an error."""

    def __init__(self, script: str, package: str, said: Sequence[str]) -> None:
        self.script = script
        super().__init__(f"The {script} script of package {package} ended with an error: {_some(said)}.")


class Refused(PackageFailure):
    """For a reason that only the program's own words tell."""

    def __init__(self, program: str, why: Sequence[str]) -> None:
        super().__init__(f"The host's {program} refuses: {_some(why)}.")


def of_dnf(error: chroot.CommandFailed, asked: Sequence[str], names: Sequence[str]) -> PackageFailure:
    """What a run of dnf, or yum, ended with; repositories of ours are called kae-1, kae-2 and so on there."""
    said = error.said
    if found := _all(r"^All matches were filtered out by .* for argument: (\S+)", said):
        return Excluded(found)
    if found := NOT_OFFERED.findall(said):
        return NotOffered(found, asked)
    if "Unable to find a match" in said or "no enabled repositories" in said:
        missing = _all(r"^No match for argument: (\S+)", said) or _all(r"Unable to find a match: (.*)", said) or names
        return NoSuchPackage(missing, asked, _all(r"^Ignoring repositories: (.*)", said))
    if _NO_SPACE in said:
        return DiskFull(_NO_SPACE)
    if "cannot open Packages" in said:
        return BadDatabase(_all(r"(cannot open Packages.*)", said)[-1])
    return _bad_repository(said, asked) or _unmet(said) or Refused("dnf", _errors(said))


def of_rpm(error: chroot.CommandFailed) -> PackageFailure:
    """What a run of rpm ended with."""
    said = error.said
    if "cannot open Packages" in said:
        return BadDatabase(_all(r"(cannot open Packages.*)", said)[-1])
    if found := _all(r"^\s*(installing package .*)", said):
        return DiskFull("; ".join(found[:_LINES]))
    if _NO_SPACE in said:
        return DiskFull(_NO_SPACE)
    if "Failed dependencies" in said or " conflicts with file from package " in said:
        why = [line.strip() for line in said.splitlines() if line.startswith("\t")]
        return Unmet(why, _pairs(r"^\t(.*) is needed by (?:\(installed\) )?(\S+)$", said))
    if found := _all(r"^error: (unpacking of archive failed .*)", said):
        return Refused("rpm", found)
    # Of several, %preun is what an upgrade can do without: it is the old package's.
    if failed := _pairs(r"^error: %(\w+)\((\S+)\) scriptlet failed", said):
        script, package = sorted(failed, key=lambda one: one[0] == "preun")[0]
        words = [line for line in said.splitlines() if not re.match(r"error:|warning:|rpm:", line)]
        return ScriptFailed(f"%{script}", package, words)
    return Refused("rpm", _errors(said))


def of_signature(package: str, said: str, *, fine: bool) -> PackageFailure | None:
    """What stands against trust in a package, as `rpmkeys --checksig --verbose` has seen it; None: nothing."""
    if ": BAD" in said:
        return Altered(package)
    if found := _all(r"key ID (\w+): (?:NOKEY|NOTTRUSTED)", said):
        return UnknownKey(package, found[0])
    if fine and re.search(r"ignature, key ID \w+: OK", said):
        return None
    return Unsigned(package) if ": NOTFOUND" in said else Altered(package)


def _bad_repository(said: str, asked: Sequence[str]) -> PackageFailure | None:
    if broken := _pairs(r"Failed to download metadata for repo '([^']+)': (.*)", said):
        name, why = broken[-1]
        if "checksum doesn't match" in said:
            part = "".join(_all(r"(repodata/\S+)", why)[:1]) or "a part"
            return BadRepository(_known(name, asked), f"{part} is not what its index says; {_ANEW}")
        # The last line says little ("All mirrors were tried"); curl's words stand above it.
        curl = _all(r"^  - Curl error \(\d+\): (.*?)(?: \[.*\])?$", said)
        return BadRepository(_known(name, asked), curl[-1] if curl else why)
    if wrong := _pairs(r'^Package "(\S+)" from local repository "([^"]+)" has incorrect checksum', said):
        package, name = wrong[0]
        why = f"its package {package} is missing, or not the one of its index"
        return BadRepository(_known(name, asked), f"{why}; {_ANEW}")
    if "Error downloading packages:" in said:
        # As above; each mirror is tried several times, with the same words.
        why = _some(_all(r"^\[MIRROR\] (.*?)(?: \(IP: .*\))?$", said)[-1:] or _errors(said))
        guilty = [url for url in asked if url in why] or asked
        return BadRepository(", ".join(guilty) or "of the node", why)
    return None


def _unmet(said: str) -> PackageFailure | None:
    if "Problem" not in said:
        return None
    return Unmet([line.strip(" -") for line in said.splitlines() if re.match(r"  +- ", line)])


def _known(name: str, asked: Sequence[str]) -> str:
    """A repository as the policy names it: ours are numbered in its order."""
    match = re.fullmatch(r"kae-(\d+)", name)
    return asked[int(match[1]) - 1] if match and 0 < int(match[1]) <= len(asked) else name


def _repositories(asked: Sequence[str]) -> str:
    return _and([f"'{url}'" for url in asked]) if asked else "the node's own repositories"


def _all(pattern: str, text: str) -> list[str]:
    return [match[1] for match in re.finditer(pattern, text, re.MULTILINE)]


def _pairs(pattern: str, text: str) -> list[tuple[str, str]]:
    return [(match[1], match[2]) for match in re.finditer(pattern, text, re.MULTILINE)]


def _errors(said: str) -> list[str]:
    """What it calls errors, or its last words; never none."""
    return _all(r"^(?:[Ee]rror: )+(.*)", said) or said.splitlines()[-_LINES:] or ["it does not say why"]


def _some(lines: Sequence[str]) -> str:
    kept = [line.strip(" .;") for line in lines if line.strip()]
    return "; ".join(kept[:_LINES]) or "it does not say why"


def _and(words: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1]))) if words else "none"
