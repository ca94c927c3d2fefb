"""Modules that cannot go, cannot come, or are not what they should be."""

import pytest

from tests.installer import homes, incidents, modulefiles, settings
from tests.installer.incidents import Crew
from tests.installer.machines import Machine

pytestmark = [pytest.mark.usefixtures("installed"), pytest.mark.long]

BACK = "The host is back in its previous state."
STRANGER = "etc/modprobe.d/zz-tuning.conf"


def load_migration(machine: Machine, more: bytes = b"") -> None:
    """Load a module of others that stands on hisi_qm; its file says more at its end."""
    file = modulefiles.ModuleFile(name="hisi_migration", version="2.0.1", kernel=machine.kernel)
    machine.add_module("hisi_migration", file.plain() + more)
    machine.load("hisi_migration")


def test_a_module_that_the_kernel_uses_at_the_last_moment_comes_back(machine: Machine, crew: Crew) -> None:
    job = crew.job()
    job.at("begin-change", lambda: machine.pin("hisi_hpre", 2))

    shown = job.settle()

    # hisi_zip was unloaded before it was refused for hisi_hpre; it is back.
    assert shown.reason == (
        "Module hisi_hpre cannot be unloaded: it is in use (2 times), by a process with an open device or by the"
        f" kernel itself. {BACK}"
    )
    assert (shown.state, incidents.works(machine)) == ("Failed", True)


def test_a_process_that_opens_a_device_late_stops_the_upgrade(machine: Machine, crew: Crew) -> None:
    job = crew.job()
    job.at("begin-change", lambda: machine.hold(4711, "hisi_hpre-0"))

    shown = job.settle()

    assert shown.reason == (
        "A device was opened after the drain, by process 4711 (openssl). The driver stays as it was."
    )
    assert (shown.state, incidents.works(machine)) == ("Blocked", True)
    assert not [call for call in machine.calls() if call.startswith("rmmod")]


def test_a_module_that_another_one_stands_on_is_named_with_it(machine: Machine, crew: Crew) -> None:
    load_migration(machine)
    job = crew.job()
    job.at("begin-change", lambda: machine.pin("hisi_migration"))

    shown = job.settle()

    assert shown.reason.startswith("Module hisi_migration cannot be unloaded: it is in use (1 times)")
    assert set(machine.loaded()) == {*modulefiles.DRIVER, "hisi_migration"}
    assert len(machine.entries()) == 6


@pytest.mark.parametrize("fits", [True, False])
def test_a_module_of_live_migration_is_loaded_again(fits: bool, machine: Machine, crew: Crew) -> None:
    load_migration(machine, b"kmi=2.0.2\0" * fits)

    shown = crew.job().settle()

    assert set(machine.loaded()) == {*modulefiles.DRIVER, "hisi_migration"}
    assert len(machine.entries()) == 6
    if fits:
        assert (shown.state, machine.loaded()["hisi_qm"][0]) == ("Ready", "2.0.2")
    else:
        assert (shown.state, machine.loaded()["hisi_qm"][0]) == ("Failed", "2.0.1")
        assert shown.reason.startswith("Module hisi_migration cannot be loaded: it does not know a parameter's value ")
        assert shown.reason.endswith(BACK)


def test_a_value_that_a_module_does_not_know_is_told(machine: Machine, crew: Crew) -> None:
    machine.fail("modprobe hisi_hpre", "modprobe: ERROR: could not insert 'hisi_hpre': Invalid argument", times=1)

    shown = crew.job().settle()

    assert shown.reason == (
        "Module hisi_hpre cannot be loaded: it does not know a parameter's value (the kernel's own modules know"
        " uacce_mode 0 and 1 only), was built against another module than the one that is loaded, or in a virtual"
        f" machine its function was not passed in. {BACK}"
    )
    assert (shown.state, shown.ready, incidents.works(machine)) == ("Failed", False, True)


def test_a_driver_that_loads_and_gives_no_entries_is_not_taken_for_one(machine: Machine, crew: Crew) -> None:
    job = crew.job()
    job.at("begin-change", lambda: machine.let_die("hisi_hpre"))
    job.at("prove-driver", machine.mend, event="failed")

    shown = job.settle()

    assert shown.reason == (
        "The verification of the driver failed: Module hisi_hpre is loaded, but no hpre device has an entry in"
        " /sys/class/uacce; Device 0000:79:00.0 had an entry in /sys/class/uacce, and has none now; Device"
        f" 0000:b9:00.0 had an entry in /sys/class/uacce, and has none now. {BACK}"
    )
    assert (shown.state, incidents.works(machine)) == ("Failed", True)


def test_another_file_that_sets_a_parameter_in_the_last_moment_is_named(machine: Machine, crew: Crew) -> None:
    job = crew.job()
    job.at("begin-change", lambda: machine.host.write(f"/{STRANGER}", "# by hand\noptions hisi_hpre pf_q_num=64\n"))

    shown = job.settle()

    assert shown.reason == (
        "The verification of the driver failed: Parameter pf_q_num of module hisi_hpre is 64, not 256. Parameters of"
        f" its modules are set in /{STRANGER}, too. {BACK}"
    )
    assert (shown.state, settings.versions(machine), len(machine.entries())) == ("Failed", {"2.0.1"}, 6)
    assert "64" in (machine.root / STRANGER).read_text()


@pytest.mark.parametrize("held", [True, False])
def test_a_node_for_root_alone_is_opened_and_nobody_disturbed(held: bool, machine: Machine, crew: Crew) -> None:
    (machine.root / "dev/hisi_hpre-0").chmod(0o600)
    if held:
        machine.hold(4711, "hisi_hpre-0")
    machine.calls()

    shown = crew.job("2.0.1").settle()

    assert (shown.state, incidents.works(machine)) == ("Ready", True)
    assert settings.changes_made(machine) == []


def test_a_device_node_that_is_missing_comes_back_with_the_module(machine: Machine, crew: Crew) -> None:
    (machine.root / "dev/hisi_hpre-0").unlink()

    shown = crew.job("2.0.1").settle()

    assert (shown.state, incidents.works(machine)) == ("Ready", True)


def test_a_device_node_that_is_missing_is_not_worth_an_eviction(machine: Machine, crew: Crew) -> None:
    machine.hold(4711, "hisi_sec2-2")
    (machine.root / "dev/hisi_hpre-0").unlink()

    shown = crew.job("2.0.1").settle()

    assert shown.state == "Blocked"
    assert shown.reason.startswith("The device node /dev/hisi_hpre-0 is missing. The config has not changed,")
    assert set(machine.loaded()) == set(modulefiles.DRIVER)


def test_a_module_file_that_somebody_exchanged_is_replaced_from_the_store(machine: Machine, crew: Crew) -> None:
    place = machine.host.path(f"{homes.KAE.modules(machine.kernel)}/hisi_zip.ko")
    good = place.read_bytes()
    place.write_bytes(good + b"comment=the same version and srcversion\0")

    job = crew.job("2.0.1")
    assert job.parts.report().decided.reasons == (
        f"'{homes.KAE.modules(machine.kernel)}/hisi_zip.ko' is not as it was installed.",
    )
    job.settle()

    assert (job.shown.state, incidents.works(machine), place.read_bytes()) == ("Ready", True, good)


@pytest.mark.parametrize("damage", ["changed", "missing"])
def test_a_changed_library_is_replaced_beside_the_users_of_devices(damage: str, machine: Machine, crew: Crew) -> None:
    place = machine.host.path(f"{homes.KAE.home.files}/lib/libwd.so.2")
    if damage == "changed":
        place.write_text("another\n")
    else:
        place.unlink()
    machine.hold(4711, "hisi_hpre-0")
    machine.calls()

    job = crew.job("2.0.1")
    job.settle()

    assert (job.shown.state, incidents.works(machine)) == ("Ready", True)
    assert settings.changes_made(machine) == []


def test_modules_that_a_script_loads_with_its_parameters_are_loaded_anew(machine: Machine, crew: Crew) -> None:
    def load() -> None:
        machine.set_options(uacce_mode=2, pf_q_num=64)
        machine.load()

    job = crew.job()
    job.at("index-modules", load)

    job.settle()

    assert (job.shown.state, job.shown.reason) == ("Ready", "The driver 2.0.2 is loaded and verified.")
    assert machine.parameters("hisi_zip")["pf_q_num"] == 256
