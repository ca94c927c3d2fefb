"""Judged documents to typed values: raw data ends here."""

from collections.abc import Iterator, Mapping
from typing import Any

from compiler import diagnostics, names
from compiler.fleet import definitions
from compiler.formats import documents
from compiler.inventory import canonical_form, reduction, snapshot
from compiler.model import cluster, policy


def policy_of(document: documents.Document) -> definitions.Policy:
    """The policy in a document that its schema accepts."""
    found = policy.KAEPolicy.model_validate(document.data)
    name = definitions.PolicyName(found.metadata.name)
    return definitions.Policy(name=name, spec=found.spec, source=document)


def cluster_of(document: documents.Document) -> definitions.Cluster:
    """The cluster in a document that its schema accepts."""
    found = cluster.KAECluster.model_validate(document.data)
    name = snapshot.ClusterName(found.metadata.name)
    return definitions.Cluster(name=name, spec=found.spec, source=document)


def default_cluster(name: str) -> definitions.Cluster:
    """A cluster that has an inventory but no KAECluster."""
    return definitions.Cluster(name=snapshot.ClusterName(name), spec=cluster.KAEClusterSpec(), source=None)


def inventory_cluster(document: documents.Document) -> str:
    """The cluster that an inventory, or a list of nodes, belongs to."""
    data: Mapping[str, Any] = document.data
    return data["metadata"]["name"] if data["kind"] == "NodeInventory" else names.stem(document.file)


def inventory_of(document: documents.Document, spec: cluster.KAEClusterSpec) -> snapshot.Inventory:
    """The inventory in a NodeInventory or a list of nodes that is sound."""
    if document.data["kind"] == "NodeInventory":
        return canonical_form.of_document(document.file, document.data)
    name = snapshot.ClusterName(names.stem(document.file))
    ignored = spec.watcher.ignoreLabels
    return reduction.of_kubernetes(name, document.file, document.data["items"], ignored)


def misplaced(document: documents.Document, kind: str | None) -> Iterator[diagnostics.Diagnostic]:
    """A folder of inventories, which a program in the cluster may write to, holds no policy and no cluster."""
    if kind in ("KAEPolicy", "KAECluster"):
        yield diagnostics.Diagnostic(
            code="unknown-kind",
            span=document.span("kind"),
            message=f"A {kind} is not read here.",
            notes=("Whoever may write inventories only must not decide what runs on the nodes.",),
            hint=f"Move it to {names.POLICIES}/.",
        )


def misnamed_inventory(document: documents.Document) -> Iterator[diagnostics.Diagnostic]:
    """An inventory's file is named after its cluster, in a name that a cluster can have."""
    name, expected = inventory_cluster(document), names.stem(document.file)
    if document.data["kind"] == "NodeInventory" and name != expected:
        yield diagnostics.Diagnostic(
            code="inventory-name",
            span=document.span("metadata", "name"),
            message=f"The inventory of cluster '{name}' is in a file named '{expected}'.",
            hint=f"Rename the file to {name}.json.",
        )
    elif not names.is_cluster(name):
        yield diagnostics.Diagnostic(
            code="inventory-name",
            span=diagnostics.Span(file=document.file),
            message=f"'{name}', the file's name, is no name of a cluster.",
            notes=("A list of nodes belongs to the cluster that its file is named after.",),
            hint="Use lower-case letters, digits, '-' and '.', at most 50 characters.",
        )
