"""Rules for the assignment of nodes to the policies of one cluster."""

import itertools
from collections.abc import Iterable, Iterator, Sequence

from compiler import repeats, wording
from compiler.checks import resources
from compiler.diagnostics import Diagnostic, Span, rule
from compiler.fleet import assignment, claims, definitions, overlap
from compiler.inventory import snapshot

_MOST_OVERLAPS = 50
"""Overlaps of a cluster that are shown: one selector that is too wide makes hundreds."""


def findings(
    policies: Sequence[definitions.Policy], assigned: assignment.Assignment, inventory: snapshot.Inventory
) -> Iterator[Diagnostic]:
    """Yield every reason why a node could be assigned to two policies, or the default policy to none."""
    yield from duplicate_policies(policies)
    yield from second_defaults(policies)
    yield from overlaps(assigned.policies, inventory)
    yield from resources.conflicts(assigned.policies)
    yield from defaults(policies, assigned)


@rule("duplicate-policy", "error")
def duplicate_policies(policies: Iterable[definitions.Policy]) -> Iterator[Diagnostic]:
    """A policy's name is unique in a cluster."""
    for earlier, policy in repeats.of(policies, key=lambda policy: policy.name):
        yield Diagnostic(
            span=policy.source.span("metadata", "name"),
            message=f"Policy '{policy.name}' is declared twice.",
            notes=(f"The first declaration is at {earlier.source.span('metadata', 'name')}.",),
            hint="Rename one of the two, or give them different clusters.",
        )


@rule("two-defaults", "error")
def second_defaults(policies: Iterable[definitions.Policy]) -> Iterator[Diagnostic]:
    """A cluster has at most one default policy of a recipe."""
    defaults = (policy for policy in policies if policy.is_default)
    for earlier, policy in repeats.of(defaults, key=lambda policy: policy.recipe.name):
        yield Diagnostic(
            span=policy.source.span("spec", "default"),
            message=f"Policies '{earlier.name}' and '{policy.name}' are both the default{policy.recipe.words.suffix}.",
            notes=(f"The first default is at {earlier.source.span('spec', 'default')}.",),
            hint="Give one of them a nodeSelector instead, or give them different clusters.",
        )


@rule("policy-overlap", "error")
def overlaps(policies: Sequence[assignment.Assigned], inventory: snapshot.Inventory) -> Iterator[Diagnostic]:
    """No node can match two policies that it cannot both have."""
    found = (meeting for meeting in claims.overlaps(policies) if meeting[0].name != meeting[1].name)
    shown = list(itertools.islice(found, _MOST_OVERLAPS + 1))
    more = (f"Only the first {_MOST_OVERLAPS} overlaps are shown.",) if len(shown) > _MOST_OVERLAPS else ()
    for one, other, labels, why in shown[:_MOST_OVERLAPS]:
        pair = [assigned for assigned in policies if assigned.policy is one or assigned.policy is other]
        both = [node.name for node in inventory.nodes if all(assigned.takes(node.label) for assigned in pair)]
        hint = "Give the two selectors different values of one key"
        yield Diagnostic(
            span=_selector_span(other),
            message=f"Policies '{one.name}' and '{other.name}' can both match one node.",
            notes=(
                f"Both match a node with {wording.labels(labels)}.",
                # Two policies that name no recipe are of the same one.
                *((why,) if one.recipe.words.suffix or other.recipe.words.suffix else ()),
                f"The other selector is at {_selector_span(one)}.",
                *((f"Today both match {wording.nodes(both)} of cluster '{inventory.cluster}'.",) if both else ()),
                *more,
            ),
            hint=f"{hint}, or make one policy the default." if one.recipe.name == other.recipe.name else f"{hint}.",
        )


def defaults(policies: Iterable[definitions.Policy], assigned: assignment.Assignment) -> Iterator[Diagnostic]:
    """The nodes of a default policy can be described by few selector terms, and there can be such nodes."""
    for policy in policies:
        rest = assigned.rests[policy.recipe.name] if policy.is_default else None
        if isinstance(rest, overlap.TooComplex):
            yield _too_complex(policy, rest)
        elif rest == ():
            # The API server refuses a node affinity without terms, so "no node" cannot be rendered.
            yield Diagnostic(
                code="selector-never-matches",
                span=policy.source.span("spec", "default"),
                message=f"The other policies{policy.recipe.words.suffix} leave no node to the default policy "
                f"'{policy.name}'.",
                notes=("Together they match every possible node.",),
                hint="Remove the default policy from the cluster, or narrow the other policies.",
            )


@rule("default-too-complex", "error")
def _too_complex(policy: definitions.Policy, rest: overlap.TooComplex) -> Diagnostic:
    """The nodes of the default policy can be selected with 64 terms."""
    return Diagnostic(
        span=policy.source.span("spec", "default"),
        message=f"The nodes of the default policy '{policy.name}' need more than {overlap.MOST_TERMS} selector terms.",
        notes=(
            f"The default policy compiles to the negation of all other nodeSelectors{policy.recipe.words.suffix}.",
            f"Together they use {len(rest.keys)} keys; the most common ones are {wording.listed(rest.keys[:3])}.",
        ),
        hint="Let all policies select by one shared key, such as `pool`.",
    )


def _selector_span(policy: definitions.Policy) -> Span:
    """Return the position of the key that selects nodes, or of the name of a policy that selects every node."""
    key = "default" if policy.is_default else "nodeSelector"
    if not policy.is_default and policy.selector is None:
        return policy.source.span("metadata", "name")
    return policy.source.key_span("spec", key)
