"""KAECluster: what holds for a cluster as a whole: its GitOps engine, its inventory watcher, its NFD."""

from typing import Annotated, Literal

from pydantic import Field

from compiler.formats import urls
from compiler.model import base
from compiler.model import watcher as watchers
from compiler.model.base import Model


class Repository(Model):
    """Where output/<cluster> lives."""

    url: Annotated[
        str,
        base.git_url(
            "Remove them; the engine reads them from a Secret: that of gitops.flux.secretRef, or one of Argo CD."
        ),
    ]
    """The repository that the engine clones."""
    revision: base.Branch = "main"
    """The branch that the engine applies."""
    path: base.GitPath | None = None
    """The folder that the engine applies; absent means output/<cluster>."""


class Destination(Model):
    """The cluster as Argo CD knows it: by its API server's URL or by its name."""

    server: (
        Annotated[
            str,
            base.url(
                urls.HTTP,
                "the URL of an API server, such as https://10.0.0.1:6443",
                "Remove them; Argo CD reads them from its Secret of the cluster.",
            ),
        ]
        | None
    ) = None
    """The URL of its API server."""
    name: Annotated[str, Field(min_length=1, max_length=250)] | None = None
    """Its name in Argo CD."""


class ArgoCD(Model):
    """How Argo CD applies the cluster's manifests."""

    namespace: base.DnsLabel = "argocd"
    """Where Argo CD runs."""
    project: base.ProjectName | None = None
    """The AppProject, which bootstrap/ holds too; absent means kae-<cluster>."""
    destination: Destination = base.defaults()
    """Absent means the cluster that Argo CD runs in."""
    prune: bool = True
    """Delete what leaves git."""
    selfHeal: bool = True
    """Undo changes that did not come from git."""


class SourceRef(Model):
    """An existing source of Flux."""

    kind: Literal["GitRepository", "OCIRepository", "Bucket"] = "GitRepository"
    """Its kind."""
    name: base.ObjectName
    """Its name."""
    namespace: base.DnsLabel | None = None
    """Its namespace; absent means that of Flux."""


class KubeConfigSecret(Model):
    """The Secret that holds a kubeconfig."""

    name: base.ObjectName
    """The Secret's name."""
    key: Annotated[str, Field(min_length=1, max_length=253)] | None = None
    """The key in it; absent means value, or value.yaml."""


class KubeConfig(Model):
    """A remote cluster, as Flux reaches it."""

    secretRef: KubeConfigSecret
    """Where the kubeconfig is."""


class Flux(Model):
    """How Flux applies the cluster's manifests."""

    namespace: base.DnsLabel = "flux-system"
    """Where Flux runs."""
    sourceRef: SourceRef | None = None
    """An existing source; absent means a GitRepository of our own in bootstrap/."""
    secretRef: base.LocalObjectReference | None = None
    """Credentials of our own GitRepository."""
    interval: base.Duration = "5m"
    """Between two reconciliations."""
    prune: bool = True
    """Delete what leaves git."""
    kubeConfig: KubeConfig | None = None
    """For a cluster other than the one that Flux runs in."""


class GitOps(Model):
    """The engine that applies output/<cluster>, and where it finds it."""

    engine: Literal["argocd", "flux", "none"] = "none"
    """Decides which annotations the objects carry, and what bootstrap/ holds."""
    repository: Repository | None = None
    """Where the engine finds the output; needed for bootstrap/."""
    argocd: ArgoCD = base.defaults()
    """Settings for Argo CD."""
    flux: Flux = base.defaults()
    """Settings for Flux."""


Prefix = Annotated[
    str,
    base.text(
        r"[A-Za-z0-9][A-Za-z0-9._:/-]*", 500, "the beginning of an image reference, such as registry.example.com/team"
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
    tag: Annotated[str, base.text(r"[A-Za-z0-9_][A-Za-z0-9._-]*", 128, "the tag of an image, such as v0.16.4")] = (
        "v0.16.4"
    )
    """A tag of NFD's releases 0.16 to 0.19."""
    digest: (
        Annotated[str, base.text("sha256:[0-9a-f]{64}", None, "a digest, sha256: and 64 hexadecimal digits")] | None
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
    # A misspelt line would refuse nothing.
    base.text(
        r"([a-z0-9*?-]+: )?(hostPID|hostIPC|hostNetwork|token"
        r"|(privileged|hostPath|hostPort|capability|rbac|cluster-rbac|role): [!-~][ -~]*)",
        300,
        'a line of privileges.txt or a glob of one, such as "hostPath: /etc*"',
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
        Annotated[str, base.text(r"v?1\.[0-9]{1,3}(\.[0-9]{1,3})?", None, 'a Kubernetes version, such as "1.30"')]
        | None
    ) = None
    """Of the API server. Where it is absent, 1.30 or newer is assumed, and kubelets that are older are a finding."""
    platform: Literal["kubernetes", "openshift"] = "kubernetes"
    """openshift: the programs get the security context constraints that their pods need."""
    gitops: GitOps = base.defaults()
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
