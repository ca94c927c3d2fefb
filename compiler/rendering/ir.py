"""Values that the input of several templates has, and manifests; all are frozen and can be hashed.

The input of a template has every decision taken. Leaf values that Kubernetes defines have Kubernetes' field names and
are written into a template as a whole; `None` fields are left out.
"""

from collections.abc import Iterable
from typing import Any

import msgspec

from compiler.fleet import clusters, pods, selectors
from compiler.output import index_file


class Map(msgspec.Struct, frozen=True):
    """A mapping that can be hashed: pairs sorted by key."""

    pairs: tuple[tuple[str, Any], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.pairs)


def mapping(pairs: Iterable[tuple[str, Any]]) -> Map:
    """Return a `Map` of these pairs, sorted."""
    return Map(tuple(sorted(pairs)))


class Requirement(msgspec.Struct, frozen=True, kw_only=True):
    """NodeSelectorRequirement v1 core."""

    key: str
    operator: str
    values: tuple[str, ...] | None = None


class Term(msgspec.Struct, frozen=True, kw_only=True):
    """NodeSelectorTerm v1 core: every requirement holds."""

    matchExpressions: tuple[Requirement, ...]


class EnvVar(msgspec.Struct, frozen=True, kw_only=True):
    """EnvVar v1 core with a plain value."""

    name: str
    value: str | None
    """None for the empty one, which the API server drops."""


class Placement(msgspec.Struct, frozen=True, kw_only=True):
    """Where the pods of a program run, and how their images are pulled."""

    image: str
    pull_policy: str
    pull_secrets: tuple[pods.Reference, ...]
    tolerations: tuple[pods.Toleration, ...]
    terms: tuple[Term, ...]
    """The nodes that take it, for node affinity; none means every node."""


class Input(msgspec.Struct, frozen=True):
    """A value, and the templates of a component that get it, each for an object."""

    templates: tuple[str, ...]
    """Without their ending."""
    value: Any
    kept: bool = False
    """True when a GitOps engine must not delete the objects after they have left the output."""
    folder: str = ""
    """The folder of the objects below output/<cluster>/, where it is not that of the component."""


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """An object to render: its component, its template's name and the value that the template gets."""

    component: str
    template: str
    value: Any
    kept: bool = False
    """True when a GitOps engine must not delete the object after it has left the output."""
    folder: str = ""
    """The folder of the object below output/<cluster>/, where it is not that of its component."""


class ClusterManifests(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a cluster's output is made from."""

    name: str
    has_nodes: bool
    declared: bool
    """True when the cluster has a KAECluster."""
    frozen: tuple[index_file.Frozen, ...]
    engine: clusters.Engine
    manifests: tuple[Manifest, ...]
    bootstrap: tuple[Manifest, ...]


def environment(variables: Iterable[pods.EnvVar]) -> tuple[EnvVar, ...]:
    """Return environment variables as they are rendered."""
    return tuple(EnvVar(name=variable.name, value=_literal(variable.value)) for variable in variables)


def _literal(value: str) -> str | None:
    """Return what the kubelet expands to a value, which else would take $(NAME) for a variable; None for none.

    It turns "$$" into "$" anywhere: `Expand` in Kubernetes' third_party/forked/golang/expansion/expand.go.
    """
    return value.replace("$", "$$") or None


def resources(requirements: pods.Resources) -> Map | None:
    """Return requests and limits as they are rendered; None for neither."""
    parts = {
        name: mapping((key, str(amount)) for key, amount in amounts.items())
        for name, amounts in (("limits", requirements.limits), ("requests", requirements.requests))
        if amounts
    }
    return mapping(parts.items()) if parts else None


def terms(selector: selectors.Selector | None) -> tuple[Term, ...]:
    """Return the node affinity of a selector; none for every node."""
    requirements = selectors.of(selector)
    return (term(requirements),) if requirements else ()


def term(requirements: selectors.Term) -> Term:
    """Return a term of node affinity as it is rendered."""
    return Term(
        matchExpressions=tuple(
            Requirement(key=part.key, operator=part.operator, values=part.values or None) for part in requirements
        )
    )
