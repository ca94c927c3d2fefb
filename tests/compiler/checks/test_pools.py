"""Rules for waves, frozen groups and the names of pools: what breaks each, where it is shown, what is just within."""

from collections.abc import Sequence
from typing import Any

import pytest

from compiler import diagnostics
from compiler.checks import pools as checks
from compiler.fleet import definitions
from compiler.inventory import snapshot
from tests import builders

MAPPING = {"name": "m", "regexp": "m"}
SELECTOR = {"matchLabels": {"zone": "lab"}}


def policy(
    waves: Sequence[dict[str, Any]] = (), frozen: Sequence[dict[str, Any]] = (), name: str = "tls", **driver: Any
) -> definitions.Policy:
    rollout = {"waves": list(waves), "frozen": list(frozen)}
    return builders.policy(name, driver={"version": "2.2.0", "rollout": rollout, **driver})


def wave(name: str = "w", **more: Any) -> dict[str, Any]:
    return {"name": name, **more}


def frozen(name: str = "f", **more: Any) -> dict[str, Any]:
    return {"name": name, "version": "2.1.0", **more}


def findings(*groups: Any, **more: Any) -> list[diagnostics.Diagnostic]:
    item = policy(*groups, **more)
    return list(checks.findings(item, builders.variants(item)))


def codes(*groups: Any, **more: Any) -> list[str]:
    return builders.codes(findings(*groups, **more))


def said(item: definitions.Policy, *nodes: snapshot.Node, where: str = "east") -> list[diagnostics.Diagnostic]:
    view, _ = builders.view([item], nodes, builders.cluster(where))
    (division,) = view.divisions
    return list(checks.in_cluster(division, builders.nodes_of(*nodes, name=where), view.decisions))


@pytest.mark.parametrize(
    ("group", "shown", "message"),
    [
        ({"percent": 5, "nodes": ["a"]}, "nodes:", "Wave 'w' selects its nodes by percent and nodes."),
        (
            {"percent": 5, "inventorySelector": SELECTOR},
            "inventorySelector:",
            "Wave 'w' selects its nodes by percent and inventorySelector.",
        ),
        (
            {"percent": 5, "nodes": ["a"], "inventorySelector": SELECTOR},
            "nodes:",
            "Wave 'w' selects its nodes by percent, nodes and inventorySelector.",
        ),
        ({}, "name: w", "Wave 'w' does not select any nodes."),
    ],
)
def test_a_wave_chooses_in_one_way(group: dict[str, Any], shown: str, message: str) -> None:
    (diagnostic,) = findings([wave(**group)])

    assert (diagnostic.code, diagnostic.message) == ("choose-one", message)
    assert diagnostic.span.text.strip(" -").startswith(shown)
    assert diagnostic.hint == "Set exactly one of percent, nodes and inventorySelector."


@pytest.mark.parametrize(
    ("group", "sound"),
    [
        ({"nodes": ["a"]}, True),
        ({"inventorySelector": {}}, True),
        ({}, False),
        ({"nodes": ["a"], "inventorySelector": {}}, False),
    ],
)
def test_a_frozen_group_chooses_in_one_way_too(group: dict[str, Any], sound: bool) -> None:
    assert codes([], [frozen(**group)]) == ([] if sound else ["choose-one"])


def test_waves_and_frozen_groups_share_their_names_and_the_later_one_is_shown() -> None:
    item = policy([wave("a", percent=5), wave("b", percent=9), wave("a", percent=50)], [frozen("b", nodes=["n"])])

    first, second = checks.findings(item, builders.variants(item))

    rollout = ("spec", "driver", "rollout")
    assert [first.code, second.code] == ["duplicate-name"] * 2
    assert (first.span, second.span) == (
        item.source.span(*rollout, "waves", 1, "name"),
        item.source.span(*rollout, "waves", 2, "name"),
    )
    assert first.notes == (f"Its first use is at {item.source.span(*rollout, 'frozen', 0, 'name')}.",)


def test_a_mapping_may_be_called_as_a_group_and_no_two_mappings_alike() -> None:
    assert codes([wave("m", percent=5)], kernelMappings=[MAPPING]) == []
    assert codes(kernelMappings=[MAPPING, {"name": "m", "regexp": "n"}]) == ["duplicate-name"]


@pytest.mark.parametrize(
    "parts",
    [
        {"waves": [wave("rest", percent=5)]},
        {"frozen": [frozen("rest", nodes=["a"])]},
        {"kernelMappings": [MAPPING | {"name": "rest"}]},
    ],
)
def test_no_part_is_called_as_the_nodes_that_are_left(parts: dict[str, Any]) -> None:
    (diagnostic,) = findings(**parts)

    assert diagnostic.code == "reserved-name"
    assert diagnostic.span.text.strip() == "- name: rest"


@pytest.mark.parametrize(
    ("length", "parts", "sound"),
    [
        (30, {}, True),
        (30, {"waves": [wave("w" * 20, percent=5)]}, True),
        (30, {"waves": [wave("w" * 21, percent=5)]}, False),
        (30, {"frozen": [frozen("f" * 21, nodes=["a"])]}, False),
        (30, {"kernelMappings": [MAPPING | {"name": "m" * 20}]}, True),
        (30, {"kernelMappings": [MAPPING | {"name": "m" * 21}]}, False),
        (20, {"waves": [wave(percent=5)], "kernelMappings": [MAPPING | {"name": "m" * 24}]}, True),
        (20, {"waves": [wave(percent=5)], "kernelMappings": [MAPPING | {"name": "m" * 25}]}, False),
        (30, {"kernelMappings": [MAPPING | {"name": "m" * 10, "version": "${KERNEL_XYZ}"}]}, True),
        (30, {"kernelMappings": [MAPPING | {"name": "m" * 11, "version": "${KERNEL_XYZ}"}]}, False),
        (30, {"enabled": False, "waves": [wave("w" * 21, percent=5)]}, True),
    ],
)
def test_the_longest_name_of_a_daemonset_fits_into_a_label(length: int, parts: dict[str, Any], sound: bool) -> None:
    assert codes(name="p" * length, **parts) == ([] if sound else ["name-too-long"])


def test_a_name_that_is_too_long_is_told_with_what_is_too_much() -> None:
    (diagnostic,) = findings([wave("w" * 25, percent=5)], name="p" * 30)

    assert f"'kae-driver-{'p' * 30}--{'w' * 25}' of a DaemonSet has 68 characters" in diagnostic.message
    assert diagnostic.hint.endswith("by 5 characters in total.")


@pytest.mark.parametrize(
    ("group", "driver", "hint"),
    [
        ({"version": "2.1.0"}, {}, None),
        ({"state": "Absent"}, {}, None),
        ({"version": "", "image": "r.test/x:1"}, {}, None),
        ({}, {}, "Write the version that these nodes stay on."),
        ({"state": "Present"}, {}, "Write the version that these nodes stay on."),
        ({"image": "x"}, {}, "Write the version that these nodes stay on."),
        ({"version": ""}, {}, "Write the version that these nodes stay on."),
        (
            {"image": "r.test/x:1"},
            {"version": "", "repository": "", "image": "r.test/x:2"},
            'Write the image that these nodes stay on and `version: ""`.',
        ),
    ],
)
def test_a_frozen_group_stays_on_a_version_of_its_own(
    group: dict[str, Any], driver: dict[str, Any], hint: str | None
) -> None:
    notes = findings([], [{"name": "f", "nodes": ["a"]} | group], **driver)

    assert [(note.code, note.hint) for note in notes] == ([("frozen-unpinned", hint)] if hint else [])


@pytest.mark.parametrize(
    ("bounds", "sound"),
    [
        ([5, 50, 100], True),
        ([0.01, 0.02, 99.99], True),
        ([5, 5], False),
        ([50, 5], False),
        ([5, 50, 49.5], False),
        ([100, 100], False),
    ],
)
def test_shares_are_bounds_that_rise(bounds: list[float], sound: bool) -> None:
    waves = [wave(f"w{index}", percent=bound) for index, bound in enumerate(bounds)]

    assert codes(waves) == ([] if sound else ["wave-bounds"])


def test_a_wave_by_name_between_two_shares_changes_nothing_of_that() -> None:
    (diagnostic,) = findings([wave("a", percent=50), wave("b", nodes=["n"]), wave("c", percent=5.5)])

    assert diagnostic.message == "Wave 'c' ends at 5.5 %, but the earlier 'a' at 50 %."
    assert diagnostic.span.text.strip() == "percent: 5.5"


@pytest.mark.parametrize(
    ("first", "second", "where", "sound"),
    [
        (["east"], ["west"], "east", True),
        (["east"], ["west"], "west", True),
        (["east"], ["*"], "east", False),
        (["east"], ["*"], "west", True),
        (["ea*"], None, "east", False),
        (["ea*"], None, "north", True),
    ],
)
def test_shares_that_never_meet_in_a_cluster_may_be_alike(
    first: list[str], second: list[str] | None, where: str, sound: bool
) -> None:
    more = {} if second is None else {"clusters": second}
    item = policy([wave("a", percent=5, clusters=first), wave("b", percent=5, **more)])

    assert list(checks.findings(item, builders.variants(item))) == []
    assert builders.codes(said(item, where=where)) == ([] if sound else ["wave-bounds"])


def test_a_group_of_another_cluster_is_told_once() -> None:
    (diagnostic,) = said(policy([], [frozen(nodes=["w1", "w2"])]), builders.node("a"))

    assert (diagnostic.code, diagnostic.span.text.strip()) == ("group-stranger", "nodes:")
    assert diagnostic.message == "Frozen group 'f' names no node of the policy in cluster 'east'."


def test_a_single_strange_name_is_shown_itself() -> None:
    (diagnostic,) = said(policy([], [frozen(nodes=["w1"])]), builders.node("a"))

    assert diagnostic.span.text.strip() == "- w1"


@pytest.mark.parametrize(
    ("name", "meant"),
    [("kp-1-3", "kp-1-03"), ("KP-1-03", "kp-1-03"), ("pk-1-03", "kp-1-03"), ("kp-1-04", None), ("kp-1-13", None)],
)
def test_a_strange_name_is_a_slip_of_a_node_with_its_numbers_only(name: str, meant: str | None) -> None:
    item = policy([wave(nodes=[name])])

    (diagnostic,) = said(item, builders.node("kp-1-02"), builders.node("kp-1-03"), builders.node("kp-2-03"))

    correct = "Correct the name, remove it, or limit the group to its `clusters`."
    assert diagnostic.hint == (f"Did you mean '{meant}'? {correct}" if meant else correct)


@pytest.mark.parametrize(
    "item",
    [
        policy([wave(nodes=[])]),
        policy([wave(nodes=["a"], clusters=["west"])]),
        policy([wave(nodes=["x"])], enabled=False),
        policy([], [frozen(nodes=["b", "a"])]),
    ],
)
def test_a_group_that_holds_elsewhere_or_nowhere_has_no_strangers(item: definitions.Policy) -> None:
    assert said(item, builders.node("a"), builders.node("b")) == []


def test_of_a_cluster_without_an_inventory_nothing_is_known() -> None:
    assert said(policy([wave(nodes=["x"]), wave("s", inventorySelector=SELECTOR)])) == []


@pytest.mark.parametrize(
    ("groups", "empty"),
    [
        (([wave(inventorySelector=SELECTOR)],), ["Wave 'w'"]),
        (([], [frozen(inventorySelector=SELECTOR)]), ["Frozen group 'f'"]),
        (([wave("a", percent=0.01), wave("b", percent=0.02)],), ["Wave 'b'"]),
        (([wave("a", percent=100), wave("b", nodes=["a"])],), ["Wave 'b'"]),
        (([wave("b", percent=5)], [frozen(nodes=["a", "b"])]), ["Wave 'b'"]),
        (([wave("a", percent=100)],), []),
        (([wave("a", nodes=["a"]), wave("b", nodes=["a", "b"])],), []),
    ],
)
def test_a_group_that_takes_no_node_today_is_told(groups: Any, empty: list[str]) -> None:
    notes = said(policy(*groups), builders.node("a"), builders.node("b"))

    assert builders.codes(notes) == ["group-empty"] * len(empty)
    assert [note.message for note in notes] == [f"{group} takes no node of cluster 'east' today." for group in empty]


def test_an_empty_group_of_names_is_told_with_the_reason() -> None:
    (diagnostic,) = said(policy([wave(nodes=["a"])], [frozen(nodes=["a"])]), builders.node("a"), builders.node("b"))

    assert diagnostic.notes == ("Earlier groups take the nodes that it names.",)


OPTED_OUT = {"openfuyao.com/kae.deploy.driver": "false"}
TAINTED = builders.profile(taints=[builders.taint("dedicated=db:NoSchedule")])
BARE = builders.profile(labels={"feature.node.kubernetes.io/cpu-model.vendor_id": "HiSilicon"})
MAPPED = {"kernelMappings": [{"name": "m", "regexp": "sp4"}]}


@pytest.mark.parametrize(
    ("node", "more", "reason"),
    [
        (builders.node("a", OPTED_OUT), {}, "it has opted out: openfuyao.com/kae.deploy.driver=false"),
        (builders.node("a", machine=TAINTED), {}, "the policy does not tolerate the taint dedicated=db:NoSchedule"),
        (builders.node("a", machine=BARE), {}, "it has no device of hpre"),
        (
            builders.node("a", machine=builders.profile(kernel_version="6.6.0")),
            MAPPED,
            "no mapping covers its kernel 6.6.0",
        ),
        (
            builders.node("a", OPTED_OUT, machine=builders.profile({}, discovered=False)),
            {},
            "it has opted out: openfuyao.com/kae.deploy.driver=false",
        ),
    ],
)
def test_a_wave_on_none_of_whose_nodes_the_driver_runs_is_told_with_the_reason(
    node: snapshot.Node, more: Any, reason: str
) -> None:
    findings = said(policy([wave(nodes=["a"])], **more), node, builders.node("b"))

    (diagnostic,) = (finding for finding in findings if finding.code == "wave-without-driver")
    assert diagnostic.message == "Wave 'w' has no node in cluster 'east' on which the driver runs."
    assert diagnostic.notes == (f"1 node (a): {reason}.",)


@pytest.mark.parametrize("chosen", [{"percent": 100}, {"inventorySelector": SELECTOR}])
def test_a_wave_without_a_driver_is_told_however_it_chooses(chosen: dict[str, Any]) -> None:
    findings = said(policy([wave(**chosen)]), builders.node("a", OPTED_OUT | {"zone": "lab"}))

    assert builders.codes(findings) == ["wave-without-driver"]


@pytest.mark.parametrize(
    ("waves", "nodes"),
    [
        ([wave(nodes=["a", "b"])], [builders.node("a", OPTED_OUT), builders.node("b")]),
        ([wave(nodes=["a"])], [builders.node("a", machine=builders.profile({}, discovered=False)), builders.node("b")]),
        ([wave(percent=100)], [builders.node("a", machine=BARE)]),
    ],
    ids=["one-of-two-is-driven", "not-labelled-yet", "no-device-in-the-cluster"],
)
def test_a_wave_whose_driver_runs_or_may_run_is_sound(waves: list[dict[str, Any]], nodes: list[snapshot.Node]) -> None:
    assert said(policy(waves), *nodes) == []


def test_names_that_fit_into_one_object_are_sound(monkeypatch: pytest.MonkeyPatch) -> None:
    item, nodes = policy([wave(percent=100)]), [builders.node(f"n{number}") for number in range(10)]

    monkeypatch.setattr(checks, "_LARGEST", 50)
    assert said(item, *nodes) == []
    monkeypatch.setattr(checks, "_LARGEST", 49)
    (diagnostic,) = said(item, *nodes)

    assert diagnostic.code == "pool-rules-too-large"
    assert "list 10 nodes of cluster 'east' by name" in diagnostic.message
    assert diagnostic.span.text.strip() == "rollout:"
