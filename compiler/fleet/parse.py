"""Convert accepted documents, which are raw data, to typed values."""

import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from compiler import names
from compiler.fleet import definitions, selectors
from compiler.formats import documents
from compiler.inventory import canonical_form, reduction, snapshot
from compiler.model import cluster, policy


def policy_of(document: documents.Document) -> definitions.Policy:
    """Return the policy in a document that its schema accepts."""
    model = policy.KAEPolicy.model_validate(document.data)
    name = definitions.PolicyName(model.metadata.name)
    term = selectors.of(model.spec.nodeSelector)
    return definitions.Policy(name=name, spec=model.spec, term=term, source=document)


def device_policy_of(document: documents.Document, recipe: definitions.Recipe) -> definitions.Policy:
    """Return the DevicePolicy in a document that its schema accepts, whose recipe is this one."""
    from compiler.fleet import stacks  # noqa: PLC0415 - projects without DevicePolicies need none of its models
    from compiler.model.stacks import device_policy  # noqa: PLC0415

    model = device_policy.DevicePolicy.model_validate(document.data)
    return definitions.Policy(
        name=definitions.PolicyName(model.metadata.name),
        recipe=stacks.value_of(recipe),
        spec=stacks.spec_of(recipe, model.spec),
        term=selectors.of(model.spec.nodeSelector),
        source=document,
    )


def cluster_of(document: documents.Document) -> definitions.Cluster:
    """Return the cluster in a document that its schema accepts."""
    model = cluster.KAECluster.model_validate(document.data)
    name = snapshot.ClusterName(model.metadata.name)
    return definitions.Cluster(name=name, spec=model.spec, source=document)


def default_cluster(name: str) -> definitions.Cluster:
    """Return a cluster that has an inventory but no KAECluster."""
    return definitions.Cluster(name=snapshot.ClusterName(name), spec=_default_spec(), source=None)


@functools.cache
def _default_spec() -> cluster.KAEClusterSpec:
    """Return the settings of every cluster without KAECluster; they are frozen, and take pydantic 0.1 ms to make."""
    return cluster.KAEClusterSpec()


def inventory_cluster(document: documents.Document) -> str:
    """Return the name of the cluster that a NodeInventory or a list of nodes belongs to."""
    data: Mapping[str, Any] = document.data
    return data["metadata"]["name"] if data["kind"] == "NodeInventory" else names.stem(document.file)


def inventory_of(document: documents.Document, spec: cluster.KAEClusterSpec) -> snapshot.Inventory:
    """Return the inventory in an accepted NodeInventory or list of nodes."""
    if document.data["kind"] == "NodeInventory":
        return canonical_form.of_document(document.file, document.data)
    name = snapshot.ClusterName(names.stem(document.file))
    watcher = spec.watcher
    items = document.data["items"]
    return reduction.of_kubernetes(name, document.file, items, watcher.ignoreLabels, watcher.inventory.labels)


def fleet_of(
    policies: Iterable[definitions.Policy],
    clusters: Sequence[definitions.Cluster],
    inventories: Iterable[documents.Document],
    known: Iterable[str],
) -> definitions.Fleet:
    """Return the fleet of accepted documents.

    A cluster has a KAECluster, an inventory or both. `known` are clusters whose inventories are not read here. Of
    several documents for one cluster, the first KAECluster and the last inventory are taken.
    """
    named = [(snapshot.ClusterName(inventory_cluster(document)), document) for document in inventories]
    by_name = {cluster.name: cluster for cluster in reversed(clusters)}
    for name in (*(name for name, _ in named), *map(snapshot.ClusterName, known)):
        by_name.setdefault(name, default_cluster(name))
    return definitions.Fleet(
        policies=tuple(policies),
        clusters=tuple(by_name[name] for name in sorted(by_name)),
        inventories={name: inventory_of(document, by_name[name].spec) for name, document in named},
    )
