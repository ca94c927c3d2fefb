"""The way back: what others had on the host is there again, and what cannot be is named."""

import shutil
from pathlib import Path

import pytest

from installer.host import chroot, kmod, record
from runtime import process
from tests.installer import homes, incidents, modulefiles, settings
from tests.installer.incidents import Crew, Users
from tests.installer.machines import Machine
from tests.installer.settings import Boot

pytestmark = [pytest.mark.usefixtures("installed"), pytest.mark.long]

BACK = "The host is back in its previous state."
NOT_BACK = "The previous driver cannot be restored:"


def obstruct(machine: Machine, name: str) -> None:
    """Put a folder with a file where a library of each driver in the store is to go; an empty one would make way."""
    for path in (machine.root / "var/lib/kae/drivers").iterdir():
        folder = machine.root / f"opt/.kae-{path.name}/{name}"
        folder.mkdir(parents=True)
        (folder / "own").touch()


def test_files_that_cannot_be_put_in_place_bring_the_old_driver_back(machine: Machine, newer: Path, crew: Crew) -> None:
    (newer / "opt/kae/lib/libwd_more.so.2").write_text("2.0.2\n")
    job = crew.job()
    job.at("place-modules", lambda: obstruct(machine, "lib/libwd_more.so.2"))

    shown = job.settle()

    assert shown.state == "Failed"
    assert shown.reason.endswith(f"/lib/libwd_more.so.2' on the host cannot be changed: Is a directory. {BACK}")
    assert incidents.works(machine)
    assert [path for path in machine.files() if path.endswith(".new")] == []


def test_what_a_killed_installer_left_beside_the_good_files_goes(machine: Machine, crew: Crew) -> None:
    for folder in (homes.KAE.modules(machine.kernel), f"{homes.KAE.drivers}/.new", homes.KAE.build):
        machine.host.write(f"{folder}/.hisi_zip.ko.new", "half")

    shown = crew.job().settle()

    assert (shown.state, incidents.works(machine, "2.0.2")) == ("Ready", True)
    assert [path for path in machine.files() if path.endswith(".new")] == []


def test_a_rollback_that_fails_for_one_module_names_both_and_brings_others_back(machine: Machine, crew: Crew) -> None:
    machine.refuse("hisi_hpre", times=None)

    shown = crew.job().settle()

    why = (
        "Module hisi_hpre cannot be loaded: no device answers to it: the licence is missing, or the engine is disabled"
        " in the BIOS."
    )
    assert (shown.state, shown.ready, shown.reason) == ("Failed", False, f"{why} {NOT_BACK} {why}")
    assert not machine.host.path(homes.KAE.changing).exists()
    assert set(machine.loaded()) == {*modulefiles.DRIVER} - {"hisi_hpre"}
    assert settings.versions(machine) == {"2.0.1"}
    assert len(machine.entries()) == 4


@pytest.mark.parametrize("version", ["2.0.2", "2.0.1"], ids=["new", "old"])
def test_after_a_failed_rollback_the_next_try_ends_with_the_wished_driver(
    version: str, machine: Machine, crew: Crew, boot: Boot
) -> None:
    machine.refuse("hisi_hpre", times=None)
    crew.job().settle()
    machine.mend()
    boot.now_s += 60 * (version == "2.0.2")  # The old wish is not paused.

    shown = crew.job(version).settle()

    assert (shown.state, incidents.works(machine, version)) == ("Ready", True)


def test_a_store_without_the_old_driver_is_named_when_it_cannot_come_back(machine: Machine, crew: Crew) -> None:
    installed = record.read(machine.host).installed
    assert installed is not None
    machine.refuse("hisi_zip")
    job = crew.job()
    job.at("begin-change", lambda: shutil.rmtree(machine.root / f"var/lib/kae/drivers/{installed.id}"))

    shown = job.settle()

    said = shown.reason.partition(NOT_BACK)[2]
    copy = machine.root / f"var/lib/kae/drivers/{installed.id}/modules/hisi_hpre.ko"
    place = f"{homes.KAE.modules(machine.kernel)}/hisi_hpre.ko"
    assert said.startswith(f" '{place}' on the host cannot be written: its copy '{copy}' is not there.")
    assert not machine.host.path(homes.KAE.changing).exists()


def test_an_index_that_cannot_be_made_anew_does_not_keep_the_old_driver_away(machine: Machine, crew: Crew) -> None:
    machine.fail("depmod", "depmod: ERROR: could not write modules.dep: No space left on device")

    shown = crew.job().settle()

    assert shown.state == "Failed"
    assert shown.reason.startswith(f"'depmod -a {machine.kernel}' ended with 1: depmod: ERROR: could not write")
    assert shown.reason.endswith(BACK)
    assert incidents.works(machine)
    assert [path for path in machine.files("usr") if ".modules." in path] == []


@pytest.mark.parametrize(
    ("mistake", "told"),
    [
        (OSError(5, "Input/output error"), "OSError: [Errno 5] Input/output error."),
        (KeyError("zip"), "KeyError: 'zip'."),
    ],
    ids=["of the disk", "of our own"],
)
def test_an_error_that_nobody_foresaw_brings_the_old_driver_back(
    mistake: Exception, told: str, machine: Machine, request: pytest.FixtureRequest
) -> None:
    crew, monkeypatch = request.getfixturevalue("crew"), request.getfixturevalue("monkeypatch")
    job = crew.job()
    load, mistakes = kmod.load, [mistake]

    def mistaken(host: chroot.Host, name: str) -> None:
        if mistakes:
            raise mistakes.pop()
        load(host, name)

    monkeypatch.setattr(kmod, "load", mistaken)

    job.settle()

    assert (job.shown.state, job.shown.reason) == ("Failed", f"{told} {BACK}")
    assert (incidents.works(machine), job.shown.failures["load-modules"]) == (True, 1)


def test_an_error_on_the_way_back_is_told_with_the_first(
    machine: Machine, crew: Crew, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = crew.job()

    def mistaken(host: chroot.Host, name: str) -> None:
        raise ValueError(name)

    monkeypatch.setattr(kmod, "load", mistaken)

    shown = job.settle()

    assert (shown.state, shown.reason) == ("Failed", f"ValueError: uacce. {NOT_BACK} ValueError: uacce.")
    assert not machine.host.path(homes.KAE.changing).exists()


def test_no_module_is_loaded_after_a_hanging_one(machine: Machine, crew: Crew, monkeypatch: pytest.MonkeyPatch) -> None:
    job, loads = crew.job(), []

    def hanging(host: chroot.Host, name: str) -> None:
        loads.append(name)
        raise process.Unkillable(f"modprobe {name} hangs.") if loads[1:] else ValueError(name)

    monkeypatch.setattr(kmod, "load", hanging)

    shown = job.settle()

    assert (shown.state, shown.reason, loads) == ("Stuck", "modprobe uacce hangs.", ["uacce", "uacce"])
    assert machine.host.path(homes.KAE.changing).exists()


def test_a_depmod_that_hangs_ends_a_rollback(machine: Machine, crew: Crew, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.refuse("hisi_zip", times=1)
    calls = []
    index = kmod.index

    def hang(host: chroot.Host, release: str) -> None:
        calls.append(release)
        if len(calls) > 1:
            raise process.Unkillable("depmod hangs in the kernel.")
        index(host, release)

    monkeypatch.setattr(kmod, "index", hang)

    assert crew.job().settle().state == "Stuck"


def test_a_staged_driver_that_changes_before_the_swap_is_no_removal(machine: Machine, users: Users, crew: Crew) -> None:
    def flip() -> None:
        (path,) = machine.host.path(homes.KAE.drivers).glob("prebuilt-2.0.2-*/modules/hisi_zip.ko")
        incidents.flip(path)

    users.come(incidents.POD)
    job = crew.job()
    job.at("store-driver", flip)

    shown = job.settle()

    assert (shown.state, users.evicted, incidents.works(machine)) == ("Failed", [], True)
    assert shown.reason == f"The staged driver in '{homes.KAE.drivers}' was changed or removed by others."
