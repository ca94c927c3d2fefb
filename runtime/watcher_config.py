"""The config of the watcher: the compiler writes it, the watcher reads it."""

from typing import Annotated, Literal

import msgspec

from runtime import shapes

Seconds = Annotated[int, msgspec.Meta(ge=0, le=86_400)]
# The patterns are those of the compiler's language (compiler/model), in shorter words; its `$` is Python's `\Z`.
_SSH = rf"ssh://([^-@:/\x00-\x20\x7f][^@:/\x00-\x20\x7f]*@)?{shapes.REMOTE}"
_SCP = r"[a-z0-9_][a-z0-9._-]*@[^-\x00-\x20\x7f][^\x00-\x20\x7f]*"
Url = Annotated[str, msgspec.Meta(pattern=rf"^({shapes.URL}|{_SSH}|{_SCP})\Z", max_length=500)]

_PART = r"\.{0,2}[A-Za-z0-9_][A-Za-z0-9._-]*"
GitPath = Annotated[str, msgspec.Meta(pattern=rf"^(\.|{_PART}(/{_PART})*)\Z", max_length=250)]

_NAME = r"[^\x00-\x20\x7f~^:?*\[\\/.{"
_DOTTED = rf"(\.{_NAME}]+)*"
_BRANCH = rf"^{_NAME}@-]{_NAME}]*{_DOTTED}(/{_NAME}]+{_DOTTED})*\Z"
Branch = Annotated[str, msgspec.Meta(pattern=_BRANCH, max_length=250)]

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
ClusterName = Annotated[str, msgspec.Meta(pattern=rf"^{_LABEL}(\.{_LABEL})*\Z", max_length=50)]
LabelPrefix = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9._/-]+\*?\Z", max_length=317)]
PushOption = Annotated[str, msgspec.Meta(pattern=r"^[^\x00-\x1f\x7f]+\Z", max_length=500)]


class Repository(shapes.Shape, frozen=True, kw_only=True):
    """The repository of the inventory."""

    url: Url
    branch: Branch = "main"
    path: GitPath = "inventory"
    """The folder of <cluster>.json."""


class Author(shapes.Shape, frozen=True, kw_only=True):
    """The author of the commits."""

    name: Annotated[str, msgspec.Meta(min_length=1, max_length=200)] = "kae-watcher"
    email: Annotated[str, msgspec.Meta(pattern=r"^[^ @<>]+@[^ @<>]+\Z", max_length=200)] = "kae-watcher@localhost"


class Config(shapes.Shape, frozen=True, kw_only=True):
    """The nodes' reading, the repository, and the rules of a commit."""

    version: Literal[2]
    """The config's own format."""
    cluster: ClusterName
    repository: Repository
    interval_seconds: Annotated[int, msgspec.Meta(ge=1, le=10**18)]
    """Between full lists of the nodes."""
    quiet_seconds: Seconds
    """How long a node must stay unchanged before an addition or a change is committed."""
    removal_quiet_seconds: Seconds
    """The same for a loss: of a node, of its devices, or of any label that the inventory keeps."""
    min_commit_seconds: Seconds
    """Between two commits."""
    max_loss_percent: Annotated[int, msgspec.Meta(ge=0, le=100)]
    """The share of the nodes that may lose something within 24 hours; more is refused."""
    max_loss_nodes: Annotated[int, msgspec.Meta(ge=0, le=100_000)] = 1
    """So many nodes may lose something within 24 hours, whatever their share is."""
    labels: tuple[LabelPrefix, ...] = ()
    """The labels that the inventory keeps: keys, or beginnings of keys that end with `/` or `*`; without any, all."""
    ignore_labels: tuple[Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9._/*?-]+\Z", max_length=317)], ...] = ()
    """Label keys, or globs of them, that the inventory leaves out."""
    author: Author
    message_template: Annotated[str, msgspec.Meta(min_length=1, max_length=2000)]
    """`{cluster}` and `{summary}` are filled in."""
    signing: Literal["ssh"] | None = None
    """Without it commits are not signed."""
    push_options: tuple[PushOption, ...] = ()
    """Sent with each push (git-push(1), --push-option)."""
    metrics: shapes.MetricsEndpoint | None = None
    """Without it no metrics are served."""
