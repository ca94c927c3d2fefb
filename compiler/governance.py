"""Which policies hold in a cluster, and which nodes each of them governs: proved, not guessed."""

import fnmatch
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from compiler import diagnostics, documents, overlap, repeats, selectors


@dataclass(frozen=True, slots=True, kw_only=True)
class Governed:
    """A policy in a cluster, and the selector terms of the nodes that it governs; any one of them suffices."""

    policy: documents.Policy
    terms: tuple[selectors.Term, ...]

    def governs(self, label: Callable[[str], str | None]) -> bool:
        """Whether a node with these labels is the policy's."""
        return any(selectors.term_matches(term, label) for term in self.terms)


def holds_in(policy: documents.Policy, cluster: str) -> bool:
    """Whether the policy names the cluster, or names none."""
    globs = policy.spec.clusters
    return globs is None or any(glob_matches(glob, cluster) for glob in globs)


def glob_matches(glob: str, cluster: str) -> bool:
    """Whether a name or shell glob means the cluster."""
    return fnmatch.fnmatchcase(cluster, glob)


def in_cluster(policies: Iterable[documents.Policy], cluster: str) -> tuple[documents.Policy, ...]:
    """The policies that hold in a cluster, by name."""
    return tuple(sorted((p for p in policies if holds_in(p, cluster)), key=lambda policy: policy.name))


def governed(
    policies: Sequence[documents.Policy], inventory: documents.Inventory
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


def duplicate_policies(policies: Iterable[documents.Policy]) -> Iterator[diagnostics.Diagnostic]:
    """A policy's name is unique in a cluster."""
    for earlier, policy in repeats.of(policies, key=lambda policy: policy.name):
        yield diagnostics.Diagnostic(
            code="duplicate-policy",
            span=policy.source.span("metadata", "name"),
            message=f"Policy '{policy.name}' is declared twice.",
            notes=(f"It was first declared at {earlier.source.span('metadata', 'name')}.",),
            hint="Rename one of the two, or give them clusters that differ.",
        )


def second_defaults(policies: Iterable[documents.Policy]) -> Iterator[diagnostics.Diagnostic]:
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
    policies: Sequence[documents.Policy],
    terms: Sequence[selectors.Term],
    inventory: documents.Inventory,
) -> Iterator[diagnostics.Diagnostic]:
    """No node, of today or to come, can be governed by two policies."""
    for left, right, witness in overlap.overlaps(terms):
        one, other = policies[left], policies[right]
        if one.name == other.name:
            continue
        both = [
            node.name
            for node in inventory.nodes
            if selectors.term_matches(terms[left], node.label) and selectors.term_matches(terms[right], node.label)
        ]
        labels = ", ".join(f"{key}={value}" for key, value in sorted(witness.items())) or "no label at all"
        yield diagnostics.Diagnostic(
            code="policy-overlap",
            span=_selector_span(other),
            message=f"Policies '{one.name}' and '{other.name}' can both match one node.",
            notes=(
                f"Both match a node with {labels}.",
                f"The other selector stands at {_selector_span(one)}.",
                *((f"Today both match {names(both)} of cluster '{inventory.cluster}'.",) if both else ()),
            ),
            hint="Give the two selectors a key with values that differ, or make one policy the default.",
        )


def _selector_span(policy: documents.Policy) -> diagnostics.Span:
    """The key nodeSelector; the policy's name where it has none and so selects every node."""
    if policy.spec.nodeSelector is None:
        return policy.source.span("metadata", "name")
    return policy.source.places.span(("spec", "nodeSelector"), key=True)


def _too_complex(policy: documents.Policy, rest: overlap.TooComplex) -> diagnostics.Diagnostic:
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


def _nothing_left(policy: documents.Policy) -> diagnostics.Diagnostic:
    # The API server refuses a node affinity without terms, which is what no node would come to.
    return diagnostics.Diagnostic(
        code="selector-never-matches",
        span=policy.source.span("spec", "default"),
        message=f"The other policies leave no node to the default policy '{policy.name}'.",
        notes=("Together they match every node that there can be.",),
        hint="Remove it from the cluster, or narrow the other policies.",
    )


def names(nodes: Sequence[str], most: int = 5) -> str:
    """Nodes in people's words: `3 nodes (a, b, c)`, the first few of them named."""
    noun = "node" if len(nodes) == 1 else "nodes"
    shown = ", ".join(sorted(nodes)[:most])
    more = f" and {len(nodes) - most} more" if len(nodes) > most else ""
    return f"{len(nodes)} {noun} ({shown}{more})"
