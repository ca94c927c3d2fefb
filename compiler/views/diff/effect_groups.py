"""The words for effects that share a sentence: how many nodes they are about, where these are, and what they run."""

from collections.abc import Iterable, Sequence

from compiler import wording
from compiler.changes.revisions.effects import Effect, Placement
from compiler.planning import images

CLUSTERS = 3
"""Clusters that a sentence names."""


def is_left_out(effect: Effect) -> bool:
    """Return whether an inventory has nodes no more whose workloads may stay; those of a cluster that is gone go."""
    return effect.after is None and effect.work not in ("removes", "leaves")


def version(placement: Placement | None) -> str:
    """Return the version of a driver, of a digest the first digits."""
    own = placement.version if placement and placement.version else "-"
    return wording.cut(own[: len(images.DIGEST) + 12] if own.startswith(images.DIGEST) else own)


def image(reference: str | None) -> str:
    """Return an image without its registry."""
    return wording.cut(images.short(reference))


def where(group: Sequence[Effect], preposition: str = "in") -> str:
    """Return the clusters of effects after a preposition; of many, their number."""
    names = clusters(group)
    if len(names) > CLUSTERS:
        return f" {preposition} {len(names)} clusters"
    return f" {preposition} {'cluster' if len(names) == 1 else 'clusters'} {wording.listed(names)}"


def clusters(group: Iterable[Effect]) -> list[str]:
    """Return the names of the clusters, sorted."""
    return sorted({effect.cluster for effect in group})


def size(group: Iterable[Effect]) -> int:
    """Return the number of the nodes."""
    return sum(len(effect.nodes) for effect in group)


def count(group: Iterable[Effect]) -> str:
    """Return the number of the nodes with its noun."""
    return wording.counted(size(group), "node")
