"""What the watcher is told: the shape of its config file, as schemas/watcher-config.json states it."""

from typing import Annotated, Literal

import msgspec

from runtime import shapes

Seconds = Annotated[int, msgspec.Meta(ge=0, le=86_400)]
GitPath = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9._/-]+$", max_length=250)]
# A DNS name, as the cluster's document demands it.
ClusterName = Annotated[
    str,
    msgspec.Meta(
        pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$",
        max_length=50,
    ),
]


class Repository(shapes.Shape, frozen=True, kw_only=True):
    """Where the inventory is committed."""

    url: Annotated[
        str, msgspec.Meta(pattern=r"^(https://|http://|ssh://|file:///|[a-z0-9._-]+@)[^ ]+$", max_length=500)
    ]
    branch: GitPath = "main"
    path: GitPath = "inventory"
    """The folder of <cluster>.json."""


class Author(shapes.Shape, frozen=True, kw_only=True):
    """Who the commits are by."""

    name: Annotated[str, msgspec.Meta(min_length=1, max_length=200)] = "kae-watcher"
    email: Annotated[str, msgspec.Meta(pattern=r"^[^ @<>]+@[^ @<>]+$", max_length=200)] = "kae-watcher@localhost"


class Config(shapes.Shape, frozen=True, kw_only=True):
    """What the watcher reads, and where it commits."""

    version: Literal[1] = 1
    """The config's own format."""
    cluster: ClusterName
    repository: Repository
    interval_seconds: Annotated[int, msgspec.Meta(ge=1)]
    """Between full lists of the nodes."""
    quiet_seconds: Seconds
    """How long a node has to stay as it is before an addition or a change is committed,"""
    removal_quiet_seconds: Seconds
    """and before a removal is: of a node, of its devices, or of what NFD says of it."""
    min_commit_seconds: Seconds
    """Between two commits."""
    max_loss_percent: Annotated[int, msgspec.Meta(ge=0, le=100)]
    """A snapshot that loses more of the nodes, or of the devices, is held back for a person."""
    ignore_labels: tuple[Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9._/*?-]+$", max_length=317)], ...] = ()
    """Label keys, or globs of them, that never enter the inventory."""
    author: Author
    message_template: Annotated[str, msgspec.Meta(min_length=1, max_length=2000)]
    """`{cluster}` and `{summary}` are filled in."""
    signing: Literal["ssh", "gpg"] | None = None
    """Nothing is signed without it."""
    metrics: shapes.MetricsEndpoint | None = None
    """Nothing is served without it."""
