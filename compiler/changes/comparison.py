"""The comparison of a cluster's earlier output with the compiled one, and what a person may accept of a change."""

import enum
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import ClassVar

from compiler import wording
from compiler.changes import deployed
from compiler.diagnostics import CODES, Diagnostic, Span
from compiler.fleet import definitions
from compiler.output import index_file
from compiler.planning import plan


@dataclass(frozen=True, slots=True, kw_only=True)
class Acceptable:
    """Something that a person may accept, by its code, its cluster and its policy."""

    finding: Diagnostic
    cluster: str
    policy: str | None = None

    command: ClassVar[str]
    """The command that asks."""

    @property
    def acceptable(self) -> bool:
        """True when a person may accept it."""
        return CODES[self.finding.code].acceptable

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
        # The name of an empty inventory's file may be anything, and people paste the command.
        how = f"To accept it, run `{self.command} --accept {shlex.quote(self.scope)}`; {self._in_ci}"
        return replace(self.finding, hint=f"{self.finding.hint} {how} 'Kae-Accept: {self.scope}'.")

    _in_ci: ClassVar[str]


class Removal(Acceptable):
    """Something that a compile takes away."""

    command = "kae compile"
    _in_ci = "where CI compiles, commit with"


class Place(enum.Enum):
    """The place of a risk in its message: a cluster, or the number of several."""

    CLUSTER = enum.auto()


@dataclass(frozen=True, slots=True)
class Nodes:
    """Nodes in the message of a risk, sorted."""

    names: tuple[str, ...]


Part = str | int | Nodes | Place
"""A part of a risk's message: words, or a number, nodes or a place, which those of several clusters add up."""

_NODES = 5
"""Nodes that a message names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Risk(Acceptable):
    """Something that a change does and that a person should know of."""

    parts: tuple[Part, ...]
    """The message of the finding."""

    command = "kae diff"
    _in_ci = "in CI, commit with"


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """The output of a cluster before and after a compile, with the plan that it was compiled from."""

    folder: str
    """The folder of the cluster's output, as findings name it."""
    before: deployed.Deployed
    after: deployed.Deployed
    planned: plan.Plan
    policies: tuple[definitions.Policy, ...]
    """The policies of all clusters."""
    removed_percent: float
    """A component may leave this share of a policy's nodes, or one node."""

    @property
    def cluster(self) -> str:
        """The name of the cluster."""
        return self.planned.cluster.name

    def cluster_span(self, *path: str) -> Span:
        """Return the position of a setting of the KAECluster; without one, the file of the inventory."""
        if self.planned.cluster.source is None:
            return Span(file=self.planned.inventory.file or self.folder)
        return self.planned.cluster.source.setting_span(*path)

    def policy_span(self, name: str, component: str = "driver") -> Span:
        """Return the position of a policy's name, of its clusters if it left this one, else its earlier output."""
        here = {division.policy.name for division in self.planned.divisions}
        for policy in self.policies:
            if policy.name == name:
                path = ("metadata", "name") if name in here else ("spec", "clusters")
                return policy.source.span(*path)
        own = (item for item in self.before.index.workloads if (item.policy, item.component) == (name, component))
        return Span(file=f"{self.folder}/{next((item.file for item in own), index_file.NAME)}")
