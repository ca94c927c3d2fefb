"""Values that the input of several templates has, and manifests.

The input of a template has every decision taken. Leaf values that Kubernetes defines have Kubernetes' field names and
are written into a template as a whole; fields that are None or an empty list are left out.
"""

from typing import Any

import msgspec

from compiler.fleet import clusters, selectors


class Term(msgspec.Struct, frozen=True):
    """NodeSelectorTerm v1 core: every requirement holds."""

    matchExpressions: selectors.Term


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
    """An object to render: its component, its template's name and the value that the template gets; else as `Input`."""

    component: str
    template: str
    value: Any
    kept: bool = False
    folder: str = ""

    def __hash__(self) -> int:
        return hash(msgspec.msgpack.encode(self, order="deterministic"))  # Values hold mappings.


class ClusterManifests(msgspec.Struct, frozen=True, kw_only=True):
    """The objects of a cluster's output."""

    engine: clusters.Engine
    manifests: tuple[Manifest, ...]
    bootstrap: tuple[Manifest, ...]


def terms(selector: selectors.Selector | None) -> tuple[Term, ...]:
    """Return the node affinity of a selector; none for every node."""
    term = selectors.of(selector)
    return (Term(term),) if term else ()
