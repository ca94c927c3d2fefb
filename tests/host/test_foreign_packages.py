"""INSTALL_POLICY Always takes the packages of a driver of others away, by the host's real rpm."""

from pathlib import Path
from typing import Any

import pytest

from installer.host import record, rpm
from tests.host.repositories import install
from tests.installer import machines, settings


@pytest.fixture
def image(machine: machines.Machine, tmp_path: Path) -> Path:
    machine.add_image(tmp_path / "image", "2.0.2")
    return tmp_path / "image"


def has(machine: machines.Machine) -> set[str]:
    return set(rpm.installed(machine.host, ("kae-driver", "kae-openssl")).values())


def always(machine: machines.Machine, image: Path, **changes: Any) -> settings.Installer:
    return settings.installer(machine, image, install_policy="Always", driver_version="2.0.2", **changes)


def test_the_plan_names_the_package_of_others_and_the_change_erases_it(machine: machines.Machine, image: Path) -> None:
    install(machine.host, "kae-driver-2.0.1-1")
    job = always(machine, image)
    report = job.parts.report()

    assert report.decided.reasons == (
        "A driver that others installed is at work; the install policy is Always, so it is replaced. Its packages are"
        " erased: kae-driver-2.0.1-1.noarch.",
    )
    assert "Erases kae-driver-2.0.1-1.noarch with the host's rpm, if installed." in [
        step.reason for step in report.steps
    ]
    assert job.settle().state == "Ready", job.shown.reason
    assert (has(machine), settings.versions(machine)) == (set(), {"2.0.2"})
    assert not machine.host.path(f"/lib/modules/{machine.kernel}/extra/hisi_zip.ko").exists()


def test_ifnotpresent_erases_nothing(machine: machines.Machine, image: Path) -> None:
    install(machine.host, "kae-driver-2.0.1-1")

    assert settings.installed(machine, image, driver_version="2.0.2").state == "Foreign"
    assert has(machine) == {"kae-driver-2.0.1-1.noarch"}


def test_after_a_failure_the_modules_of_an_erased_package_are_back_and_it_is_told(
    machine: machines.Machine, image: Path
) -> None:
    install(machine.host, "kae-driver-2.0.1-1")
    options = machine.host.path("/etc/modprobe.d/hisi_zip.conf").read_text()
    job = always(machine, image)
    machine.fail("modprobe hisi_zip", "modprobe: ERROR: could not insert 'hisi_zip': No such device", times=1)

    shown = job.settle()

    assert shown.reason.endswith(
        "The previous modules and options are back; other files of kae-driver-2.0.1-1.noarch are gone."
    )
    assert (settings.versions(machine), len(machine.entries())) == ({"2.0.1"}, 6)
    assert machine.host.path("/etc/modprobe.d/hisi_zip.conf").read_text() == options
    assert record.read(machine.host).installed is None


def test_after_a_failure_before_the_erasure_the_package_is_there(machine: machines.Machine, image: Path) -> None:
    install(machine.host, "kae-driver-2.0.1-1")
    job = always(machine, image)
    machine.fail("rmmod hisi_sec2", "rmmod: ERROR: Module hisi_sec2 is in use", times=1)

    assert job.settle().reason.endswith("The host is back in its previous state.")
    assert (has(machine), settings.versions(machine)) == ({"kae-driver-2.0.1-1.noarch"}, {"2.0.1"})


def test_a_package_that_another_one_needs_stays_and_is_hidden(
    machine: machines.Machine, image: Path, caplog: pytest.LogCaptureFixture
) -> None:
    install(machine.host, "kae-driver-2.0.1-1", "kae-openssl-2.0.1-1")
    job = always(machine, image)

    assert job.settle().state == "Ready", job.shown.reason
    assert (len(has(machine)), settings.versions(machine)) == (2, {"2.0.2"})
    assert "Other packages need kae-driver-2.0.1-1.noarch, so the host keeps it." in caplog.text


def test_files_that_no_package_owns_stay_which_the_plan_says(machine: machines.Machine, image: Path) -> None:
    machine.add_driver("2.0.1")
    machine.set_options(uacce_mode=2)
    machine.load()
    job = always(machine, image)

    (reason, *_) = job.parts.report().decided.reasons
    assert reason.endswith(" No package is known to own its files, so they stay, hidden by the new ones.")
    assert (job.settle().state, settings.versions(machine)) == ("Ready", {"2.0.2"})


def test_absent_and_always_take_the_package_away(machine: machines.Machine, image: Path) -> None:
    install(machine.host, "kae-driver-2.0.1-1")
    job = always(machine, image, state="Absent")

    assert job.settle().state == "Ready", job.shown.reason
    assert (has(machine), machine.loaded()) == (set(), {})
