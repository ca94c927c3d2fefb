"""Those who will not go, cannot be asked to, or are many."""

import grpc
import pytest

from compiler import kae
from installer.change import prepare
from installer.drain import device_holders
from installer.host import record
from runtime import driver_config
from tests.installer import homes, incidents, settings
from tests.installer.incidents import Crew, Job, Users
from tests.installer.machines import Machine
from tests.installer.settings import Boot
from tests.kube.apiserver import ApiServer

pytestmark = [pytest.mark.usefixtures("installed"), pytest.mark.long]

POD = incidents.POD
BUDGET = "shop/checkout-budget"
SOCKET = device_holders.KUBELET / device_holders.SOCKET


@pytest.fixture
def blocked(server: ApiServer, users: Users, crew: Crew, boot: Boot) -> Job:
    """An installer whose upgrade a disruption budget has kept from happening until the deadline."""
    del boot  # Time stands still.
    users.come(POD)
    server.state.budgets[POD] = BUDGET
    job = crew.job()
    job.settle()
    return job


@pytest.fixture
def dead_kubelet(machine: Machine) -> None:
    """A socket that the kubelet has left behind, at which nobody answers."""
    (machine.root / str(SOCKET).lstrip("/")).touch()


def test_a_budget_without_evictions_is_named_with_its_pod(machine: Machine, server: ApiServer, blocked: Job) -> None:
    assert blocked.shown.reason == (
        f"After 1 s a device is still held by pod {POD} (container nginx: 0000:79:00.0). The pod {POD} is not evicted:"
        f" The disruption budget {BUDGET} needs 2 healthy pods and has 2 currently. The driver stays as it was."
    )
    assert (blocked.shown.state, blocked.shown.ready, server.state.evicted) == ("Blocked", False, [])
    assert blocked.shown.changes == {"succeeded": 0, "failed": 0, "abandoned": 1}
    assert (incidents.works(machine), incidents.holder(server)) == (True, "")


def test_after_a_deadline_a_try_comes_in_ten_minutes(server: ApiServer, crew: Crew, blocked: Job, boot: Boot) -> None:
    reason, asked = blocked.shown.reason, len(server.state.requests)
    boot.now_s += incidents.PACE_S - 1

    again = crew.job()
    pause_s = again.loop.cycle()

    assert (again.shown.state, again.shown.reason, pause_s) == ("Blocked", reason, 1)
    assert [line for line in server.state.requests[asked:] if "eviction" in line] == []


def test_a_budget_that_allows_it_later_lets_the_upgrade_happen(
    machine: Machine, server: ApiServer, blocked: Job, boot: Boot
) -> None:
    server.state.budgets.clear()
    boot.now_s += incidents.PACE_S

    blocked.settle()

    assert (blocked.shown.state, incidents.works(machine, "2.0.2")) == ("Ready", True)
    assert server.state.evicted == [POD]


def test_a_pod_that_was_given_a_function_for_its_guest_holds_it_too(machine: Machine, users: Users, crew: Crew) -> None:
    users.come(POD, resource=kae.KINDS[0].vfio_resource)

    shown = crew.job().settle()

    assert (shown.state, incidents.works(machine, "2.0.2"), users.evicted) == ("Ready", True, [POD])


def test_failing_drivers_evict_again_after_ten_minutes(machine: Machine, users: Users, crew: Crew, boot: Boot) -> None:
    machine.refuse()
    users.come(POD)
    crew.job().settle()
    users.come(POD)
    evicted = []
    for waited_s in (0, incidents.PACE_S - 1, 1):
        boot.now_s += waited_s
        crew.job().settle()
        evicted.append(len(users.evicted))

    assert evicted == [1, 1, 2]
    assert incidents.works(machine, "2.0.2")


def test_with_draining_off_users_are_waited_for_and_not_evicted(machine: Machine, users: Users, crew: Crew) -> None:
    users.come(POD)

    shown = crew.job(drain=driver_config.Drain(enabled=False, timeout_seconds=1)).settle()

    assert (shown.state, users.evicted, incidents.works(machine)) == ("Blocked", [], True)
    assert "No pod is evicted, as the policy's drain is not enabled." in shown.reason


@pytest.mark.parametrize("how", ["process", "mapped", "unseen"])
def test_no_pod_is_evicted_while_the_host_holds_a_device(how: str, machine: Machine, users: Users, crew: Crew) -> None:
    users.come(*(f"shop/checkout-{number}" for number in range(9)))
    if how == "process":
        machine.hold(4711, "hisi_hpre-0", comm="nginx")
    elif how == "mapped":
        machine.map(4711, "hisi_hpre-0", comm="nginx")
    else:
        machine.open_unseen("hisi_hpre-0")

    shown = crew.job().settle()

    unseen = "a user that is not seen in /proc (the module uacce is in use 2 times more than by modules)"
    who = unseen if how == "unseen" else "process 4711 (nginx)"
    assert (shown.state, users.evicted, incidents.works(machine)) == ("Blocked", [], True)
    assert shown.reason.startswith(f"After 1 s a device is still held by {who}")
    assert "No pod is evicted while a holder is no pod: end that one first." in shown.reason


def test_128_pods_that_share_a_device_are_all_told_to_go_once(machine: Machine, users: Users, crew: Crew) -> None:
    pods = [f"shop/checkout-{number:03}" for number in range(128)]
    for number, pod in enumerate(pods):
        users.come(pod, device=f"{incidents.HPRE}::{number}" if number else incidents.HPRE)

    shown = crew.job(drain=driver_config.Drain(timeout_seconds=60)).settle()

    assert (shown.state, incidents.works(machine, "2.0.2")) == ("Ready", True)
    assert sorted(users.evicted) == pods


def test_of_128_pods_that_stay_eight_are_named(server: ApiServer, users: Users, crew: Crew) -> None:
    pods = [f"shop/checkout-{number:03}" for number in range(128)]
    users.come(*pods)
    server.state.budgets.update(dict.fromkeys(pods, BUDGET))

    shown = crew.job().settle()

    assert shown.state == "Blocked"
    assert [pod for pod in pods if f"by pod {pod} " in shown.reason or f", pod {pod} " in shown.reason] == pods[:8]
    assert ", and 120 more." in shown.reason
    assert BUDGET in shown.reason
    # What the kubelet keeps of a termination message.
    assert len(shown.reason) < 4096


def test_a_pod_that_gets_a_device_before_the_announcement_is_evicted(
    machine: Machine, server: ApiServer, users: Users, crew: Crew
) -> None:
    job = crew.job()
    job.at("announce-change", lambda: users.come(POD))

    job.settle()

    assert (job.shown.state, incidents.works(machine, "2.0.2")) == ("Ready", True)
    assert (users.evicted, incidents.holder(server)) == ([POD], "")
    assert any("leases" in line for line in server.state.requests)


def test_a_pod_that_the_kubelet_had_admitted_before_the_announcement_is_evicted(
    machine: Machine, users: Users, crew: Crew, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = machine.root / homes.KAE.links.lstrip("/") / incidents.HPRE
    link.parent.mkdir(parents=True)
    link.symlink_to("/dev/hisi_hpre-0")

    def meanwhile(seconds: float) -> bool:
        """The plugin withdraws the device; then the container starts that the kubelet had admitted."""
        if seconds == prepare._ADMITTED_S:
            users.come(POD)
        else:
            link.unlink(missing_ok=True)
        return False

    monkeypatch.setattr(machine.host.stop, "wait", meanwhile)

    shown = crew.job().settle()

    assert (shown.state, users.evicted) == ("Ready", [POD])


def test_a_dead_device_plugin_holds_nothing_up(machine: Machine, crew: Crew, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prepare, "_WITHDRAWN_S", 0.1)
    monkeypatch.setattr(prepare, "_ADMITTED_S", 0.0)
    link = machine.root / homes.KAE.links.lstrip("/") / incidents.HPRE
    link.parent.mkdir(parents=True)
    link.symlink_to("/dev/hisi_hpre-0")
    # A container runtime makes a folder of a link that is not there; the plugin moves it away when it is back.
    (link.parent / "0000:01:00.0").mkdir()

    shown = crew.job().settle()

    assert (shown.state, incidents.works(machine, "2.0.2")) == ("Ready", True)
    # Its number may be another device's by now.
    assert not link.is_symlink()


@pytest.mark.usefixtures("dead_kubelet")
def test_while_a_dead_kubelet_cannot_say_who_holds_a_device_nothing_is_unloaded(machine: Machine, crew: Crew) -> None:
    machine.calls()

    shown = crew.job().settle()

    assert (shown.state, shown.ready, incidents.works(machine)) == ("Failed", False, True)
    assert shown.reason == (f"The kubelet does not say which pods hold devices: nobody answers at '{SOCKET}'.")
    assert settings.changes_made(machine) == []


def test_in_a_pod_nothing_is_unloaded_while_the_kubelets_socket_is_missing(
    machine: Machine, crew: Crew, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(device_holders.IN_POD, "10.96.0.1")
    machine.calls()

    shown = crew.job().settle()

    assert (shown.state, shown.ready, incidents.works(machine)) == ("Failed", False, True)
    assert shown.reason.startswith(f"The kubelet's socket '{SOCKET}' is not there, so it is unknown which pods hold")
    assert settings.changes_made(machine) == []


@pytest.mark.usefixtures("dead_kubelet")
def test_an_announcement_does_not_outlast_a_dead_kubelet(machine: Machine, crew: Crew) -> None:
    machine.host.write(homes.KAE.changing, "{}\n")

    shown = crew.job().settle()

    assert (shown.state, incidents.works(machine)) == ("Failed", True)


def test_a_kubelet_that_dies_while_holders_leave_blocks(machine: Machine, users: Users, crew: Crew) -> None:
    def die() -> None:
        users.kubelet.failure = grpc.StatusCode.UNAVAILABLE

    users.come(POD)
    job = crew.job()
    job.at("drain-devices", die, event="begun")

    job.settle()

    assert (job.shown.state, incidents.works(machine)) == ("Blocked", True)
    assert "The kubelet does not say which pods hold devices" in job.shown.reason


def test_a_host_that_waits_for_users_counts_its_tries_over_restarts(
    machine: Machine, crew: Crew, blocked: Job, boot: Boot
) -> None:
    del blocked
    boot.now_s += incidents.PACE_S
    crew.job().settle()

    attempt = record.read(machine.host).attempt
    assert attempt is not None
    assert (attempt.state, attempt.failures, attempt.until_s - boot.now_s) == ("Blocked", 2, 2 * incidents.PACE_S)


def test_who_ends_after_eviction_leaves_its_turn(machine: Machine, server: ApiServer, users: Users, crew: Crew) -> None:
    users.come(POD)
    job = crew.job()
    job.at("drain-devices", machine.host.stop.set)

    job.loop.cycle()

    left = (incidents.works(machine), bool(incidents.holder(server)), users.evicted)
    machine.host.stop.clear()
    following = crew.job().settle()
    assert left == (True, True, [POD])
    assert (following.state, incidents.holder(server)) == ("Ready", "")
    assert settings.versions(machine) == {"2.0.2"}
