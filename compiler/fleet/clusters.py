"""The settings of a cluster, in the fields of a KAECluster, whose meanings compiler/model/ tells."""

from typing import Literal

import msgspec

from compiler.fleet import pods, selectors

Engine = Literal["argocd", "flux", "none"]


class Mirror(msgspec.Struct, frozen=True, kw_only=True, rename={"from_": "from"}):
    from_: str
    to: str


class Images(msgspec.Struct, frozen=True, kw_only=True):
    mirrors: tuple[Mirror, ...]


class NfdImage(msgspec.Struct, frozen=True, kw_only=True):
    repository: str
    tag: str
    digest: str | None = None
    pullPolicy: str


class NfdPod(msgspec.Struct, frozen=True, kw_only=True):
    resources: pods.Resources
    priorityClassName: str | None = None


class Nfd(msgspec.Struct, frozen=True, kw_only=True):
    enabled: bool
    nodefeaturerules: bool
    image: NfdImage
    pullSecrets: tuple[pods.Reference, ...]
    tolerations: tuple[pods.Toleration, ...]
    nodeSelector: selectors.Selector | None = None
    master: NfdPod
    worker: NfdPod
    gc: NfdPod


class Repository(msgspec.Struct, frozen=True, kw_only=True):
    url: str
    revision: str
    path: str | None = None


class Destination(msgspec.Struct, frozen=True, kw_only=True):
    server: str | None = None
    name: str | None = None


class ArgoCD(msgspec.Struct, frozen=True, kw_only=True):
    namespace: str
    project: str | None = None
    destination: Destination
    prune: bool
    selfHeal: bool


class SourceRef(msgspec.Struct, frozen=True, kw_only=True):
    kind: str
    name: str
    namespace: str | None = None


class KubeConfigSecret(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    key: str | None = None


class KubeConfig(msgspec.Struct, frozen=True, kw_only=True):
    secretRef: KubeConfigSecret


class Flux(msgspec.Struct, frozen=True, kw_only=True):
    namespace: str
    sourceRef: SourceRef | None = None
    secretRef: pods.Reference | None = None
    interval: str
    prune: bool
    kubeConfig: KubeConfig | None = None


class GitOps(msgspec.Struct, frozen=True, kw_only=True):
    engine: Engine
    repository: Repository | None = None
    argocd: ArgoCD
    flux: Flux


class WatcherRepository(msgspec.Struct, frozen=True, kw_only=True):
    url: str
    branch: str
    path: str


class Author(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    email: str


class Signing(msgspec.Struct, frozen=True, kw_only=True):
    format: Literal["ssh"]
    secretName: str


class WatchedLabels(msgspec.Struct, frozen=True, kw_only=True):
    labels: tuple[str, ...]


class Watcher(msgspec.Struct, frozen=True, kw_only=True):
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


class Switch(msgspec.Struct, frozen=True, kw_only=True):
    enabled: bool


class Crd(msgspec.Struct, frozen=True, kw_only=True):
    cleanup: bool


class NetworkPolicies(msgspec.Struct, frozen=True, kw_only=True):
    enabled: bool
    apiServerPorts: tuple[int, ...]


class Recipes(msgspec.Struct, frozen=True, kw_only=True):
    refuse: tuple[str, ...]


class Spec(msgspec.Struct, frozen=True, kw_only=True):
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
