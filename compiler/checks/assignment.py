"""Rules for the assignment of nodes to the policies of one cluster."""

import itertools
from collections.abc import Iterable, Iterator, Sequence

from compiler import repeats, wording
from compiler.diagnostics import Diagnostic, Span
from compiler.fleet import assignment, definitions, overlap, selectors
from compiler.inventory import snapshot

_MOST_OVERLAPS = 50
"""Overlaps of a cluster that are shown: one selector that is too wide makes hundreds."""


def findings(
    policies: Sequence[definitions.Policy], assigned: assignment.Assignment, inventory: snapshot.Inventory
) -> Iterator[Diagnostic]:
    """Yield every reason why a node could be assigned to two policies, or the default policy to none."""
    yield from duplicate_policies(policies)
    yield from second_defaults(policies)
    yield from overlaps(policies, inventory)
    yield from defaults(policies, assigned)


def duplicate_policies(policies: Iterable[definitions.Policy]) -> Iterator[Diagnostic]:
    """A policy's name is unique in a cluster."""
    for earlier, policy in repeats.of(policies, key=lambda policy: policy.name):
        yield Diagnostic(
            code="duplicate-policy",
            span=policy.source.span("metadata", "name"),
            message=f"Policy '{policy.name}' is declared twice.",
            notes=(f"The first declaration is at {earlier.source.span('metadata', 'name')}.",),
            hint="Rename one of the two, or give them different clusters.",
        )


def second_defaults(policies: Iterable[definitions.Policy]) -> Iterator[Diagnostic]:
    """A cluster has at most one default policy."""
    defaults = [policy for policy in policies if policy.spec.default]
    for policy in defaults[1:]:
        yield Diagnostic(
            code="two-defaults",
            span=policy.source.span("spec", "default"),
            message=f"Policies '{defaults[0].name}' and '{policy.name}' are both the default.",
            notes=(f"The first default is at {defaults[0].source.span('spec', 'default')}.",),
            hint="Give one of them a nodeSelector instead, or give them different clusters.",
        )


def overlaps(policies: Iterable[definitions.Policy], inventory: snapshot.Inventory) -> Iterator[Diagnostic]:
    """No node that exists or could exist matches two policies."""
    selecting = [policy for policy in policies if not policy.spec.default]
    pairs = (
        (selecting[left], selecting[right], witness)
        for left, right, witness in overlap.overlaps([policy.term for policy in selecting])
        if selecting[left].name != selecting[right].name
    )
    shown = list(itertools.islice(pairs, _MOST_OVERLAPS + 1))
    for one, other, witness in shown[:_MOST_OVERLAPS]:
        both = [
            node.name
            for node in inventory.nodes
            if selectors.term_matches(one.term, node.label) and selectors.term_matches(other.term, node.label)
        ]
        labels = ", ".join(f"{key}={value}" for key, value in sorted(witness.items()))
        noun = wording.inflected("label", len(witness))
        yield Diagnostic(
            code="policy-overlap",
            span=_selector_span(other),
            message=f"Policies '{one.name}' and '{other.name}' can both match one node.",
            notes=(
                f"Both match a node with {f'the {noun} {labels}' if labels else 'no labels'}.",
                f"The other selector is at {_selector_span(one)}.",
                *((f"Today both match {wording.nodes(both)} of cluster '{inventory.cluster}'.",) if both else ()),
                *((f"Only the first {_MOST_OVERLAPS} overlaps are shown.",) if len(shown) > _MOST_OVERLAPS else ()),
            ),
            hint="Give the two selectors different values of one key, or make one policy the default.",
        )


def defaults(policies: Iterable[definitions.Policy], assigned: assignment.Assignment) -> Iterator[Diagnostic]:
    """The nodes of the default policy can be described by few selector terms, and there can be such nodes."""
    for policy in policies:
        if policy.spec.default and isinstance(assigned.rest, overlap.TooComplex):
            yield _too_complex(policy, assigned.rest)
        elif policy.spec.default and not assigned.rest:
            # The API server refuses a node affinity without terms, so "no node" cannot be rendered.
            yield Diagnostic(
                code="selector-never-matches",
                span=policy.source.span("spec", "default"),
                message=f"The other policies leave no node to the default policy '{policy.name}'.",
                notes=("Together they match every possible node.",),
                hint="Remove the default policy from the cluster, or narrow the other policies.",
            )


def _too_complex(policy: definitions.Policy, rest: overlap.TooComplex) -> Diagnostic:
    return Diagnostic(
        code="default-too-complex",
        span=policy.source.span("spec", "default"),
        message=f"The nodes of the default policy '{policy.name}' need more than {overlap.MOST_TERMS} selector terms.",
        notes=(
            "The default policy compiles to the negation of all other nodeSelectors.",
            f"Together they use {len(rest.keys)} keys; the most common ones are {wording.listed(rest.keys[:3])}.",
        ),
        hint="Let all policies select by one shared key, such as `pool`.",
    )


def _selector_span(policy: definitions.Policy) -> Span:
    """Return the position of the key nodeSelector, or of the policy's name if it has none and selects every node."""
    if policy.spec.nodeSelector is None:
        return policy.source.span("metadata", "name")
    return policy.source.key_span("spec", "nodeSelector")
