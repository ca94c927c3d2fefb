"""The readers of all accepted documents, and the fleet that they make up."""

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from compiler import kae, names, recipes
from compiler.fleet import clusters, definitions
from compiler.formats import documents
from compiler.inventory import canonical_form, reduction, snapshot
from compiler.read import device_policy, kae_policy

BUILTIN = kae.RECIPE
"""The recipe that is part of the compiler."""

Complete = Callable[[str, Any], Any]
"""A function that adds the defaults of the schema of a kind to the data of an accepted document of it."""


def policy_of(
    document: documents.Document, complete: Complete, known: Mapping[str, documents.Document]
) -> definitions.Policy:
    """Return the policy in a KAEPolicy or a DevicePolicy that its schema accepts; `known` are recipes by name."""
    data = complete(document.data["kind"], document.data)
    if document.data["kind"] == "KAEPolicy":
        return kae_policy.policy_of(document, data)
    recipe = known[data["spec"]["recipe"]]
    return device_policy.policy_of(document, data, recipe, filled(recipe, data["spec"]["values"], complete))


def recipes_of(policies: Iterable[definitions.Policy]) -> tuple[recipes.Recipe, ...]:
    """Return the recipes that a cluster with these policies is planned by.

    The built-in one is the first, be it without policies; the others follow by name.
    """
    others = {policy.recipe.name: policy.recipe for policy in policies if not policy.recipe.builtin}
    return (BUILTIN, *(others[name] for name in sorted(others)))


def filled(recipe: documents.Document, values: Mapping[str, Any], complete: Complete) -> Mapping[str, Any]:
    """Return the spec of a recipe with the values of a policy, and the defaults of the schema of recipes."""
    spec: Mapping[str, Any] = complete("Recipe", {"spec": device_policy.filled(recipe, values)})["spec"]
    return spec


def cluster_of(document: documents.Document, complete: Complete) -> definitions.Cluster:
    """Return the cluster in a document that its schema accepts."""
    data = complete("KAECluster", document.data)
    name = snapshot.ClusterName(data["metadata"]["name"])
    return definitions.Cluster(name=name, spec=msgspec.convert(data["spec"], clusters.Spec), source=document)


def default_cluster(name: str, complete: Complete) -> definitions.Cluster:
    """Return a cluster that has an inventory but no KAECluster."""
    return definitions.Cluster(name=snapshot.ClusterName(name), spec=_default_spec(complete), source=None)


@functools.lru_cache(maxsize=1)
def _default_spec(complete: Complete) -> clusters.Spec:
    return msgspec.convert(complete("KAECluster", {"spec": {}})["spec"], clusters.Spec)


def inventory_cluster(document: documents.Document) -> str:
    """Return the name of the cluster that a NodeInventory or a list of nodes belongs to."""
    data: Mapping[str, Any] = document.data
    return data["metadata"]["name"] if data["kind"] == "NodeInventory" else names.stem(document.file)


def inventory_of(document: documents.Document, spec: clusters.Spec) -> snapshot.Inventory:
    """Return the inventory in an accepted NodeInventory or list of nodes."""
    if document.meaning is not None:
        inventory: snapshot.Inventory = document.meaning
        return inventory
    if document.data["kind"] == "NodeInventory":
        return canonical_form.of_document(document.file, document.data)
    name = snapshot.ClusterName(names.stem(document.file))
    watcher = spec.watcher
    items = document.data["items"]
    return reduction.of_kubernetes(name, document.file, items, watcher.ignoreLabels, watcher.inventory.labels)


def fleet_of(
    policies: Iterable[definitions.Policy],
    declared: Sequence[definitions.Cluster],
    inventories: Iterable[documents.Document],
    known: Iterable[str],
    complete: Complete,
) -> definitions.Fleet:
    """Return the fleet of accepted documents.

    A cluster has a KAECluster, an inventory or both. `known` are clusters whose inventories are not read here. Of
    several documents for one cluster, the first KAECluster and the last inventory are taken.
    """
    named = [(snapshot.ClusterName(inventory_cluster(document)), document) for document in inventories]
    by_name = {cluster.name: cluster for cluster in reversed(declared)}
    for name in (*(name for name, _ in named), *map(snapshot.ClusterName, known)):
        by_name.setdefault(name, default_cluster(name, complete))
    return definitions.Fleet(
        policies=tuple(policies),
        clusters=tuple(by_name[name] for name in sorted(by_name)),
        inventories={name: inventory_of(document, by_name[name].spec) for name, document in named},
    )
