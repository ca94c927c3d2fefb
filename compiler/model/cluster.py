"""KAECluster: what holds for a cluster as a whole."""

from typing import Annotated, Literal

from pydantic import Field

from compiler.model import base, repositories
from compiler.model import gitops as engines
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
    pullPolicy: base.PullPolicy = "IfNotPresent"
    """When the kubelet pulls it."""


class Nfd(Model):
    """Node Feature Discovery, which labels the nodes."""

    enabled: bool = True
    """false: NFD is in the cluster already."""
    nodefeaturerules: bool = False
    """Emit our NodeFeatureRules also where NFD is not ours."""
    image: NfdImage = base.defaults()
    """The image of the NFD that we deploy."""
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

    url: Annotated[str, repositories.git_url("Remove them; the watcher reads those of watcher.secretName.")]
    """The repository."""
    branch: repositories.Branch = "main"
    """The branch that gets the commits."""
    path: repositories.GitPath = "inventory"
    """The folder of <cluster>.json."""


class Author(Model):
    """Who the commits are by."""

    name: Annotated[str, Field(min_length=1, max_length=200)] = "kae-watcher"
    """The author's name."""
    email: Annotated[
        str,
        Field(
            pattern=r"^[^ @<>]+@[^ @<>]+$",
            max_length=200,
            json_schema_extra=base.form("an e-mail address, such as kae@example.com"),
        ),
    ] = "kae-watcher@localhost"
    """The author's address."""


class Signing(Model):
    """How commits are signed."""

    format: Literal["ssh"]
    """The kind of key."""
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

LabelPrefix = Annotated[
    str,
    Field(
        pattern=r"^[A-Za-z0-9._/-]+\*?$",
        max_length=317,
        json_schema_extra=base.form(
            "a label key, or its beginning, such as feature.node.kubernetes.io/ or example.com/a*"
        ),
    ),
]
PushOption = Annotated[
    str,
    Field(
        pattern=r"^[^\x00-\x1f\x7f]+$",
        max_length=500,
        json_schema_extra=base.form("a line such as merge_request.create"),
    ),
]

_SOME = "[0-9]*[1-9][0-9]*"
Interval = Annotated[
    str,
    Field(
        # A duration of which one number is not zero; the API server's patterns (RE2) know no lookahead.
        pattern=rf"^({_SOME}h([0-9]+m)?([0-9]+s)?|([0-9]+h)?{_SOME}m([0-9]+s)?|([0-9]+h)?([0-9]+m)?{_SOME}s)$",
        min_length=2,
        max_length=20,
        json_schema_extra=base.form("a duration of at least a second, such as 90s, 10m or 1h30m"),
    ),
]


class Watcher(Model):
    """The program that refreshes the inventory and commits it to git."""

    enabled: bool = False
    """Run it in the cluster."""
    image: base.ImagePart = "cr.openfuyao.cn/openfuyao/kae-watcher:latest"
    """Its whole image reference."""
    repository: WatcherRepository | None = None
    """Where the inventory is kept."""
    secretName: base.ObjectName | None = None
    """The Secret with the repository's credentials."""
    interval: Interval = "10m"
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
    """Who the commits are by."""
    messageTemplate: Annotated[str, Field(min_length=1, max_length=2000)] = "inventory({cluster}): {summary}"
    """The commit message; {cluster} and {summary} are filled in."""
    signing: Signing | None = None
    """Absent means unsigned commits."""


class Monitoring(Model):
    """Objects for the Prometheus Operator and Grafana."""

    enabled: bool = False
    """Emit a PodMonitor, alerts and a dashboard."""


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
    watcher: Watcher = base.defaults()
    """The program that keeps the inventory fresh."""
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
