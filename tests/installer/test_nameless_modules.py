"""Modules that name neither version nor srcversion: KAE 2.0.2's sources have no MODULE_VERSION.

A kernel without CONFIG_MODULE_SRCVERSION_ALL computes a srcversion only for those that have one.
"""

import re
from pathlib import Path

import pytest

from installer.decide import decision
from installer.host import host_state
from installer.report import report
from tests.installer import homes, settings
from tests.installer.fakes import disk
from tests.installer.incidents import Crew
from tests.installer.machines import Machine


def nameless(folder: Path) -> Path:
    """Take the names from all module files of a folder; the files keep their lengths."""
    for path in folder.rglob("*.ko"):
        content = path.read_bytes().replace(b"\0version=", b"\0comment=").replace(b"\0srcversion=", b"\0srccomment=")
        path.write_bytes(content)
    return folder


def running(machine: Machine) -> set[str]:
    """The versions of the loaded modules, which only the fake kernel knows."""
    return {module["kmi"] for module in disk.Disk(str(machine.root)).value("fake/kernel", [])}


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """A host with the kernel's own modules, which name nothing either."""
    machine = Machine(tmp_path / "host")
    nameless(machine.root / "lib/modules")
    return machine


@pytest.fixture
def drivers(machine: Machine, tmp_path: Path) -> dict[str, Path]:
    """The images of two drivers."""
    images = {version: tmp_path / f"image-{version}" for version in ("2.0.1", "2.0.2")}
    for version, folder in images.items():
        machine.add_image(folder, version)
        nameless(folder)
    return images


def test_they_are_installed_upgraded_and_brought_back(machine: Machine, drivers: dict[str, Path], crew: Crew) -> None:
    assert crew.job("2.0.1", image=drivers["2.0.1"]).settle().state == "Ready"
    assert (running(machine), machine.loaded()["hisi_zip"]) == ({"2.0.1"}, (None, ""))

    machine.refuse()
    job = crew.job(image=drivers["2.0.2"])
    assert job.settle().reason.endswith("The host is back in its previous state.")
    assert running(machine) == {"2.0.1"}

    job = crew.job(image=drivers["2.0.2"])
    job.parts.host.write(homes.KAE.retry, "")
    assert job.settle().state == "Ready", job.shown.reason
    assert running(machine) == {"2.0.2"}
    status = report.as_status(job.parts.report())
    assert " 2.0.2 from prebuilt, installed by us at " in status
    row = re.search(r"^hisi_zip .*$", status, re.MULTILINE)
    assert row is not None
    assert " ".join(row[0].split()) == "hisi_zip unknown pf_q_num=256 uacce_mode=2 unknown updates/kae/hisi_zip.ko"


def test_a_driver_of_others_is_not_the_kernels_own_and_comes_back(
    machine: Machine, drivers: dict[str, Path], crew: Crew
) -> None:
    machine.add_driver("2.0.0")
    nameless(machine.root / f"lib/modules/{machine.kernel}/extra")
    machine.set_options(uacce_mode=2, pf_q_num=256)
    machine.load()
    machine.refuse()

    shown = crew.job(image=drivers["2.0.2"], install_policy="Always").settle()

    assert shown.reason.endswith("The host is back in its previous state.")
    assert running(machine) == {"2.0.0"}
    current = host_state.read(machine.host, settings.config())
    assert report.driver_on(settings.config(), current) == "one without a version, installed by others, at work"


def test_the_kernels_own_modules_are_told_as_such(machine: Machine) -> None:
    machine.set_options(uacce_mode=1)
    machine.load()

    current = host_state.read(machine.host, settings.config())
    assert report.driver_on(settings.config(), current) == "the kernel's own, at work"


def test_open_devices_are_no_use_by_the_kernel(machine: Machine, drivers: dict[str, Path], crew: Crew) -> None:
    crew.job("2.0.1", image=drivers["2.0.1"]).settle()
    machine.hold(4711, "hisi_hpre-0")
    machine.pin("hisi_hpre")
    current = host_state.read(machine.host, settings.config())

    assert decision.obstacles(settings.config(), current, replace=True) == ()

    machine.pin("hisi_sec2")
    assert decision.obstacles(settings.config(), host_state.read(machine.host, settings.config()), replace=True)
