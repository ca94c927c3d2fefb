"""Virtual functions: as many as asked for, and those of others as they were."""

from pathlib import Path
from typing import Any

import pytest

from installer.change import prepare
from installer.report import report
from tests.device_plugin import machines as racks
from tests.installer import homes, incidents, settings
from tests.installer.incidents import Crew, Users
from tests.installer.machines import Machine
from tests.kube.apiserver import ApiServer

pytestmark = [pytest.mark.usefixtures("installed"), pytest.mark.long]

HPRES = (incidents.HPRE, "0000:b9:00.0")
ZIP = "0000:75:00.0"
BACK = "The host is back in its previous state."


def vfs(machine: Machine) -> dict[str, int]:
    """Physical functions with virtual ones, and how many."""
    found = {address: len(machine.vfs(address)) for address in (*HPRES, ZIP)}
    return {address: count for address, count in found.items() if count}


def set_vfs(machine: Machine, address: str, count: int) -> None:
    """Makes virtual functions, as people do by hand."""
    machine.host.write_attribute(f"/sys/bus/pci/devices/{address}/sriov_numvfs", str(count))


def limit(machine: Machine, address: str, most: int | None) -> None:
    """Lets a device have so many virtual functions; None: it knows of none, as with SR-IOV off in the BIOS."""
    attribute = machine.root / f"sys/bus/pci/devices/{address}/sriov_totalvfs"
    attribute.unlink(missing_ok=True)
    if most is not None:
        attribute.write_text(f"{most}\n")


def test_another_number_is_reached_by_way_of_0_and_unloads_nothing(machine: Machine, crew: Crew) -> None:
    assert crew.job("2.0.1", sriov={"hpre": 2}).settle().ready
    assert (len(machine.entries()), incidents.works(machine)) == (10, True)
    machine.calls()

    shown = crew.job("2.0.1", sriov={"hpre": 4}).settle()

    # The kernel refuses any other way: so does the fake one.
    assert (shown.state, vfs(machine)) == ("Ready", dict.fromkeys(HPRES, 4))
    assert settings.changes_made(machine) == []


@pytest.mark.parametrize(("asked", "left"), [({"hpre": 0}, {ZIP: 3}), ({"zip": 0}, {HPRES[0]: 2})])
def test_no_virtual_functions_can_be_asked_for_and_those_of_other_kinds_stay(
    asked: dict[str, Any], left: dict[str, int], machine: Machine, crew: Crew
) -> None:
    set_vfs(machine, HPRES[0], 2)
    set_vfs(machine, ZIP, 3)

    shown = crew.job("2.0.1", sriov=asked).settle()

    assert (shown.state, vfs(machine)) == ("Ready", left)


def test_virtual_functions_made_by_hand_are_back_after_an_upgrade(machine: Machine, crew: Crew) -> None:
    set_vfs(machine, HPRES[0], 3)

    shown = crew.job().settle()

    assert (shown.state, vfs(machine), incidents.works(machine, "2.0.2")) == ("Ready", {HPRES[0]: 3}, True)


def test_virtual_functions_are_there_after_a_boot_without_an_installer(machine: Machine, crew: Crew) -> None:
    crew.job("2.0.1", sriov={"hpre": 2, "zip": 3}).settle()
    before = vfs(machine)
    machine.reboot()

    assert vfs(machine) == before == dict.fromkeys(HPRES, 2) | {ZIP: 3}
    machine.calls()
    assert crew.job("2.0.1", sriov={"hpre": 2, "zip": 3}).settle().ready
    assert settings.changes_made(machine) == []


def test_a_driver_without_the_parameter_has_them_made_by_the_kernel(tmp_path: Path, crew: Crew) -> None:
    machine = Machine(tmp_path / "other")
    machine.add_image(tmp_path / "old-image", "2.0.1")
    for path in tmp_path.glob("old-image/opt/lib/modules/*/*.ko"):
        path.write_bytes(path.read_bytes().replace(b"range=vfs_num:", b"range=vfs_old:"))

    settings.installed(machine, tmp_path / "old-image", sriov={"zip": 3})

    assert vfs(machine) == {ZIP: 3}


def test_a_bios_without_them_costs_the_devices_until_none_is_asked_for(machine: Machine, crew: Crew) -> None:
    crew.job("2.0.1", sriov={"zip": 3}).settle()
    limit(machine, ZIP, None)
    machine.reboot()
    assert ZIP not in machine.entries().values()  # hisi_zip_probe fails where its virtual functions do.

    shown = crew.job("2.0.1", sriov={"zip": 3}).settle()
    assert (shown.state, "switch SR-IOV on in the BIOS, or set driver.sriov.zip" in shown.reason) == ("Failed", True)

    shown = crew.job("2.0.1", sriov={"zip": 0}).settle()
    assert (shown.state, incidents.works(machine)) == ("Ready", True)


def test_the_number_before_a_failed_change_is_also_that_of_the_next_boot(machine: Machine, crew: Crew) -> None:
    crew.job("2.0.1", sriov={"zip": 3}).settle()
    machine.refuse()

    crew.job(sriov={"zip": 5}).settle()
    machine.reboot()

    assert (settings.versions(machine), vfs(machine)) == ({"2.0.1"}, {ZIP: 3})


def test_a_process_on_a_virtual_function_is_waited_for(machine: Machine, server: ApiServer, crew: Crew) -> None:
    del server
    set_vfs(machine, HPRES[0], 1)
    (entry,) = [name for name, address in machine.entries().items() if address == machine.vfs(HPRES[0])[0]]
    machine.hold(4711, entry)

    shown = crew.job("2.0.1", sriov={"hpre": 2}).settle()

    assert (shown.state, vfs(machine)) == ("Blocked", {HPRES[0]: 1})
    assert "process 4711 (openssl)" in shown.reason


def test_a_number_that_the_kernel_refuses_brings_the_one_before_back(machine: Machine, crew: Crew) -> None:
    set_vfs(machine, HPRES[1], 3)
    job = crew.job("2.0.1", sriov={"hpre": 8})
    job.at("begin-change", lambda: limit(machine, HPRES[1], 7))

    job.settle()

    # The first one had eight for a moment.
    assert (job.shown.state, vfs(machine), incidents.works(machine)) == ("Failed", {HPRES[1]: 3}, True)
    assert job.shown.reason.endswith(f"Numerical result out of range. {BACK}")


# More than a device can have.


@pytest.mark.parametrize(
    ("most", "why"),
    [
        (7, "can have 7 virtual functions, and 8 are asked for: lower driver.sriov.hpre of the policy 'tls'."),
        (
            None,
            "can have no virtual functions, and 8 are asked for: switch SR-IOV on in the BIOS, or set driver.sriov.hpre"
            " of the policy 'tls' to 0.",
        ),
    ],
)
def test_more_than_a_device_can_have_is_refused_before_anybody_is_disturbed(  # noqa: PLR0913 - a host and its users
    most: int | None, why: str, machine: Machine, server: ApiServer, users: Users, crew: Crew
) -> None:
    users.come(incidents.POD)
    limit(machine, HPRES[1], most)
    set_vfs(machine, ZIP, 3)
    machine.calls()
    job = crew.job(sriov={"hpre": 8})

    job.settle()

    assert (job.shown.state, job.shown.ready, job.shown.reason) == ("Failed", False, f"Device {HPRES[1]} {why}")
    assert (incidents.works(machine), vfs(machine), settings.changes_made(machine)) == (True, {ZIP: 3}, [])
    assert (users.evicted, server.state.requests, job.shown.taken) == ([], [], [])


def test_plan_says_what_a_device_cannot_have_and_shows_no_step(machine: Machine, crew: Crew) -> None:
    limit(machine, HPRES[1], 7)
    machine.hold(4711, "hisi_zip-4")
    job = crew.job(sriov={"hpre": 8})

    before = report.as_plan(job.parts.report())
    job.settle()
    after = report.as_plan(job.parts.report())

    why = f"Device {HPRES[1]} can have 7 virtual functions, and 8 are asked for: "
    assert [line for line in before.splitlines() if line.startswith(why)]
    assert before.endswith("\n\nNo change begins before that is fixed, and no pod is evicted.")
    assert "Repair what the last try names. The next try is in 1 min" in after
    assert job.parts.report().steps == ()


@pytest.mark.usefixtures("boot")
@pytest.mark.parametrize("asked", [{"sriov": {"hpre": 7}}, {"sriov": {}}])
def test_a_better_number_is_reached_at_once(asked: dict[str, Any], machine: Machine, crew: Crew) -> None:
    limit(machine, HPRES[0], 7)
    crew.job(sriov={"hpre": 8}).settle()

    shown = crew.job(**asked).settle()

    reached = dict.fromkeys(HPRES, 7) if asked["sriov"] else {}
    assert (shown.state, vfs(machine), incidents.works(machine, "2.0.2")) == ("Ready", reached, True)


@pytest.mark.usefixtures("boot")
def test_a_bios_that_allows_it_after_a_boot_is_noticed_at_once(machine: Machine, crew: Crew) -> None:
    limit(machine, HPRES[0], None)
    crew.job("2.0.1", sriov={"hpre": 8}).settle()
    limit(machine, HPRES[0], 63)
    machine.reboot()

    shown = crew.job("2.0.1", sriov={"hpre": 8}).settle()

    assert (shown.state, vfs(machine)) == ("Ready", dict.fromkeys(HPRES, 8))


def test_a_change_that_was_killed_is_put_back_where_the_next_wish_is_impossible(machine: Machine, crew: Crew) -> None:
    limit(machine, HPRES[0], 7)
    crew.job().end_after("unload-modules")
    assert machine.loaded() == {}

    shown = crew.job(sriov={"hpre": 8}).settle()

    assert (shown.state, incidents.works(machine)) == ("Failed", True)
    assert shown.reason.startswith(f"Device {HPRES[0]} can have 7 virtual functions, ")
    assert shown.reason.endswith(BACK)


def test_a_guest_has_no_physical_function_of_which_any_could_be_asked(tmp_path: Path, image: Path) -> None:
    given = racks.virtual_machine(tmp_path / "rack").states().values()
    guest = Machine(tmp_path / "guest", functions=[state.function for state in given])

    shown = settings.installed(guest, image, sriov={"hpre": 8, "sec": 8, "zip": 8})

    assert (shown.state, len(guest.entries())) == ("Ready", len(given))


# Those of virtual machines.


@pytest.mark.parametrize("driver", ["vfio-pci", ""])
@pytest.mark.parametrize("sriov", [{"hpre": 2}, {}])
def test_where_the_number_is_right_those_of_a_guest_and_of_nobody_stay_as_they_are(
    sriov: dict[str, Any], driver: str, machine: Machine, crew: Crew
) -> None:
    crew.job("2.0.1", sriov={"hpre": 2}).settle()
    crew.job("2.0.1", sriov=sriov).settle()
    lent, ours = machine.vfs(HPRES[0])
    machine.pass_through(lent, driver)
    files = machine.files()
    machine.calls()
    job = crew.job("2.0.1", sriov=sriov)

    job.settle()

    assert (job.shown.state, job.shown.taken, settings.changes_made(machine)) == ("Ready", [], [])
    assert (machine.files(), vfs(machine)) == (files, dict.fromkeys(HPRES, 2))
    assert (machine.driver(lent), machine.driver(ours)) == (driver, "hisi_hpre")


def test_one_of_a_guest_blocks_another_number_and_is_named(machine: Machine, server: ApiServer, crew: Crew) -> None:
    set_vfs(machine, HPRES[0], 2)
    lent, _ = machine.vfs(HPRES[0])
    machine.pass_through(lent)

    shown = crew.job("2.0.1", sriov={"hpre": 4}).settle()

    assert (shown.state, vfs(machine), machine.driver(lent)) == ("Blocked", {HPRES[0]: 2}, "vfio-pci")
    assert f"held by virtual function {lent} (driver vfio-pci, as for a virtual machine)." in shown.reason
    assert (incidents.works(machine), incidents.holder(server)) == (True, "")


def test_one_of_a_guest_blocks_also_where_the_driver_serves_nobody_else(server: ApiServer, tmp_path: Path) -> None:
    machine = Machine(tmp_path / "dead")
    machine.load()
    set_vfs(machine, ZIP, 1)
    (lent,) = machine.vfs(ZIP)
    machine.pass_through(lent)
    assert machine.entries() == {}

    with Crew(machine, server) as crew:
        shown = crew.job("2.0.1").settle()

    assert (shown.state, machine.driver(lent)) == ("Blocked", "vfio-pci")
    assert f"held by virtual function {lent} " in shown.reason


def test_one_that_a_guest_gets_in_the_last_moment_stays_its_own(machine: Machine, crew: Crew) -> None:
    set_vfs(machine, HPRES[0], 2)
    lent, _ = machine.vfs(HPRES[0])
    job = crew.job()
    job.at("begin-change", lambda: machine.pass_through(lent))

    job.settle()

    assert (job.shown.state, machine.driver(lent), incidents.works(machine)) == ("Failed", "vfio-pci", True)
    assert job.shown.reason == (
        f"The virtual functions stay, as another driver has {lent}: end the virtual machine. {BACK}"
    )


def test_nothing_is_unloaded_to_go_back_while_a_guest_has_one(machine: Machine, crew: Crew) -> None:
    set_vfs(machine, HPRES[0], 2)
    lent, _ = machine.vfs(HPRES[0])
    machine.calls()
    job = crew.job("2.0.1", sriov={"hpre": 4})
    job.at("begin-change", lambda: machine.pass_through(lent))

    job.settle()

    assert (job.shown.state, machine.driver(lent), vfs(machine)) == ("Failed", "vfio-pci", {HPRES[0]: 2})
    assert not [call for call in machine.calls() if call.startswith(("rmmod", "modprobe -r"))]


def test_a_function_that_a_guest_hands_on_itself_keeps_no_driver_away(server: ApiServer, tmp_path: Path) -> None:
    given = racks.virtual_machine(tmp_path / "rack").states()
    machine = Machine(tmp_path / "guest", functions=[state.function for state in given.values()])
    lent, *others = sorted(given)
    machine.pass_through(lent)

    with Crew(machine, server) as crew:
        shown = crew.job("2.0.1").settle()

    assert (shown.state, machine.driver(lent)) == ("Ready", "vfio-pci")
    assert sorted(machine.entries().values()) == others
    # It looks once for a Lease of its name that it knows nothing of.
    assert [request.split()[0] for request in server.state.requests] == ["GET"]


def test_another_number_of_one_device_leaves_those_of_the_others_alone(machine: Machine, crew: Crew) -> None:
    set_vfs(machine, HPRES[0], 2)
    set_vfs(machine, ZIP, 1)
    idle = (machine.vfs(HPRES[0])[0], machine.vfs(ZIP)[0])
    for address in idle:
        machine.pass_through(address, "")

    shown = crew.job("2.0.1", sriov={"hpre": 2}).settle()

    assert (shown.state, vfs(machine)) == ("Ready", dict.fromkeys(HPRES, 2) | {ZIP: 1})
    # Those that are made anew are taken by the driver.
    assert [machine.driver(address) for address in idle] == ["", ""]


def test_a_physical_function_that_another_driver_has_is_left_alone(machine: Machine, crew: Crew) -> None:
    set_vfs(machine, HPRES[1], 2)
    machine.pass_through(HPRES[1])
    limit(machine, HPRES[1], None)

    shown = crew.job("2.0.1", sriov={"hpre": 4}).settle()

    assert (shown.state, vfs(machine), machine.driver(HPRES[1])) == ("Ready", {HPRES[0]: 4, HPRES[1]: 2}, "vfio-pci")


def test_before_virtual_functions_change_the_links_of_a_dead_device_plugin_go(
    machine: Machine, crew: Crew, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prepare, "_WITHDRAWN_S", 0.1)
    monkeypatch.setattr(prepare, "_ADMITTED_S", 0.0)
    crew.job("2.0.1", sriov={"hpre": 2}).settle()
    # The kernel gives the next one that it makes the number of one that is gone.
    links = machine.host.path(homes.KAE.links)
    links.mkdir(parents=True)
    (links / "0000:79:00.1").symlink_to("/dev/hisi_hpre-6")

    shown = crew.job("2.0.1", sriov={"hpre": 4}).settle()

    assert (shown.state, list(links.iterdir())) == ("Ready", [])
