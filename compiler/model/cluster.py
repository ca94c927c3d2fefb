"""KAECluster: what holds for a cluster as a whole."""

from typing import Annotated, Literal

from pydantic import Field

from compiler.model import base
from compiler.model import gitops as engines
from compiler.model import watcher as watchers
from compiler.model.base import Model

Prefix = Annotated[
    str,
    Field(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._:/-]*$",
        max_length=500,
        json_schema_extra=base.form("the beginning of an image reference, such as registry.example.com/team"),
    ),
]


class Mirror(Model):
    """A prefix of images, and what stands in its place."""

    from_: Annotated[Prefix, Field(alias="from")]
    """The prefix, whole parts of a path."""
    to: Prefix
    """What stands in its place."""


class Images(Model):
    """How images are reached."""

    mirrors: tuple[Mirror, ...] = ()
    """The longest prefix that fits is replaced, in every image."""


class NfdImage(Model):
    """NFD's image."""

    repository: Prefix = "registry.k8s.io/nfd/node-feature-discovery"
    """Registry and name."""
    tag: Annotated[
        str,
        Field(
            pattern=r"^[A-Za-z0-9_][A-Za-z0-9._-]*$",
            max_length=128,
            json_schema_extra=base.form("the tag of an image, such as v0.16.4"),
        ),
    ] = "v0.16.4"
    """A tag of NFD's releases 0.16 to 0.19."""
    digest: (
        Annotated[
            str,
            Field(
                pattern="^sha256:[0-9a-f]{64}$",
                json_schema_extra=base.form("a digest, sha256: and 64 hexadecimal digits"),
            ),
        ]
        | None
    ) = None
    """What the kubelet pulls whatever the tag points to; it has to be that of the tag's image."""
    pullPolicy: base.PullPolicy = "IfNotPresent"
    """When the kubelet pulls it."""


class NfdWorker(Model):
    """The pods that report the features of their node, on every Linux node."""

    resources: base.ResourceRequirements = base.defaults(
        requests={"cpu": "5m", "memory": "64Mi"}, limits={"memory": "512Mi"}
    )
    """What the container asks for and is held to; replaces the default as a whole."""
    priorityClassName: base.ObjectName = "system-node-critical"
    """The priority of the pods; it must exist in the cluster."""


class NfdMaster(Model):
    """The pod that evaluates rules and labels nodes."""

    # It holds the reports of all nodes in memory, some 50 KB each before they are decoded.
    resources: base.ResourceRequirements = base.defaults(
        requests={"cpu": "100m", "memory": "128Mi"}, limits={"memory": "4Gi"}
    )
    """What the container asks for and is held to; replaces the default as a whole."""
    priorityClassName: base.ObjectName = "system-cluster-critical"
    """The priority of the pod; it must exist in the cluster."""


class NfdGc(Model):
    """The pod that deletes the reports of nodes that are gone."""

    # Earlier releases list whole reports, some 50 KB a node, not only their metadata.
    resources: base.ResourceRequirements = base.defaults(
        requests={"cpu": "10m", "memory": "128Mi"}, limits={"memory": "1Gi"}
    )
    """What the container asks for and is held to; replaces the default as a whole."""
    priorityClassName: base.ObjectName | None = None
    """The priority of the pod; it must exist in the cluster."""


class Nfd(base.PodPlacement):
    """Node Feature Discovery, which labels the nodes."""

    enabled: bool = True
    """false: NFD is in the cluster already."""
    nodefeaturerules: bool = False
    """Emit our NodeFeatureRules also where NFD is not ours."""
    image: NfdImage = base.defaults()
    """The image of the NFD that we deploy."""
    tolerations: tuple[base.Toleration, ...] = ()
    """For all of NFD's pods; its workers also tolerate what any policy tolerates."""
    nodeSelector: base.NodeSelector | None = None
    """The nodes of the master and of the garbage collector; the workers run on every Linux node."""
    master: NfdMaster = base.defaults()
    """The pod that evaluates rules and labels nodes."""
    worker: NfdWorker = base.defaults()
    """The pods that report the features of their node."""
    gc: NfdGc = base.defaults()
    """The pod that deletes the reports of nodes that are gone."""


class Crd(Model):
    """Custom resource definitions."""

    cleanup: bool = False
    """Let the GitOps engine delete NFD's definitions, and all their objects, when they leave git."""


class Psa(Model):
    """Pod Security Admission."""

    enabled: bool = False
    """Label the namespace as privileged."""


class Monitoring(Model):
    """Objects for the Prometheus Operator and Grafana."""

    enabled: bool = False
    """Emit a PodMonitor, alerts and a dashboard."""


class NetworkPolicies(Model):
    """NetworkPolicies for the pods of every component."""

    enabled: bool = False
    """Allow each program only the connections that it makes; needs a network plugin that enforces the policies."""
    apiServerPorts: Annotated[tuple[base.Port, ...], Field(min_length=1)] = (443, 6443)
    """Ports at which the API servers listen: a policy is judged after the Service's address and port are replaced."""


Refusal = Annotated[
    str,
    Field(
        # A misspelt line would refuse nothing.
        pattern=r"^([a-z0-9*?-]+: )?(hostPID|hostIPC|hostNetwork|token"
        r"|(privileged|hostPath|hostPort|capability|rbac|cluster-rbac|role): [!-~][ -~]*)$",
        max_length=300,
        json_schema_extra=base.form('a line of privileges.txt or a glob of one, such as "hostPath: /etc*"'),
    ),
]


class Recipes(Model):
    """The recipes of DevicePolicies."""

    refuse: tuple[Refusal, ...] = ()
    """Privileges that no program of a recipe may have here: lines of output/CLUSTER/privileges.txt, with or without
    the program before the first colon, or shell globs of them."""


class KAEClusterSpec(Model):
    """What holds for the cluster as a whole."""

    namespace: base.DnsLabel = "kae-operator"
    """The namespace of everything that KAE runs."""
    namespaceManaged: bool = True
    """false: the namespace is made elsewhere."""
    kubernetesVersion: (
        Annotated[
            str,
            Field(
                pattern=r"^v?1\.[0-9]{1,3}(\.[0-9]{1,3})?$",
                json_schema_extra=base.form('a Kubernetes version, such as "1.30"'),
            ),
        ]
        | None
    ) = None
    """Of the API server. Where it is absent, 1.30 or newer is assumed, and kubelets that are older are a finding."""
    platform: Literal["kubernetes", "openshift"] = "kubernetes"
    """openshift: the programs get the security context constraints that their pods need."""
    gitops: engines.GitOps = base.defaults()
    """Who applies the manifests."""
    images: Images = base.defaults()
    """Mirrors of registries."""
    nfd: Nfd = base.defaults()
    """Node Feature Discovery, which labels the nodes."""
    crd: Crd = base.defaults()
    """What becomes of NFD's definitions."""
    psa: Psa = base.defaults()
    """Pod Security Admission."""
    watcher: watchers.Watcher = base.defaults()
    """The program that keeps the inventory fresh."""
    networkPolicies: NetworkPolicies = base.defaults()
    """NetworkPolicies for the pods of every component."""
    recipes: Recipes = base.defaults()
    """The recipes of DevicePolicies."""
    monitoring: Monitoring = base.defaults()
    """Prometheus and Grafana."""


class ClusterMetadata(base.Metadata):
    """The cluster's name, which is also that of its inventory and its folder in output/."""

    name: base.ClusterName


class KAECluster(base.Document):
    """A cluster's namespace, GitOps engine, NFD, watcher and monitoring."""

    kind: Literal["KAECluster"]
    metadata: ClusterMetadata
    spec: KAEClusterSpec = base.defaults()
