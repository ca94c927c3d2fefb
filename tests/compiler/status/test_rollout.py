"""Pods are held against the plan, node by node."""

from collections.abc import Sequence
from typing import Any

import pytest
from msgspec import structs

from compiler.status import live_objects, rollout

IMAGE = "r/kae-driver-installer:2.2.0"
OLD = "r/kae-driver-installer:2.1.0"


def wanted(*nodes: str) -> rollout.Wanted:
    planned = dict.fromkeys(nodes, IMAGE)
    return rollout.Wanted(namespace="kae-operator", name="kae-driver-tls", app="kae-driver", planned=planned)


def pod(node: str, **fields: Any) -> live_objects.Pod:
    fine = live_objects.Pod(
        name=f"kae-driver-tls-{node}",
        node=node,
        owner="uid",
        revision="new",
        image=IMAGE,
        ready=True,
        ending=False,
        reason="",
        since="T",
        probed=False,
    )
    return structs.replace(fine, **fields)


def node(name: str, *, ready: bool = True) -> live_objects.NodeState:
    reason = "" if ready else "NodeStatusUnknown: Kubelet stopped posting node status."
    return live_objects.NodeState(name=name, ready=ready, reason=reason, since="T")


LIVE = live_objects.DaemonSet(uid="uid", observed=True, max_unavailable=1)


def judged(
    plan: rollout.Wanted,
    pods: Sequence[live_objects.Pod],
    nodes: Sequence[live_objects.NodeState] | None = None,
    live: live_objects.DaemonSet | None = LIVE,
) -> rollout.Rollout:
    known = nodes if nodes is not None else [node(name) for name in "abc"]
    seen = rollout.Seen(live=live, revision="new", pods=pods, nodes={state.name: state for state in known})
    return rollout.judged(plan, seen)


def kinds(judged_rollout: rollout.Rollout) -> list[tuple[str, str]]:
    return [(problem.node, problem.kind) for problem in judged_rollout.problems]


def test_pods_as_planned_are_no_problem() -> None:
    findings = judged(wanted("a", "b"), [pod("a"), pod("b")])

    assert findings.problems == ()
    assert (findings.exists, findings.observed, findings.pods, findings.ready, findings.current) == (
        True,
        True,
        2,
        2,
        2,
    )


def test_a_daemonset_that_is_not_there_has_nothing_else_to_be_said_of() -> None:
    findings = judged(wanted("a"), [], live=None)

    assert (findings.exists, findings.problems) == (False, ())


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        ([pod("a")], [("b", "missing")]),
        ([pod("a"), pod("b", ending=True)], [("b", "missing")]),
        ([pod("a"), pod("b"), pod("c")], [("c", "surplus")]),
        ([pod("a"), pod("b"), pod("c", ending=True)], []),
        ([pod("a"), pod("b"), pod("b", name="another")], [("b", "surplus")]),
        ([pod("a"), pod("b", ready=False)], [("b", "not-ready")]),
        ([pod("a"), pod("b", revision="old", image=OLD)], [("b", "old")]),
        ([pod("a"), pod("b", revision="old", image=OLD, ready=False)], [("b", "not-ready"), ("b", "old")]),
        ([pod("a"), pod("b", image=OLD)], [("b", "image")]),
    ],
)
def test_a_node_that_is_not_as_planned_is_named(pods: list[live_objects.Pod], expected: list[tuple[str, str]]) -> None:
    assert kinds(judged(wanted("a", "b"), pods)) == expected


@pytest.mark.parametrize(
    ("pods", "reason"),
    [
        ([pod("a", image=OLD)], f"runs {OLD}, and the plan says {IMAGE}"),
        ([pod("a", image=OLD, revision="old")], f"runs {OLD}"),
        ([pod("a", ready=False, reason="ImagePullBackOff")], "ImagePullBackOff"),
        ([pod("a", ending=True)], "kae-driver-tls-a has not ended yet"),
        ([pod("a"), pod("b")], "the plan foretells none"),
        ([pod("a"), pod("z")], "there is no such node"),
        ([pod("a"), pod("a", name="z")], "kae-driver-tls-a is there already"),
        ([], ""),
    ],
)
def test_a_reason_is_given_in_few_words(pods: list[live_objects.Pod], reason: str) -> None:
    (finding,) = judged(wanted("a"), pods).problems

    assert finding.reason == reason


def test_a_node_that_is_not_ready_is_why_its_pod_is_not() -> None:
    states = [node("a", ready=False), node("b", ready=False)]

    findings = judged(wanted("a", "b"), [pod("a", ready=False, reason="whatever")], states)

    assert {problem.reason for problem in findings.problems} == {
        "the node is not ready, NodeStatusUnknown: Kubelet stopped posting node status."
    }


@pytest.mark.parametrize(
    ("pods", "limit", "expected"),
    [
        # c waits for b, which was replaced and does not come up.
        ([pod("a"), pod("b", ready=False), pod("c", revision="old")], 1, ("b",)),
        ([pod("a"), pod("c", revision="old")], 1, ("b",)),
        # Two may be unavailable.
        ([pod("a"), pod("b", ready=False), pod("c", revision="old")], 2, ()),
        ([pod("a", ready=False), pod("b", ready=False), pod("c", revision="old")], 2, ("a", "b")),
        # Nothing is left to replace.
        ([pod("a"), pod("b", ready=False), pod("c")], 1, ()),
        # An old pod that is not ready is replaced whatever the others do.
        ([pod("a"), pod("b"), pod("c", revision="old", ready=False)], 1, ()),
    ],
)
def test_a_rollout_is_held_up_by_nodes_where_as_many_as_may_be_are_unavailable(
    pods: list[live_objects.Pod], limit: int, expected: tuple[str, ...]
) -> None:
    live = structs.replace(LIVE, max_unavailable=limit)

    assert judged(wanted("a", "b", "c"), pods, live=live).held_up_by == expected


def test_without_a_known_revision_no_pod_is_old() -> None:
    seen = rollout.Seen(live=LIVE, revision="", pods=[pod("a")], nodes={"a": node("a")})

    assert rollout.judged(wanted("a"), seen).problems == ()
