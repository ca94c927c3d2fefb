"""The nodes that recorded DaemonSets serve, judged by their own terms, tolerations and rules of pools.

Output may have been edited by hand, so what it holds decides, and not what a plan would make of it.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from compiler import names, recipes
from compiler.fleet import assignment, pods, selectors, taints
from compiler.inventory import snapshot
from compiler.output import index_file
from compiler.planning import kernels, plan

Object = Mapping[str, Any]


class DaemonSet(msgspec.Struct, frozen=True, kw_only=True):
    """A DaemonSet of a recipe, with everything that decides where its pods run."""

    workload: index_file.Workload
    images: frozenset[str]
    """The images of its program, and of the files that this takes."""
    terms: tuple[selectors.Term, ...]
    tolerations: tuple[pods.Toleration, ...]
    cleans_up: bool
    """True when its installers remove the driver once it is deleted (driver.enabledCleanup)."""
    kinds: frozenset[str]
    """For a device plugin, the kinds of devices that it serves, and the resources of a recipe."""

    @property
    def selection(self) -> tuple[object, ...]:
        """Everything that decides over the nodes that it serves."""
        return self.workload.pool, self.workload.state, self.terms, self.tolerations


def daemon_set(workload: index_file.Workload, data: Object) -> DaemonSet:
    """Return the DaemonSet of an object. Raises errors of any sort for one that was edited beyond reading."""
    pod = data["spec"]["template"]["spec"]
    annotations = data["spec"]["template"]["metadata"].get("annotations", {})
    # A vendor's program has no config of ours.
    config = json.loads(annotations[names.CONFIG] if workload.is_ours else "{}")
    affinity = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    return DaemonSet(
        workload=workload,
        images=frozenset(one["image"] for one in (pod["containers"][0], *pod.get("initContainers", ()))),
        terms=tuple(_term(term["matchExpressions"]) for term in affinity["nodeSelectorTerms"]),
        tolerations=msgspec.convert(pod.get("tolerations", ()), tuple[pods.Toleration, ...]),
        cleans_up=config.get("enabledCleanup") is True,
        # The name of a socket is the short one that people gave a resource, if they did.
        kinds=frozenset(
            one.get("socket", one["name"]) for one in config.get("resources", ()) if isinstance(one, Mapping)
        ),
    )


def _term(expressions: Iterable[Mapping[str, Any]]) -> selectors.Term:
    return tuple(
        selectors.Requirement(item["key"], item["operator"], tuple(item.get("values", ()))) for item in expressions
    )


class _Condition(msgspec.Struct, frozen=True):
    """One expression of a NodeFeatureRule on an attribute of a feature."""

    feature: str
    attribute: str
    operator: str
    values: frozenset[str]


class _Rule(msgspec.Struct, frozen=True, kw_only=True):
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

    def members(self, owner: index_file.Owner, group: str) -> frozenset[str]:
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
            # Alternatives (matchAny) are about hardware: the DaemonSets require its labels themselves.
            for feature in rule.get("matchFeatures", ())
            for attribute, expression in feature["matchExpressions"].items()
        )
        yield _Rule(conditions=conditions, variables=rule.get("vars", {}), labels=rule.get("labels", {}))


def _holds(condition: _Condition, node: snapshot.Node, variables: Mapping[str, str]) -> bool:
    match condition.feature:
        case "system.name":
            value: str | None = node.name
        case "kernel.version":
            value = kernels.cleaned(node.profile.kernel_version)
        case "system.osrelease":
            value = node.label(f"{kernels.SYSTEM.removesuffix('ID')}{condition.attribute}")
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


def alike(planned: plan.Plan, daemon_sets: Iterable[DaemonSet]) -> list[assignment.Alike]:
    """Return the nodes of a plan that none of the DaemonSets distinguishes together.

    The names of nodes and the labels of pools are not compared: the rules of pools do that.
    """
    every = {one.key for item in daemon_sets for term in item.terms for one in term}
    keys = {key for key in every if not recipes.is_of_pool(key)}
    for one in planned.recipes:
        if keys <= one.compared:
            return [decision.nodes for decision in one.decisions]
    return assignment.equal(planned.inventory.nodes, keys)


def served(
    daemon_sets: Iterable[DaemonSet], rules: PoolRules | None, nodes: Iterable[assignment.Alike]
) -> dict[str, DaemonSet]:
    """Return the DaemonSet that serves each node, by the node's name; the nodes are given by `alike`.

    Without `rules` somebody else labels the pools, so every label of a pool counts as present.
    """
    daemon_sets = tuple(daemon_sets)
    found: dict[str, DaemonSet] = {}
    for group in nodes:
        selecting = list(_selecting(daemon_sets, group[0]))
        if not selecting:
            continue
        for labels, own in [(None, group)] if rules is None else rules.labelled(group):
            serving = [item for item, terms in selecting if any(_in_pool(term, labels) for term in terms)]
            if serving:
                found.update(dict.fromkeys((node.name for node in own), serving[-1]))
    return found


def _selecting(
    daemon_sets: Iterable[DaemonSet], node: snapshot.Node
) -> Iterator[tuple[DaemonSet, list[selectors.Term]]]:
    """Yield the DaemonSets that may run on a node, with the terms that select it, whatever its pool is."""
    for item in daemon_sets:
        terms = [term for term in item.terms if _selects(term, node)]
        if terms and not taints.untolerated(item.tolerations, node.profile.taints):
            yield item, terms


def _selects(term: selectors.Term, node: snapshot.Node) -> bool:
    return all(
        selectors.requirement_matches(one, node.label(one.key)) for one in term if not recipes.is_of_pool(one.key)
    )


def _in_pool(term: selectors.Term, labels: Mapping[str, str] | None) -> bool:
    own = (one for one in term if recipes.is_of_pool(one.key))
    return labels is None or all(selectors.requirement_matches(one, labels.get(one.key)) for one in own)
