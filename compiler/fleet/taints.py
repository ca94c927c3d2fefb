"""Taints: which of them keep the pod of a DaemonSet away from a node."""

from collections.abc import Iterable

from compiler.fleet import pods
from compiler.inventory import snapshot


def tolerates(toleration: pods.Toleration, taint: snapshot.Taint) -> bool:
    """Return whether a toleration tolerates a taint (`Toleration.ToleratesTaint` in k8s.io/api/core/v1)."""
    if toleration.effect not in (None, taint.effect) or toleration.key not in (None, taint.key):
        return False
    return toleration.operator == "Exists" or (toleration.value or "") == taint.value


def untolerated(tolerations: Iterable[pods.Toleration], taints: Iterable[snapshot.Taint]) -> tuple[snapshot.Taint, ...]:
    """Return the taints that keep the pod of a DaemonSet away; PreferNoSchedule never does."""
    known = tuple(tolerations)
    return tuple(
        taint
        for taint in taints
        if taint.effect != "PreferNoSchedule" and not any(tolerates(toleration, taint) for toleration in known)
    )


def text(taint: snapshot.Taint) -> str:
    """Return a taint as kubectl writes it: key=value:effect."""
    value = f"={taint.value}" if taint.value else ""
    return f"{taint.key}{value}:{taint.effect}"
