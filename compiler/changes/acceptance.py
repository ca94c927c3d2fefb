"""Removals and risks, which a person may accept by code, cluster and policy."""

import enum
import shlex
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import NamedTuple

import msgspec

from compiler import wording
from compiler.diagnostics import ACCEPTABLE, CODES, RISKS, Diagnostic

REMOVALS = frozenset(ACCEPTABLE).difference(RISKS, ["inventory-empty"])
"""The codes that a compile judges; that of an empty inventory is known to its reader only."""


class Place(enum.Enum):
    """The place of a risk in its message: a cluster, or the number of several."""

    CLUSTER = enum.auto()


class Nodes(msgspec.Struct, frozen=True):
    """Nodes in the message of a risk, sorted."""

    names: tuple[str, ...]


Part = str | int | Nodes | Place
"""A part of a risk's message: words, or a number, nodes or a place, which those of several clusters add up."""

_NODES = 5
"""Nodes that a message names."""


class Acceptable(NamedTuple):
    """A removal of a compile, or a risk of a change: a person may accept it by its code, its cluster and its policy."""

    finding: Diagnostic
    cluster: str
    policy: str | None = None
    parts: tuple[Part, ...] = ()
    """The message of a risk."""

    @property
    def acceptable(self) -> bool:
        """True when a person may accept it."""
        return CODES[self.finding.code].acceptable

    @property
    def command(self) -> str:
        """The command that asks."""
        return "kae diff" if self.finding.code in RISKS else "kae compile"

    @property
    def scope(self) -> str:
        """CODE:CLUSTER, or CODE:CLUSTER/POLICY."""
        return f"{self.finding.code}:{self.cluster}" + (f"/{self.policy}" if self.policy else "")

    def is_accepted(self, accepted: Iterable[str]) -> bool:
        """Return whether one of CODE, CODE:CLUSTER and CODE:CLUSTER/POLICY names it."""
        code = self.finding.code
        return self.acceptable and not {code, f"{code}:{self.cluster}", self.scope}.isdisjoint(accepted)

    def told(self) -> Diagnostic:
        """Return the finding with a hint that tells how to accept it."""
        if not self.acceptable:
            return self.finding
        in_ci = "in CI, commit with" if self.finding.code in RISKS else "where CI compiles, commit with"
        # The name of an empty inventory's file may be anything, and people paste the command.
        how = f"To accept it, run `{self.command} --accept {shlex.quote(self.scope)}`; {in_ci}"
        return self.finding._replace(hint=f"{self.finding.hint} {how} 'Kae-Accept: {self.scope}'.")


def worded(told: Sequence[tuple[str, Sequence[Part]]]) -> str:
    """Return the message that clusters have in common, from the parts of each, which differ in no words."""
    return "".join(
        _added([(cluster, part) for (cluster, _), part in zip(told, alike, strict=True)])
        for alike in zip(*(parts for _, parts in told), strict=True)
    )


def _added(alike: Sequence[tuple[str, Part]]) -> str:
    """Return one part of the message, of each cluster, as one text."""
    first = alike[0][1]
    several = len({cluster for cluster, _ in alike}) > 1
    if isinstance(first, Place):
        return f"{len({cluster for cluster, _ in alike})} clusters" if several else f"cluster '{alike[0][0]}'"
    if isinstance(first, int):
        return str(sum(part for _, part in alike if isinstance(part, int)))
    if isinstance(first, str):
        return first
    own = [(cluster, part.names) for cluster, part in alike if isinstance(part, Nodes)]
    count = sum(len(names) for _, names in own)
    names = (f"{cluster}/{name}" if several else name for cluster, names in own for name in names)
    shown = [*islice(names, _NODES), *([f"{count - _NODES} more"] if count > _NODES else [])]
    return f"{wording.counted(count, 'node')} ({wording.listed(shown)})"
