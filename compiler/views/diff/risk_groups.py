"""The risks of a change for people: those that many clusters have alike, at one line, are one."""

from collections.abc import Collection, Hashable, Iterable, Sequence

import msgspec

from compiler import repeats, wording
from compiler.changes.acceptance import Acceptable, worded
from compiler.diagnostics import Diagnostic

_CLUSTERS = 8
"""Clusters that a note names."""


class Group(msgspec.Struct, frozen=True):
    """Risks that differ in nothing but the cluster, its nodes and their number."""

    risks: tuple[Acceptable, ...]

    @property
    def clusters(self) -> Sequence[str]:
        """The clusters, each once."""
        return tuple(dict.fromkeys(risk.cluster for risk in self.risks))

    @property
    def scope(self) -> str:
        """What accepts all of them: CODE for several clusters."""
        first = self.risks[0]
        return first.scope if len(self.clusters) == 1 else first.finding.code

    @property
    def message(self) -> str:
        """The message on all of them."""
        return worded([(risk.cluster, risk.parts) for risk in self.risks])

    @property
    def where(self) -> str:
        """The sentence that names the clusters; empty for one, which the message or the scope names."""
        few = len(self.clusters) == 1
        return "" if few else f"The clusters are {wording.listed(self.clusters, most=_CLUSTERS)}."

    @property
    def text(self) -> str:
        """The message, and the clusters."""
        return f"{self.message} {self.where}".rstrip()

    def told(self) -> Diagnostic:
        """Return the finding, with a hint that tells how to accept it."""
        first = self.risks[0]
        if not self.where:
            return first.told()._replace(message=self.message)
        # The code alone accepts the risks of other lines too.
        how = (
            f"To accept every {self.scope} of the change, run `{first.command} --accept {self.scope}`, or in CI commit "
            f"with 'Kae-Accept: {self.scope}'; for one cluster it is {first.scope}."
        )
        return first.finding._replace(
            message=self.message,
            notes=(*first.finding.notes, self.where),
            hint=f"{first.finding.hint} {how}",
        )


def split(risks: Iterable[Acceptable], accepted: Collection[str]) -> tuple[Sequence[Group], Sequence[Group]]:
    """Return the groups of the risks that nobody has accepted, and those of the others, by scopes."""
    every = tuple(risks)
    passed = [risk for risk in every if risk.is_accepted(accepted)]
    return groups(risk for risk in every if not risk.is_accepted(accepted)), groups(passed)


def groups(risks: Iterable[Acceptable]) -> Sequence[Group]:
    """Return risks with those that clusters have alike together, in the order of the first of each."""
    found = repeats.grouped((_key(risk), risk) for risk in risks)
    return [Group(tuple(own)) for own in found.values()]


def _key(risk: Acceptable) -> Hashable:
    words = tuple(part if isinstance(part, str) else type(part) for part in risk.parts)
    finding = risk.finding
    return finding.code, finding.span, risk.policy, words, finding.notes, finding.hint
