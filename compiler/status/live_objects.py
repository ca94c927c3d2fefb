"""The live DaemonSets, Deployments, pods and nodes of a cluster: raw objects to values.

Times stay texts as the API server prints them.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

_REVISION = "controller-revision-hash"
"""The label with the revision of the template that the DaemonSet controller made a pod from."""

_LONGEST = 300  # characters of a reason: the end of a log may be in it


class Pod(msgspec.Struct, frozen=True, kw_only=True):
    """A pod of a DaemonSet."""

    name: str
    node: str
    """The node on which it runs, or will run."""
    owner: str
    """The uid of its DaemonSet."""
    revision: str
    image: str
    """Of its first container."""
    ready: bool
    ending: bool
    """True when it is being deleted."""
    reason: str
    """The reason why it is not ready, in the cluster's words; may be empty."""
    since: str
    """The time of the last change of its readiness; may be empty."""
    probed: bool
    """True when it runs and only its readiness probe fails; the probe's message is in the events."""


class DaemonSet(msgspec.Struct, frozen=True, kw_only=True):
    """A DaemonSet as the cluster has it."""

    uid: str
    observed: bool
    """True when its controller has observed the newest change to it."""
    max_unavailable: int
    """The number of pods that may be unavailable in a rollout."""


class Deployment(msgspec.Struct, frozen=True, kw_only=True):
    """A Deployment of the output as the cluster has it."""

    namespace: str
    name: str
    found: bool = False
    """False where the cluster lacks it."""
    replicas: int = 0
    available: int = 0
    reason: str = ""
    """The reason why some are not available, in the cluster's words; may be empty."""


class NodeState(msgspec.Struct, frozen=True, kw_only=True):
    """The facts of a node that can hold up a rollout."""

    name: str
    ready: bool
    reason: str
    since: str


def pod(raw: Mapping[str, Any]) -> Pod:
    """Return a pod of a DaemonSet."""
    metadata, spec, status = raw["metadata"], raw.get("spec") or {}, raw.get("status") or {}
    condition = _condition(status, "Ready")
    ready = condition.get("status") == "True"
    reason, probed = ("", False) if ready else _why_not_ready(status)
    return Pod(
        name=metadata["name"],
        node=spec.get("nodeName") or _wanted_node(spec),
        owner=next((owner["uid"] for owner in metadata.get("ownerReferences") or () if owner.get("controller")), ""),
        revision=(metadata.get("labels") or {}).get(_REVISION, ""),
        image=_image(spec),
        ready=ready,
        ending="deletionTimestamp" in metadata,
        reason=reason,
        since=condition.get("lastTransitionTime") or metadata.get("creationTimestamp") or "",
        probed=probed,
    )


def daemon_set(raw: Mapping[str, Any]) -> DaemonSet:
    """Return a DaemonSet."""
    metadata, spec, status = raw["metadata"], raw["spec"], raw.get("status") or {}
    rolling = (spec.get("updateStrategy") or {}).get("rollingUpdate") or {}
    return DaemonSet(
        uid=metadata.get("uid", ""),
        observed=(status.get("observedGeneration") or 0) >= (metadata.get("generation") or 0),
        max_unavailable=_scaled(rolling.get("maxUnavailable", 1), status.get("desiredNumberScheduled") or 0),
    )


def deployment(namespace: str, name: str, raw: Mapping[str, Any] | None) -> Deployment:
    """Return a Deployment, which the cluster may lack."""
    if raw is None:
        return Deployment(namespace=namespace, name=name)
    status = raw.get("status") or {}
    wrong = {"ReplicaFailure": "True", "Available": "False", "Progressing": "False"}
    conditions = ((_condition(status, kind), value) for kind, value in wrong.items())
    reason = next((_words(condition) for condition, value in conditions if condition.get("status") == value), "")
    return Deployment(
        namespace=namespace,
        name=name,
        found=True,
        replicas=(raw.get("spec") or {}).get("replicas", 1),
        available=status.get("availableReplicas") or 0,
        reason=reason,
    )


def template_image(raw: Mapping[str, Any]) -> str:
    """Return the image of the first container of a Deployment's or a CronJob's pods."""
    spec = raw["spec"]["jobTemplate"]["spec"] if raw["kind"] == "CronJob" else raw["spec"]
    return _image(spec["template"]["spec"])


def _image(spec: Mapping[str, Any]) -> str:
    """Return the image of the first container of a pod."""
    return next((container.get("image", "") for container in spec.get("containers") or ()), "")


def node_state(raw: Mapping[str, Any]) -> NodeState:
    """Return the readiness of a node; a node whose kubelet is silent is not ready."""
    condition = _condition(raw.get("status") or {}, "Ready")
    return NodeState(
        name=raw["metadata"]["name"],
        ready=condition.get("status") == "True",
        reason=_words(condition),
        since=condition.get("lastTransitionTime") or "",
    )


def newest_revisions(raws: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Return the newest revision label of each DaemonSet, by its uid, from ControllerRevisions."""
    newest: dict[str, tuple[int, str]] = {}
    for raw in raws:
        metadata = raw["metadata"]
        mark = (metadata.get("labels") or {}).get(_REVISION, "")
        for owner in metadata.get("ownerReferences") or ():
            revision = (raw.get("revision") or 0, mark)
            newest[owner["uid"]] = max(revision, newest.get(owner["uid"], revision))
    return {uid: mark for uid, (_, mark) in newest.items()}


def probe_words(raws: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Return the last message of each pod's readiness probe, by the pod's name, from events."""
    last: dict[str, tuple[str, str]] = {}
    for raw in raws:
        message = str(raw.get("message") or "")
        if message.startswith("Readiness probe "):
            name = (raw.get("involvedObject") or {}).get("name", "")
            series = raw.get("series") or {}
            times = (series.get("lastObservedTime"), raw.get("lastTimestamp"), raw.get("eventTime"))
            latest = (next((time for time in times if time), ""), _line(message.partition(": ")[2] or message))
            last[name] = max(latest, last.get(name, latest))
    return {name: words for name, (_, words) in last.items()}


def _why_not_ready(status: Mapping[str, Any]) -> tuple[str, bool]:
    """Return the cluster's reason, and whether the readiness probe is the only one."""
    if status.get("phase") == "Failed" or status.get("reason"):
        return _words(status), False
    scheduled = _condition(status, "PodScheduled")
    if scheduled.get("status") == "False":
        return _words(scheduled), False
    statuses = (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ()))
    if not statuses:
        return "its node has not begun with it", False
    # Containers that wait for an init container that runs wait for nothing else: it, or its reporter, says for what.
    running = any("running" in (one.get("state") or {}) and not one.get("ready") for one in statuses)
    reasons = [reason for one in statuses if (reason := _container_reason(one)) and not (running and _is_behind(one))]
    if reasons:
        return reasons[0], False
    return _words(_condition(status, "Ready")), True


def _is_behind(status: Mapping[str, Any]) -> bool:
    """Return whether a container waits for the init containers before it (`PodInitializing` of the kubelet)."""
    return ((status.get("state") or {}).get("waiting") or {}).get("reason") == "PodInitializing"


def _container_reason(status: Mapping[str, Any]) -> str:
    """Return why a container does not run; empty for one that runs or has completed."""
    state = status.get("state") or {}
    last = (status.get("lastState") or {}).get("terminated")
    if "waiting" in state:
        ended = f"; it {_ended(last)}" if last else ""
        return _line(f"{_words(state['waiting'])}{ended}")
    ended_now = state.get("terminated")
    return _line(f"it {_ended(ended_now)}") if ended_now and not status.get("ready") else ""


def _ended(terminated: Mapping[str, Any]) -> str:
    words = _words(terminated)
    return f"ended with {terminated.get('exitCode', '?')}{f', {words}' if words else ''}"


def _condition(status: Mapping[str, Any], kind: str) -> Mapping[str, Any]:
    return next((condition for condition in status.get("conditions") or () if condition.get("type") == kind), {})


def _words(cause: Mapping[str, Any]) -> str:
    said = (cause.get(name) for name in ("reason", "message"))
    return _line(": ".join(str(words) for words in said if words))


def _line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}…"


def _wanted_node(spec: Mapping[str, Any]) -> str:
    """Return the node of a pod that is not scheduled yet, from the affinity that the DaemonSet controller set."""
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    terms = (affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}).get("nodeSelectorTerms") or ()
    fields = (field for term in terms for field in term.get("matchFields") or ())
    return next((field["values"][0] for field in fields if field.get("key") == "metadata.name"), "")


def _scaled(value: int | str, total: int) -> int:
    """Return a number, or a percentage rounded up, as the DaemonSet controller does, and at least 1."""
    if isinstance(value, int):
        return value
    percent = int(value.removesuffix("%"))
    return max(1, -(-total * percent // 100))
