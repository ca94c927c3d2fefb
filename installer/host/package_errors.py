"""Failures of the host's dnf and rpm, in their own words."""

import re

from runtime import errors

_LINES = 8
_CHARACTERS = 900

NOT_AVAILABLE = re.compile(r"^Installed package (\S+?)(?: \(from .*\))? not available\.", re.MULTILINE)
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
