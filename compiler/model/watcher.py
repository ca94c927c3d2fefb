"""The inventory watcher in a KAECluster: its repository, its pod, and the rules of its commits."""

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from compiler import release
from compiler.model import base
from compiler.model.base import Model


class Part(Model):
    """A part of the watcher's settings; docs/watcher.md alone explains the fields."""

    model_config = ConfigDict(use_attribute_docstrings=False)


class WatcherRepository(Part):
    """Where the watcher commits the inventory; never what a GitOps engine applies."""

    url: Annotated[str, base.git_url("Remove them; the watcher reads those of watcher.secretName.")]
    """The repository."""
    branch: base.Branch = "main"
    """The branch that gets the commits."""
    path: base.GitPath = "inventory"
    """The folder of <cluster>.json."""


class Author(Part):
    """Who the commits are by."""

    name: Annotated[str, Field(min_length=1, max_length=200)] = "kae-watcher"
    """The author's name."""
    email: Annotated[str, base.text(r"[^ @<>]+@[^ @<>]+", 200, "an e-mail address, such as kae@example.com")] = (
        "kae-watcher@localhost"
    )
    """The author's address."""


class Signing(Part):
    """How commits are signed."""

    format: Literal["ssh"]
    """The kind of key."""
    secretName: base.ObjectName
    """The Secret that holds the key."""


LabelGlob = Annotated[str, base.text(r"[A-Za-z0-9._/*?-]+", 317, "a label key or a glob, such as example.com/*")]

LabelPrefix = Annotated[
    str,
    base.text(
        r"[A-Za-z0-9._/-]+\*?",
        317,
        "a label key, or its beginning, such as feature.node.kubernetes.io/ or example.com/a*",
    ),
]
PushOption = Annotated[str, base.text(r"[^\x00-\x1f\x7f]+", 500, "a line such as merge_request.create")]

_SOME = "[0-9]*[1-9][0-9]*"
Interval = Annotated[
    str,
    # A duration of which one number is not zero; the API server's patterns (RE2) know no lookahead.
    base.text(
        rf"({_SOME}h([0-9]+m)?([0-9]+s)?|([0-9]+h)?{_SOME}m([0-9]+s)?|([0-9]+h)?([0-9]+m)?{_SOME}s)",
        15,
        "a duration of at least a second, such as 90s, 10m or 1h30m",
        shortest=2,
    ),
]


class WatcherVariable(base.EnvVar):
    """An environment variable of the watcher with a plain value."""


_CRON_NUMBERS = ("[0-5]?[0-9]", "[01]?[0-9]|2[0-3]", "0?[1-9]|[12][0-9]|3[01]", "0?[1-9]|1[0-2]", "[0-6]")
"""Minutes, hours, days of the month, months and days of the week as Kubernetes reads them: Sunday is 0, and not 7."""
_CRON_PARTS = tuple(rf"(\*|({number})(-({number}))?)(/[1-9][0-9]?)?" for number in _CRON_NUMBERS)
Schedule = Annotated[
    str,
    # The five fields of crontab(5), with numbers alone: names of days and months are not in every implementation.
    base.text(
        f"{' '.join(f'{part}(,{part})*' for part in _CRON_PARTS)}",
        100,
        "the five fields of a cron schedule, such as */5 * * * * (Sunday is 0)",
    ),
]


class WatchedLabels(Part):
    """What of the nodes enters the inventory."""

    labels: tuple[LabelPrefix, ...] = ()
    """The labels that it keeps: keys, or beginnings of keys that end with / or *; without any, all."""


class Watcher(base.PodPlacement):
    """The program that refreshes the inventory and commits it to git."""

    model_config = Part.model_config

    enabled: bool = False
    """Run it in the cluster."""
    image: base.ImagePart = release.reference("kae-watcher", release.REPOSITORY)
    """Its whole image reference."""
    repository: WatcherRepository | None = None
    """Where the inventory is kept."""
    secretName: base.ObjectName | None = None
    """The Secret with the repository's credentials."""
    env: tuple[WatcherVariable, ...] = ()
    """Variables of the program, such as HTTPS_PROXY, by which git reaches the repository."""
    resources: base.ResourceRequirements = base.defaults(
        requests={"cpu": "20m", "memory": "128Mi"}, limits={"memory": "512Mi"}
    )
    """What the container asks for and is held to; replaces the default as a whole."""
    priorityClassName: base.ObjectName | None = None
    """The priority of the pod; it must exist in the cluster."""
    mode: Literal["Deployment", "CronJob"] = "Deployment"
    """Deployment: a pod follows the nodes. CronJob: a pod lists them by the clock, commits once and ends."""
    schedule: Schedule = "*/5 * * * *"
    """When the pod of a CronJob starts."""
    interval: Interval = "10m"
    """Between full lists of the nodes."""
    quietSeconds: Annotated[int, Field(ge=0, le=86400)] = 10
    """Without a change before additions are committed."""
    removalQuietSeconds: Annotated[int, Field(ge=0, le=86400)] = 600
    """Without a change before removals are committed."""
    minCommitSeconds: Annotated[int, Field(ge=1, le=86400)] = 300
    """Between two commits."""
    maxLossPercent: Annotated[int, Field(ge=0, le=100)] = 10
    """The share of the nodes that may lose something within 24 hours; more is refused."""
    maxLossNodes: Annotated[int, Field(ge=0, le=100_000)] = 1
    """So many nodes may lose something within 24 hours, whatever their share is."""
    inventory: WatchedLabels = base.defaults()
    """What of the nodes enters the inventory."""
    ignoreLabels: tuple[LabelGlob, ...] = ()
    """Label keys or shell globs that never enter the inventory."""
    author: Author = base.defaults()
    """Who the commits are by."""
    messageTemplate: Annotated[str, Field(min_length=1, max_length=2000)] = "inventory({cluster}): {summary}"
    """The commit message; {cluster} and {summary} are filled in."""
    signing: Signing | None = None
    """Absent means unsigned commits."""
    pushOptions: tuple[PushOption, ...] = ()
    """Sent with each push (git-push(1), --push-option), such as those by which GitLab opens a merge request."""
