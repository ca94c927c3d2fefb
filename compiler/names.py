"""The names of folders, files, clusters and programs."""

import fnmatch
import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType

CLUSTER_PATTERN = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
CLUSTER_LENGTH = 50
"""The form of a cluster's name: a DNS name, short enough for the names that are made from it."""

POLICY_PATTERN = "[a-z0-9]+(-[a-z0-9]+)*"
POLICY_LENGTH = 30
"""The form of a policy's name: a DNS label without `--`, which separates the parts of a pool's name."""

RECIPE_LENGTH = 20
"""The length of a recipe's name, which has the form of a policy's."""

LABEL_PATTERN = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
LABEL_LENGTH = 63
"""The form of a DNS label, such as a namespace."""

KERNEL_PATTERN = "[A-Za-z0-9][A-Za-z0-9._+~-]*"
KERNEL_LENGTH = 63
"""The form of a kernel's full version."""

POLICIES = "policies"
INVENTORY = "inventory"
"""The folders of a project that hold its documents, unless kae.yaml names others."""

RECIPES = "recipes"
RECIPE_FILE = "recipe.yaml"
"""The folder of a project that holds recipes unless kae.yaml names another, and the file of each in its own folder."""

SHIPPED_RECIPES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        **dict.fromkeys(
            ("amd-gpu", "intel-dsa", "intel-gpu", "intel-iaa", "intel-npu", "intel-qat", "intel-sgx"),
            ("plugin",),
        ),
        "onload": ("driver", "device-plugin", "cplane"),
        "simple-kmod": ("driver",),
    }
)
"""The recipes that `kae recipe add` brings, each with what it runs on nodes; templates/recipes/ has them."""

POLICY_KINDS = ("KAEPolicy", "DevicePolicy")
SHARED_KINDS = (*POLICY_KINDS, "KAECluster", "Recipe")
"""The kinds of documents of policies, and of all documents but inventories: those that people write."""

OUTPUT = "output"
"""The folder of a project that a compile writes, unless kae.yaml names another."""

PROJECT_FILE = "kae.yaml"
"""The settings of a project, in its root."""

EDITED_SCHEMAS = ("devicepolicy", "kaecluster", "kaepolicy", "kaeproject", "recipe")
"""The schemas of the files that people write, for their editors."""

RECIPE = "kae"
"""The name of the recipe that is part of the compiler: its labels, objects and resources begin with it."""

WATCHER = "kae-watcher"
SMOKE = "kae-smoke"
NFD = ("nfd-master", "nfd-worker", "nfd-gc")
"""The app labels of the pods beside those of recipes that the output and `kae smoke` make."""

APP_LABEL = "app.kubernetes.io/name"
POLICY_LABEL = "device.openfuyao.com/policy"
POOL_LABEL = "device.openfuyao.com/pool"
AFTER_LABEL = "device.openfuyao.com/after"
"""The label of the pods that installers take away before they unload the driver; its value is the app of those."""
RESERVED_LABELS = (APP_LABEL, POLICY_LABEL, POOL_LABEL, AFTER_LABEL)
"""The labels by which DaemonSets and installers select pods; templates/ sets them."""

RENDERED = "app.kubernetes.io/part-of=kae"
"""The label of every rendered object, as a selector."""

CONFIG = "device.openfuyao.com/config"
"""The annotation of a pod template that holds the program's config."""

BOOTSTRAP = "bootstrap"
"""The component that a person applies by hand, perhaps to another cluster; kustomize does not list it."""

SYNC_OPTIONS = "argocd.argoproj.io/sync-options"
FLUX_PRUNE = "kustomize.toolkit.fluxcd.io/prune"
"""Annotations by which Argo CD and Flux leave an object in the cluster that the output no longer has."""

_CLUSTER = re.compile(CLUSTER_PATTERN)


def is_cluster(name: str) -> bool:
    """Return whether a name is a valid cluster name."""
    return len(name) <= CLUSTER_LENGTH and _CLUSTER.fullmatch(name) is not None


def stem(file: str) -> str:
    """Return the name of a file without folders and extension; for an inventory, this is its cluster."""
    return file.rpartition("/")[2].rpartition(".")[0]


def is_glob(name: str) -> bool:
    """Return whether a name has a character that a shell glob gives a meaning; no name of a cluster has one."""
    return any(character in name for character in "*?[")


def glob_matches(glob: str, cluster: str) -> bool:
    """Return whether a name or shell glob matches the cluster."""
    return fnmatch.fnmatchcase(cluster, glob)


def globs_match(globs: Iterable[str] | None, cluster: str) -> bool:
    """Return whether one of the names or shell globs matches the cluster; None matches every cluster."""
    return globs is None or any(glob_matches(glob, cluster) for glob in globs)
