"""Which policies hold in a cluster, and which nodes each of them governs: proved, not guessed."""

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from compiler import devices, diagnostics, names, repeats
from compiler.fleet import definitions, overlap, selectors
from compiler.inventory import snapshot

_MOST_OVERLAPS = 50
"""Overlaps of a cluster that are shown: one selector that is too wide makes hundreds."""


@dataclass(frozen=True, kw_only=True)
class Governed:
    """A policy in a cluster, and the selector terms of the nodes that it governs; any one of them suffices."""

    policy: definitions.Policy
    terms: tuple[selectors.Term, ...]

    def governs(self, label: Callable[[str], str | None]) -> bool:
        """Whether a node with these labels is the policy's."""
        return any(selectors.term_matches(term, label) for term in self.terms)


def enabled_kinds(policy: definitions.Policy) -> tuple[devices.Kind, ...]:
    """The kinds that a policy serves, in the table's order."""
    return tuple(kind for kind in devices.KINDS if getattr(policy.spec.operator, kind.switch))


def is_served(policy: definitions.Policy, node: snapshot.Node) -> bool:
    """Whether a node has a device that the policy serves, or may have one, as NFD has not labelled it yet."""
    if not node.profile.discovered:
        return True
    return any(node.label(kind.present) == "true" for kind in enabled_kinds(policy))


def holds_in(policy: definitions.Policy, cluster: str) -> bool:
    """Whether the policy names the cluster, or names none."""
    return names.globs_match(policy.spec.clusters, cluster)


def in_cluster(policies: Iterable[definitions.Policy], cluster: str) -> tuple[definitions.Policy, ...]:
    """The policies that hold in a cluster, by name."""
    return tuple(sorted((p for p in policies if holds_in(p, cluster)), key=lambda policy: policy.name))


def governed(
    policies: Sequence[definitions.Policy], inventory: snapshot.Inventory
) -> tuple[tuple[Governed, ...], list[diagnostics.Diagnostic]]:
    """The policies of a cluster with their terms, and every reason why a node could have two of them."""
    found = [*duplicate_policies(policies), *second_defaults(policies)]
    chosen = [policy for policy in policies if not policy.spec.default]
    terms = [selectors.of(policy.spec.nodeSelector) for policy in chosen]
    found.extend(overlaps(chosen, terms, inventory))
    result = [Governed(policy=policy, terms=(term,)) for policy, term in zip(chosen, terms, strict=True)]
    for policy in policies:
        if policy.spec.default:
            rest = overlap.complement(terms)
            if isinstance(rest, overlap.TooComplex):
                found.append(_too_complex(policy, rest))
            else:
                result.append(Governed(policy=policy, terms=rest))
                if not rest:
                    found.append(_nothing_left(policy))
    return tuple(sorted(result, key=lambda item: item.policy.name)), found


def duplicate_policies(policies: Iterable[definitions.Policy]) -> Iterator[diagnostics.Diagnostic]:
    """A policy's name is unique in a cluster."""
    for earlier, policy in repeats.of(policies, key=lambda policy: policy.name):
        yield diagnostics.Diagnostic(
            code="duplicate-policy",
            span=policy.source.span("metadata", "name"),
            message=f"Policy '{policy.name}' is declared twice.",
            notes=(f"It was first declared at {earlier.source.span('metadata', 'name')}.",),
            hint="Rename one of the two, or give them clusters that differ.",
        )


def second_defaults(policies: Iterable[definitions.Policy]) -> Iterator[diagnostics.Diagnostic]:
    """A cluster has at most one default policy."""
    defaults = [policy for policy in policies if policy.spec.default]
    for policy in defaults[1:]:
        yield diagnostics.Diagnostic(
            code="two-defaults",
            span=policy.source.span("spec", "default"),
            message=f"Policies '{defaults[0].name}' and '{policy.name}' are both the default.",
            notes=(f"The first stands at {defaults[0].source.span('spec', 'default')}.",),
            hint="Give one of them a nodeSelector instead, or clusters that differ.",
        )


def overlaps(
    policies: Sequence[definitions.Policy],
    terms: Sequence[selectors.Term],
    inventory: snapshot.Inventory,
) -> Iterator[diagnostics.Diagnostic]:
    """No node, of today or to come, can be governed by two policies."""
    found = (
        (policies[left], policies[right], terms[left], terms[right], witness)
        for left, right, witness in overlap.overlaps(terms)
        if policies[left].name != policies[right].name
    )
    told = list(itertools.islice(found, _MOST_OVERLAPS + 1))
    for one, other, left, right, witness in told[:_MOST_OVERLAPS]:
        both = [
            node.name
            for node in inventory.nodes
            if selectors.term_matches(left, node.label) and selectors.term_matches(right, node.label)
        ]
        labels = ", ".join(f"{key}={value}" for key, value in sorted(witness.items())) or "no label at all"
        yield diagnostics.Diagnostic(
            code="policy-overlap",
            span=_selector_span(other),
            message=f"Policies '{one.name}' and '{other.name}' can both match one node.",
            notes=(
                f"Both match a node with {labels}.",
                f"The other selector stands at {_selector_span(one)}.",
                *((f"Today both match {listed(both)} of cluster '{inventory.cluster}'.",) if both else ()),
                *(("More policies overlap than are shown.",) if len(told) > _MOST_OVERLAPS else ()),
            ),
            hint="Give the two selectors a key with values that differ, or make one policy the default.",
        )


def shares(
    governed: Sequence[Governed], nodes: Iterable[snapshot.Node], keys: Iterable[str] = ()
) -> tuple[tuple[Governed | None, tuple[snapshot.Node, ...]], ...]:
    """Who governs which nodes: alike nodes together, in the order of the first one.

    Nodes are alike that have one profile and no difference in the labels that the policies ask for, or in `keys`.
    """
    asked = {requirement.key for item in governed for term in item.terms for requirement in term}
    chosen = tuple(sorted({*asked, *keys}))
    by_hostname = snapshot.HOSTNAME in chosen
    groups: dict[tuple[object, ...], list[snapshot.Node]] = {}
    for node in nodes:
        own = node.labels
        key = (id(node.profile), *(own.get(name) for name in chosen)) if own else (id(node.profile),)
        groups.setdefault((*key, node.hostname) if by_hostname else key, []).append(node)
    return tuple(
        (next((item for item in governed if item.governs(alike[0].label)), None), tuple(alike))
        for alike in groups.values()
    )


def _selector_span(policy: definitions.Policy) -> diagnostics.Span:
    """The key nodeSelector; the policy's name where it has none and so selects every node."""
    if policy.spec.nodeSelector is None:
        return policy.source.span("metadata", "name")
    return policy.source.key_span("spec", "nodeSelector")


def _too_complex(policy: definitions.Policy, rest: overlap.TooComplex) -> diagnostics.Diagnostic:
    return diagnostics.Diagnostic(
        code="default-too-complex",
        span=policy.source.span("spec", "default"),
        message=f"What no other policy matches takes more than {overlap.MOST_TERMS} selector terms to say.",
        notes=(
            "The default policy is compiled into the negation of all other nodeSelectors.",
            f"Together they use {len(rest.keys)} keys, the most common of them {', '.join(rest.keys[:3])}.",
        ),
        hint="Let all policies select by one shared key, such as `pool`.",
    )


def _nothing_left(policy: definitions.Policy) -> diagnostics.Diagnostic:
    # The API server refuses a node affinity without terms, which is what no node would come to.
    return diagnostics.Diagnostic(
        code="selector-never-matches",
        span=policy.source.span("spec", "default"),
        message=f"The other policies leave no node to the default policy '{policy.name}'.",
        notes=("Together they match every node that there can be.",),
        hint="Remove it from the cluster, or narrow the other policies.",
    )


def listed(nodes: Sequence[str], most: int = 5) -> str:
    """Nodes in people's words: `3 nodes (a, b, c)`, the first few of them named."""
    noun = "node" if len(nodes) == 1 else "nodes"
    shown = ", ".join(sorted(nodes)[:most])
    more = f" and {len(nodes) - most} more" if len(nodes) > most else ""
    return f"{len(nodes)} {noun} ({shown}{more})"
