"""Which nodes a wave or a frozen group takes."""

from collections.abc import Iterable, Sequence
from typing import Any

import pytest

from compiler.inventory import snapshot
from compiler.planning import pools
from tests import builders

NODES = tuple(builders.node(f"kp920-{number:02}") for number in range(20))
NAMES = tuple(node.name for node in NODES)
BY_BUCKET = tuple(sorted(NAMES, key=lambda name: (pools.bucket(name), name)))


def taken(
    nodes: Sequence[snapshot.Node] = NODES,
    *,
    cluster: str = "east",
    driven: Iterable[str] | None = None,
    waves: Sequence[dict[str, Any]] = (),
    frozen: Sequence[dict[str, Any]] = (),
) -> dict[str, tuple[str, ...]]:
    """The nodes that each group of a policy takes; all are `driven` unless it is said which."""
    rollout = {"waves": list(waves), "frozen": [{"version": "2.1.0"} | group for group in frozen]}
    item = builders.policy(driver={"rollout": rollout})
    able = {node.name for node in nodes} if driven is None else set(driven)
    groups = pools.groups_of(item, snapshot.ClusterName(cluster), nodes, lambda node: node.name in able)
    return {group.name: group.nodes for group in groups}


def wave(name: str, percent: float, **more: Any) -> dict[str, Any]:
    return {"name": name, "percent": percent, **more}


def share(percent: float) -> tuple[str, ...]:
    return tuple(sorted(name for name in NAMES if pools.bucket(name) < percent * 100))


@pytest.mark.parametrize(("name", "bucket"), [("kp920-01", 6973), ("kp920-02", 8474), ("a", 6610)])
def test_a_nodes_place_in_shares_never_changes(name: str, bucket: int) -> None:
    assert pools.bucket(name) == bucket


def test_a_policy_without_waves_and_frozen_groups_has_no_groups() -> None:
    assert taken() == {}


def test_what_no_group_takes_is_the_rest_which_lists_nobody() -> None:
    assert taken(waves=[wave("a", 50)])["rest"] == ()
    assert taken(frozen=[{"name": "f", "nodes": ["kp920-03"]}]) == {"f": ("kp920-03",), "rest": ()}


def test_shares_are_upper_bounds_and_a_node_is_in_the_first_that_takes_it() -> None:
    groups = taken(waves=[wave("a", 30), wave("b", 60), wave("c", 100)])

    assert groups["a"] == share(30)
    assert set(groups["b"]) == set(share(60)) - set(share(30))
    assert sorted((*groups["a"], *groups["b"], *groups["c"])) == sorted(NAMES)


def test_a_node_stays_in_its_wave_whichever_others_come_and_go() -> None:
    with_all = taken(waves=[wave("a", 40)])["a"]
    with_few = taken(NODES[::2], waves=[wave("a", 40)])["a"]

    assert set(with_few) == set(with_all) & set(NAMES[::2])


def test_a_share_that_no_node_stands_in_takes_the_lowest() -> None:
    assert pools.bucket(BY_BUCKET[0]) > 0

    assert taken(waves=[wave("a", 0.01)])["a"] == BY_BUCKET[:1]


def test_of_two_shares_that_no_node_stands_in_the_second_takes_none() -> None:
    groups = taken(waves=[wave("a", 0.01), wave("b", 0.02)])

    assert (groups["a"], groups["b"]) == (BY_BUCKET[:1], ())


def test_a_share_has_a_node_to_which_a_driver_comes() -> None:
    driven = BY_BUCKET[-3:]

    groups = taken(waves=[wave("a", 50)], driven=driven)["a"]

    assert groups == tuple(sorted({*share(50), min(driven, key=pools.bucket)}))


def test_where_no_driver_comes_to_any_node_a_share_is_what_stands_in_it() -> None:
    assert taken(waves=[wave("a", 50), wave("b", 60)], driven=())["a"] == share(50)
    assert taken(waves=[wave("a", 0.01)], driven=())["a"] == ()


def test_a_frozen_node_belongs_to_no_wave_and_stands_in_for_nobody() -> None:
    lowest, second = BY_BUCKET[:2]

    groups = taken(waves=[wave("a", 0.01), wave("b", 100)], frozen=[{"name": "f", "nodes": [lowest]}])

    assert (groups["f"], groups["a"]) == ((lowest,), (second,))
    assert lowest not in groups["b"]


def test_frozen_groups_come_first_and_each_list_in_its_order() -> None:
    groups = taken(
        waves=[{"name": "w", "nodes": ["kp920-01", "kp920-02", "kp920-03"]}, wave("x", 100)],
        frozen=[{"name": "f", "nodes": ["kp920-01"]}, {"name": "g", "nodes": ["kp920-02", "kp920-01"]}],
    )

    assert list(groups) == ["f", "g", "w", "x", "rest"]
    assert (groups["f"], groups["g"], groups["w"]) == (("kp920-01",), ("kp920-02",), ("kp920-03",))
    assert len(groups["x"]) == 17


def test_a_name_that_is_no_node_of_the_policy_is_kept_as_it_is_written() -> None:
    groups = taken(frozen=[{"name": "f", "nodes": ["kp920-99", "kp920-01", "kp920-99"]}])

    assert groups["f"] == ("kp920-01", "kp920-99")


def test_an_inventory_selector_takes_the_nodes_that_it_matches() -> None:
    nodes = [builders.node("b", {"zone": "1"}), builders.node("a", {"zone": "1"}), builders.node("c", {"zone": "2"})]
    selector = {"matchExpressions": [{"key": "zone", "operator": "NotIn", "values": ["2"]}]}

    assert taken(nodes, waves=[{"name": "w", "inventorySelector": selector}])["w"] == ("a", "b")
    assert taken(nodes, waves=[{"name": "w", "inventorySelector": {}}])["w"] == ("a", "b", "c")


@pytest.mark.parametrize(
    ("cluster", "names"), [("east", ["f", "all", "rest"]), ("west", ["w", "all", "rest"]), ("north", ["all", "rest"])]
)
def test_a_group_holds_where_its_clusters_say(cluster: str, names: list[str]) -> None:
    groups = taken(
        cluster=cluster,
        frozen=[{"name": "f", "nodes": ["a"], "clusters": ["ea*"]}],
        waves=[wave("w", 5, clusters=["lab", "west"]), wave("all", 50)],
    )

    assert list(groups) == names


def test_where_no_group_holds_there_is_no_rest_either() -> None:
    assert taken(cluster="north", waves=[wave("w", 5, clusters=["west"])]) == {}


def test_why_a_node_is_in_its_group_is_told_by_what_took_it() -> None:
    node = builders.node("kp920-02", {"zone": "1"})
    rollout = {
        "frozen": [{"name": "f", "nodes": ["kp920-02"], "version": "1"}],
        "waves": [{"name": "s", "inventorySelector": {"matchLabels": {"zone": "1"}}}, wave("v", 84.74), wave("w", 90)],
    }
    item = builders.policy(driver={"rollout": rollout})
    groups = pools.groups_of(item, snapshot.ClusterName("east"), [node], lambda _: False)

    assert [pools.group_reason(group, node) for group in groups] == [
        "the group names it",
        "the inventorySelector matches it",
        "no node below 84.74 % gets a driver, so the lowest one that does is drafted: this one, at 84.74 %",
        "its name puts it at 84.74 %, and the wave ends at 90 %",
        "no frozen group and no wave takes it; its name puts it at 84.74 %",
    ]
