"""Nodes as the watcher has them."""

from collections.abc import Mapping
from typing import Any

from compiler.inventory import snapshot

KERNEL = "5.10.0-216.0.0.115.oe2203sp4.aarch64"


def node(name: str, hpre: int = 2, labels: Mapping[str, str] | None = None, **facts: Any) -> snapshot.Node:
    """A node with so many HPRE devices, found by NFD; with none at all NFD has found nothing of ours."""
    devices = {"openfuyao.com/kae.hpre.pf": str(hpre), "openfuyao.com/kae.hpre.present": "true"} if hpre else {}
    stated: dict[str, Any] = {
        "architecture": "arm64",
        "kernel_version": KERNEL,
        "kubelet_version": "v1.36.3",
        "os_image": "openEuler 22.03 (LTS-SP4)",
        "discovered": True,
        "labels": {"feature.node.kubernetes.io/kernel-version.major": "5", **devices},
        "taints": (),
    }
    return snapshot.Node(
        name=name, profile=snapshot.Profile(**stated | facts), hostname=name, labels=dict(labels or {})
    )


def unlabelled(name: str) -> snapshot.Node:
    """A node whose labels NFD has taken away."""
    return node(name, hpre=0, labels={}, discovered=False)
