"""The assignment of nodes to the policies of a cluster."""

import operator
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from compiler import names, recipes
from compiler.fleet import definitions, overlap, selectors
from compiler.inventory import snapshot

Alike = tuple[snapshot.Node, ...]
"""Nodes with one profile and the same values of all labels that decide over them."""

Rest = tuple[selectors.Term, ...] | overlap.TooComplex
"""The nodes that some policies leave."""


class Assigned(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """A policy of a cluster, with the selector terms of its nodes: a node that meets any of them is assigned to it."""

    policy: definitions.Policy
    terms: tuple[selectors.Term, ...]

    def takes(self, label: Callable[[str], str | None]) -> bool:
        """Return whether a node with these labels is assigned to the policy."""
        return any(selectors.term_matches(term, label) for term in self.terms)


class Assignment(msgspec.Struct, frozen=True, kw_only=True):
    """The policies of a cluster with their terms, sorted by name."""

    policies: tuple[Assigned, ...]
    """Without default policies whose terms are too complex."""
    rests: Mapping[str, Rest]
    """For each recipe with a default policy: the nodes that no other policy of the recipe matches."""


class Shares(msgspec.Struct, frozen=True, kw_only=True):
    """The nodes of a cluster by policy, nodes that are alike together, in the order of the first one."""

    by_policy: tuple[tuple[Alike, ...], ...]
    """In the order of the policies."""
    unassigned: tuple[Alike, ...]


def presence(policy: definitions.Policy) -> tuple[selectors.Term, ...]:
    """Return selector terms for the nodes with the hardware that a policy serves: a device of any of its kinds."""
    if policy.recipe.kinds:
        return tuple((selectors.Requirement(kind.present, "In", ("true",)),) for kind in policy.kinds)
    return (tuple(selectors.Requirement(key, "In", values) for key, values in policy.recipe.labels),)


def is_present(policy: definitions.Policy, node: snapshot.Node) -> bool:
    """Return whether a node is known to have the hardware that the policy serves."""
    return any(selectors.term_matches(term, node.label) for term in presence(policy))


def kinds(known: Iterable[recipes.Kind], node: snapshot.Node) -> tuple[recipes.Kind, ...]:
    """Return the kinds of devices that a node has, as far as NFD has seen."""
    return tuple(kind for kind in known if node.label(kind.present) == "true")


def has_hardware(recipe: recipes.Recipe, node: snapshot.Node) -> bool:
    """Return whether a node is known to have hardware of a recipe, of any kind."""
    return all(node.label(key) in values for key, values in recipe.hardware)


def is_served(policy: definitions.Policy, node: snapshot.Node) -> bool:
    """Return whether a node has the hardware that the policy serves, or may have it: NFD has not labelled it yet."""
    return (policy.recipe.has_rules and not node.profile.discovered) or is_present(policy, node)


def holds_in(policy: definitions.Policy, cluster: str) -> bool:
    """Return whether the policy names the cluster, or names none."""
    return names.globs_match(policy.clusters, cluster)


def in_cluster(policies: Iterable[definitions.Policy], cluster: str) -> tuple[definitions.Policy, ...]:
    """Return the policies that hold in a cluster, sorted by name."""
    return tuple(sorted((p for p in policies if holds_in(p, cluster)), key=lambda policy: policy.name))


def assign(policies: Sequence[definitions.Policy]) -> Assignment:
    """Return the selector terms of each policy of one cluster.

    A default policy takes what the others of its recipe leave.
    """
    recipes = dict.fromkeys(policy.recipe.name for policy in policies if policy.is_default)
    rests: dict[str, Rest] = {
        recipe: overlap.complement(p.term for p in policies if p.recipe.name == recipe and not p.is_default)
        for recipe in recipes
    }
    assigned = []
    for policy in policies:
        terms = rests[policy.recipe.name] if policy.is_default else (policy.term,)
        if isinstance(terms, tuple):
            assigned.append(Assigned(policy=policy, terms=terms))
    return Assignment(policies=tuple(sorted(assigned, key=lambda one: one.policy.name)), rests=rests)


def shares(policies: Sequence[Assigned], nodes: Iterable[snapshot.Node], keys: Iterable[str] = ()) -> Shares:
    """Return the nodes of each policy.

    Nodes are alike if they are equal in the labels that the policies select by and in `keys`.
    """
    selected = {requirement.key for assigned in policies for term in assigned.terms for requirement in term}
    by_policy: list[list[Alike]] = [[] for _ in policies]
    unassigned: list[Alike] = []
    for alike in equal(nodes, {*selected, *keys}):
        label = alike[0].label
        takers = (own for own, assigned in zip(by_policy, policies, strict=True) if assigned.takes(label))
        next(takers, unassigned).append(alike)
    return Shares(by_policy=tuple(map(tuple, by_policy)), unassigned=tuple(unassigned))


_labels = operator.attrgetter("labels")


def equal(nodes: Iterable[snapshot.Node], keys: Iterable[str]) -> list[Alike]:
    """Return the nodes that have one profile and equal values of these labels together, in the order of the first."""
    nodes, keys = tuple(nodes), frozenset(keys)
    by_hostname = snapshot.HOSTNAME in keys
    # Most keys are labels of profiles, which no node has of its own.
    compared = sorted(keys.intersection(set[str]().union(*map(_labels, nodes))))
    groups: defaultdict[tuple[object, ...], list[snapshot.Node]] = defaultdict(list)
    for node in nodes:
        own = node.labels
        # A profile is one object for all of its nodes, so its identity compares faster than its labels.
        key = (id(node.profile), bool(own), *map(own.get, compared))
        groups[(*key, node.hostname) if by_hostname else key].append(node)
    return list(map(tuple, groups.values()))
