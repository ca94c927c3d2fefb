"""The drain: who is asked to go, how often, and how it ends. The clock is the test's, so nothing is waited for."""

import itertools
import threading
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from installer.drain import cluster, device_holders, device_users
from runtime import errors, process

NGINX, REDIS = "default/nginx-0", "default/redis-0"
STRANGER = device_holders.Process(text="process 4711 (openssl)", pid=4711, name="openssl")
ACCEPTED = cluster.EvictionAnswer(outcome=cluster.Outcome.ACCEPTED)
BUDGET = cluster.EvictionAnswer(
    outcome=cluster.Outcome.NOT_NOW, reason="The disruption budget web needs 2 healthy pods and has 2 currently."
)
FORBIDDEN = cluster.EvictionAnswer(outcome=cluster.Outcome.FORBIDDEN, reason="A KAE driver installer may not do that.")


def pod(key: str) -> device_holders.Holder:
    return device_holders.Holder(text=f"pod {key} (container web: 0000:79:00.0)", pod=key)


def held(note: str) -> device_holders.Holders:
    """The holders where the first pod stays, and why."""
    return device_holders.Holders(holders=(pod(NGINX),), notes=(note,))


class Node:
    """Holders, the API server's answers, and a clock that only pauses turn."""

    def __init__(self, *held: str | device_holders.Process) -> None:
        self.now_s = 0.0
        self.held: dict[str, device_holders.Holder] = {}
        for holder in held:
            if isinstance(holder, str):
                self.held[holder] = pod(holder)
            else:
                self.held[str(holder.pid)] = holder
        self.notes: tuple[str, ...] = ()
        self.blind_until_s = 0.0
        self.grace_s = 0.0
        """From an accepted eviction to the end of a pod."""
        self.answers: dict[str, Callable[[float], cluster.EvictionAnswer]] = {}
        """By pod and moment; accepted without one."""
        self.asked: list[tuple[float, str]] = []
        self.uids: list[str] = []
        self.leaves: dict[str, float] = {}
        """Holders, and when each goes by itself."""
        self.stop = threading.Event()
        self.looks: list[int] = []
        """The numbers of holders."""
        self.lost_s = 1e9
        """The moment in which the Lease is lost."""
        self.pauses: list[float] = []
        self.eviction_s = 0.0

    def find(self) -> device_holders.Holders:
        if self.now_s < self.blind_until_s:
            raise errors.Failure("The kubelet does not say which pods hold devices.")
        for key, moment in self.leaves.items():
            if self.now_s >= moment:
                self.held.pop(key, None)
        self.looks.append(len(self.held))
        return device_holders.Holders(holders=tuple(self.held[key] for key in sorted(self.held)), notes=self.notes)

    def check(self) -> None:
        if self.now_s >= self.lost_s:
            raise errors.Failure("The Lease was lost.")

    def evict(self, namespace: str, name: str, uid: str) -> cluster.EvictionAnswer:
        key = f"{namespace}/{name}"
        self.asked.append((self.now_s, key))
        self.uids.append(uid)
        self.now_s += self.eviction_s
        answer = self.answers.get(key, accepted)(self.now_s)
        if answer.outcome is cluster.Outcome.ACCEPTED:
            self.leaves.setdefault(key, self.now_s + self.grace_s)
        return answer

    def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now_s += seconds

    def drain(self, deadline_s: float = 300, *, enabled: bool = True) -> device_holders.Holders | None:
        return device_users.Drain(
            find=self.find,
            evict=self.evict,
            deadline_s=deadline_s,
            enabled=enabled,
            stop=self.stop,
            clock=lambda: self.now_s,
            pause=self.pause,
            check=self.check,
        ).run()


def accepted(_: float) -> cluster.EvictionAnswer:
    return ACCEPTED


def unreachable(_: float) -> cluster.EvictionAnswer:
    raise cluster.Unreachable("The API server cannot be reached: Connection refused.")


def test_where_nobody_holds_anything_nobody_is_asked() -> None:
    node = Node()

    assert (node.drain(), node.now_s) == (None, 0)
    assert (node.asked, node.pauses) == ([], [])


def test_holders_are_asked_to_go_once_and_waited_for() -> None:
    node = Node(NGINX, REDIS)
    node.grace_s = 30

    assert (node.drain(), node.now_s) == (None, 30)
    assert node.asked == [(0, NGINX), (0, REDIS)]
    assert node.looks == [2] * 30 + [0]


def test_a_budget_that_refuses_is_asked_again_every_five_seconds_until_it_allows() -> None:
    node = Node(NGINX, REDIS)
    node.answers[NGINX] = lambda now_s: BUDGET if now_s < 12 else ACCEPTED

    assert (node.drain(), node.now_s) == (None, 16)
    assert node.asked == [(0, NGINX), (0, REDIS), (5, NGINX), (10, NGINX), (15, NGINX)]


@pytest.mark.parametrize(
    ("answer", "reason", "times"),
    [
        (lambda _: BUDGET, BUDGET.reason, 12),
        (lambda _: FORBIDDEN, FORBIDDEN.reason, 1),
        (lambda now_s: unreachable(now_s) if now_s < 22 else BUDGET, BUDGET.reason, 12),
    ],
    ids=["budget", "forbidden", "unreachable-before"],
)
def test_the_last_answer_is_named_at_the_deadline(
    answer: Callable[[float], cluster.EvictionAnswer], reason: str, times: int
) -> None:
    node = Node(NGINX)
    node.answers[NGINX] = answer

    assert node.drain(60) == held(f"The pod {NGINX} is not evicted: {reason}")
    assert (node.now_s, len(node.asked)) == (60, times)


@pytest.mark.parametrize("answer", [FORBIDDEN, cluster.EvictionAnswer(outcome=cluster.Outcome.GONE)])
def test_a_pod_that_may_not_be_evicted_or_is_gone_is_waited_for(answer: cluster.EvictionAnswer) -> None:
    node = Node(NGINX)
    node.answers[NGINX] = lambda _: answer
    node.leaves[NGINX] = 8

    assert (node.drain(), node.now_s) == (None, 8)
    assert node.asked == [(0, NGINX)]


def test_a_pod_of_the_same_name_that_came_since_is_asked_for_too() -> None:
    node = Node(NGINX)
    node.grace_s = 1000

    node.drain(150)

    assert node.asked == [(0, NGINX), (60, NGINX), (120, NGINX)]


def test_a_pod_of_the_same_name_and_another_uid_is_asked_for_at_once() -> None:
    node = Node(NGINX)
    node.grace_s = 1000
    node.held[NGINX] = replace(pod(NGINX), uid="uid-1")

    def come_back(_: float) -> None:
        node.now_s += 1
        node.held[NGINX] = replace(pod(NGINX), uid="uid-2")

    node.pause = come_back  # type: ignore[method-assign, assignment]
    node.drain(5)

    assert node.asked == [(0, NGINX), (1, NGINX)]
    assert node.uids == ["uid-1", "uid-2"]


def test_nobody_more_is_evicted_when_the_lease_is_lost() -> None:
    node = Node(NGINX, REDIS)
    node.eviction_s = node.lost_s = 1

    with pytest.raises(errors.Failure, match="The Lease was lost"):
        node.drain()

    assert node.asked == [(0, NGINX)]


def test_a_drain_whose_lease_is_lost_ends_while_it_waits() -> None:
    node = Node(NGINX)
    node.grace_s, node.lost_s = 1000, 20

    with pytest.raises(errors.Failure, match="The Lease was lost"):
        node.drain()

    assert node.now_s == 20


@pytest.mark.parametrize(
    ("leaves_s", "ended"), [(50, None), (1000, held("No pod is evicted, as the policy's drain is not enabled."))]
)
def test_with_draining_off_nobody_is_asked_and_all_are_waited_for(
    leaves_s: float, ended: device_holders.Holders | None
) -> None:
    node = Node(NGINX)
    node.leaves[NGINX] = leaves_s

    assert (node.drain(60, enabled=False), node.now_s, node.asked) == (ended, min(leaves_s, 60), [])


@pytest.mark.parametrize(
    ("holders", "asked", "ended_s"),
    [
        ([STRANGER], [], 20),
        ([STRANGER, NGINX], [(20, NGINX)], 21),
        ([replace(STRANGER, uid="0a1b2c3d-1111-2222-3333-444455556666"), NGINX], [(0, NGINX)], 20),
    ],
    ids=["alone", "beside-a-pod", "of-a-nameless-pod"],
)
def test_processes_are_waited_for_and_those_of_the_host_keep_pods_from_eviction(
    holders: list[str | device_holders.Process], asked: list[tuple[float, str]], ended_s: float
) -> None:
    node = Node(*holders)
    node.leaves["4711"] = 20

    assert (node.drain(), node.now_s, node.asked) == (None, ended_s, asked)


@pytest.mark.parametrize("holder", [STRANGER, device_holders.Holder(text="a user that is not seen in /proc")])
def test_while_a_holder_is_no_pod_nobody_is_evicted(holder: device_holders.Holder) -> None:
    node = Node(NGINX)
    node.held["9"] = holder

    ended = node.drain(30)

    assert node.asked == []
    assert ended == device_holders.Holders(
        holders=(holder, pod(NGINX)), notes=("No pod is evicted while a holder is no pod: end that one first.",)
    )


def test_without_api_server_the_drain_waits_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    node = Node(NGINX, REDIS)
    node.answers = {NGINX: unreachable, REDIS: unreachable}

    ended = node.drain(60)

    assert ended == device_holders.Holders(
        holders=(pod(NGINX), pod(REDIS)), notes=("The API server cannot be reached: Connection refused.",)
    )
    # Each question may take its time, so there is one every five seconds, however many pods there are.
    assert [moment for moment, _ in node.asked] == list(range(0, 60, 5))
    assert [record.message for record in caplog.records] == ["The API server cannot be asked for evictions."]


def test_an_api_server_that_comes_back_is_asked_for_all() -> None:
    node = Node(NGINX, REDIS)
    node.answers = {key: lambda now_s: unreachable(now_s) if now_s < 22 else ACCEPTED for key in (NGINX, REDIS)}

    assert (node.drain(), node.now_s) == (None, 26)
    assert node.asked[-2:] == [(25, NGINX), (25, REDIS)]


def test_what_the_api_server_cannot_do_is_tried_again() -> None:
    node = Node(NGINX)

    def refuse(now_s: float) -> cluster.EvictionAnswer:
        if now_s < 7:
            raise cluster.Refused("The API server did not evict the pod (500): etcd is down.")
        return ACCEPTED

    node.answers[NGINX] = refuse

    assert (node.drain(), node.now_s) == (None, 11)
    assert [moment for moment, _ in node.asked] == [0, 5, 10]


def test_a_kubelet_that_does_not_answer_is_waited_for() -> None:
    node = Node(NGINX)
    node.blind_until_s = 10

    assert (node.drain(), node.now_s) == (None, 11)
    assert node.asked == [(10, NGINX)]


def test_while_nobody_knows_who_holds_a_device_nothing_is_drained() -> None:
    node = Node()
    node.blind_until_s = 1000

    ended = node.drain(60)

    assert ended == device_holders.Holders(holders=(), notes=("The kubelet does not say which pods hold devices.",))


def test_what_could_not_be_looked_at_is_said_at_the_end() -> None:
    node = Node(NGINX)
    node.answers[NGINX] = lambda _: BUDGET
    node.notes = ("The kubelet's socket is not there.",)

    ended = node.drain(1)

    assert ended is not None
    assert ended.notes[0] == "The kubelet's socket is not there."


def test_the_deadline_holds_while_evictions_take_their_time() -> None:
    node = Node(*(f"default/web-{number}" for number in range(20)))
    node.answers = {key: lambda _: BUDGET for key in node.held}
    node.eviction_s = 10

    node.drain(60)

    assert node.now_s == 60
    assert len(node.asked) == 6


def test_a_deadline_of_less_than_a_look_is_kept() -> None:
    node = Node(NGINX)
    node.grace_s = 100

    node.drain(0.5)

    assert node.pauses == [0.5]


def test_the_end_of_the_installer_is_noticed_within_a_pause() -> None:
    node = Node(NGINX)
    node.grace_s = 10000
    running = device_users.Drain(
        find=node.find,
        evict=node.evict,
        check=node.check,
        deadline_s=3600,
        enabled=True,
        stop=node.stop,
        clock=itertools.count().__next__,
    )
    timer = threading.Timer(0.05, node.stop.set)
    timer.start()

    with pytest.raises(process.Cancelled):
        running.run()

    timer.join()
