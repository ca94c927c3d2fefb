"""A change of the documents of a cluster, as the rules for risks see it."""

import re
from dataclasses import dataclass

from compiler.changes import difference, pods
from compiler.changes.effects import Effect
from compiler.changes.intent import POLICIES
from compiler.checks.change import Change
from compiler.diagnostics import Span
from compiler.formats import documents
from compiler.planning import pools

STAGED = frozenset({"version", "source", "image", "state"})
"""The reasons of a change that a wave can bring to its nodes alone."""

_RELEASE = re.compile(r"v?([0-9]+(?:\.[0-9]+)*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class RevisionChange(Change):
    """A cluster before and after, and what the change does to it."""

    before: pods.Side | None
    after: pods.Side | None
    difference: difference.ClusterDifference
    basis: difference.Basis

    @property
    def cluster(self) -> str:
        """The name of the cluster."""
        return self.difference.cluster

    @property
    def effects(self) -> tuple[Effect, ...]:
        """What happens to the nodes."""
        return self.difference.effects

    def span(self, policy: str | None, *paths: documents.Path) -> Span:
        """Return the changed field at or below one of these paths, of a policy before that of others.

        Where none of them has changed, it is any change of the documents of the cluster, or its declaration.
        """
        known = {*divisions(self.before), *divisions(self.after)}
        every = [
            item for item in self.basis.changed if item.name in (known if item.kind in POLICIES else {self.cluster})
        ]
        every.sort(key=lambda item: item.kind not in POLICIES or item.name != policy)
        for path in (*paths, ()):
            for item in every:
                fields = [field for field in item.fields if field.path[: len(path)] == path]
                if fields or (path == () and not item.fields):
                    return fields[0].span if fields else item.span
        return self._declaration()

    def driven(self, policy: str | None) -> int:
        """Return the number of nodes that have a driver installer of a policy after the change."""
        decisions = self.after.planned.decisions if self.after else ()
        nodes = [
            name
            for decision in decisions
            if decision.pool is not None and decision.policy is not None and decision.policy.name == policy
            for name in decision.names
        ]
        return self.basis.known.count(nodes) if self.basis.known else len(nodes)

    def _declaration(self) -> Span:
        side = self.after or self.before
        if side is None:
            return Span(file="")
        return side.planned.cluster.setting_span(Span(file=side.planned.inventory.file), "metadata", "name")


def divisions(side: pods.Side | None) -> dict[str, pools.Division]:
    """Return the policies of a side, with their pools, by name."""
    return {division.policy.name: division for division in side.planned.divisions} if side else {}


def release(version: str | None) -> tuple[int, ...] | None:
    """Return the numbers of a release such as 2.3.0; None for any other version, whose order is unknown."""
    match = _RELEASE.fullmatch(version or "")
    return tuple(map(int, match[1].split("."))) if match else None
