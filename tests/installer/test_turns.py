"""Those who use devices: when they are evicted, when they are waited for, and when they are left alone."""

from pathlib import Path

import pytest

from installer.host import record
from runtime import driver_config
from tests.installer import crashes, homes, incidents, settings
from tests.installer.incidents import Crew, Job, Users
from tests.installer.machines import Machine
from tests.installer.settings import Boot
from tests.kube.apiserver import ApiServer

pytestmark = pytest.mark.long

HPRE = "hisi_hpre-0"
POD = "shop/checkout"


@pytest.mark.usefixtures("installed")
def test_users_are_spared_a_repair_that_nobody_asked_for(
    machine: Machine, image: Path, boot: Boot, server: ApiServer, users: Users
) -> None:
    users.come(POD)
    settings.break_parameter(machine)
    machine.calls()
    for _ in range(3):
        made = settings.installer(machine, image, server.kubeconfig)
        made.settle()
        boot.now_s += 7200

    assert (made.shown.state, settings.changes_made(machine)) == ("Blocked", [])
    assert made.shown.reason == (
        "Parameter pf_q_num of module hisi_zip is 64, not 256. The config has not changed, so no pod is evicted for"
        " the repair, which waits until no device is held: pod shop/checkout (container nginx: 0000:79:00.0)."
    )
    assert (server.state.requests, machine.host.path(homes.KAE.changing).exists()) == ([], False)
    users.kubelet.remove(POD)
    assert settings.installer(machine, image).settle().state == "Ready"


@pytest.mark.parametrize("since", ["a harmless change of the config", "a boot"])
@pytest.mark.usefixtures("installed")
def test_users_are_spared_also_after_a_look_that_saw_no_fault(
    since: str, machine: Machine, image: Path, server: ApiServer
) -> None:
    changes = {"drain": driver_config.Drain(timeout_seconds=7)} if since != "a boot" else {}
    if since == "a boot":
        machine.reboot()
    settings.installed(machine, image, **changes)
    settings.break_parameter(machine)
    machine.hold(4711, next(name for name in machine.entries() if "hpre" in name))

    made = settings.installer(machine, image, server.kubeconfig, **changes)
    made.settle()

    assert (made.shown.state, server.state.requests) == ("Blocked", [])


@pytest.mark.usefixtures("installed")
def test_without_an_api_server_an_idle_host_is_upgraded(machine: Machine, newer: Path, tmp_path: Path) -> None:
    shown = settings.installer(machine, newer, tmp_path / "none", driver_version="2.0.2").settle()

    assert (shown.state, settings.versions(machine)) == ("Ready", {"2.0.2"})


@pytest.mark.parametrize("unfinished", [False, True])
def test_a_host_that_waits_for_another_pool_gives_its_lease_back(
    unfinished: bool, machine: Machine, image: Path, server: ApiServer, boot: Boot
) -> None:
    record.update(machine.host, lease=settings.MINE, change=record.Change() if unfinished else None)
    server.put_lease(settings.MINE, holderIdentity="kp920-1")
    made = settings.installer(machine, image, server.kubeconfig, kernels=driver_config.Kernels(pattern="^6"))
    made.settle()
    held = record.read(machine.host).lease
    boot.now_s += 600

    made.settle()
    made.parts.close()

    assert (made.shown.state, held) == ("Waiting", settings.MINE)
    assert record.read(machine.host).lease == (settings.MINE if unfinished else None)


@pytest.fixture
def failed(machine: Machine, newer: Path, server: ApiServer, users: Users, crew: Crew) -> Job:
    """An installer that has evicted a pod for a driver that does not load; the pod is back."""
    crashes.spoil(newer, machine.kernel)
    users.come(POD)
    job = crew.job()
    assert (job.settle().state, incidents.holder(server)) == ("Failed", "kp920-1")
    users.come(POD)
    return job


@pytest.mark.parametrize(
    "again", ["a file of others", "an obstacle", "no answer", pytest.param("a user who stays", marks=pytest.mark.long)]
)
@pytest.mark.usefixtures("installed")
def test_a_failed_host_keeps_its_turn_when_a_later_try_ends_early(
    again: str, boot: Boot, machine: Machine, failed: Job, server: ApiServer
) -> None:
    if again == "an obstacle":
        machine.pin("hisi_sec2", 5)
    elif again == "no answer":
        server.down()
    elif again == "a user who stays":
        machine.hold(4711, "hisi_hpre-0", comm="nginx")
    else:
        machine.host.write(f"{homes.KAE.home.files}/strange", "")
    for _ in range(4):
        boot.now_s += 7300
        failed.settle()

    noted = record.read(machine.host)
    assert noted.lease == failed.parts.claim.name == settings.MINE
    assert noted.attempt is not None
    assert (noted.attempt.disturbed, server.state.evicted) == (1, [POD])
    if again != "no answer":
        assert incidents.holder(server) == "kp920-1"


@pytest.mark.usefixtures("installed")
def test_a_failed_host_keeps_its_turn_when_a_device_is_opened_late(
    boot: Boot, machine: Machine, failed: Job, server: ApiServer
) -> None:
    boot.now_s += 7300
    failed.at("begin-change", lambda: machine.hold(4711, "hisi_hpre-0"))

    shown = failed.settle()

    assert (shown.state, incidents.holder(server)) == ("Blocked", "kp920-1")


@pytest.mark.usefixtures("installed")
def test_a_host_that_was_installed_anew_frees_leases_of_its_name(server: ApiServer, crew: Crew) -> None:
    server.put_lease(settings.MINE, holderIdentity="kp920-1")

    crew.job("2.0.1").settle()

    assert incidents.holder(server) == ""


@pytest.mark.usefixtures("installed")
def test_the_lease_of_another_host_stays_and_is_looked_at_once(server: ApiServer, crew: Crew) -> None:
    server.put_lease(settings.MINE, holderIdentity="kp920-2")
    job = crew.job("2.0.1")
    for _ in range(3):
        job.loop.cycle()

    assert (incidents.holder(server), job.shown.state) == ("kp920-2", "Ready")
    assert [request.partition(" ")[0] for request in server.state.requests] == ["GET"]
