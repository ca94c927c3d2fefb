"""The input of the templates for a cluster as a whole: NFD, the watcher, NetworkPolicies and OpenShift's admission."""

from typing import Literal

import msgspec

from compiler.fleet import pods
from compiler.rendering import ir

Protocol = Literal["TCP", "UDP"]


class Placement(msgspec.Struct, frozen=True, kw_only=True):
    """Where the pods of a cluster's program run, and how their images are pulled."""

    image: str
    pull_policy: str
    pull_secrets: tuple[pods.Reference, ...]
    tolerations: tuple[pods.Toleration, ...]
    terms: tuple[ir.Term, ...]
    """The nodes that take it, for node affinity; none means every node."""


class NfdPod(msgspec.Struct, frozen=True, kw_only=True):
    """What differs between the pods of NFD."""

    priority_class: str | None
    resources: ir.Map | None
    """ResourceRequirements v1 core."""


class Nfd(Placement, frozen=True, kw_only=True):
    """NFD in one cluster: its minor release (16 to 19) decides its arguments and its rights.

    The tolerations and the nodes are those of the master and of the garbage collector.
    """

    namespace: str
    minor: int
    worker_tolerations: tuple[pods.Toleration, ...]
    master: NfdPod
    worker: NfdPod
    gc: NfdPod
    fixed_user: bool
    """False where the platform assigns users."""


class Watcher(Placement, frozen=True, kw_only=True):
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


class NetworkPort(msgspec.Struct, frozen=True, kw_only=True):
    """NetworkPolicyPort v1."""

    port: int
    protocol: Protocol


class NetworkPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """The connections of a program's pods: from and to any address, at these ports alone."""

    namespace: str
    name: str
    """Of the policy, and app.kubernetes.io/name of the pods."""
    ingress: tuple[NetworkPort, ...]
    egress: tuple[NetworkPort, ...]


class HostAccess(msgspec.Struct, frozen=True, kw_only=True):
    """The pods of a program that OpenShift admits with paths of the node."""

    namespace: str
    account: str
    """The ServiceAccount of the pods."""
    name: str
    """The name of the security context constraints, and the stem of other names."""
    as_root: bool
    """True where the pods run as root, outside of SELinux' types for containers."""
