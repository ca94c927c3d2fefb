"""Supported releases of Kubernetes and NFD."""

import re
from collections.abc import Iterable

from compiler.fleet import clusters
from compiler.inventory import snapshot
from runtime import dra

OLDEST_KUBERNETES = 25
"""The oldest minor release that manifests are rendered for."""

GUARD_KUBERNETES = 30
"""The first minor release whose API server can confine an eviction to a node: it has ValidatingAdmissionPolicy v1, and
the node's name in the claims of a pod's token."""

QUIET_KUBERNETES = 36
"""The first minor release whose API server and kubelet start the containers of a pod over where one of them asks for
it: RestartAllContainers of KEP-5532, on by default from then on."""

DRA_KUBERNETES = dra.SINCE
"""The first minor release whose scheduler serves extended resources by DRA (KEP-5004), and that has the other features
of it that the device plugin uses: taints (KEP-5055) and capacities (KEP-5075), both on by default from then on."""

DRA_CONTAINERD = 2
"""The first release of containerd that gives a container its CDI devices by default; an older one leaves them out, and
the pod runs without its device."""

DRA_CRIO = 28
"""The first minor release of CRI-O 1 that takes CDI devices from the field of the CRI in which a kubelet names them;
CDI is on by default."""

MUTATING_KUBERNETES = 36
"""The first minor release whose API server has MutatingAdmissionPolicy v1 (KEP-3962)."""

_NFD_TAG = re.compile(r"v?0\.(16|17|18|19)(\.[0-9]+)?([-+.].*)?")


_RUNTIMES = (
    (re.compile(r"containerd://v?([0-9]+)\."), DRA_CONTAINERD),
    (re.compile(r"cri-o://v?1\.([0-9]+)"), DRA_CRIO),
)


def gives_cdi_devices(runtime: str) -> bool:
    """Return whether a container runtime, as a node names it, surely gives a container its CDI devices by default."""
    found = ((pattern.match(runtime), least) for pattern, least in _RUNTIMES)
    return any(match is not None and int(match[1]) >= least for match, least in found)


def nfd_minor(tag: str) -> int | None:
    """Return the minor release of an NFD tag; None if NFD is not rendered for it."""
    match = _NFD_TAG.fullmatch(tag)
    return int(match[1]) if match else None


def kubernetes_minor(version: str) -> int:
    """Return the minor release in a version such as 1.31 or v1.31.4+k3s1; 0 if it has none."""
    match = re.match(r"v?1\.([0-9]+)", version)
    return int(match[1]) if match else 0


def stated_kubernetes(spec: clusters.Spec) -> int | None:
    """Return the minor release of the API server that the KAECluster states."""
    return None if spec.kubernetesVersion is None else kubernetes_minor(spec.kubernetesVersion)


def newest_kubelet(nodes: Iterable[snapshot.Node]) -> int | None:
    """Return the minor release of the newest kubelet; the API server is no older, and up to three releases newer.

    https://kubernetes.io/releases/version-skew-policy/#kubelet
    """
    minors = map(kubernetes_minor, {node.profile.kubelet_version for node in nodes})
    return max(filter(None, minors), default=None)


def oldest_kubelet(nodes: Iterable[snapshot.Node]) -> int | None:
    """Return the minor release of the oldest kubelet; None where the inventory tells none."""
    minors = map(kubernetes_minor, {node.profile.kubelet_version for node in nodes})
    return min(filter(None, minors), default=None)


def starts_over(spec: clusters.Spec, nodes: Iterable[snapshot.Node]) -> bool:
    """Return whether a pod may have its containers started over: an older API server drops what asks for it."""
    stated, kubelet = stated_kubernetes(spec), oldest_kubelet(nodes)
    return stated is not None and min(stated, stated if kubelet is None else kubelet) >= QUIET_KUBERNETES


def can_mutate(spec: clusters.Spec) -> bool:
    """Return whether the API server is known to have MutatingAdmissionPolicy: no engine can apply it to another."""
    return (stated_kubernetes(spec) or 0) >= MUTATING_KUBERNETES


def can_guard(spec: clusters.Spec) -> bool:
    """Return whether the API server is taken to know the guard's kinds: unless the KAECluster says that it does not."""
    stated = stated_kubernetes(spec)
    return stated is None or stated >= GUARD_KUBERNETES
