import pytest

from tests.watcher import fleet
from watcher import loss_guard


@pytest.mark.parametrize(
    ("lost", "objection"),
    [(0, ""), (1, ""), (2, "2 of 10 nodes are gone, more than 10 %.")],
)
def test_more_nodes_than_the_share_must_not_go_at_once(lost: int, objection: str) -> None:
    old = [fleet.node(f"n{number}") for number in range(10)]

    assert loss_guard.objection(old, old[lost:], 10) == objection


def test_an_empty_list_never_replaces_nodes() -> None:
    assert loss_guard.objection([fleet.node("a")], [], 100) == "There are no nodes any more, and there were 1."


def test_the_first_list_replaces_nothing() -> None:
    assert loss_guard.objection([], [fleet.node("a")], 0) == ""
    assert loss_guard.objection([], [], 0) == ""


def test_devices_count_too_when_all_nodes_stay() -> None:
    old = [fleet.node(f"n{number}", hpre=2) for number in range(10)]
    new = [fleet.node(f"n{number}", hpre=1 if number < 3 else 2) for number in range(10)]

    assert loss_guard.objection(old, new, 10) == "3 of 20 devices are gone, more than 10 %."
    assert loss_guard.objection(old, new, 15) == ""


def test_devices_that_came_elsewhere_do_not_make_up_for_lost_ones() -> None:
    old = [fleet.node("a", hpre=4), fleet.node("b", hpre=0)]
    new = [fleet.node("a", hpre=0), fleet.node("b", hpre=4)]

    assert loss_guard.objection(old, new, 50) == "4 of 4 devices are gone, more than 50 %."
