"""The rule for the size of a policy's DaemonSets, which grow with the values that their nodes are selected by."""

from collections.abc import Iterable, Iterator

from compiler.diagnostics import Diagnostic, rule
from compiler.fleet import assignment, definitions, selectors
from compiler.planning import pools

_REST = 32 << 10
"""Bytes left for everything in a DaemonSet but its node affinity; one with default settings needs 7 KB."""
_STORED = 1536 << 10
"""Bytes of an object: etcd's --max-request-bytes, 1.5 MiB."""
_ANNOTATED = 256 << 10
"""Bytes of all annotations of an object: TotalAnnotationSizeLimitB in k8s.io/apimachinery/pkg/api/validation."""
_WHY_STORED = (
    "etcd takes objects of at most 1.5 MiB (--max-request-bytes).",
    "A larger DaemonSet may still fit, but not the copy of its pod template, a ControllerRevision: then no pod starts.",
)
_WHY_ANNOTATED = (
    "Argo CD keeps a copy of the DaemonSet in an annotation (client-side apply), and the API server takes annotations "
    "of at most 256 KiB.",
)


@rule("object-too-large", "error")
def daemonsets(cluster: definitions.Cluster, division: pools.Division) -> Iterator[Diagnostic]:
    """The values that a DaemonSet selects its nodes by fit into one object."""
    policy, by_argo = division.policy, cluster.spec.gitops.engine == "argocd"
    limit = (_ANNOTATED if by_argo else _STORED) - _REST
    size, name, terms = max((_bytes(terms), name, terms) for name, terms in (("", ()), *_affinities(division)))
    if size > limit:
        values = sum(len(requirement.values) for term in terms for requirement in term)
        is_default, kinds = policy.is_default, len(assignment.presence(policy))
        yield Diagnostic(
            code="object-too-large",
            span=policy.source.key_span("spec", "default" if is_default else "nodeSelector"),
            message=f"DaemonSet '{name}' of policy '{policy.name}' in cluster '{cluster.name}' selects its nodes by "
            f"{values:,} values, {size:,} bytes; {limit:,} fit beside the rest of it.",
            notes=(
                *(_WHY_ANNOTATED if by_argo else _WHY_STORED),
                *(["The default policy excludes every value that another policy lists."] if is_default else ()),
                *([f"They stand there once for each of its {kinds} device kinds."] if kinds > 1 else ()),
            ),
            hint="Let the other policies select by one shared label, such as `pool`, instead of by many values."
            if is_default
            else "Give the nodes one label, such as `pool`, and select by it, or split the policy.",
        )


def _affinities(division: pools.Division) -> Iterator[tuple[str, tuple[selectors.Term, ...]]]:
    """Yield the DaemonSets of a policy that may be the largest, by name: pools differ by their names alone."""
    policy, recipe = division.policy.name, division.policy.recipe
    if division.pools:
        pool = max(division.pools, key=lambda pool: len(pool.name))
        yield "--".join((f"{recipe.driver}-{policy}", *(() if pool.is_whole else (pool.name,)))), pool.terms
    yield f"{recipe.device_plugin}-{policy}", division.device_plugin_terms


def _bytes(terms: Iterable[selectors.Term]) -> int:
    """Return the size of a node affinity as JSON, to a few bytes a requirement; keys and values are ASCII."""
    frame = len('{"key":"","operator":"DoesNotExist","values":[]},')
    return sum(
        frame + len(requirement.key) + sum(map(len, requirement.values)) + len('"",') * len(requirement.values)
        for term in terms
        for requirement in term
    )
