"""The nodes that recorded rules and DaemonSets serve."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

from compiler.changes import placement
from compiler.fleet import pods, selectors, taints
from compiler.inventory import snapshot
from compiler.output import index_file
from tests import builders, effort


def rule(feature: str, attribute: str, operator: str, *values: str, **given: Mapping[str, str]) -> dict[str, Any]:
    """Return a rule with one condition, its variables and its labels."""
    expression = {"op": operator} | ({"value": list(values)} if values else {})
    return {"matchFeatures": [{"feature": feature, "matchExpressions": {attribute: expression}}], **given}


def rules(*items: dict[str, Any]) -> placement.PoolRules:
    return placement.PoolRules({"spec": {"rules": list(items)}})


POOL = "openfuyao.com/kae.pool.tls"


@pytest.mark.parametrize(
    ("pattern", "kernel", "matches"),
    [
        (r"\.oe2203sp[1-4]\.", "5.10.0-216.oe2203sp4.aarch64", True),
        (r"^6\.", "5.10.0-216.oe2203sp4.aarch64", False),
        ("aarch64$", "5.10.0-216.oe2203sp4.aarch64+", True),
        ("(?i)OE2203", "5.10.0-216.oe2203sp4.aarch64", True),
        ("(?<=oe)2203", "5.10.0-216.oe2203sp4.aarch64", False),
    ],
)
def test_a_kernel_is_matched_by_re2_as_nfd_reports_it(pattern: str, kernel: str, matches: bool) -> None:
    own = rules(rule("kernel.version", "full", "InRegexp", pattern, labels={POOL: "a"}))
    node = builders.node(machine=builders.profile(kernel_version=kernel))

    assert own.labels(node) == ({POOL: "a"} if matches else {})


def test_a_group_lists_its_nodes_and_gives_them_its_pool() -> None:
    own = rules(
        rule("system.name", "nodename", "In", "kp-1", "kp-2", vars={"kae.tls.group": "sick"}),
        rule("rule.matched", "kae.tls.group", "In", "sick", labels={POOL: "sick"}),
        rule("rule.matched", "kae.tls.group", "DoesNotExist", labels={POOL: "rest"}),
    )

    tls, web = index_file.Owner("kae", "tls"), index_file.Owner("kae", "web")
    assert own.members(tls, "sick") == {"kp-1", "kp-2"}
    assert own.members(tls, "well") == own.members(web, "sick") == set()
    assert [own.labels(builders.node(name)) for name in ("kp-2", "kp-3")] == [{POOL: "sick"}, {POOL: "rest"}]


def daemon_set(name: str, *terms: selectors.Term, tolerations: Sequence[pods.Toleration] = ()) -> placement.DaemonSet:
    workload = index_file.Workload(file=f"driver/daemonset-{name}.yaml", component="driver", policy="tls", pool=name)
    return placement.DaemonSet(
        workload=workload,
        images=frozenset(),
        terms=terms,
        tolerations=tuple(tolerations),
        cleans_up=False,
        kinds=frozenset(),
    )


def by_each_node(
    daemon_sets: Sequence[placement.DaemonSet], own: placement.PoolRules | None, nodes: Iterable[snapshot.Node]
) -> dict[str, str]:
    """Return the file of the DaemonSet that serves each node, each node judged by itself."""
    groups = {}
    for node in nodes:
        labels = own.labels(node) if own else None
        for item in daemon_sets:
            if taints.untolerated(item.tolerations, node.profile.taints):
                continue
            if any(all(meets(one, node, labels) for one in term) for term in item.terms):
                groups[node.name] = item.workload.file
    return groups


def meets(one: selectors.Requirement, node: snapshot.Node, labels: Mapping[str, str] | None) -> bool:
    if one.key == POOL:
        return labels is None or selectors.requirement_matches(one, labels.get(POOL))
    return selectors.requirement_matches(one, node.label(one.key))


NAMES = ("kp-1", "kp-2", "kp-3", "kp-4")
KEYS = ("zone", "tier", POOL, snapshot.HOSTNAME)
VALUES = ("a", "b", "kp-1")
PROFILES = (
    builders.profile({"zone": "a"}),
    builders.profile({"tier": "b"}, kernel_version="6.6.0"),
    builders.profile({}, taints=[builders.taint("dedicated=db:NoSchedule")]),
)


@st.composite
def nodes_of_a_cluster(draw: st.DrawFn) -> list[snapshot.Node]:
    """Draw nodes, many of which differ in their names alone."""
    return [
        snapshot.Node(
            name=name,
            profile=draw(st.sampled_from(PROFILES)),
            hostname=draw(st.sampled_from((name, "a", None))),
            labels=draw(st.sampled_from(({}, {"zone": "a"}, {"zone": "b", "tier": "a"}))),
        )
        for name in NAMES
    ]


REQUIREMENTS = st.builds(
    selectors.Requirement,
    st.sampled_from(KEYS),
    st.sampled_from(("In", "NotIn", "Exists", "DoesNotExist")),
    st.lists(st.sampled_from(VALUES), min_size=1, unique=True).map(tuple),
)


@st.composite
def drawn_daemon_sets(draw: st.DrawFn) -> list[placement.DaemonSet]:
    """Draw DaemonSets of pools, whose terms may have one requirement more."""
    groups = []
    for pool in draw(st.lists(st.sampled_from(VALUES), min_size=1, unique=True)):
        more = draw(st.lists(st.lists(REQUIREMENTS, max_size=1).map(tuple), min_size=1, max_size=2))
        terms = [(selectors.Requirement(POOL, "In", (pool,)), *own) for own in more]
        everything = [pods.Toleration(operator="Exists")]
        groups.append(daemon_set(pool, *terms, tolerations=draw(st.sampled_from(([], everything)))))
    return groups


RULES = st.lists(
    st.one_of(
        st.builds(
            lambda operator, names, pool: rule("system.name", "nodename", operator, *names, labels={POOL: pool}),
            st.sampled_from(("In", "Exists", "DoesNotExist")),
            st.lists(st.sampled_from(NAMES), min_size=1, max_size=2),
            st.sampled_from(VALUES),
        ),
        st.builds(
            lambda names, group: rule("system.name", "nodename", "In", *names, vars={"group": group}),
            st.lists(st.sampled_from(NAMES), min_size=1, max_size=2),
            st.sampled_from(VALUES),
        ),
        st.builds(
            lambda group, pool: rule("rule.matched", "group", "In", group, labels={POOL: pool}),
            st.sampled_from(VALUES),
            st.sampled_from(VALUES),
        ),
        st.just(rule("system.name", "nodename", "InRegexp", "[34]$", labels={POOL: "a"})),
        st.just(rule("kernel.version", "full", "InRegexp", "^6", labels={POOL: "b"})),
    ),
    min_size=1,
    max_size=4,
).map(lambda items: rules(*items))


@hypothesis.settings(max_examples=effort.examples(gate=50, long=300))
@hypothesis.given(drawn_daemon_sets(), st.none() | RULES, nodes_of_a_cluster())
def test_nodes_that_are_judged_together_are_served_as_each_by_itself(
    daemon_sets: list[placement.DaemonSet], own: placement.PoolRules | None, nodes: list[snapshot.Node]
) -> None:
    planned, _ = builders.view([], nodes)
    served = placement.served(daemon_sets, own, placement.alike(planned, daemon_sets))

    assert {name: item.workload.file for name, item in served.items()} == by_each_node(daemon_sets, own, nodes)


@pytest.mark.parametrize(
    ("label", "groups"),
    [
        ("openfuyao.com/kae.deploy.driver", [["kp-1", "kp-2"], ["kp-3"]]),
        (POOL, [["kp-1", "kp-2"], ["kp-3"]]),
        ("rack", [["kp-1"], ["kp-2", "kp-3"]]),
    ],
)
def test_decisions_group_nodes_unless_an_earlier_output_selects_by_more(label: str, groups: list[list[str]]) -> None:
    labels: tuple[dict[str, str], ...] = ({"zone": "a", "rack": "1"}, {"zone": "a"}, {"zone": "b"})
    machine = builders.profile()
    nodes = [builders.node(name, own, machine) for name, own in zip(NAMES, labels, strict=False)]
    planned, _ = builders.view([builders.selecting("tls", zone="a")], nodes)
    selecting = daemon_set("a", (selectors.Requirement(label, "Exists"),))

    assert [[node.name for node in alike] for alike in placement.alike(planned, [selecting])] == groups
