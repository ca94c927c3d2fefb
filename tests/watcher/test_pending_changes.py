from hypothesis import given
from hypothesis import strategies as st

from compiler.inventory import snapshot
from tests.watcher import fleet
from watcher import pending_changes

QUIET_S, REMOVAL_S = 10, 600


class Shown(pending_changes.PendingChanges):
    """A picture that is told single changes, each by a full list."""

    def __init__(self, quiet_s: float, removal_quiet_s: float) -> None:
        super().__init__(quiet_s, removal_quiet_s)
        self.cluster: dict[str, snapshot.Node] = {}

    def see(self, node: snapshot.Node, now_s: float) -> None:
        self.cluster[node.name] = node
        self.list(self.cluster.values(), now_s)

    def miss(self, name: str, now_s: float) -> None:
        self.cluster.pop(name, None)
        self.list(self.cluster.values(), now_s)


def settled(shown: pending_changes.PendingChanges, now_s: float) -> list[str]:
    return list(shown.settled(now_s))


def settled_labels(shown: pending_changes.PendingChanges, now_s: float) -> dict[str, str]:
    return dict(shown.settled(now_s)["a"].labels)


def published(*nodes: snapshot.Node) -> Shown:
    """A picture that agrees with the repository."""
    made = Shown(QUIET_S, REMOVAL_S)
    for node in nodes:
        made.see(node, 0)
    made.publish(nodes, 0)
    return made


def test_a_new_node_is_settled_after_the_quiet_time() -> None:
    shown = published(fleet.node("a"))

    shown.see(fleet.node("b"), 100)

    assert settled(shown, 109.9) == ["a"]
    assert settled(shown, 110) == ["a", "b"]
    assert shown.due_s() == 110


def test_a_node_that_keeps_changing_is_settled_once_it_keeps_still() -> None:
    shown = published(fleet.node("a"))

    for second in range(5):
        shown.see(fleet.node("a", labels={"beat": str(second)}), 100 + second)

    assert dict(shown.settled(113.9)["a"].labels) == {}
    assert dict(shown.settled(114)["a"].labels) == {"beat": "4"}


def test_a_node_that_never_keeps_still_is_shown_after_ten_quiet_times() -> None:
    shown = published(fleet.node("a"))

    for second in range(150):
        shown.see(fleet.node("a", labels={"beat": str(second)}), 100 + second)

    assert dict(shown.settled(201)["a"].labels) == {"beat": "149"}


def test_a_node_that_is_gone_stays_for_the_longer_time() -> None:
    shown = published(fleet.node("a"), fleet.node("b"))

    shown.miss("b", 100)

    assert settled(shown, 699.9) == ["a", "b"]
    assert shown.kept(699.9) == 1
    assert settled(shown, 700) == ["a"]


def test_what_is_lost_after_a_long_wait_stays_for_the_longer_time() -> None:
    shown = published(fleet.node("a", labels={"x": "1", "y": "1"}))

    shown.see(fleet.node("a", labels={"x": "1", "new": "1"}), 100)
    first = settled_labels(shown, 699.9), settled_labels(shown, 700)
    shown.see(fleet.node("a", labels={"new": "1"}), 9000)

    assert first == ({"x": "1", "y": "1"}, {"x": "1", "new": "1"})
    assert settled_labels(shown, 9599.9) == {"x": "1", "y": "1"}
    assert settled_labels(shown, 9600) == {"new": "1"}


def test_what_was_back_for_a_moment_is_lost_anew() -> None:
    shown = published(fleet.node("a", labels={"x": "1"}))

    for at_s in range(100, 9100, 500):
        shown.see(fleet.node("a", labels={"new": "1"}), at_s)
        shown.see(fleet.node("a", labels={"x": "1", "new": "1"}), at_s + 250)
    shown.see(fleet.node("a", labels={"new": "1"}), 9100)

    assert settled_labels(shown, 9699) == {"x": "1"}
    assert settled_labels(shown, 9700) == {"new": "1"}


def test_a_node_that_comes_back_in_time_was_never_gone() -> None:
    shown = published(fleet.node("a"), fleet.node("b"))

    shown.miss("b", 100)
    shown.see(fleet.node("b"), 500)

    assert settled(shown, 10_000) == ["a", "b"]
    assert shown.due_s() is None


def test_what_differs_when_the_watcher_starts_waits_from_then_on() -> None:
    shown = pending_changes.PendingChanges(QUIET_S, REMOVAL_S)
    shown.publish([fleet.node("a"), fleet.node("gone")], 1000)

    shown.list([fleet.node("a"), fleet.node("new")], 1001)

    assert settled(shown, 1002) == ["a", "gone"]
    assert settled(shown, 1011) == ["a", "gone", "new"]
    assert settled(shown, 1600) == ["a", "new"]


def test_a_node_that_was_touched_settles_from_then_on_and_not_from_the_next_list() -> None:
    shown = published(fleet.node("a"))
    shown.touch({"a"}, 100)
    before = set(shown.touched)

    shown.see(fleet.node("a", labels={"x": "1"}), 105)

    assert (before, shown.touched) == ({"a"}, set())
    assert shown.due_s() == 110
    assert dict(shown.settled(110)["a"].labels) == {"x": "1"}


def test_everything_is_settled_for_one_who_does_not_wait() -> None:
    shown = published(fleet.node("a"))
    shown.miss("a", 100)
    shown.see(fleet.node("b"), 100)

    assert list(shown.settled(100, all_of_it=True)) == ["b"]


def test_what_others_wrote_into_the_repository_is_a_difference() -> None:
    shown = published(fleet.node("a"))

    shown.publish([fleet.node("a"), fleet.node("typed-in")], 50)

    assert settled(shown, 649) == ["a", "typed-in"]
    assert settled(shown, 650) == ["a"]


_NAMES = st.sampled_from("abc")
_EVENTS = st.tuples(
    st.sampled_from(["see", "miss", "publish"]), _NAMES, st.integers(0, 3), st.floats(0, 900, allow_nan=False)
)


@given(st.lists(_EVENTS, max_size=30))
def test_after_long_quiet_the_settled_nodes_are_the_nodes_that_are(events: list[tuple[str, str, int, float]]) -> None:
    shown = Shown(QUIET_S, REMOVAL_S)
    now_s, current = 0.0, {}
    for kind, name, hpre, later_s in events:
        now_s += later_s
        if kind == "see":
            current[name] = fleet.node(name, hpre=hpre)
            shown.see(current[name], now_s)
        elif kind == "miss":
            current.pop(name, None)
            shown.miss(name, now_s)
        else:
            shown.publish(shown.settled(now_s).values(), now_s)

    assert shown.settled(now_s + REMOVAL_S) == current


def test_a_boot_that_takes_the_labels_of_a_driver_for_a_moment_settles_nothing() -> None:
    labels = {"openfuyao.com/kae.driver-version": "2.3.0", "openfuyao.com/kae.driver-state": "Ready"}
    shown = published(fleet.node("a", labels=labels))

    shown.see(fleet.node("a"), 100)
    assert settled_labels(shown, 300) == labels
    shown.see(fleet.node("a", labels=labels), 300)

    assert settled_labels(shown, 10_000) == labels
    assert shown.due_s() is None
