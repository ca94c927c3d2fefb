"""Supported releases: of Kubernetes and NFD, and the operating systems and kernels of KAE's driver."""

import re
from collections.abc import Iterable

from compiler.inventory import snapshot
from compiler.model import cluster

OLDEST_KUBERNETES = 25
"""The oldest minor release that manifests are rendered for."""

GUARD_KUBERNETES = 30
"""The first minor release whose API server can confine an eviction to a node: it has ValidatingAdmissionPolicy v1, and
the node's name in the claims of a pod's token."""

_NFD_TAG = re.compile(r"v?0\.(16|17|18|19)(\.[0-9]+)?([-+.].*)?")

_SYSTEMS = ("openEuler 22.03", "openEuler 24.03", "EulerOS", "TencentOS")
_KERNELS = ("5.4.", "5.10.", "5.15.", "6.6.")
"""Operating systems and kernels that KAE 2.x supports (kunpengcompute/KAE, release notes and env-check.sh)."""

_PLAIN_2203 = "oe2203."
"""The kernel of openEuler 22.03 without a service pack, which env-check.sh refuses."""


def nfd_minor(tag: str) -> int | None:
    """Return the minor release of an NFD tag; None if NFD is not rendered for it."""
    match = _NFD_TAG.fullmatch(tag)
    return int(match[1]) if match else None


def kubernetes_minor(version: str) -> int:
    """Return the minor release in a version such as 1.31 or v1.31.4+k3s1; 0 if it has none."""
    match = re.match(r"v?1\.([0-9]+)", version)
    return int(match[1]) if match else 0


def stated_kubernetes(spec: cluster.KAEClusterSpec) -> int | None:
    """Return the minor release of the API server that the KAECluster states."""
    return None if spec.kubernetesVersion is None else kubernetes_minor(spec.kubernetesVersion)


def newest_kubelet(nodes: Iterable[snapshot.Node]) -> int | None:
    """Return the minor release of the newest kubelet; the API server is no older, and up to three releases newer.

    https://kubernetes.io/releases/version-skew-policy/#kubelet
    """
    minors = map(kubernetes_minor, {node.profile.kubelet_version for node in nodes})
    return max(filter(None, minors), default=None)


def can_guard(spec: cluster.KAEClusterSpec) -> bool:
    """Return whether the API server is taken to know the guard's kinds: unless the KAECluster says that it does not."""
    stated = stated_kubernetes(spec)
    return stated is None or stated >= GUARD_KUBERNETES


def is_system(os_image: str) -> bool:
    """Return whether KAE's driver supports an operating system, given as a node's status names it."""
    return os_image.startswith(_SYSTEMS)


def is_kernel(version: str) -> bool:
    """Return whether KAE's driver supports a kernel, given as `uname -r` prints it."""
    return version.startswith(_KERNELS) and _PLAIN_2203 not in version
