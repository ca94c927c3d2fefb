"""The settings of a cluster: the spec of a KAECluster, of which compiler/model/ makes its schema."""

from typing import Annotated, Literal

import msgspec

from compiler import release
from compiler.fleet import forms, pods, selectors
from compiler.formats import urls

Engine = Literal["argocd", "flux", "none"]


class Repository(msgspec.Struct, frozen=True, kw_only=True):
    """Where output/<cluster> lives."""

    url: Annotated[
        str,
        forms.git_url(
            "Remove them; the engine reads them from a Secret: that of gitops.flux.secretRef, or one of Argo CD."
        ),
    ]
    """The repository that the engine clones."""
    revision: forms.Branch = "main"
    """The branch that the engine applies."""
    path: forms.GitPath | None = None
    """The folder that the engine applies; absent means output/<cluster> of the project."""


class Destination(msgspec.Struct, frozen=True, kw_only=True):
    """The cluster as Argo CD knows it: by its API server's URL or by its name."""

    server: (
        Annotated[
            str,
            forms.url(
                urls.HTTP,
                "the URL of an API server, such as https://10.0.0.1:6443",
                "Remove them; Argo CD reads them from its Secret of the cluster.",
            ),
        ]
        | None
    ) = None
    """The URL of its API server."""
    name: Annotated[str, forms.Keywords(minLength=1, maxLength=250)] | None = None
    """Its name in Argo CD."""


class ArgoCD(msgspec.Struct, frozen=True, kw_only=True):
    """How Argo CD applies the cluster's manifests."""

    namespace: forms.DnsLabel = "argocd"
    """Where Argo CD runs."""
    project: forms.ProjectName | None = None
    """The AppProject, which bootstrap/ holds too; absent means kae-<cluster>."""
    destination: Destination = Destination()
    """Absent means the cluster that Argo CD runs in."""
    prune: bool = True
    """Delete what leaves git."""
    selfHeal: bool = True
    """Undo changes that did not come from git."""


class SourceRef(msgspec.Struct, frozen=True, kw_only=True):
    """An existing source of Flux."""

    kind: Literal["GitRepository", "OCIRepository", "Bucket"] = "GitRepository"
    """Its kind."""
    name: forms.ObjectName
    """Its name."""
    namespace: forms.DnsLabel | None = None
    """Its namespace; absent means that of Flux."""


class KubeConfigSecret(msgspec.Struct, frozen=True, kw_only=True):
    """The Secret that holds a kubeconfig."""

    name: forms.ObjectName
    """The Secret's name."""
    key: Annotated[str, forms.Keywords(minLength=1, maxLength=253)] | None = None
    """The key in it; absent means value, or value.yaml."""


class KubeConfig(msgspec.Struct, frozen=True, kw_only=True):
    """A remote cluster, as Flux reaches it."""

    secretRef: KubeConfigSecret
    """Where the kubeconfig is."""


class Flux(msgspec.Struct, frozen=True, kw_only=True):
    """How Flux applies the cluster's manifests."""

    namespace: forms.DnsLabel = "flux-system"
    """Where Flux runs."""
    sourceRef: SourceRef | None = None
    """An existing source; absent means a GitRepository of our own in bootstrap/."""
    secretRef: pods.Reference | None = None
    """Credentials of our own GitRepository."""
    interval: forms.Duration = "5m"
    """Between two reconciliations."""
    prune: bool = True
    """Delete what leaves git."""
    kubeConfig: KubeConfig | None = None
    """For a cluster other than the one that Flux runs in."""


class GitOps(msgspec.Struct, frozen=True, kw_only=True):
    """The engine that applies output/<cluster>, and where it finds it."""

    engine: Engine = "none"
    """Decides which annotations the objects carry, and what bootstrap/ holds."""
    repository: Repository | None = None
    """Where the engine finds the output; needed for bootstrap/."""
    argocd: ArgoCD = ArgoCD()
    """Settings for Argo CD."""
    flux: Flux = Flux()
    """Settings for Flux."""


Prefix = Annotated[
    str,
    forms.text(
        r"[A-Za-z0-9][A-Za-z0-9._:/-]*", 500, "the beginning of an image reference, such as registry.example.com/team"
    ),
]


class Mirror(msgspec.Struct, frozen=True, kw_only=True, rename={"from_": "from"}):
    """A prefix of images, and what stands in its place."""

    from_: Prefix
    """The prefix, whole parts of a path."""
    to: Prefix
    """What stands in its place."""


class Images(msgspec.Struct, frozen=True, kw_only=True):
    """How images are reached."""

    mirrors: tuple[Mirror, ...] = ()
    """The longest prefix that fits is replaced, in every image."""


class NfdImage(msgspec.Struct, frozen=True, kw_only=True):
    """NFD's image."""

    repository: Prefix = "registry.k8s.io/nfd/node-feature-discovery"
    """Registry and name."""
    tag: Annotated[str, forms.text(r"[A-Za-z0-9_][A-Za-z0-9._-]*", 128, "the tag of an image, such as v0.16.4")] = (
        "v0.16.4"
    )
    """A tag of NFD's releases 0.16 to 0.19."""
    digest: (
        Annotated[str, forms.text("sha256:[0-9a-f]{64}", None, "a digest, sha256: and 64 hexadecimal digits")] | None
    ) = None
    """What the kubelet pulls whatever the tag points to; it has to be that of the tag's image."""
    pullPolicy: forms.PullPolicy = "IfNotPresent"
    """When the kubelet pulls it."""


class NfdWorker(msgspec.Struct, frozen=True, kw_only=True):
    """The pods that report the features of their node, on every Linux node."""

    resources: pods.Resources = pods.Resources(requests={"cpu": "5m", "memory": "64Mi"}, limits={"memory": "512Mi"})
    """What the container asks for and is held to; replaces the default as a whole."""
    priorityClassName: forms.ObjectName = "system-node-critical"
    """The priority of the pods; it must exist in the cluster."""


class NfdMaster(msgspec.Struct, frozen=True, kw_only=True):
    """The pod that evaluates rules and labels nodes."""

    # It holds the reports of all nodes in memory, some 50 KB each before they are decoded.
    resources: pods.Resources = pods.Resources(requests={"cpu": "100m", "memory": "128Mi"}, limits={"memory": "4Gi"})
    """What the container asks for and is held to; replaces the default as a whole."""
    priorityClassName: forms.ObjectName = "system-cluster-critical"
    """The priority of the pod; it must exist in the cluster."""


class NfdGc(msgspec.Struct, frozen=True, kw_only=True):
    """The pod that deletes the reports of nodes that are gone."""

    # Earlier releases list whole reports, some 50 KB a node, not only their metadata.
    resources: pods.Resources = pods.Resources(requests={"cpu": "10m", "memory": "128Mi"}, limits={"memory": "1Gi"})
    """What the container asks for and is held to; replaces the default as a whole."""
    priorityClassName: forms.ObjectName | None = None
    """The priority of the pod; it must exist in the cluster."""


class Nfd(msgspec.Struct, frozen=True, kw_only=True):
    """Node Feature Discovery, which labels the nodes."""

    pullSecrets: tuple[pods.Reference, ...] = ()
    """Secrets of the namespace with the registry's credentials."""
    tolerations: tuple[pods.Toleration, ...] = ()
    """For all of NFD's pods; its workers also tolerate what any policy tolerates."""
    nodeSelector: selectors.Selector | None = None
    """The nodes of the master and of the garbage collector; the workers run on every Linux node."""
    enabled: bool = True
    """false: NFD is in the cluster already."""
    nodefeaturerules: bool = False
    """Emit our NodeFeatureRules also where NFD is not ours."""
    image: NfdImage = NfdImage()
    """The image of the NFD that we deploy."""
    master: NfdMaster = NfdMaster()
    """The pod that evaluates rules and labels nodes."""
    worker: NfdWorker = NfdWorker()
    """The pods that report the features of their node."""
    gc: NfdGc = NfdGc()
    """The pod that deletes the reports of nodes that are gone."""


class Crd(msgspec.Struct, frozen=True, kw_only=True):
    """Custom resource definitions."""

    cleanup: bool = False
    """Let the GitOps engine delete NFD's definitions, and all their objects, when they leave git."""


class Psa(msgspec.Struct, frozen=True, kw_only=True):
    """Pod Security Admission."""

    enabled: bool = False
    """Label the namespace as privileged."""


class Monitoring(msgspec.Struct, frozen=True, kw_only=True):
    """Objects for the Prometheus Operator and Grafana."""

    enabled: bool = False
    """Emit a PodMonitor, alerts and a dashboard."""


class NetworkPolicies(msgspec.Struct, frozen=True, kw_only=True):
    """NetworkPolicies for the pods of every component."""

    enabled: bool = False
    """Allow each program only the connections that it makes; needs a network plugin that enforces the policies."""
    apiServerPorts: Annotated[tuple[forms.Port, ...], forms.Keywords(minItems=1)] = (443, 6443)
    """Ports at which the API servers listen: a policy is judged after the Service's address and port are replaced."""


PRIVILEGE = (
    r"(hostPID|hostIPC|hostNetwork|token"
    r"|(privileged|hostPath|hostPort|capability|rbac|cluster-rbac|role|pods): [!-~][ -~]*)"
)
"""The pattern of a line of privileges.txt, or of a glob of one, behind its program."""
Refusal = Annotated[
    str,
    # A misspelt line would refuse nothing.
    forms.text(
        f"([a-z0-9*?-]+: )?{PRIVILEGE}",
        300,
        'a line of privileges.txt or a glob of one, such as "hostPath: /etc*"',
    ),
]


class Recipes(msgspec.Struct, frozen=True, kw_only=True):
    """The recipes of DevicePolicies."""

    refuse: tuple[Refusal, ...] = ()
    """Privileges that no program of a recipe may have, or give to pods, here: lines of output/CLUSTER/privileges.txt,
    with or without the program before the first colon, or shell globs of them. A line also refuses itself with more
    words behind it: `hostPath: /` refuses `hostPath: / rw`, but not `hostPath: /opt`, which takes `hostPath: /*`.
    Folders around a path, and globs that may mean it, give it: `hostPath: /sys/kernel/debug` refuses /sys too."""


# The fields of the watcher have comments: in schemas they have no description, as docs/watcher.md alone explains them.


class WatcherRepository(msgspec.Struct, frozen=True, kw_only=True):
    """Where the watcher commits the inventory; never what a GitOps engine applies."""

    url: Annotated[str, forms.git_url("Remove them; the watcher reads those of watcher.secretName.")]
    branch: forms.Branch = "main"  # It gets the commits.
    path: forms.GitPath = "inventory"  # The folder of <cluster>.json.


class Author(msgspec.Struct, frozen=True, kw_only=True):
    """Who the commits are by."""

    name: Annotated[str, forms.Keywords(minLength=1, maxLength=200)] = "kae-watcher"
    email: Annotated[str, forms.text(r"[^ @<>]+@[^ @<>]+", 200, "an e-mail address, such as kae@example.com")] = (
        "kae-watcher@localhost"
    )


class Signing(msgspec.Struct, frozen=True, kw_only=True):
    """How commits are signed."""

    format: Literal["ssh"]
    secretName: forms.ObjectName  # The Secret that holds the key.


LabelGlob = Annotated[str, forms.text(r"[A-Za-z0-9._/*?-]+", 317, "a label key or a glob, such as example.com/*")]

LabelPrefix = Annotated[
    str,
    forms.text(
        r"[A-Za-z0-9._/-]+\*?",
        317,
        "a label key, or its beginning, such as feature.node.kubernetes.io/ or example.com/a*",
    ),
]
PushOption = Annotated[str, forms.text(r"[^\x00-\x1f\x7f]+", 500, "a line such as merge_request.create")]

_SOME = "[0-9]*[1-9][0-9]*"
Interval = Annotated[
    str,
    # A duration of which one number is not zero; the API server's patterns (RE2) know no lookahead.
    forms.text(
        rf"({_SOME}h([0-9]+m)?([0-9]+s)?|([0-9]+h)?{_SOME}m([0-9]+s)?|([0-9]+h)?([0-9]+m)?{_SOME}s)",
        15,
        "a duration of at least a second, such as 90s, 10m or 1h30m",
        shortest=2,
    ),
]

_CRON_NUMBERS = ("[0-5]?[0-9]", "[01]?[0-9]|2[0-3]", "0?[1-9]|[12][0-9]|3[01]", "0?[1-9]|1[0-2]", "[0-6]")
"""Minutes, hours, days of the month, months and days of the week as Kubernetes reads them: Sunday is 0, and not 7."""
_CRON_PARTS = tuple(rf"(\*|({number})(-({number}))?)(/[1-9][0-9]?)?" for number in _CRON_NUMBERS)
Schedule = Annotated[
    str,
    # The five fields of crontab(5), with numbers alone: names of days and months are not in every implementation.
    forms.text(
        f"{' '.join(f'{part}(,{part})*' for part in _CRON_PARTS)}",
        100,
        "the five fields of a cron schedule, such as */5 * * * * (Sunday is 0)",
    ),
]
Seconds = Annotated[int, forms.Keywords(minimum=0, maximum=86400)]


class WatcherVariable(pods.EnvVar, frozen=True, kw_only=True):
    """An environment variable of the watcher with a plain value."""


class WatchedLabels(msgspec.Struct, frozen=True, kw_only=True):
    """What of the nodes enters the inventory."""

    labels: tuple[LabelPrefix, ...] = ()  # Keys, or beginnings of keys that end with / or *; without any, all.


class Watcher(msgspec.Struct, frozen=True, kw_only=True):
    """The program that refreshes the inventory and commits it to git."""

    pullSecrets: tuple[pods.Reference, ...] = ()
    """Secrets of the namespace with the registry's credentials."""
    tolerations: tuple[pods.Toleration, ...] = ()
    """Taints that the pods bear."""
    nodeSelector: selectors.Selector | None = None
    """The nodes that the pods may run on; absent means every node whose taints they tolerate."""
    enabled: bool = False
    image: forms.ImagePart = release.reference("kae-watcher", release.REPOSITORY)  # The whole reference.
    repository: WatcherRepository | None = None
    secretName: forms.ObjectName | None = None  # The Secret with the repository's credentials.
    env: tuple[WatcherVariable, ...] = ()  # Such as HTTPS_PROXY, by which git reaches the repository.
    resources: pods.Resources = pods.Resources(requests={"cpu": "20m", "memory": "128Mi"}, limits={"memory": "512Mi"})
    priorityClassName: forms.ObjectName | None = None
    # Deployment: a pod follows the nodes. CronJob: a pod lists them by the clock, commits once and ends.
    mode: Literal["Deployment", "CronJob"] = "Deployment"
    schedule: Schedule = "*/5 * * * *"  # When the pod of a CronJob starts.
    interval: Interval = "10m"  # Between full lists of the nodes.
    quietSeconds: Seconds = 10  # Without a change before additions are committed.
    removalQuietSeconds: Seconds = 600  # Without a change before removals are committed.
    minCommitSeconds: Annotated[int, forms.Keywords(minimum=1, maximum=86400)] = 300  # Between two commits.
    # The share of the nodes, and the nodes whatever their share, that may lose something within 24 hours.
    maxLossPercent: Annotated[int, forms.Keywords(minimum=0, maximum=100)] = 10
    maxLossNodes: Annotated[int, forms.Keywords(minimum=0, maximum=100_000)] = 1
    inventory: WatchedLabels = WatchedLabels()
    ignoreLabels: tuple[LabelGlob, ...] = ()  # They never enter the inventory.
    author: Author = Author()
    # {cluster} and {summary} are filled in.
    messageTemplate: Annotated[str, forms.Keywords(minLength=1, maxLength=2000)] = "inventory({cluster}): {summary}"
    signing: Signing | None = None
    pushOptions: tuple[PushOption, ...] = ()  # git-push(1), --push-option: such open merge requests of GitLab.


class Spec(msgspec.Struct, frozen=True, kw_only=True):
    """What holds for the cluster as a whole."""

    namespace: forms.DnsLabel = "kae-operator"
    """The namespace of everything that KAE runs."""
    namespaceManaged: bool = True
    """false: the namespace is made elsewhere."""
    kubernetesVersion: (
        Annotated[str, forms.text(r"v?1\.[0-9]{1,3}(\.[0-9]{1,3})?", None, 'a Kubernetes version, such as "1.30"')]
        | None
    ) = None
    """Of the API server. Where it is absent, 1.30 or newer is assumed, and kubelets that are older are a finding.

    From 1.36 on, which has to be stated, driver installers end with their work.
    """
    platform: Literal["kubernetes", "openshift"] = "kubernetes"
    """openshift: the programs get the security context constraints that their pods need."""
    gitops: GitOps = GitOps()
    """Who applies the manifests."""
    images: Images = Images()
    """Mirrors of registries."""
    nfd: Nfd = Nfd()
    """Node Feature Discovery, which labels the nodes."""
    crd: Crd = Crd()
    """What becomes of NFD's definitions."""
    psa: Psa = Psa()
    """Pod Security Admission."""
    watcher: Watcher = Watcher()
    """The program that keeps the inventory fresh."""
    networkPolicies: NetworkPolicies = NetworkPolicies()
    """NetworkPolicies for the pods of every component."""
    recipes: Recipes = Recipes()
    """The recipes of DevicePolicies."""
    monitoring: Monitoring = Monitoring()
    """Prometheus and Grafana."""
