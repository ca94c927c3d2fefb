"""The input of the templates for a cluster as a whole: NFD, the watcher, NetworkPolicies and OpenShift's admission."""

from dataclasses import dataclass
from typing import Literal

from compiler.rendering import ir

Protocol = Literal["TCP", "UDP"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Where the pods of a cluster's program run, and how their images are pulled."""

    image: str
    pull_policy: str
    pull_secrets: tuple[ir.Reference, ...]
    tolerations: tuple[ir.Toleration, ...]
    terms: tuple[ir.Term, ...]
    """The nodes that take it, for node affinity; none means every node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NfdPod:
    """What differs between the pods of NFD."""

    priority_class: str | None
    resources: ir.Map | None
    """ResourceRequirements v1 core."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Nfd(Placement):
    """NFD in one cluster: its minor release (16 to 19) decides its arguments and its rights.

    The tolerations and the nodes are those of the master and of the garbage collector.
    """

    namespace: str
    minor: int
    worker_tolerations: tuple[ir.Toleration, ...]
    master: NfdPod
    worker: NfdPod
    gc: NfdPod
    fixed_user: bool
    """False where the platform assigns users."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Watcher(Placement):
    """The inventory watcher."""

    namespace: str
    env: tuple[ir.EnvVar, ...]
    resources: ir.Map | None
    """ResourceRequirements v1 core."""
    priority_class: str | None
    secret: str
    signing_secret: str | None
    config: str
    metrics_port: int | None
    fixed_user: bool
    """False where the platform assigns users."""
    schedule: str | None
    """Of the CronJob; none for a Deployment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkPort:
    """NetworkPolicyPort v1."""

    port: int
    protocol: Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkPolicy:
    """The connections of a program's pods: from and to any address, at these ports alone."""

    namespace: str
    name: str
    """Of the policy, and app.kubernetes.io/name of the pods."""
    ingress: tuple[NetworkPort, ...]
    egress: tuple[NetworkPort, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class HostAccess:
    """The pods of a program that OpenShift admits with paths of the node."""

    namespace: str
    account: str
    """The ServiceAccount of the pods."""
    name: str
    """The name of the security context constraints, and the stem of other names."""
    as_root: bool
    """True where the pods run as root, outside of SELinux' types for containers."""
