"""The part of the report's page on a change: what happens to each node, and the sentences on it."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from compiler import diagnostic_formats, diagnostics, wording
from compiler.changes.difference import Difference
from compiler.changes.effects import Effect, Placement
from compiler.settings import Settings
from compiler.views.diff import effect_sentences, risk_groups
from compiler.views.diff import text as diff_text
from compiler.views.review import ranking


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence on what happens to nodes, with its number on the page."""

    number: int
    text: str
    change: str
    is_linked: bool
    """True when the page can show its nodes: what policies of the built-in recipe do to them."""


@dataclass(frozen=True, slots=True)
class Risk:
    """A risk of the change: its severity, or `accepted`."""

    state: Literal["error", "warning", "accepted"]
    finding: diagnostics.Diagnostic


@dataclass(frozen=True, slots=True)
class Privileges:
    """The privileges that objects gain and lose, equal ones together."""

    objects: str
    where: str
    facts: Sequence[str]
    """The privileges, with a sign at the beginning of each."""

    @property
    def summary(self) -> str:
        """The objects, and how much they gain and lose."""
        signs = Counter(fact[:2] for fact in self.facts)
        counts = [f"{word} {signs[sign]}" for sign, word in (("+ ", "gains"), ("- ", "loses")) if signs[sign]]
        return f"{self.objects}{self.where}{f': {wording.listed(counts)}' if counts else ''}"


class Changes:
    """What a difference does, for the page."""

    def __init__(self, difference: Difference, settings: Settings, accepted: Collection[str] = ()) -> None:
        """`accepted` are the scopes of risks that people have accepted."""
        self._difference = difference
        others, passed = risk_groups.split(difference.risks, accepted)
        judged = settings.with_severities(diagnostics.merged(group.told() for group in others))
        shown, ignored = diagnostics.split_ignored(judged)
        self.ignored = diagnostic_formats.ignored_text(ignored) if ignored else ""
        """The number of risks that the project ignores; empty where it ignores none."""
        self.risks = [*_risks(shown), *(Risk("accepted", _accepted(group)) for group in passed)]
        """The risks, errors first and accepted ones last."""
        self._numbers: defaultdict[Effect, list[int]] = defaultdict(list)
        ranked = ranking.sentences(difference.effects)
        for number, item in enumerate(ranked):
            for effect in item.sentence.effects:
                self._numbers[effect].append(number)
        self.sentences: Sequence[Sentence] = [
            Sentence(number, item.sentence.text, item.change, any(map(_is_builtin, item.sentence.effects)))
            for number, item in enumerate(ranked)
        ]
        """The sentences, those on what takes most away first."""

    @property
    def title(self) -> str:
        """The two revisions."""
        return f"from {self._difference.before.text} to {self._difference.after.text}"

    @property
    def summary(self) -> str:
        """The sentence on what nodes lose, or on why there is nothing to say."""
        if self._difference.faults:
            return "What does not compile has no effect that could be shown."
        if self._difference.effects:
            return effect_sentences.loss(self._difference.effects)
        return "No node is affected." if not self._difference.is_empty else "Nothing differs."

    def counts(self, nodes: int) -> Sequence[tuple[str, str, int]]:
        """Return what happens to how many of the fleet's nodes: keys with their texts and numbers, but no zeros."""
        found = Counter[str]()
        for effect in filter(_is_builtin, self._difference.effects):
            found[ranking.change(effect)] += len(effect.nodes)
        found["same"] = nodes - (found.total() - found["gone"])
        return [(key, text, found[key]) for key, text in ranking.CHANGES.items() if found[key]]

    @property
    def faults(self) -> Sequence[str]:
        """What does not compile."""
        return tuple(diff_text.faults(self._difference))

    @property
    def intent(self) -> Sequence[str]:
        """The lines on what people changed in the documents."""
        return tuple(diff_text.intent(self._difference.intent))

    @property
    def pods(self) -> Sequence[str]:
        """The lines on pods that are created, replaced and deleted."""
        return tuple(diff_text.pods(self._difference))

    @property
    def objects(self) -> Sequence[str]:
        """The lines on objects that are pruned, changed and added."""
        return tuple(diff_text.objects(self._difference))

    @property
    def privileges(self) -> Sequence[Privileges]:
        """The privileges that objects gain and lose."""
        return [
            Privileges(wording.listed(names), diff_text.where(self._difference, clusters), facts)
            for clusters, names, facts in diff_text.privilege_groups(self._difference)
        ]

    @property
    def clusters(self) -> Mapping[str, Sequence[Effect]]:
        """The effects of the built-in recipe's policies by cluster."""
        return {item.cluster: [*filter(_is_builtin, item.effects)] for item in self._difference.clusters}

    def data(self, effect: Effect) -> dict[str, Any]:
        """Return an effect for the page's script."""
        return {
            "change": ranking.change(effect),
            "sentences": self._numbers[effect],
            "before": _placement(effect.before),
            "after": _placement(effect.after),
            "cause": str(effect.cause),
        }


def _is_builtin(effect: Effect) -> bool:
    return effect.recipe.builtin


def _risks(found: diagnostics.Findings) -> Iterator[Risk]:
    states: tuple[Literal["error", "warning"], ...] = ("error", "warning")
    for state in states:
        yield from (Risk(state, finding) for finding in found if finding.severity == state)


def _accepted(group: risk_groups.Group) -> diagnostics.Diagnostic:
    """Return the finding of accepted risks, without the hint to accept them."""
    return replace(group.risks[0].finding, message=group.text, hint=f"It is accepted as {group.scope}.")


def _placement(placement: Placement | None) -> dict[str, Any] | None:
    if placement is None:
        return None
    return {
        "policy": placement.policy,
        "pool": placement.pool,
        "group": placement.group,
        "driver": placement.driver,
        "version": placement.version,
        "plugin": placement.device_plugin,
        "resources": [f"{name.partition('/')[2]}={count}" for name, count in placement.resources],
    }
