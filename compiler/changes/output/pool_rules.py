"""The NodeFeatureRule of a policy's pools, evaluated as nfd-master does."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from compiler.inventory import snapshot
from compiler.output.index_file import Owner
from compiler.planning import kernels


@dataclass(frozen=True, slots=True)
class _Condition:
    """One expression of a NodeFeatureRule on an attribute of a feature."""

    feature: str
    attribute: str
    operator: str
    values: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rule:
    conditions: tuple[_Condition, ...]
    variables: Mapping[str, str]
    labels: Mapping[str, str]


class PoolRules:
    """The NodeFeatureRule that gives the nodes of a policy the label of their pool."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        self._rules = tuple(_rules(data))
        by_name = [one for rule in self._rules for one in rule.conditions if one.feature == "system.name"]
        self._matches_names = not all(one.operator in ("In", "Exists", "DoesNotExist") for one in by_name)
        self._lists: dict[str, tuple[int, ...]] = {}
        for number, condition in enumerate(by_name):
            for name in condition.values:
                self._lists[name] = (*self._lists.get(name, ()), number)

    def labels(self, node: snapshot.Node) -> dict[str, str]:
        """Return the labels that NFD gives a node with devices: rules are evaluated in order, as nfd-master does."""
        variables: dict[str, str] = {}
        labels: dict[str, str] = {}
        for rule in self._rules:
            if all(_holds(condition, node, variables) for condition in rule.conditions):
                variables.update(rule.variables)
                labels.update(rule.labels)
        return labels

    def labelled(self, nodes: Iterable[snapshot.Node]) -> Iterator[tuple[dict[str, str], list[snapshot.Node]]]:
        """Yield the nodes, which have one profile, with their labels; those that the same conditions name together."""
        named: dict[object, list[snapshot.Node]] = {}
        for node in nodes:
            key = node.name if self._matches_names else self._lists.get(node.name)
            named.setdefault(key, []).append(node)
        for own in named.values():
            yield self.labels(own[0]), own

    def members(self, owner: Owner, group: str) -> frozenset[str]:
        """Return the names of the nodes that the rule of a group lists."""
        return frozenset(
            name
            for rule in self._rules
            if rule.variables.get(f"{owner.recipe}.{owner.policy}.group") == group
            for condition in rule.conditions
            if condition.feature == "system.name"
            for name in condition.values
        )


def _rules(data: Mapping[str, Any]) -> Iterator[_Rule]:
    for rule in data["spec"]["rules"]:
        conditions = tuple(
            _Condition(feature["feature"], attribute, expression["op"], frozenset(expression.get("value", ())))
            for feature in rule["matchFeatures"]
            for attribute, expression in feature["matchExpressions"].items()
        )
        yield _Rule(conditions=conditions, variables=rule.get("vars", {}), labels=rule.get("labels", {}))


def _holds(condition: _Condition, node: snapshot.Node, variables: Mapping[str, str]) -> bool:
    match condition.feature:
        case "system.name":
            value: str | None = node.name
        case "kernel.version":
            value = kernels.cleaned(node.profile.kernel_version)
        case "rule.matched":
            value = variables.get(condition.attribute)
        case _:  # pci.device: the DaemonSets require its labels themselves.
            return True
    match condition.operator:
        case "In":
            return value in condition.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case _:  # InRegexp
            return any(kernels.is_found(pattern, value or "") for pattern in condition.values)
