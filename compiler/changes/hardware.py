"""What a changed rule for hardware does to the nodes that are known by its labels alone.

An inventory has the labels that the earlier rule gave a node, and not the hardware that it has. So whether a changed
rule gives the node these labels too, and others, is known only where the one rule says no less than the other.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from compiler import recipes
from compiler.inventory import snapshot
from compiler.planning import plan
from compiler.rendering import node_feature_rules

Rule = node_feature_rules.Hardware
"""The features of which all of one element hold."""

UNKNOWN = "The inventory tells which nodes the match took, and not what hardware they have."
"""Why nobody knows what a changed match takes."""


class Shift(msgspec.Struct, frozen=True):
    """The rules of a recipe before and after a change, by the label that each gives a node."""

    before: Mapping[str, Rule]
    after: Mapping[str, Rule]

    def may_lose(self, node: snapshot.Node, label: str) -> bool:
        """Return whether a node may lose a label that it has.

        What the earlier rules have found on it is known: it stays labelled if any of that is enough for the new one.
        """
        wanted = self.after.get(label)
        if wanted is None or label not in self.before or node.label(label) != "true":
            return False
        found = (rule for own, rule in self.before.items() if node.label(own) == "true")
        return not any(_implies(rule, wanted) for rule in found)

    def may_gain(self, node: snapshot.Node, label: str) -> bool:
        """Return whether a node may get a label that it has not."""
        wanted, earlier = self.after.get(label), self.before.get(label)
        return (
            wanted is not None and earlier is not None and node.label(label) != "true" and not _implies(wanted, earlier)
        )


def shift(before: Mapping[str, Rule], after: Mapping[str, Rule]) -> Shift | None:
    """Return the change of a recipe's rules; None where there is none."""
    return None if before == after else Shift(before, after)


def doubts(decision: plan.Decision | None, change: Shift | None) -> tuple[tuple[str, ...], bool]:
    """Return what the nodes of a decision may lose by a changed match, as nouns, and whether they may get something."""
    if decision is None or decision.policy is None or change is None:
        return (), False
    node, recipe = decision.node, decision.recipe
    nouns: list[str] = []
    if change.may_lose(node, recipe.present):
        running = filter(decision.runs, recipe.components)
        nouns += (component.replace("-", " ") for component in running)
    elif decision.resources:
        nouns += (f"{kind.name} devices" for kind in recipe.kinds if change.may_lose(node, kind.present))
    labels = (recipe.present, *(kind.present for kind in recipe.kinds))
    return tuple(nouns), any(change.may_gain(node, label) for label in labels)


def of_rules(rules: Iterable[node_feature_rules.DeviceRule]) -> Mapping[str, Rule]:
    """Return the rules that give a label by hardware, without those that count devices, by label."""
    return {rule.label: rule.hardware for rule in rules if not rule.counts}


def of_object(data: Mapping[str, Any]) -> Mapping[str, Rule]:
    """Return the rules that give a label by hardware, by label, of a NodeFeatureRule as the compiler writes it."""
    found: dict[str, Rule] = {}
    for rule in data["spec"]["rules"]:
        shared = rule.get("matchFeatures", ())
        alternatives = [(*one["matchFeatures"], *shared) for one in rule.get("matchAny", ())] or [shared]
        labels = (label for label in rule.get("labels", ()) if not recipes.is_of_driver(label))
        found.update(dict.fromkeys(labels, msgspec.convert(alternatives, Rule)))
    return found


def _implies(rule: Rule, other: Rule) -> bool:
    """Return whether hardware that a rule takes is surely taken by another one."""
    return all(
        any(all(any(_is_enough(own, wanted) for own in given) for wanted in every) for every in other) for given in rule
    )


def _is_enough(feature: recipes.Feature, wanted: recipes.Feature) -> bool:
    """Return whether an element for which a feature's conditions hold meets those of another one."""
    own, every = feature.matchExpressions, wanted.matchExpressions
    return feature.feature == wanted.feature and all(
        name in own and _is_as_narrow(own[name], term) for name, term in every.items()
    )


def _is_as_narrow(term: recipes.Expression, wanted: recipes.Expression) -> bool:
    values, others = frozenset(term.value), frozenset(wanted.value)
    if (term.op, wanted.op) == ("In", "NotIn"):
        return values.isdisjoint(others)
    if wanted.op == "Exists":
        return term.op in ("In", "Exists")
    narrower = {"In": values <= others, "NotIn": values >= others}.get(term.op, values == others)
    return term.op == wanted.op and narrower
