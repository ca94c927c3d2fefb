"""Which driver a host ends with, by state and INSTALL_POLICY."""

import os
from pathlib import Path

import pytest

from installer.host import record
from tests.installer import homes, incidents, modulefiles, settings
from tests.installer.incidents import Crew, Users
from tests.installer.machines import Machine
from tests.kube.apiserver import ApiServer

pytestmark = pytest.mark.usefixtures("installed")

POD = incidents.POD
BACK = "The host is back in its previous state."


@pytest.fixture
def bare(tmp_path: Path) -> Machine:
    """A host that never had a driver."""
    return Machine(tmp_path / "bare")


def files(machine: Machine) -> set[str]:
    """The files of a host without record and store."""
    return set(machine.files("etc", "lib", "opt", "usr"))


@pytest.mark.usefixtures("foreign")
def test_a_driver_of_others_that_works_stays_under_if_not_present(machine: Machine, crew: Crew) -> None:
    before = machine.files()

    shown = crew.job("2.0.1", module_parameters={}).settle()

    assert (shown.state, shown.ready) == ("Foreign", True)
    assert record.read(machine.host) == record.Record(resources=tuple(sorted(settings.config().resources)))
    assert {name: stamp for name, stamp in machine.files().items() if name != "var/lib/kae/driver.json"} == before


@pytest.mark.usefixtures("foreign")
def test_a_driver_of_others_is_replaced_under_always(machine: Machine, crew: Crew) -> None:
    shown = crew.job("2.0.1", install_policy="Always").settle()

    assert (shown.state, incidents.works(machine)) == ("Ready", True)
    # Shadowed, not erased.
    assert (machine.root / f"lib/modules/{machine.kernel}/extra/hisi_zip.ko").exists()


@pytest.mark.usefixtures("foreign")
def test_of_a_link_among_the_modules_of_others_the_store_keeps_the_file(machine: Machine, crew: Crew) -> None:
    # As weak-modules of kmod packages makes them; the file goes with its package.
    link = machine.root / f"lib/modules/{machine.kernel}/extra/hisi_zip.ko"
    file = machine.root / "lib/modules/another/extra/hisi_zip.ko"
    file.parent.mkdir(parents=True)
    link.rename(file)
    link.symlink_to("../../another/extra/hisi_zip.ko")

    shown = crew.job("2.0.1", install_policy="Always").settle()

    assert shown.state == "Ready", shown.reason
    (kept,) = machine.host.path(homes.KAE.drivers).glob("kept-*/modules/hisi_zip.ko")
    assert (kept.is_symlink(), kept.read_bytes()) == (False, file.read_bytes())


@pytest.mark.usefixtures("foreign")
def test_a_driver_of_others_that_is_dead_is_replaced_under_if_not_present(machine: Machine, crew: Crew) -> None:
    machine.unload()
    machine.let_die("hisi_hpre", "hisi_sec2", "hisi_zip")
    machine.load()
    machine.mend()
    assert (len(machine.loaded()), machine.entries()) == (5, {})

    shown = crew.job("2.0.1").settle()

    assert (shown.state, incidents.works(machine)) == ("Ready", True)


@pytest.mark.usefixtures("foreign")
def test_a_replaced_driver_of_others_is_ours_from_then_on(machine: Machine, crew: Crew) -> None:
    crew.job("2.0.1", install_policy="Always").settle()

    shown = crew.job(install_policy="IfNotPresent").settle()

    assert (shown.state, incidents.works(machine, "2.0.2")) == ("Ready", True)


@pytest.mark.parametrize("policy", ["IfNotPresent", "Always"])
def test_a_driver_of_ours_follows_the_policy(policy: str, machine: Machine, crew: Crew) -> None:
    shown = crew.job(install_policy=policy).settle()

    assert (shown.state, incidents.works(machine, "2.0.2")) == ("Ready", True)


def test_going_back_needs_nothing_of_the_image_but_its_content(machine: Machine, crew: Crew) -> None:
    crew.job().settle()
    job = crew.job("2.0.1")

    job.settle()

    assert (job.shown.state, incidents.works(machine)) == ("Ready", True)
    assert "copy-modules" not in job.shown.taken


def test_other_parameters_alone_load_the_same_driver_anew(machine: Machine, crew: Crew) -> None:
    wanted = settings.parameters(uacce_mode=2, pf_q_num=512)
    job = crew.job("2.0.1", module_parameters=wanted)

    job.settle()

    assert (job.shown.state, incidents.works(machine)) == ("Ready", True)
    assert machine.parameters("hisi_zip")["pf_q_num"] == 512
    assert "place-modules" not in job.shown.taken


def test_other_parameters_that_are_refused_bring_the_old_ones_back(machine: Machine, crew: Crew) -> None:
    wanted = settings.parameters(uacce_mode=2, pf_q_num=5000)

    shown = crew.job("2.0.1", module_parameters=wanted).settle()

    assert (shown.state, shown.reason.endswith(BACK), incidents.works(machine)) == ("Failed", True, True)
    assert machine.parameters("hisi_zip")["pf_q_num"] == 256
    assert (machine.root / "etc/modprobe.d/hisi_zip.conf").read_text() == "options hisi_zip pf_q_num=256 uacce_mode=2\n"


# No driver.


def test_absent_takes_our_driver_away_with_all_its_traces(machine: Machine, bare: Machine, crew: Crew) -> None:
    machine.host.write_attribute(f"/sys/bus/pci/devices/{incidents.HPRE}/sriov_numvfs", "2")

    shown = crew.job("2.0.1", state="Absent").settle()

    assert (shown.state, shown.reason) == ("Ready", "No driver of recipe kae is installed, as the policy asks.")
    assert (machine.loaded(), files(machine), machine.vfs(incidents.HPRE)) == ({}, files(bare), ())
    assert not machine.host.path(homes.KAE.changing).exists()


def test_absent_stays_ready_when_a_boot_loads_the_kernels_own_modules(machine: Machine, crew: Crew) -> None:
    crew.job("2.0.1", state="Absent").settle()
    machine.reboot()
    machine.calls()
    assert set(machine.loaded()) == set(modulefiles.DRIVER)

    shown = crew.job("2.0.1", state="Absent").settle()

    assert (shown.state, settings.changes_made(machine)) == ("Ready", [])


@pytest.mark.usefixtures("foreign")
def test_absent_leaves_a_driver_of_others_under_if_not_present(machine: Machine, crew: Crew) -> None:
    before = machine.files()

    shown = crew.job("2.0.1", state="Absent").settle()

    assert (shown.state, machine.files(), len(machine.entries())) == ("Foreign", before, 6)


@pytest.mark.usefixtures("foreign")
def test_absent_unloads_a_driver_of_others_under_always(machine: Machine, crew: Crew) -> None:
    shown = crew.job("2.0.1", state="Absent", install_policy="Always").settle()

    assert (shown.state, machine.loaded()) == ("Ready", {})
    assert (machine.root / f"lib/modules/{machine.kernel}/extra/hisi_zip.ko").exists()


def test_absent_evicts_with_the_same_care(machine: Machine, server: ApiServer, users: Users, crew: Crew) -> None:
    users.come(POD)

    shown = crew.job("2.0.1", state="Absent").settle()

    assert (shown.state, machine.loaded(), users.evicted) == ("Ready", {}, [POD])
    assert incidents.holder(server) == ""


def test_absent_waits_for_a_budget_to_allow_an_eviction(
    machine: Machine, server: ApiServer, users: Users, crew: Crew
) -> None:
    users.come(POD)
    server.state.budgets[POD] = "shop/checkout-budget"

    shown = crew.job("2.0.1", state="Absent").settle()

    assert (shown.state, shown.ready, incidents.works(machine)) == ("Blocked", False, True)


def test_absent_that_meets_a_busy_module_leaves_the_driver_at_work(machine: Machine, crew: Crew) -> None:
    job = crew.job("2.0.1", state="Absent")
    job.at("begin-change", lambda: machine.pin("hisi_hpre"))

    shown = job.settle()

    assert (shown.state, shown.reason.endswith(BACK), incidents.works(machine)) == ("Failed", True, True)
    assert record.read(machine.host).installed is not None


def test_absent_ends_what_a_killed_installer_began(machine: Machine, bare: Machine, crew: Crew) -> None:
    crew.job().end_after("place-modules")

    shown = crew.job("2.0.1", state="Absent").settle()

    assert (shown.state, machine.loaded(), files(machine)) == ("Ready", {}, files(bare))
    assert record.read(machine.host).change is None


def test_present_after_absent_installs_again(machine: Machine, crew: Crew) -> None:
    crew.job("2.0.1", state="Absent").settle()

    shown = crew.job("2.0.1").settle()

    assert (shown.state, incidents.works(machine)) == ("Ready", True)


# The end of the power.


def test_files_are_on_disk_before_the_next_step(machine: Machine, crew: Crew, monkeypatch: pytest.MonkeyPatch) -> None:
    job, synced = crew.job(), dict[str, list[str]]()

    def sync(descriptor: int) -> None:
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        synced.setdefault(job.shown.taken[-1] if job.shown.taken else "", []).append(
            f"/{path.relative_to(machine.root)}"
        )

    monkeypatch.setattr(os, "fsync", sync)

    job.settle()

    place = f"/usr{homes.KAE.modules(machine.kernel)}"
    assert synced["block-autoload"] == ["/etc/modprobe.d/.kae-unproved.conf.new", "/etc/modprobe.d"]
    assert synced["place-modules"][:2] == [f"{place}/.hisi_hpre.ko.new", place]
    assert f"/usr/lib/modules/{machine.kernel}/modules.dep" in synced["index-modules"]
    assert {f"{homes.KAE.drivers}/.new/modules/hisi_zip.ko", homes.KAE.drivers}.issubset(synced["store-driver"])
