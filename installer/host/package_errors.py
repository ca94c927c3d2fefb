"""Failures of the host's dnf and rpm, in their own words; only what a caller reacts to has a class of its own."""

import re

from runtime import errors

_LINES = 8
_CHARACTERS = 900

NOT_AVAILABLE = re.compile(r"^Installed package (\S+?)(?: \(from .*\))? not available\.", re.MULTILINE)
"""Of several packages, dnf prints this, fetches the others and ends with 0."""

_NEEDED = re.compile(r"^\t(\S+)(?: .*)? is needed by (?:\(installed\) )?\S+$", re.MULTILINE)
_SCRIPT = re.compile(r"^error: (%\w+)\(\S+\) scriptlet failed", re.MULTILINE)


class PackageFailure(errors.Failure):
    """Packages could not be fetched, installed or removed."""


class Unmet(PackageFailure):
    """Other packages need what is to be removed; `capabilities` are what they need, without versions."""

    def __init__(self, sentence: str, capabilities: tuple[str, ...]) -> None:
        self.capabilities = capabilities
        super().__init__(sentence)


class ScriptFailed(PackageFailure):
    """A script of a package ended with an error; `script` is its name, such as %preun."""

    def __init__(self, sentence: str, script: str) -> None:
        self.script = script
        super().__init__(sentence)


def refused(program: str, output: str) -> PackageFailure:
    """Return the failure of a run of dnf, yum, rpm or rpmkeys, with the end of its output (LC_ALL=C)."""
    sentence = f"The host's {program} refuses: {quoted(output)}."
    if needed := _NEEDED.findall(output):
        return Unmet(sentence, tuple(sorted(set(needed))))
    # Of several scripts, %preun is the one that an upgrade can do without: it belongs to the old package.
    if scripts := _SCRIPT.findall(output):
        return ScriptFailed(sentence, min(scripts, key=lambda script: script == "%preun"))
    return PackageFailure(sentence)


def missing_program(*names: str) -> PackageFailure:
    """Return the failure of a host that has none of these programs."""
    return PackageFailure(
        f"The host has no {' and no '.join(names)}, which packages need: install it, or choose another source."
    )


def quoted(output: str) -> str:
    """Return the end of a program's output as one line of bounded length; "… " replaces the start of a longer one."""
    lines = list(filter(None, dict.fromkeys(line.strip(" \t-.:;") for line in output.splitlines())))
    end = "; ".join(lines[-_LINES:])
    if len(lines) > _LINES or len(end) > _CHARACTERS:
        return f"… {end[-_CHARACTERS:]}"
    return end or "it does not say why"
