"""KAECluster: what holds for a cluster as a whole."""

from typing import Annotated, Literal

from pydantic import Field

from compiler.model import base
from compiler.model.base import Model


class Repository(Model):
    """Where output/<cluster> lives."""

    url: base.Url
    revision: Annotated[str, Field(min_length=1, max_length=250)] = "main"
    """The branch that the engine applies."""
    path: base.GitPath | None = None
    """The folder that the engine applies; absent means output/<cluster>."""


class Destination(Model):
    """The cluster as Argo CD knows it: by its API server's URL or by its name."""

    server: (
        Annotated[
            str,
            Field(
                pattern=r"^https?://[^ ]+$",
                max_length=500,
                json_schema_extra=base.form("the URL of an API server, such as https://10.0.0.1:6443"),
            ),
        ]
        | None
    ) = None
    name: Annotated[str, Field(min_length=1, max_length=250)] | None = None


class ArgoCD(Model):
    """How Argo CD applies the cluster's manifests."""

    namespace: base.DnsLabel = "argocd"
    project: base.ObjectName | None = None
    """The AppProject, which bootstrap/ holds too; absent means kae-<cluster>."""
    destination: Destination = base.defaults()
    """Absent means the cluster that Argo CD runs in."""
    prune: bool = True
    selfHeal: bool = True


class SourceRef(Model):
    """An existing source of Flux."""

    kind: Literal["GitRepository", "OCIRepository", "Bucket"] = "GitRepository"
    name: base.ObjectName
    namespace: base.DnsLabel | None = None


class KubeConfigSecret(Model):
    """The Secret that holds a kubeconfig."""

    name: base.ObjectName
    key: Annotated[str, Field(min_length=1, max_length=253)] | None = None


class KubeConfig(Model):
    """A remote cluster, as Flux reaches it."""

    secretRef: KubeConfigSecret


class Flux(Model):
    """How Flux applies the cluster's manifests."""

    namespace: base.DnsLabel = "flux-system"
    sourceRef: SourceRef | None = None
    """An existing source; absent means a GitRepository of our own in bootstrap/."""
    secretRef: base.LocalObjectReference | None = None
    """Credentials of our own GitRepository."""
    interval: base.Duration = "5m"
    prune: bool = True
    kubeConfig: KubeConfig | None = None


class GitOps(Model):
    """The engine that applies output/<cluster>, and where it finds it."""

    engine: Literal["argocd", "flux", "none"] = "none"
    repository: Repository | None = None
    argocd: ArgoCD = base.defaults()
    flux: Flux = base.defaults()


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
    to: Prefix


class Images(Model):
    """How images are reached."""

    mirrors: tuple[Mirror, ...] = ()
    """The longest prefix that fits is replaced, in every image."""


class NfdImage(Model):
    """NFD's image."""

    repository: Prefix = "registry.k8s.io/nfd/node-feature-discovery"
    tag: Annotated[
        str,
        Field(
            pattern=r"^[A-Za-z0-9_][A-Za-z0-9._-]*$",
            max_length=128,
            json_schema_extra=base.form("the tag of an image, such as v0.16.4"),
        ),
    ] = "v0.16.4"
    """A tag of NFD's releases 0.16 to 0.19."""
    pullPolicy: base.PullPolicy = "IfNotPresent"


class Nfd(Model):
    """Node Feature Discovery, which labels the nodes."""

    enabled: bool = True
    """false: NFD is in the cluster already."""
    nodefeaturerules: bool = False
    """Emit our NodeFeatureRules also where NFD is not ours."""
    image: NfdImage = base.defaults()
    tolerations: tuple[base.Toleration, ...] = ()
    """For all of NFD's pods; its workers also tolerate what any policy tolerates."""


class Crd(Model):
    """Custom resource definitions."""

    cleanup: bool = False
    """Let the GitOps engine delete NFD's definitions, and all their objects, when they leave git."""


class Psa(Model):
    """Pod Security Admission."""

    enabled: bool = False
    """Label the namespace as privileged."""


class WatcherRepository(Model):
    """Where the watcher commits the inventory; never what a GitOps engine applies."""

    url: base.Url
    branch: base.GitPath = "main"
    path: base.GitPath = "inventory"
    """The folder of <cluster>.json."""


class Author(Model):
    """Who the commits are by."""

    name: Annotated[str, Field(min_length=1, max_length=200)] = "kae-watcher"
    email: Annotated[
        str,
        Field(
            pattern=r"^[^ @<>]+@[^ @<>]+$",
            max_length=200,
            json_schema_extra=base.form("an e-mail address, such as kae@example.com"),
        ),
    ] = "kae-watcher@localhost"


class Signing(Model):
    """How commits are signed."""

    format: Literal["ssh", "gpg"]
    secretName: base.ObjectName
    """The Secret that holds the key."""


LabelGlob = Annotated[
    str,
    Field(
        pattern=r"^[A-Za-z0-9._/*?-]+$",
        max_length=317,
        json_schema_extra=base.form("a label key or a glob, such as example.com/*"),
    ),
]


class Watcher(Model):
    """The program that refreshes the inventory and commits it to git."""

    enabled: bool = False
    image: base.ImagePart = "cr.openfuyao.cn/openfuyao/kae-watcher:latest"
    repository: WatcherRepository | None = None
    secretName: base.ObjectName | None = None
    """The Secret with the repository's credentials."""
    interval: base.Duration = "10m"
    """Between full lists of the nodes."""
    quietSeconds: Annotated[int, Field(ge=0, le=86400)] = 10
    """Without a change before additions are committed."""
    removalQuietSeconds: Annotated[int, Field(ge=0, le=86400)] = 600
    """Without a change before removals are committed."""
    minCommitSeconds: Annotated[int, Field(ge=1, le=86400)] = 60
    """Between two commits."""
    maxLossPercent: Annotated[int, Field(ge=0, le=100)] = 10
    """A snapshot that loses more nodes or devices than this is held back for a person."""
    ignoreLabels: tuple[LabelGlob, ...] = ()
    """Label keys or shell globs that never enter the inventory."""
    author: Author = base.defaults()
    messageTemplate: Annotated[str, Field(min_length=1, max_length=2000)] = "inventory({cluster}): {summary}"
    """The commit message; {cluster} and {summary} are filled in."""
    signing: Signing | None = None


class Monitoring(Model):
    """Objects for the Prometheus Operator and Grafana."""

    enabled: bool = False


class KAEClusterSpec(Model):
    """What holds for the cluster as a whole."""

    namespace: base.DnsLabel = "kae-operator"
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
    """For the API's features; absent means the newest kubelet of the inventory."""
    gitops: GitOps = base.defaults()
    images: Images = base.defaults()
    nfd: Nfd = base.defaults()
    crd: Crd = base.defaults()
    psa: Psa = base.defaults()
    watcher: Watcher = base.defaults()
    monitoring: Monitoring = base.defaults()


class ClusterMetadata(base.Metadata):
    """The cluster's name, which is also that of its inventory and its folder in output/."""

    name: base.ClusterName


class KAECluster(base.Document):
    """A cluster's namespace, GitOps engine, NFD, watcher and monitoring."""

    kind: Literal["KAECluster"]
    metadata: ClusterMetadata
    spec: KAEClusterSpec = base.defaults()
