"""Raw objects of a live cluster are read as values, whatever they leave out."""

from typing import Any

import pytest

from compiler.status import live_objects


def raw_pod(**status: Any) -> dict[str, Any]:
    owner = {"kind": "DaemonSet", "name": "kae-driver-tls", "uid": "uid-1", "controller": True}
    labels = {"controller-revision-hash": "abc"}
    return {
        "metadata": {"name": "p", "labels": labels, "ownerReferences": [owner], "creationTimestamp": "T0"},
        "spec": {"nodeName": "n", "containers": [{"name": "installer", "image": "i:1"}]},
        "status": status,
    }


def ready(status: str, **more: str) -> dict[str, str]:
    return {"type": "Ready", "status": status, "lastTransitionTime": "T1", **more}


def containers(**state: Any) -> list[dict[str, Any]]:
    return [{"name": "installer", "ready": False, **state}]


def test_a_pod_that_is_ready_has_no_reason() -> None:
    seen = live_objects.pod(raw_pod(conditions=[ready("True")], containerStatuses=containers(state={"running": {}})))

    assert seen == live_objects.Pod(
        name="p",
        node="n",
        owner="uid-1",
        revision="abc",
        image="i:1",
        ready=True,
        ending=False,
        reason="",
        since="T1",
        probed=False,
    )


WAITING = {"waiting": {"reason": "ImagePullBackOff", "message": 'Back-off pulling image "i:1"'}}
BEHIND = {"waiting": {"reason": "PodInitializing"}}
LOOPING = {"waiting": {"reason": "CrashLoopBackOff"}}
ENDED = {"terminated": {"exitCode": 3, "reason": "Error", "message": "no such\n  module"}}


@pytest.mark.parametrize(
    ("status", "reason", "probed"),
    [
        ({}, "its node has not begun with it", False),
        ({"containerStatuses": containers(state=WAITING)}, 'ImagePullBackOff: Back-off pulling image "i:1"', False),
        (
            {"containerStatuses": containers(state=LOOPING, lastState=ENDED)},
            "CrashLoopBackOff; it ended with 3, Error: no such module",
            False,
        ),
        ({"containerStatuses": containers(state=ENDED)}, "it ended with 3, Error: no such module", False),
        ({"initContainerStatuses": containers(state=WAITING)}, 'ImagePullBackOff: Back-off pulling image "i:1"', False),
        (
            {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "full"}]},
            "Unschedulable: full",
            False,
        ),
        ({"phase": "Failed", "reason": "Evicted", "message": "The node was low on memory."},
         "Evicted: The node was low on memory.", False),
        (
            {
                "conditions": [ready("False", reason="ContainersNotReady", message="containers with unready status")],
                "containerStatuses": containers(state={"running": {}}),
            },
            "ContainersNotReady: containers with unready status",
            True,
        ),
        (
            {
                "conditions": [ready("False", reason="ContainersNotReady", message="containers with unready status")],
                "initContainerStatuses": containers(state={"running": {}}),
                "containerStatuses": containers(state=BEHIND),
            },
            "ContainersNotReady: containers with unready status",
            True,
        ),
        (
            {"initContainerStatuses": containers(state=LOOPING), "containerStatuses": containers(state=BEHIND)},
            "CrashLoopBackOff",
            False,
        ),
        ({"containerStatuses": containers(state=BEHIND)}, "PodInitializing", False),
    ],
)  # fmt: skip
def test_an_unready_pod_says_why_in_the_clusters_words(status: dict[str, Any], reason: str, probed: bool) -> None:
    seen = live_objects.pod(raw_pod(**status))

    assert (seen.ready, seen.reason, seen.probed) == (False, reason, probed)


def test_a_long_reason_is_cut() -> None:
    assert len(live_objects.pod(raw_pod(phase="Failed", reason="Evicted", message="x" * 1000)).reason) == 301


def test_a_pod_without_a_node_is_on_the_one_that_it_was_made_for() -> None:
    raw = raw_pod()
    fields = [{"key": "metadata.name", "operator": "In", "values": ["wanted"]}]
    terms = {"nodeSelectorTerms": [{"matchFields": fields}]}
    raw["spec"] = {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}

    assert live_objects.pod(raw).node == "wanted"


def test_a_pod_that_was_told_to_go_is_ending() -> None:
    raw = raw_pod()
    raw["metadata"]["deletionTimestamp"] = "T2"

    assert live_objects.pod(raw).ending


@pytest.mark.parametrize(
    ("limit", "desired", "expected"), [(1, 10, 1), ("10%", 25, 3), ("10%", 0, 1), ("100%", 7, 7), (None, 4, 1)]
)
def test_a_share_of_unavailable_pods_is_rounded_up(limit: int | str | None, desired: int, expected: int) -> None:
    rolling = {} if limit is None else {"updateStrategy": {"rollingUpdate": {"maxUnavailable": limit}}}
    raw = {"metadata": {"uid": "u"}, "spec": rolling, "status": {"desiredNumberScheduled": desired}}

    assert live_objects.daemon_set(raw).max_unavailable == expected


@pytest.mark.parametrize(("generation", "seen", "observed"), [(2, 2, True), (2, 1, False), (1, None, False)])
def test_a_change_that_the_controller_has_not_seen_is_told(generation: int, seen: int | None, observed: bool) -> None:
    status = {} if seen is None else {"observedGeneration": seen}

    daemon_set = live_objects.daemon_set(
        {"metadata": {"uid": "u", "generation": generation}, "spec": {}, "status": status}
    )

    assert daemon_set.observed is observed


@pytest.mark.parametrize(
    ("conditions", "reason"),
    [
        ([], ""),
        ([{"type": "Available", "status": "True", "reason": "MinimumReplicasAvailable"}], ""),
        ([{"type": "Available", "status": "False", "reason": "Few"}], "Few"),
        (
            [
                {"type": "Available", "status": "False", "reason": "Few"},
                {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "quota"},
            ],
            "FailedCreate: quota",
        ),
    ],
)
def test_a_deployment_says_why_it_is_not_available(conditions: list[dict[str, str]], reason: str) -> None:
    status = {"availableReplicas": 1, "conditions": conditions}

    seen = live_objects.deployment("n", "d", {"spec": {"replicas": 2}, "status": status})

    assert (seen.found, seen.replicas, seen.available, seen.reason) == (True, 2, 1, reason)


@pytest.mark.parametrize("status", ["True", "False", "Unknown", None])
def test_a_node_is_ready_when_its_kubelet_says_so(status: str | None) -> None:
    conditions = [{"type": "Ready", "status": status, "reason": "KubeletReady"}] if status else []

    seen = live_objects.node_state({"metadata": {"name": "n"}, "status": {"conditions": conditions}})

    assert seen.ready is (status == "True")


def revision(uid: str, number: int, mark: str) -> dict[str, Any]:
    labels = {"controller-revision-hash": mark}
    return {"metadata": {"name": mark, "labels": labels, "ownerReferences": [{"uid": uid}]}, "revision": number}


def test_the_newest_revision_of_each_daemonset_counts() -> None:
    newest = live_objects.newest_revisions(
        [revision("a", 9, "old"), revision("a", 10, "new"), revision("b", 1, "only")]
    )

    assert newest == {"a": "new", "b": "only"}


def event(pod: str, message: str, **times: Any) -> dict[str, Any]:
    return {"involvedObject": {"kind": "Pod", "name": pod}, "reason": "Unhealthy", "message": message, **times}


def test_a_probes_last_words_are_found_in_the_events() -> None:
    said = live_objects.probe_words(
        [
            event("a", "Readiness probe failed: first\n", lastTimestamp="2026-01-01T00:00:01Z"),
            event("a", "Readiness probe failed: last\n", series={"lastObservedTime": "2026-01-01T00:00:03.5Z"}),
            event("a", "Readiness probe failed: middle", eventTime="2026-01-01T00:00:02.0Z", lastTimestamp=None),
            event("a", "Liveness probe failed: other", lastTimestamp="2026-01-01T00:00:09Z"),
            event("b", "Readiness probe errored", lastTimestamp=None),
        ]
    )

    assert said == {"a": "last", "b": "Readiness probe errored"}
