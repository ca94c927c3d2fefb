"""Compare pods with the plan: for each DaemonSet, the nodes that deviate, and the nodes that hold up its rollout."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

import msgspec

from compiler.status import live_objects

Kind = Literal["missing", "surplus", "not-ready", "old", "image"]
"""missing: no pod where one is planned. surplus: an unplanned pod. old: an older template. image: another image."""


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """A deviation from the plan on one node."""

    kind: Kind
    node: str
    pod: str
    """Empty where there is none."""
    reason: str
    since: str
    """A time as the API server prints it; may be empty."""
    image: str
    """The image of the pod; empty where there is no pod."""


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """A DaemonSet of the output."""

    namespace: str
    name: str
    app: str
    """The value of app.kubernetes.io/name of its pods."""
    planned: Mapping[str, str]
    """The nodes on which the plan has a pod, each with the image of the pod."""


class Rollout(msgspec.Struct, frozen=True, kw_only=True):
    """The status of a DaemonSet."""

    wanted: Wanted
    exists: bool = False
    """True when the cluster has it."""
    observed: bool = False
    """True when its controller has observed the newest change."""
    pods: int = 0
    ready: int = 0
    current: int = 0
    """Pods of the newest template."""
    problems: tuple[Problem, ...] = ()
    """Sorted by node and pod."""
    held_up_by: tuple[str, ...] = ()
    """Nodes without an available pod, if the limit of unavailable pods is reached: the controller then replaces no
    other pod until they recover or leave."""
    images: tuple[str, ...] = ()
    """Those of its pods."""


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """The live objects of one DaemonSet."""

    live: live_objects.DaemonSet | None
    revision: str
    """The mark of the newest template; empty where it is not known."""
    pods: Sequence[live_objects.Pod]
    nodes: Mapping[str, live_objects.NodeState]


def judged(wanted: Wanted, seen: Seen) -> Rollout:
    """Return the status of a DaemonSet against the plan."""
    live = seen.live
    if live is None:
        return Rollout(wanted=wanted)
    staying = [pod for pod in seen.pods if not pod.ending]
    problems = sorted(_problems(wanted, seen), key=lambda problem: (problem.node, problem.pod))
    return Rollout(
        wanted=wanted,
        exists=True,
        observed=live.observed,
        pods=len(staying),
        ready=sum(pod.ready for pod in staying),
        current=sum(not _is_old(pod, seen) for pod in staying),
        problems=tuple(problems),
        held_up_by=_holders_up(live, problems),
        images=tuple(sorted({pod.image for pod in staying})),
    )


def _problems(wanted: Wanted, seen: Seen) -> Iterator[Problem]:
    there: dict[str, list[live_objects.Pod]] = {node: [] for node in wanted.planned}
    for pod in seen.pods:
        if pod.node in there:
            there[pod.node].append(pod)
        elif not pod.ending:
            gone = pod.node not in seen.nodes
            yield _problem("surplus", pod, "there is no such node" if gone else "the plan foretells none")
    for node, pods in there.items():
        # The controller keeps the oldest pod; for this report any of them will do.
        staying = sorted((pod for pod in pods if not pod.ending), key=lambda pod: (not pod.ready, pod.name))
        if not staying:
            reason = f"{pods[0].name} has not ended yet" if pods else _node_reason(node, seen)
            yield Problem(kind="missing", node=node, pod="", reason=reason, since="", image="")
            continue
        first, *more = staying
        yield from _judged(first, wanted.planned[node], seen)
        yield from (_problem("surplus", pod, f"{first.name} is there already") for pod in more)


def _judged(pod: live_objects.Pod, image: str, seen: Seen) -> Iterator[Problem]:
    """Yield every problem of a node's pod; each needs its own action."""
    if not pod.ready:
        yield _problem("not-ready", pod, _node_reason(pod.node, seen) or pod.reason, pod.since)
    if _is_old(pod, seen):
        yield _problem("old", pod, f"runs {pod.image}")
    elif pod.image != image:
        yield _problem("image", pod, f"runs {pod.image}, and the plan says {image}")


def _problem(kind: Kind, pod: live_objects.Pod, reason: str, since: str = "") -> Problem:
    return Problem(kind=kind, node=pod.node, pod=pod.name, reason=reason, since=since, image=pod.image)


def _node_reason(node: str, seen: Seen) -> str:
    state = seen.nodes.get(node)
    if state is None or state.ready:
        return ""
    return f"the node is not ready{f', {state.reason}' if state.reason else ''}"


def _is_old(pod: live_objects.Pod, seen: Seen) -> bool:
    return bool(seen.revision) and pod.revision != seen.revision


def _holders_up(live: live_objects.DaemonSet, problems: Sequence[Problem]) -> tuple[str, ...]:
    """Return the nodes without an available pod, if pods are left to replace and no more may become unavailable.

    The controller always replaces an old pod that is not available (Kubernetes' rollingUpdate of DaemonSets), so such
    a pod holds up no other.
    """
    old = {problem.node for problem in problems if problem.kind == "old"}
    down = {problem.node for problem in problems if problem.kind in ("not-ready", "missing")}
    waiting = old - down
    return tuple(sorted(down - old)) if waiting and len(down - old) >= live.max_unavailable else ()
