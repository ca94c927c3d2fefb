"""The settings of a cluster, in the fields of a KAECluster."""

from typing import Literal

import msgspec

from compiler.fleet import pods, selectors

Engine = Literal["argocd", "flux", "none"]


class _Value(msgspec.Struct, frozen=True, kw_only=True):
    """A part of the settings; compiler/model/cluster.py says what each field means."""


class Mirror(_Value, frozen=True, kw_only=True, rename={"from_": "from"}):
    """A prefix of images, and what stands in its place."""

    from_: str
    to: str


class Images(_Value, frozen=True, kw_only=True):
    """How images are reached."""

    mirrors: tuple[Mirror, ...]


class NfdImage(_Value, frozen=True, kw_only=True):
    """NFD's image."""

    repository: str
    tag: str
    digest: str | None = None
    pullPolicy: str


class NfdPod(_Value, frozen=True, kw_only=True):
    """A pod of NFD."""

    resources: pods.Resources
    priorityClassName: str | None = None


class Nfd(_Value, frozen=True, kw_only=True):
    """Node Feature Discovery."""

    enabled: bool
    nodefeaturerules: bool
    image: NfdImage
    pullSecrets: tuple[pods.Reference, ...]
    tolerations: tuple[pods.Toleration, ...]
    nodeSelector: selectors.Selector | None = None
    master: NfdPod
    worker: NfdPod
    gc: NfdPod


class Repository(_Value, frozen=True, kw_only=True):
    """A git repository: a branch, and a folder in it."""

    url: str
    revision: str
    path: str | None = None


class Destination(_Value, frozen=True, kw_only=True):
    """The cluster as Argo CD knows it."""

    server: str | None = None
    name: str | None = None


class ArgoCD(_Value, frozen=True, kw_only=True):
    """How Argo CD applies the cluster's manifests."""

    namespace: str
    project: str | None = None
    destination: Destination
    prune: bool
    selfHeal: bool


class SourceRef(_Value, frozen=True, kw_only=True):
    """An existing source of Flux."""

    kind: str
    name: str
    namespace: str | None = None


class KubeConfigSecret(_Value, frozen=True, kw_only=True):
    """The Secret that holds a kubeconfig."""

    name: str
    key: str | None = None


class KubeConfig(_Value, frozen=True, kw_only=True):
    """A remote cluster, as Flux reaches it."""

    secretRef: KubeConfigSecret


class Flux(_Value, frozen=True, kw_only=True):
    """How Flux applies the cluster's manifests."""

    namespace: str
    sourceRef: SourceRef | None = None
    secretRef: pods.Reference | None = None
    interval: str
    prune: bool
    kubeConfig: KubeConfig | None = None


class GitOps(_Value, frozen=True, kw_only=True):
    """The engine that applies the cluster's output."""

    engine: Engine
    repository: Repository | None = None
    argocd: ArgoCD
    flux: Flux


class WatcherRepository(_Value, frozen=True, kw_only=True):
    """The repository of the inventory."""

    url: str
    branch: str
    path: str


class Author(_Value, frozen=True, kw_only=True):
    """The author of the watcher's commits."""

    name: str
    email: str


class Signing(_Value, frozen=True, kw_only=True):
    """How commits are signed."""

    format: Literal["ssh"]
    secretName: str


class WatchedLabels(_Value, frozen=True, kw_only=True):
    """What of the nodes enters the inventory."""

    labels: tuple[str, ...]


class Watcher(_Value, frozen=True, kw_only=True):
    """The program that refreshes the inventory."""

    enabled: bool
    image: str
    repository: WatcherRepository | None = None
    secretName: str | None = None
    pullSecrets: tuple[pods.Reference, ...]
    tolerations: tuple[pods.Toleration, ...]
    nodeSelector: selectors.Selector | None = None
    env: tuple[pods.EnvVar, ...]
    resources: pods.Resources
    priorityClassName: str | None = None
    mode: Literal["Deployment", "CronJob"]
    schedule: str
    interval: str
    quietSeconds: int
    removalQuietSeconds: int
    minCommitSeconds: int
    maxLossPercent: int
    maxLossNodes: int
    inventory: WatchedLabels
    ignoreLabels: tuple[str, ...]
    author: Author
    messageTemplate: str
    signing: Signing | None = None
    pushOptions: tuple[str, ...]


class Switch(_Value, frozen=True, kw_only=True):
    """A part that is on or off."""

    enabled: bool


class Crd(_Value, frozen=True, kw_only=True):
    """Custom resource definitions."""

    cleanup: bool


class NetworkPolicies(_Value, frozen=True, kw_only=True):
    """NetworkPolicies for the pods of every component."""

    enabled: bool
    apiServerPorts: tuple[int, ...]


class Recipes(_Value, frozen=True, kw_only=True):
    """The recipes of DevicePolicies."""

    refuse: tuple[str, ...]


class Spec(_Value, frozen=True, kw_only=True):
    """What holds for a cluster as a whole."""

    namespace: str
    namespaceManaged: bool
    kubernetesVersion: str | None = None
    platform: Literal["kubernetes", "openshift"]
    gitops: GitOps
    images: Images
    nfd: Nfd
    crd: Crd
    psa: Switch
    watcher: Watcher
    networkPolicies: NetworkPolicies
    recipes: Recipes
    monitoring: Switch
