"""A large inventory by examples: one node for all that no selector distinguishes, with the names of the others.

It reads as fast as it can, and judges nothing: what it does not understand is for the thorough reader.
"""

import json
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import msgspec

from compiler import names, recipes
from compiler.fleet import definitions
from compiler.inventory import snapshot

_SYSTEM = "kubernetes.io/os"
"""A label that counts beside those that policies select by."""


class Examples(msgspec.Struct, frozen=True):
    """An inventory with one node of each sort."""

    text: bytes
    """A NodeInventory of the examples."""
    members: Mapping[str, str]
    """The names of the nodes that are like an example, with its own and with spaces between, by the example's name."""

    def expanded(self, chosen: Collection[str]) -> tuple[str, ...]:
        """Return the names of all nodes that are like these examples, sorted."""
        return tuple(sorted(" ".join([self.members[name] for name in chosen]).split()))

    def count(self, chosen: Iterable[str]) -> int:
        """Return the number of all nodes that are like these examples."""
        return sum(self.members[name].count(" ") + 1 for name in chosen)


def keys(policies: Iterable[definitions.Policy], planned: Iterable[recipes.Recipe], cluster: str) -> frozenset[str]:
    """Return the labels by which the nodes of a cluster with these policies differ; none where names count.

    `planned` are the recipes that the cluster is planned by.
    """
    policies = tuple(policies)
    own = {requirement.key for policy in policies for requirement in policy.term}
    # What is loaded decides nothing, and is told.
    deciding = {key for recipe in planned for key in (*recipe.deciding, recipe.driver_version, recipe.driver_state)}
    groups = (group for policy in policies for group in policy.groups)
    if snapshot.HOSTNAME in own or any(names.globs_match(group.clusters, cluster) for group in groups):
        return frozenset()
    return frozenset((*own, *deciding, _SYSTEM))


def examples(content: bytes, keys: frozenset[str]) -> Examples | None:
    """Return an inventory by examples, for nodes that only these labels distinguish beside their profiles.

    None stands for content that is no canonical NodeInventory, or one with mistakes.
    """
    try:
        data = msgspec.json.decode(content)
        if data["kind"] != "NodeInventory":
            return None
        found = _sorts(data["spec"]["nodes"], keys)
        every = [name for own in found.values() for name in own]
        joined = "".join(every)
        if len(set(every)) != len(every) or not all(every) or joined.split() != [joined]:
            return None
        nodes = [
            {"name": own[0], "profile": profile, "labels": dict(labels)} for (profile, *labels), own in found.items()
        ]
        text = json.dumps(data | {"spec": {**data["spec"], "nodes": nodes}})
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError, msgspec.DecodeError):
        return None
    return Examples(text.encode(), {own[0]: " ".join(own) for own in found.values()})


def _sorts(nodes: Any, keys: frozenset[str]) -> Mapping[tuple[Any, ...], list[str]]:
    """Return the names of the nodes by profile and distinguishing labels."""
    found: dict[tuple[Any, ...], list[str]] = {}
    for node in nodes:
        labels = node.get("labels")
        own = [item for item in labels.items() if item[0] in keys] if labels else ()
        sort = (node["profile"], *own)
        known = found.get(sort)
        if known is None:
            found[sort] = [node["name"]]
        else:
            known.append(node["name"])
    return found
