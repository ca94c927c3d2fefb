"""Names that follow from other names."""

import fnmatch
import re
from collections.abc import Iterable

CLUSTER_PATTERN = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
CLUSTER_LENGTH = 50
"""What a cluster can be called: a DNS name, short enough for the names that are made from it."""

POLICIES = "policies"
INVENTORY = "inventory"
"""The folders of a project that hold its documents."""

_CLUSTER = re.compile(CLUSTER_PATTERN)


def is_cluster(name: str) -> bool:
    """Whether a cluster can be called so."""
    return len(name) <= CLUSTER_LENGTH and _CLUSTER.fullmatch(name) is not None


def stem(file: str) -> str:
    """The name of a file without its folders and its extension: that of the cluster, for an inventory."""
    return file.rpartition("/")[2].rpartition(".")[0]


def glob_matches(glob: str, cluster: str) -> bool:
    """Whether a name or shell glob means the cluster."""
    return fnmatch.fnmatchcase(cluster, glob)


def globs_match(globs: Iterable[str] | None, cluster: str) -> bool:
    """Whether one of the names or shell globs means the cluster; without any, every cluster is meant."""
    return globs is None or any(glob_matches(glob, cluster) for glob in globs)
