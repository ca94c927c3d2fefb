"""What a snapshot loses, what the last day's commits remember of it, and when it is too much."""

from collections.abc import Iterable

import pytest
from msgspec import structs

from compiler.inventory import snapshot
from tests.watcher import fleet
from watcher import loss_guard

RULES = loss_guard.Rules(cluster="east", percent=10, nodes=1)


def named(*nodes: snapshot.Node) -> dict[str, snapshot.Node]:
    return {node.name: node for node in nodes}


def many(count: int) -> dict[str, snapshot.Node]:
    return named(*(fleet.node(f"n{number:03}") for number in range(count)))


def judge(
    old: loss_guard.Nodes, new: loss_guard.Nodes, messages: Iterable[str] = (), rules: loss_guard.Rules = RULES
) -> loss_guard.Judgement:
    return loss_guard.judge(old, new, rules, lambda: messages)


def without(nodes: dict[str, snapshot.Node], count: int) -> dict[str, snapshot.Node]:
    return dict(list(nodes.items())[count:])


def test_what_loses_nothing_asks_for_no_history() -> None:
    def messages() -> Iterable[str]:
        raise AssertionError

    judgement = loss_guard.judge(many(3), many(4), RULES, messages)

    assert (dict(judgement.losses), judgement.refused) == ({}, False)


@pytest.mark.parametrize(("lost", "refused"), [(10, False), (11, True)])
def test_more_than_the_share_of_the_nodes_is_refused(lost: int, refused: bool) -> None:
    old = many(100)

    assert judge(old, without(old, lost)).refused is refused


def test_one_of_eight_nodes_is_not_refused_but_two_are() -> None:
    old = many(8)

    assert [judge(old, without(old, lost)).refused for lost in (1, 2)] == [False, True]


def test_a_cluster_without_any_node_is_refused_whatever_the_limits_are() -> None:
    assert judge(many(1), {}, rules=loss_guard.Rules(cluster="east", percent=100, nodes=5)).refused


def test_a_label_that_all_nodes_lose_is_refused_although_no_node_is_gone() -> None:
    old = named(*(fleet.node(name, labels={"pool": "tls"}) for name in "abcd"))
    new = named(*(fleet.node(name) for name in "abcd"))

    judgement = judge(old, new)

    assert judgement.refused
    assert judgement.sentence == (
        "4 of 4 nodes lost something within 24 hours; now a (pool), b (pool), c (pool), d (pool)."
    )


@pytest.mark.parametrize(
    ("new", "items"),
    [
        (fleet.node("a", hpre=1, labels={"x": "1"}), {"openfuyao.com/kae.hpre.pf=2>1"}),
        (fleet.node("a", discovered=False, labels={"x": "1"}), {"nfd.node.kubernetes.io/feature-labels"}),
        (fleet.node("a", hpre=3, labels={"x": "2", "y": "1"}), set()),
        (fleet.node("a", hpre=2, kernel_version="6.6", labels={"x": ""}), set()),
        (
            None,
            {
                *("(node)", "kubernetes.io/hostname", "x", "nfd.node.kubernetes.io/feature-labels"),
                *("feature.node.kubernetes.io/kernel-version.major", "openfuyao.com/kae.hpre.present"),
                "openfuyao.com/kae.hpre.pf=2>0",
            },
        ),
    ],
)
def test_devices_and_labels_and_the_node_itself_can_be_lost(new: snapshot.Node | None, items: set[str]) -> None:
    assert loss_guard.lost(fleet.node("a", labels={"x": "1"}), new) == items


def test_devices_of_every_recipe_are_counted() -> None:
    devices = {"openfuyao.com/onload.sfc.pf": "4", "openfuyao.com/onload.sfc.vf": "8", "x.io/pf": "4"}
    old, new = (
        fleet.node("a")._replace(profile=structs.replace(fleet.node("a").profile, labels=labels))
        for labels in (devices, dict.fromkeys(devices, "3"))
    )

    assert loss_guard.lost(old, new) == {"openfuyao.com/onload.sfc.pf=4>3", "openfuyao.com/onload.sfc.vf=8>3"}


def test_a_hundred_losses_of_one_node_are_one_large_loss() -> None:
    nodes, messages = many(1000), list[str]()
    for _ in range(200):
        judgement = judge(nodes, without(nodes, 1), messages)
        if judgement.refused:
            break
        messages.insert(0, judgement.trailer)
        nodes = without(nodes, 1)

    assert len(messages) == 100
    assert (judgement.count, judgement.total) == (101, 1000)


def test_what_came_back_is_not_lost() -> None:
    old = many(100)
    message = judge(old, without(old, 9)).trailer

    assert not judge(old, dict(list(old.items())[:-9]), [message]).refused


def test_a_node_that_is_replaced_by_a_bare_one_of_its_name_has_not_come_back() -> None:
    nodes, messages, refused = many(100), list[str](), []
    for number in range(4):
        names = [f"n{index:03}" for index in range(9 * number, 9 * number + 9)]
        gone = {name: node for name, node in nodes.items() if name not in names}
        judgement = judge(nodes, gone, messages)
        refused.append(judgement.refused)
        messages.insert(0, judgement.trailer)
        nodes = gone | named(*map(fleet.unlabelled, names))

    assert refused == [False, True, True, True]


def test_nodes_that_are_gone_and_had_the_same_are_listed_together() -> None:
    old = many(100)

    assert judge(old, without(old, 3)).trailer == (
        "Kae-Watcher: east; nodes that lose something by this commit: 3\n"
        "Kae-Lost: n000 n001 n002; (node) feature.node.kubernetes.io/kernel-version.major kubernetes.io/hostname "
        "nfd.node.kubernetes.io/feature-labels openfuyao.com/kae.hpre.pf=2>0 openfuyao.com/kae.hpre.present"
    )


def test_a_word_is_for_the_number_of_devices_that_is_left_and_the_sentence_names_it() -> None:
    old = named(fleet.node("a", hpre=8))

    seven, one = (judge(old, named(fleet.node("a", hpre=left))) for left in (7, 1))

    assert seven.code != one.code
    assert "now a (openfuyao.com/kae.hpre.pf from 8 to 7)." in seven.sentence


def test_losses_of_another_cluster_do_not_count_and_do_not_end_the_memory() -> None:
    old, theirs = many(100), named(*(fleet.node(f"w{number}") for number in range(50)))
    others = loss_guard.judge(theirs, {}, loss_guard.Rules(cluster="west", percent=10, nodes=1), tuple)
    rest = without(old, 9)

    assert not judge(old, rest, [others.trailer]).refused
    assert judge(rest, without(rest, 9), [others.trailer, judge(old, rest).trailer]).refused


def test_keys_that_the_inventory_no_longer_keeps_are_forgotten() -> None:
    old = named(*(fleet.node(f"n{number:03}", labels={"billing": "1"}) for number in range(100)))
    bare = old | named(*(fleet.node(f"n{number:03}") for number in range(9)))
    message = judge(old, bare).trailer
    rules = loss_guard.Rules(cluster="east", percent=10, nodes=1, keeps=lambda key: key != "billing")

    assert judge(bare, without(bare, 9), [message]).count == 9
    assert judge(without(bare, 9), without(bare, 18), [message]).count == 18
    assert judge(without(bare, 9), without(bare, 18), [message], rules).count == 9


def test_a_label_that_came_back_on_one_node_alone_still_counts_on_the_others() -> None:
    old = named(*(fleet.node(f"n{number}", labels={"pool": "x"}) for number in range(30)))
    bare = old | named(*(fleet.node(f"n{number}") for number in range(3)))
    message = judge(old, bare).trailer
    partly = bare | named(fleet.node("n0", labels={"pool": "x"}))

    judgement = judge(partly, partly | named(fleet.node("n9")), [message])

    assert (judgement.count, judgement.total, judgement.refused) == (3, 30, False)


@pytest.mark.parametrize("message", ["Inventory by hand\n", "inventory(east): 9 nodes left\n\nAccepted: 9 of 100\n"])
def test_what_was_lost_before_a_persons_commit_counts_no_more(message: str) -> None:
    old = many(100)
    earlier = judge(old, without(old, 9)).trailer
    rest = without(old, 9)

    assert judge(rest, without(rest, 9), [earlier]).refused
    assert not judge(rest, without(rest, 9), [message, earlier]).refused


@pytest.mark.parametrize(
    "line", ["Kae-Lost:", "Kae-Lost: ;;;=", f"Kae-Lost: n; a={'9' * 5000} b=x =", "Kae-Lost: \0;\ud800"]
)
def test_a_message_that_somebody_made_up_does_no_harm(line: str) -> None:
    old = many(100)

    assert not judge(old, without(old, 1), [f"Kae-Watcher: east; x\n{line}"]).refused


def test_the_code_is_of_one_loss_alone() -> None:
    old = many(10)

    codes = {judge(old, without(old, lost)).code for lost in (3, 3, 4)}

    assert len(codes) == 2


def test_the_labels_of_a_driver_may_go_from_any_number_of_nodes_as_every_boot_takes_them() -> None:
    labels = {"openfuyao.com/kae.driver-version": "2.3.0", "openfuyao.com/onload.driver-state": "Ready"}
    old = named(*(fleet.node(name, labels=labels | {"pool": "tls"}) for name in "abcd"))

    assert judge(old, named(*(fleet.node(name, labels={"pool": "tls"}) for name in "abcd"))).losses == {}
    assert judge(old, named(*(fleet.node(name, labels=labels) for name in "abcd"))).refused
