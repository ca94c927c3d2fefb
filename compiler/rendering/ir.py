"""The input of the templates: one frozen, hashable value for each object, with every decision taken.

Leaf values that Kubernetes defines have Kubernetes' field names and are written into a template as a whole;
`None` fields are left out. The values of bootstrap/ are in `bootstrap_values`,
those of NFD, the watcher, NetworkPolicies and OpenShift in `cluster_values`.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Literal

import msgspec

from compiler.fleet import clusters, pods
from compiler.output import index_file


class Map(msgspec.Struct, frozen=True):
    """A mapping that can be hashed: pairs sorted by key."""

    pairs: tuple[tuple[str, Any], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.pairs)


class Requirement(msgspec.Struct, frozen=True, kw_only=True):
    """NodeSelectorRequirement v1 core."""

    key: str
    operator: str
    values: tuple[str, ...] | None = None


class Term(msgspec.Struct, frozen=True, kw_only=True):
    """NodeSelectorTerm v1 core: every requirement holds."""

    matchExpressions: tuple[Requirement, ...]


class EnvVar(msgspec.Struct, frozen=True, kw_only=True):
    """EnvVar v1 core with a plain value."""

    name: str
    value: str | None
    """None for the empty one, which the API server drops."""


class Namespace(msgspec.Struct, frozen=True, kw_only=True):
    """The namespace of everything namespaced; privileged: with Pod Security labels."""

    name: str
    privileged: bool


class Expression(msgspec.Struct, frozen=True, kw_only=True):
    """MatchExpression of NFD."""

    op: str
    value: tuple[str, ...] | None = None


class Feature(msgspec.Struct, frozen=True, kw_only=True):
    """FeatureMatcherTerm of NFD: conditions on the attributes of a feature, all of which hold."""

    feature: str
    matchExpressions: Map
    """An `Expression` for each attribute."""


Hardware = tuple[tuple[Feature, ...], ...]
"""Features of which all of one element hold."""


class DeviceRule(msgspec.Struct, frozen=True, kw_only=True):
    """A label for the nodes with certain hardware."""

    name: str
    label: str
    hardware: Hardware
    counts: bool = False
    """True where the label's value is the number of PCI functions, otherwise it is "true"."""


class DeviceRules(msgspec.Struct, frozen=True, kw_only=True):
    """The NodeFeatureRule of a recipe's name: labels for its hardware."""

    name: str
    rules: tuple[DeviceRule, ...]


class GroupRule(msgspec.Struct, frozen=True, kw_only=True):
    """The nodes of a group by name; none for the rest, which is every other node."""

    name: str
    nodes: tuple[str, ...]


class KernelRule(msgspec.Struct, frozen=True, kw_only=True):
    """The kernels of a class, as a feature matcher's operator and value."""

    name: str
    operator: Literal["In", "InRegexp"]
    value: str


class PoolRule(msgspec.Struct, frozen=True, kw_only=True):
    """The pool of the nodes in this group and with these kernels; None matches every node."""

    name: str
    group: str | None
    kernels: str | None


class PoolRules(msgspec.Struct, frozen=True, kw_only=True):
    """The NodeFeatureRule `<recipe>-pool-<policy>`: the label that says in which pool of its policy a node is."""

    name: str
    policy: str
    label: str
    group_variable: str
    kernel_variable: str
    hardware: Hardware
    """What a node of the policy has; for a recipe of every node, a feature that every node has."""
    groups: tuple[GroupRule, ...]
    """In order: the first that matches holds."""
    kernels: tuple[KernelRule, ...]
    """In order: the first that matches holds."""
    pools: tuple[PoolRule, ...]


class DriverAccess(msgspec.Struct, frozen=True, kw_only=True):
    """Permissions of the driver installers of a recipe, which share one ServiceAccount in a cluster."""

    account: str
    """The ServiceAccount, its ClusterRole and the binding of this."""
    name: str
    """The name of the Role and of its binding."""
    namespace: str
    leases: tuple[str, ...]
    """The Leases that pace the swaps."""
    daemonsets: tuple[str, ...]
    """The DaemonSets that an installer may ask for: its own, before it cleans up, where the policy has it clean up."""


class Pod(msgspec.Struct, frozen=True, kw_only=True):
    """The common fields of the pods of both node programs."""

    namespace: str
    name: str
    """Of the DaemonSet."""
    recipe: str
    app: str
    """app.kubernetes.io/name of the pods, and their ServiceAccount."""
    policy: str
    labels: Map
    """The users' own, for the pod template only."""
    tolerations: tuple[pods.Toleration, ...]
    priority_class: str
    image: str
    pull_policy: str
    pull_secrets: tuple[pods.Reference, ...]
    resources: Map | None
    """ResourceRequirements v1 core."""
    terms: tuple[Term, ...]
    """The nodes that it serves, for node affinity."""
    max_unavailable: int | str
    config: str
    """The program's config file: JSON over several lines, as people review it."""
    kubelet_dir: str
    """The kubelet's root folder."""
    metrics_port: int | None


class Payload(msgspec.Struct, frozen=True, kw_only=True):
    """A file or folder of an image that an init container copies for the installer."""

    name: str
    """Of the container."""
    image: str
    path: str
    parent: str
    """The folder below /payload that it is copied to."""


class HostFolder(msgspec.Struct, frozen=True, kw_only=True):
    """A folder of the host that a device plugin sees below /host."""

    name: str
    """Of the volume."""
    path: str


class DriverPool(Pod, frozen=True, kw_only=True):
    """A DaemonSet of driver installers."""

    pool: str
    state: Literal["Present", "Absent"]
    env: tuple[EnvVar, ...]
    credentials_secret: str | None
    """The Secret with the user of the package repositories."""
    min_ready_seconds: int
    grace_seconds: int
    """Time to end a step, or to clean up, after SIGTERM."""
    payloads: tuple[Payload, ...] = ()
    node_address: bool = False
    """True when the installer is told the node's address, as interfaces hang on a module."""


class DevicePlugin(Pod, frozen=True, kw_only=True):
    """A DaemonSet of device plugins."""

    run_dir: str
    """The host's folder of the recipe in /run."""
    folders: tuple[HostFolder, ...]
    """Those above what containers get of the host, such as KAE's libraries."""
    device_nodes: bool
    """True when the plugin sets mode and group of the device nodes."""
    device_group: int | None
    """The group that it sets."""


class MetricsPort(msgspec.Struct, frozen=True, kw_only=True):
    """Pods of a policy that serve metrics."""

    name: str
    """app.kubernetes.io/name of the pods."""
    policy: str


class Monitoring(msgspec.Struct, frozen=True, kw_only=True):
    """The input of the objects for the Prometheus Operator and Grafana: the programs that serve metrics."""

    namespace: str
    cluster: str
    scraped: tuple[MetricsPort, ...]
    watcher: bool
    recipes: str
    """A regular expression (RE2) for the names of the recipes, with which the names of their pods begin."""
    whose: str
    """What stands before `driver` in sentences: nothing where there are drivers of other recipes."""


class Account(msgspec.Struct, frozen=True, kw_only=True):
    """A ServiceAccount without rights."""

    name: str
    namespace: str


class Guard(msgspec.Struct, frozen=True, kw_only=True):
    """The admission policies that confine an installer's evictions and Leases to its own node."""

    account: str
    """The ServiceAccount, after which the policies are named, and the Leases begin."""
    namespace: str
    installer: str
    """The beginning of sentences about it."""


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """An object to render: its component, its template's name and the value that the template gets."""

    component: str
    template: str
    value: Any
    kept: bool = False
    """True when a GitOps engine must not delete the object after it has left the output."""
    folder: str = ""
    """The folder of the object below output/<cluster>/, where it is not that of its component."""


class ClusterManifests(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a cluster's output is made from."""

    name: str
    has_nodes: bool
    declared: bool
    """True when the cluster has a KAECluster."""
    frozen: tuple[index_file.Frozen, ...]
    engine: clusters.Engine
    manifests: tuple[Manifest, ...]
    bootstrap: tuple[Manifest, ...]


def manifests(component: str, templates: Iterable[str], value: Any, *, kept: bool = False) -> Iterator[Manifest]:
    """Yield a manifest for each template of a component; all get the same value."""
    for template in templates:
        yield Manifest(component=component, template=f"{template}.yaml", value=value, kept=kept)


def mapping(pairs: Iterable[tuple[str, Any]]) -> Map:
    """Return a `Map` of these pairs, sorted."""
    return Map(tuple(sorted(pairs)))
