"""The Leases of a policy, on the stand-in API server and by a clock that the test sets."""

import threading
import time
from collections.abc import Iterator

import pytest

from compiler.kube import lease_objects
from installer.drain import cluster, leases
from runtime import driver_config
from tests import waits
from tests.installer.settings import Boot
from tests.kube.apiserver import ApiServer

NAMES = ("kae-driver-tls-1", "kae-driver-tls-2")
FIRST, SECOND = NAMES
SWAP = lease_objects.SWAP


class Hosts:
    """The installers of several hosts; every one has a connection of its own."""

    def __init__(self, server: ApiServer, clock: Boot) -> None:
        self._server = server
        self._clock = clock
        self._made: list[tuple[leases.Claim, cluster.Cluster]] = []

    def right(self, node: str, *names: str, renew_s: float = 3600, timeout_s: float = 10) -> leases.Claim:
        """The right of a host whose thread renews as good as never."""
        api = cluster.Cluster(self._server.kubeconfig, timeout_s=timeout_s)
        settings = driver_config.Leases(namespace="kae-operator", names=names or NAMES)
        right = leases.Claim(api, settings, node, clock=lambda: self._clock.now_s, renew_s=renew_s)
        self._made.append((right, api))
        return right

    def end(self) -> None:
        for right, api in self._made:
            right.close()
            api.close()


@pytest.fixture
def clock() -> Boot:
    """Stands still until it is turned."""
    return Boot()


@pytest.fixture
def hosts(server: ApiServer, clock: Boot) -> Iterator[Hosts]:
    made = Hosts(server, clock)
    yield made
    made.end()


@pytest.fixture
def held(hosts: Hosts) -> leases.Claim:
    """The right of node-1, which has the first Lease."""
    right = hosts.right("node-1")
    right.take()
    return right


def annotations(server: ApiServer) -> dict[str, str]:
    """The annotations of the first Lease."""
    metadata = server.get("coordination.k8s.io/v1", "Lease", FIRST, "kae-operator")["metadata"]
    found: dict[str, str] = metadata.get("annotations") or {}
    return found


def watch(right: leases.Claim, clock: Boot, seconds: float) -> bool:
    """Asks for the right once a minute for so long; whether it was had at the end."""
    taken = right.take()
    for _ in range(int(seconds // 60)):
        clock.now_s += 60
        taken = right.take()
    return taken


def test_the_first_one_to_need_a_lease_makes_it_and_takes_no_second_one(server: ApiServer, hosts: Hosts) -> None:
    right = hosts.right("node-1")

    assert right.take()
    assert (right.name, right.held_s, right.is_safe()) == (FIRST, 0, True)
    spec = server.lease(FIRST)
    assert (spec["holderIdentity"], spec["leaseDurationSeconds"]) == ("node-1", 900)
    assert spec["renewTime"] == spec["acquireTime"]
    assert right.take()
    assert server.leases() == [f"kae-operator/{FIRST}"]


def test_the_first_free_lease_is_taken_and_none_is_left_over(server: ApiServer, hosts: Hosts) -> None:
    rights = [hosts.right(f"node-{number}") for number in (1, 2, 3)]

    assert [right.take() for right in rights] == [True, True, False]
    assert [right.name for right in rights] == [FIRST, SECOND, None]
    assert not rights[2].is_safe()
    assert rights[2].held_s is None
    acquired = [server.lease(name)["acquireTime"] for name in NAMES]
    assert rights[2].others == (
        f"The Lease {FIRST} is held by node-1 since {acquired[0]}.",
        f"The Lease {SECOND} is held by node-2 since {acquired[1]}.",
    )


def test_the_own_lease_is_taken_before_a_free_one(server: ApiServer, hosts: Hosts) -> None:
    server.put_lease(FIRST)
    server.put_lease(SECOND, holderIdentity="node-1", leaseTransitions=4)
    right = hosts.right("node-1")

    assert right.take()
    assert right.name == SECOND
    assert server.lease(SECOND)["leaseTransitions"] == 4


def test_a_second_lease_in_the_own_name_is_given_back(server: ApiServer, hosts: Hosts) -> None:
    for name in NAMES:
        server.put_lease(name, holderIdentity="node-1")
    right = hosts.right("node-1")

    assert right.take()
    assert right.name == FIRST
    assert "holderIdentity" not in server.lease(SECOND)


def test_what_is_given_back_can_be_taken_by_another_host(server: ApiServer, hosts: Hosts) -> None:
    one, two = hosts.right("node-1", FIRST), hosts.right("node-2", FIRST)
    one.take()

    assert (two.take(), one.give_back(), two.take()) == (False, True, True)
    assert (one.name, one.is_safe()) == (None, False)
    assert server.lease(FIRST)["holderIdentity"] == "node-2"
    assert server.lease(FIRST)["leaseTransitions"] == 1


def test_who_has_nothing_has_nothing_to_give_back(server: ApiServer, hosts: Hosts) -> None:
    assert hosts.right("node-1").give_back()
    assert server.state.requests == []


def test_a_lease_that_is_not_renewed_is_free_after_its_duration(hosts: Hosts, clock: Boot) -> None:
    dead, waiting = hosts.right("node-1", FIRST), hosts.right("node-2", FIRST)
    dead.take()

    assert not watch(waiting, clock, leases.DURATION_S - 60)
    clock.now_s += 60
    assert waiting.take()
    assert waiting.is_safe()


def test_a_lease_that_is_renewed_is_never_free(hosts: Hosts, clock: Boot) -> None:
    failed, waiting = hosts.right("node-1", FIRST), hosts.right("node-2", FIRST)
    failed.take()

    for _ in range(100):
        clock.now_s += 60
        failed.renew()
        assert not waiting.take()
    assert failed.is_safe()
    assert failed.held_s == 6000


@pytest.mark.parametrize("moment", ["1970-01-01T00:00:00.000000Z", "2999-01-01T00:00:00.000000Z"])
def test_times_and_duration_in_a_lease_are_not_believed(
    server: ApiServer, hosts: Hosts, clock: Boot, moment: str
) -> None:
    server.put_lease(FIRST, holderIdentity="node-1", leaseDurationSeconds=1, acquireTime=moment, renewTime=moment)
    right = hosts.right("node-2", FIRST)

    assert not watch(right, clock, leases.DURATION_S - 60)
    clock.now_s += 60
    assert right.take()


def test_a_clock_that_jumps_over_the_whole_duration_frees_nothing(server: ApiServer, hosts: Hosts, clock: Boot) -> None:
    server.put_lease(FIRST, holderIdentity="node-1")
    right = hosts.right("node-2", FIRST)
    right.take()
    clock.now_s += 86400

    assert not right.take()
    assert watch(right, clock, leases.DURATION_S)


def test_an_outage_of_the_api_server_makes_nobody_a_dead_host(server: ApiServer, hosts: Hosts, clock: Boot) -> None:
    alive, waiting = hosts.right("node-1", FIRST), hosts.right("node-2", FIRST)
    alive.take()
    waiting.take()
    server.down()
    for right in (alive.renew, waiting.take):
        with pytest.raises(cluster.Unreachable):
            right()
    clock.now_s += 2 * leases.DURATION_S
    server.up()

    assert not waiting.take()
    alive.renew()
    assert not watch(waiting, clock, 840)


def test_a_lease_is_safe_as_long_as_others_leave_it_alone(server: ApiServer, held: leases.Claim, clock: Boot) -> None:
    server.down()
    safe = []
    for _ in range(15):
        clock.now_s += 60
        with pytest.raises(cluster.Unreachable):
            held.renew()
        safe.append(held.is_safe())
    server.up()
    held.renew()

    assert safe == [True] * 12 + [False] * 3
    assert held.is_safe()


def test_a_renewal_counts_from_its_beginning(server: ApiServer, held: leases.Claim, clock: Boot) -> None:
    # Somebody has touched it, so the first write meets a conflict, and the clock goes on meanwhile.
    server.put_lease(FIRST, holderIdentity="node-1")
    ticking = iter(range(0, 1000, 10))
    held.clock = lambda: clock.now_s + next(ticking)
    held.renew()
    held.clock = lambda: clock.now_s
    clock.now_s += leases.DURATION_S - leases.MARGIN_S - 1

    assert held.is_safe()
    clock.now_s += 1
    assert not held.is_safe()


def test_a_theft_is_noticed_at_the_next_renewal(server: ApiServer, hosts: Hosts) -> None:
    right = hosts.right("node-1", FIRST)
    right.take()
    server.put_lease(FIRST, holderIdentity="node-2")

    right.renew()

    assert (right.name, right.is_safe(), right.held_s) == (None, False, None)
    assert server.lease(FIRST)["holderIdentity"] == "node-2"
    assert not right.take()


def test_a_lease_that_somebody_freed_by_hand_is_lost(server: ApiServer, held: leases.Claim) -> None:
    server.put_lease(FIRST, holderIdentity=None)

    held.renew()

    assert (held.name, held.is_safe()) == (None, False)
    assert held.take()


def test_a_lease_that_somebody_else_touched_is_still_ours(server: ApiServer, held: leases.Claim) -> None:
    before = server.lease(FIRST)["renewTime"]
    server.put_lease(FIRST, strategy="OldestEmulationVersion")

    held.renew()

    assert held.is_safe()
    assert server.lease(FIRST)["renewTime"] > before
    assert server.lease(FIRST)["strategy"] == "OldestEmulationVersion"


def test_a_lease_that_was_deleted_is_made_anew(server: ApiServer, held: leases.Claim) -> None:
    server.delete("coordination.k8s.io/v1", "Lease", FIRST, "kae-operator")

    held.renew()

    assert held.is_safe()
    assert server.lease(FIRST)["holderIdentity"] == "node-1"


def test_who_is_second_in_the_same_moment_takes_the_next_lease(server: ApiServer, hosts: Hosts) -> None:
    for name in NAMES:
        server.put_lease(name)
    right = hosts.right("node-1")
    conflict = {"kind": "Status", "status": "Failure", "reason": "Conflict", "message": "modified"}
    key = f"leases/kae-operator/{FIRST}"

    def refuse_a_write(method: str) -> None:
        server.state.broken = {key: (409, conflict)} if method == "PUT" else {}

    server.state.when_asked = refuse_a_write

    assert right.take()
    assert right.name == SECOND
    assert [request[:3] for request in server.state.requests] == ["GET", "GET", "PUT", "PUT"]


def test_an_answer_that_got_lost_does_not_lead_to_two_leases(server: ApiServer, hosts: Hosts) -> None:
    right = hosts.right("node-1", timeout_s=0.3)

    def do_not_answer_a_write(method: str) -> None:
        server.state.deaf = method == "POST"

    server.state.when_asked = do_not_answer_a_write
    with pytest.raises(cluster.Unreachable):
        right.take()

    assert right.held_s is None
    assert right.take()
    assert right.name == FIRST
    assert server.leases() == [f"kae-operator/{FIRST}"]


def test_a_write_that_may_still_arrive_is_made_to_fail_by_a_second_one(server: ApiServer, hosts: Hosts) -> None:
    server.put_lease(FIRST, holderIdentity="node-9")
    server.put_lease(SECOND)
    right = hosts.right("node-1", timeout_s=0.3)

    def lose_a_write(method: str) -> None:
        server.state.deaf = method == "PUT"
        server.state.broken = {f"leases/kae-operator/{SECOND}": (500, {})} if method == "PUT" else {}

    server.state.when_asked = lose_a_write
    with pytest.raises(cluster.Unreachable):
        right.take()
    server.state.when_asked, server.state.deaf, server.state.broken = None, False, {}
    server.put_lease(FIRST, holderIdentity=None)

    assert right.take()
    assert right.name == SECOND
    assert "holderIdentity" not in server.lease(FIRST)


def test_a_lease_that_the_role_does_not_name_yet_is_passed_over(server: ApiServer, hosts: Hosts) -> None:
    server.state.forbidden = {f"leases/kae-operator/{FIRST}"}
    one, two = hosts.right("node-1"), hosts.right("node-2")

    assert one.take()
    assert one.name == SECOND
    assert not two.take()
    assert f"did not show the Lease kae-operator/{FIRST}, as the credentials do not allow it (403): " in two.others[0]


def test_leases_that_are_all_refused_are_a_failure(server: ApiServer, hosts: Hosts) -> None:
    server.state.forbidden = {f"leases/kae-operator/{name}" for name in NAMES}

    with pytest.raises(cluster.Refused, match=r"\(403\)"):
        hosts.right("node-1").take()


def test_a_restarted_installer_goes_on_holding_its_lease(server: ApiServer, hosts: Hosts, clock: Boot) -> None:
    hosts.right("node-1").take()
    transitions = server.lease(FIRST).get("leaseTransitions", 0)
    clock.now_s += 5000
    right = hosts.right("node-1")

    assert right.resume(FIRST)
    assert (right.name, right.is_safe()) == (FIRST, True)
    assert server.lease(FIRST).get("leaseTransitions", 0) == transitions


def test_a_restarted_installer_sees_that_its_lease_was_taken(server: ApiServer, hosts: Hosts) -> None:
    server.put_lease(FIRST, holderIdentity="node-2")
    right = hosts.right("node-1")

    assert not right.resume(FIRST)
    assert (right.name, right.is_safe()) == (None, False)


def test_a_lease_that_the_config_does_not_name_is_given_back_and_not_renewed(server: ApiServer, hosts: Hosts) -> None:
    server.put_lease("kae-driver-old-1", holderIdentity="node-1")
    right = hosts.right("node-1")

    assert not right.resume("kae-driver-old-1")
    assert (right.name, right.is_safe()) == (None, False)
    assert "holderIdentity" not in server.lease("kae-driver-old-1")


def test_a_host_of_another_policy_takes_the_lease_of_that_one(server: ApiServer, hosts: Hosts) -> None:
    server.put_lease("kae-driver-old-1", holderIdentity="node-1")
    right = hosts.right("node-1")
    server.down()
    right.resume("kae-driver-old-1")
    server.up()

    assert right.take()
    assert right.name == FIRST
    assert server.lease(FIRST)["holderIdentity"] == "node-1"
    assert "holderIdentity" not in server.lease("kae-driver-old-1")


def test_a_former_lease_that_no_role_names_any_more_does_not_hinder(server: ApiServer, hosts: Hosts) -> None:
    server.put_lease("kae-driver-old-1", holderIdentity="node-1")
    server.state.forbidden = {"leases/kae-operator/kae-driver-old-1"}
    right = hosts.right("node-1")

    assert not right.resume("kae-driver-old-1")
    assert right.name is None
    assert right.take()
    assert right.name == FIRST


def test_a_held_lease_that_the_role_no_longer_allows_is_lost(server: ApiServer, held: leases.Claim) -> None:
    server.state.forbidden = {f"leases/kae-operator/{FIRST}"}

    with pytest.raises(cluster.Forbidden):
        held.renew()
    lost = held.is_safe()
    server.state.forbidden = set()
    held.renew()

    assert (lost, held.is_safe()) == (False, True)


def test_a_lease_of_a_host_that_vanished_in_a_swap_stays_taken(server: ApiServer, hosts: Hosts, clock: Boot) -> None:
    dead, waiting = hosts.right("node-1", FIRST), hosts.right("node-2", FIRST)
    dead.take()
    dead.renew(swap=True)
    began = annotations(server)[SWAP]

    assert not watch(waiting, clock, 10 * leases.DURATION_S)
    assert waiting.others == (
        f"The Lease {FIRST} is held by node-1, which began a swap at {began}: it stays taken until that host is done,"
        " or a person deletes it.",
    )
    server.delete("coordination.k8s.io/v1", "Lease", FIRST, "kae-operator")
    assert waiting.take()


def test_a_host_that_is_back_from_a_swap_gives_its_lease_back(server: ApiServer, hosts: Hosts) -> None:
    dead = hosts.right("node-1", FIRST)
    dead.take()
    dead.renew(swap=True)
    back, waiting = hosts.right("node-1", FIRST), hosts.right("node-2", FIRST)

    assert back.resume(FIRST)
    assert SWAP in annotations(server)
    assert back.give_back()
    assert annotations(server) == {}
    assert waiting.take()


def test_a_mark_that_a_person_left_in_a_freed_lease_goes_with_its_next_holder(server: ApiServer, hosts: Hosts) -> None:
    dead, other = hosts.right("node-1", FIRST), hosts.right("node-2", FIRST)
    dead.take()
    dead.renew(swap=True)
    server.put_lease(FIRST, holderIdentity=None)

    assert other.take()
    assert annotations(server) == {}


def test_a_mark_outlasts_renewals_and_a_lease_that_is_made_anew(server: ApiServer, hosts: Hosts) -> None:
    right = hosts.right("node-1", FIRST)
    right.take()
    right.renew(swap=True)
    before = annotations(server)
    right.renew()
    server.delete("coordination.k8s.io/v1", "Lease", FIRST, "kae-operator")
    right.renew()

    assert annotations(server) == before
    assert SWAP in before


def test_the_time_of_suspend_counts(server: ApiServer, monkeypatch: pytest.MonkeyPatch) -> None:
    # CLOCK_MONOTONIC stands still in suspend, and others count on: the Lease may be somebody else's on resume.
    now_s = {time.CLOCK_BOOTTIME: 1000.0}
    monkeypatch.setattr(time, "clock_gettime", now_s.__getitem__)
    api = cluster.Cluster(server.kubeconfig)
    right = leases.Claim(api, driver_config.Leases(namespace="kae-operator", names=NAMES), "node-1")
    right.take()
    awake = right.is_safe()
    now_s[time.CLOCK_BOOTTIME] += leases.DURATION_S
    right.close()
    api.close()

    assert (awake, right.is_safe()) == (True, False)


def test_a_restarted_installer_asks_until_somebody_answers(server: ApiServer, hosts: Hosts) -> None:
    hosts.right("node-1").take()
    server.down()
    right = hosts.right("node-1", renew_s=0.06)

    assert not right.resume(FIRST)
    assert (right.name, right.is_safe()) == (FIRST, False)
    server.up()
    waits.until(right.is_safe)


def test_what_cannot_be_given_back_now_is_given_back_later(server: ApiServer, hosts: Hosts) -> None:
    right = hosts.right("node-1", renew_s=0.06)
    right.take()
    server.down()

    assert not right.give_back()
    assert (right.name, right.is_safe()) == (FIRST, False)
    server.up()
    waits.until(lambda: right.name is None)
    assert "holderIdentity" not in server.lease(FIRST)


def test_what_is_still_to_be_given_back_can_be_taken_again(server: ApiServer, held: leases.Claim) -> None:
    server.down()
    held.give_back()
    server.up()

    assert held.take()
    assert held.is_safe()
    assert server.lease(FIRST)["holderIdentity"] == "node-1"


def test_who_gives_back_what_another_one_has_meanwhile_leaves_it(server: ApiServer, held: leases.Claim) -> None:
    server.put_lease(FIRST, holderIdentity="node-2")

    assert held.give_back()
    assert server.lease(FIRST)["holderIdentity"] == "node-2"


def test_a_thread_renews_through_an_outage(server: ApiServer, hosts: Hosts, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    right = hosts.right("node-1", renew_s=0.03)
    right.take()
    first = server.lease(FIRST)["renewTime"]
    waits.until(lambda: server.lease(FIRST)["renewTime"] != first)
    server.down()
    waits.until(lambda: "cannot be written now" in caplog.text)
    second = server.lease(FIRST)["renewTime"]
    server.up()

    waits.until(lambda: server.lease(FIRST)["renewTime"] != second)
    waits.until(lambda: "can be written again" in caplog.text)
    assert caplog.text.count("cannot be written now") == 1


def test_a_thread_notices_a_theft_and_ends(server: ApiServer, hosts: Hosts) -> None:
    right = hosts.right("node-1", renew_s=0.03)
    right.take()
    server.put_lease(FIRST, holderIdentity="node-2")

    waits.until(lambda: right.name is None)
    waits.until(lambda: not any(thread.name == "lease" for thread in threading.enumerate()))
    assert server.lease(FIRST)["holderIdentity"] == "node-2"


def test_a_closed_right_renews_no_more_and_keeps_its_lease(server: ApiServer, hosts: Hosts) -> None:
    right = hosts.right("node-1", renew_s=0.03)
    right.take()

    right.close()

    assert not any(thread.name == "lease" for thread in threading.enumerate())
    assert server.lease(FIRST)["holderIdentity"] == "node-1"


def test_never_more_hosts_than_leases_have_the_right_and_everybody_has_it_once(server: ApiServer, hosts: Hosts) -> None:
    swapping: set[str] = set()
    most: list[int] = []
    done: list[str] = []
    failures: list[BaseException] = []

    def swap(node: str) -> None:
        try:
            right = hosts.right(node)
            waits.until(right.take)
            swapping.add(node)
            most.append(len(swapping))
            time.sleep(0.005)
            swapping.remove(node)
            assert right.is_safe()
            assert right.give_back()
            done.append(node)
        except BaseException as error:
            failures.append(error)
            raise

    threads = [threading.Thread(target=swap, args=(f"node-{number}",)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)

    assert failures == []
    assert len(done) == 20
    assert max(most) <= len(NAMES)
