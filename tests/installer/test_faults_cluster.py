"""An API server that is gone, and Leases that others take: what a host does then that has users."""

import functools

import pytest

from compiler.kube import lease_objects
from installer.drain import leases
from installer.host import record
from tests.installer import homes, incidents, settings
from tests.installer.incidents import Crew, Job, Users
from tests.installer.machines import Machine
from tests.kube.apiserver import ApiServer

pytestmark = [pytest.mark.usefixtures("installed"), pytest.mark.long]

POD = incidents.POD


@pytest.fixture
def job(crew: Crew, users: Users) -> Job:
    """An installer of the driver 2.0.2 on a host with a pod that holds a device."""
    users.come(POD)
    return crew.job()


def stolen(server: ApiServer) -> None:
    """Another host takes the Lease."""
    server.put_lease(settings.MINE, holderIdentity="kp920-2")


def test_an_upgrade_waits_for_the_api_server_and_disturbs_nobody(machine: Machine, server: ApiServer, job: Job) -> None:
    server.down()
    machine.calls()

    pause_s = job.loop.cycle()

    assert (job.shown.state, 10 <= pause_s <= 15) == ("Queued", True)
    assert job.shown.reason.startswith("No Lease can be taken, and devices are in use: The API server at ")
    assert (incidents.works(machine), settings.changes_made(machine)) == (True, [])
    assert record.read(machine.host).attempt is None
    server.up()

    job.settle()

    assert (job.shown.state, incidents.works(machine, "2.0.2")) == ("Ready", True)
    assert incidents.holder(server) == ""


def test_who_loses_the_api_server_before_evictions_gives_the_lease_back_later(
    machine: Machine, server: ApiServer, crew: Crew, job: Job
) -> None:
    job.at("drain-devices", server.down, event="begun")

    job.settle()

    assert (job.shown.state, job.shown.ready) == ("Blocked", False)
    assert job.shown.reason.startswith(
        f"After 1 s a device is still held by pod {POD} (container nginx: 0000:79:00.0). The API server at "
    )
    assert job.shown.reason.endswith("Connection refused. The driver stays as it was.")
    assert (server.state.evicted, incidents.works(machine)) == ([], True)
    job.parts.close()
    server.up()
    assert incidents.holder(server) == "kp920-1"

    # Started again, it goes on with the Lease, and has no use for it.
    again = crew.job()
    again.loop.cycle()

    assert (again.shown.state, incidents.holder(server)) == ("Blocked", "")
    assert record.read(machine.host).lease is None


def test_a_lease_that_cannot_be_given_back_goes_back_later(machine: Machine, server: ApiServer, job: Job) -> None:
    job.at("unload-modules", server.down)
    job.settle()
    assert (job.shown.state, incidents.works(machine, "2.0.2")) == ("Ready", True)
    assert (incidents.holder(server), record.read(machine.host).lease) == ("kp920-1", settings.MINE)
    server.up()

    job.loop.cycle()

    assert (job.shown.state, incidents.holder(server)) == ("Ready", "")
    assert record.read(machine.host).lease is None


def test_nobody_is_evicted_once_a_lease_is_stolen(machine: Machine, server: ApiServer, users: Users, job: Job) -> None:
    def steal() -> None:
        stolen(server)
        job.parts.claim.renew()  # As the thread does within a minute.

    job.at("drain-devices", steal, event="begun")
    machine.calls()

    job.settle()

    assert job.shown.state == "Queued"
    assert job.shown.reason == "The Lease was lost before anything was unloaded; the host is unchanged."
    assert (users.evicted, incidents.works(machine), settings.changes_made(machine)) == ([], True, [])


def test_a_change_that_the_lease_cannot_mark_does_not_begin(machine: Machine, server: ApiServer, job: Job) -> None:
    job.at("drain-devices", server.down)
    machine.calls()

    job.settle()
    server.up()

    assert job.shown.state == "Queued"
    assert job.shown.reason.startswith("The Lease cannot be written, so the change does not begin: The API server at ")
    assert (incidents.works(machine), settings.changes_made(machine)) == (True, [])


def test_a_lease_says_that_its_holder_is_in_a_swap_until_the_driver_is_verified(server: ApiServer, job: Job) -> None:
    marks = {}

    def look(step: str) -> None:
        lease = server.get("coordination.k8s.io/v1", "Lease", settings.MINE, "kae-operator")
        marks[step] = lease_objects.parse(lease).swap

    for step in ("drain-devices", "unload-modules", "record-driver"):
        job.at(step, functools.partial(look, step))

    job.settle()
    look("end-change")

    assert job.shown.state == "Ready"
    assert {step for step, mark in marks.items() if mark} == {"unload-modules", "record-driver"}


def test_a_stolen_lease_is_missed_before_anything_is_unloaded(machine: Machine, server: ApiServer, job: Job) -> None:
    job.at("drain-devices", lambda: stolen(server))
    machine.calls()

    job.settle()

    assert job.shown.state == "Queued"
    assert job.shown.reason == "The Lease was lost before anything was unloaded; the host is unchanged."
    assert (incidents.works(machine), settings.changes_made(machine)) == (True, [])
    assert (incidents.holder(server), record.read(machine.host).lease) == ("kp920-2", None)


def test_a_lease_that_could_not_be_renewed_for_long_is_not_relied_upon(
    machine: Machine, server: ApiServer, job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    def outage() -> None:
        server.down()
        monkeypatch.setattr(leases, "MARGIN_S", leases.DURATION_S)  # The time passes in which it is safe.

    job.at("drain-devices", outage)
    machine.calls()

    job.settle()

    assert job.shown.state == "Queued"
    assert (incidents.works(machine), settings.changes_made(machine)) == (True, [])
    server.up()


def test_who_evicted_in_vain_waits_for_ten_minutes(server: ApiServer, users: Users, crew: Crew, job: Job) -> None:
    job.at("drain-devices", lambda: stolen(server))
    job.settle()
    server.put_lease(settings.MINE, holderIdentity=None)
    users.come(POD)

    again = crew.job()
    again.settle()

    assert (job.shown.state, again.shown.state, users.evicted) == ("Queued", "Queued", [POD])


def test_the_lease_of_a_failed_host_is_kept_also_over_a_restart(
    machine: Machine, server: ApiServer, crew: Crew, job: Job
) -> None:
    machine.refuse()

    job.settle()

    assert (job.shown.state, incidents.works(machine)) == ("Failed", True)
    assert (incidents.holder(server), job.parts.claim.is_safe()) == ("kp920-1", True)

    again = crew.job()
    again.loop.cycle()

    assert (again.shown.state, again.parts.claim.name) == ("Failed", settings.MINE)
    assert (incidents.holder(server), again.parts.claim.is_safe()) == ("kp920-1", True)


@pytest.mark.parametrize("repair", ["a better driver", "the driver before"])
def test_a_repair_gives_the_lease_back(repair: str, machine: Machine, server: ApiServer, crew: Crew, job: Job) -> None:
    machine.refuse()
    job.settle()
    better = repair == "a better driver"

    again = crew.job("2.0.3") if better else crew.job("2.0.1")
    again.settle()

    assert (again.shown.state, incidents.works(machine, "2.0.3" if better else "2.0.1")) == ("Ready", True)
    assert (incidents.holder(server), record.read(machine.host).lease) == ("", None)


def test_an_unwritable_record_keeps_no_lease(machine: Machine, server: ApiServer, users: Users, job: Job) -> None:
    in_the_way = machine.root / "var/lib/kae/.driver.json.new"
    job.at("take-lease", lambda: (in_the_way / "in the way").mkdir(parents=True), event="begun")

    job.settle()

    assert (job.shown.state, users.evicted, incidents.holder(server)) == ("Failed", [], "")
    assert job.shown.reason == f"'{homes.KAE.record}' on the host cannot be changed: Is a directory."
    assert incidents.works(machine)


def test_a_host_waits_while_another_one_has_the_lease(machine: Machine, server: ApiServer, job: Job) -> None:
    stolen(server)

    job.settle()

    assert job.shown.reason == "It is not this host's turn: The Lease kae-driver-tls-0 is held by kp920-2."
    assert (job.shown.state, incidents.holder(server), incidents.works(machine)) == ("Queued", "kp920-2", True)
