"""Files of the installer on the host that are damaged, missing, or not writable."""

import json
import shutil
from pathlib import Path

import pytest

from installer.host import record
from runtime import errors
from tests.installer import homes, incidents, settings
from tests.installer.incidents import Crew, Users
from tests.installer.machines import Machine
from tests.installer.settings import Boot

pytestmark = [pytest.mark.usefixtures("installed"), pytest.mark.long]


def keep_from_writing(machine: Machine) -> Path:
    """Something stands where the record would be written; what it is."""
    in_the_way = machine.root / "var/lib/kae/.driver.json.new/in the way"
    in_the_way.mkdir(parents=True)
    return in_the_way


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("", "Input data was truncated"),
        ('{"version": 1, "installed": {"id": "pre', "Input data was truncated"),
        ("\0" * 512, "JSON is malformed: invalid character (byte 0)"),
        ('{"version": 2}', "Invalid enum value 2 - at `$.version`"),
        ('{"version": 1, "installed": "2.0.1"}', "Expected `object | null`, got `str` - at `$.installed`"),
        ("[]", "Expected `object`, got `array`"),
    ],
    ids=["empty", "half", "zeros", "of a later release", "of another shape", "no record"],
)
def test_a_damaged_record_fails_and_touches_nothing(content: str, why: str, machine: Machine, newer: Path) -> None:
    machine.host.path(homes.KAE.record).write_text(content)
    before, loaded = machine.files(), machine.loaded()
    made = settings.installer(machine, newer, driver_version="2.0.2")
    machine.calls()

    with pytest.raises(errors.Failure) as caught:
        made.loop.cycle()

    assert str(caught.value) == (
        f"The record '{homes.KAE.record}' on the host cannot be read ({why}); move it away if the driver is not ours."
    )
    assert (machine.files(), machine.loaded(), settings.changes_made(machine)) == (before, loaded, [])


def test_a_damaged_record_is_not_removed_when_the_driver_is_to_go(machine: Machine, image: Path) -> None:
    machine.host.path(homes.KAE.record).write_text("{")
    before = machine.files()

    with pytest.raises(errors.Failure, match="cannot be read"):
        settings.installer(machine, image, state="Absent").settle()

    assert machine.files() == before


def test_without_its_record_the_driver_counts_as_one_of_others(machine: Machine, crew: Crew) -> None:
    machine.host.path(homes.KAE.record).unlink()
    before = machine.files()

    shown = crew.job("2.0.1").settle()

    assert (shown.state, shown.ready) == ("Foreign", True)
    # The new record has resources alone.
    assert {name: stamp for name, stamp in machine.files().items() if name != "var/lib/kae/driver.json"} == before


@pytest.mark.parametrize("content", [b"{", b'{"id": "\xff"}'], ids=["cut", "no UTF-8"])
def test_a_damaged_driver_of_the_store_is_staged_anew(machine: Machine, crew: Crew, content: bytes) -> None:
    crew.job().settle()
    for path in (machine.root / "var/lib/kae/drivers").glob("prebuilt-2.0.1-*/driver.json"):
        path.write_bytes(content)
    job = crew.job("2.0.1")

    job.settle()

    assert (job.shown.state, incidents.works(machine), "copy-modules" in job.shown.taken) == ("Ready", True, True)


def test_a_pause_that_cannot_be_noted_is_kept_all_the_same(machine: Machine, crew: Crew, boot: Boot) -> None:
    machine.fail("modinfo -F", "modinfo: ERROR: could not read", times=1)
    keep_from_writing(machine)
    job = crew.job()
    job.settle()
    reason, taken = job.shown.reason, len(job.shown.taken)
    boot.now_s += 59

    pause_s = job.loop.cycle()

    assert (job.shown.state, job.shown.reason, pause_s) == ("Failed", reason, 1)
    assert (len(job.shown.taken), record.read(machine.host).attempt) == (taken, None)
    assert incidents.works(machine)


def test_a_record_that_can_be_written_again_lets_the_upgrade_happen(machine: Machine, crew: Crew, boot: Boot) -> None:
    in_the_way = keep_from_writing(machine)
    job = crew.job()
    job.settle()
    assert (job.shown.state, incidents.works(machine)) == ("Failed", True)
    in_the_way.rmdir()
    in_the_way.parent.rmdir()
    boot.now_s += 60

    job.settle()

    assert (job.shown.state, incidents.works(machine, "2.0.2")) == ("Ready", True)


def test_what_a_failed_staging_has_taken_of_the_disk_is_given_back(machine: Machine, crew: Crew) -> None:
    machine.fail("modinfo -F", "modinfo: ERROR: could not read", times=1)
    before = {path for path in machine.files() if "/drivers/" in path}

    shown = crew.job().settle()

    assert shown.state == "Failed"
    assert shown.reason.startswith("'hisi_hpre.ko' is no kernel module: 'modinfo -F vermagic ")
    assert {path for path in machine.files() if "/drivers/" in path} == before
    assert incidents.works(machine)


def test_a_change_that_an_older_release_of_the_installer_began_is_put_back(machine: Machine, crew: Crew) -> None:
    known = json.loads(machine.host.path(homes.KAE.record).read_text())
    known["change"] = {"kept": known["installed"], "loaded": list(machine.loaded()), "served": [incidents.HPRE]}
    machine.host.path(homes.KAE.record).write_text(json.dumps(known))
    machine.unload()
    machine.refuse()

    shown = crew.job().settle()

    assert (shown.state, settings.versions(machine), len(machine.entries())) == ("Failed", {"2.0.1"}, 6)
    assert shown.reason.endswith("The host is back in its previous state.")


def stored(machine: Machine, version: str) -> Path:
    """The folder of a driver in the store."""
    (folder,) = machine.host.path(homes.KAE.drivers).glob(f"prebuilt-{version}-*")
    return folder


@pytest.mark.parametrize("name", ["modules/hisi_zip.ko", "libraries/lib/libwd.so.2"])
def test_a_stored_driver_with_a_flipped_bit_is_staged_anew(
    name: str, machine: Machine, newer: Path, users: Users, crew: Crew
) -> None:
    image = newer.with_name("older")
    machine.add_image(image, "2.0.1")
    crew.job().settle()
    incidents.flip(stored(machine, "2.0.1") / name)
    users.come(incidents.POD)
    job = crew.job("2.0.1")

    job.settle()

    assert (job.shown.state, incidents.works(machine)) == ("Ready", True)
    assert 0 <= job.shown.taken.index("copy-modules") < job.shown.taken.index("drain-devices")


@pytest.mark.parametrize("damage", ["all gone", "module", "library"])
def test_a_damaged_way_back_is_stored_before_evictions(damage: str, machine: Machine, users: Users, crew: Crew) -> None:
    if damage == "all gone":
        shutil.rmtree(machine.host.path(homes.KAE.drivers))
    else:
        names = {"module": "modules/hisi_zip.ko", "library": "libraries/lib/libwd.so.2"}
        incidents.flip(stored(machine, "2.0.1") / names[damage])
    users.come(incidents.POD)
    machine.refuse()
    job = crew.job()

    job.settle()

    assert (job.shown.state, incidents.works(machine)) == ("Failed", True)
    assert job.shown.reason.endswith("The host is back in its previous state.")
    assert job.shown.taken.index("keep-driver") < job.shown.taken.index("take-lease")


def test_a_lost_way_back_keeps_a_driver_whose_files_have_changed(machine: Machine, users: Users, crew: Crew) -> None:
    folder = stored(machine, "2.0.1")
    shutil.rmtree(folder)
    incidents.flip(machine.host.path(f"{homes.KAE.modules(machine.kernel)}/hisi_zip.ko"))
    users.come(incidents.POD)

    shown = crew.job().settle()

    assert shown.reason == (
        f"'{homes.KAE.drivers}/{folder.name}' on the host is damaged or gone, and the installed files cannot stand in"
        " for it, so a failure could not bring the driver back: put this folder back, or set driver.state to Absent,"
        " and then to Present."
    )
    assert (shown.state, users.evicted, settings.versions(machine)) == ("Failed", [], {"2.0.1"})


def test_a_lost_way_back_keeps_no_driver_from_its_removal(machine: Machine, crew: Crew) -> None:
    shutil.rmtree(stored(machine, "2.0.1"))
    incidents.flip(machine.host.path(f"{homes.KAE.modules(machine.kernel)}/hisi_zip.ko"))

    removed = crew.job("2.0.1", state="Absent").settle()

    assert (removed.state, machine.loaded()) == ("Ready", {})
