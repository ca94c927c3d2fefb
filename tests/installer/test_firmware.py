"""Firmware of a driver: a folder below /lib/firmware/updates, which is exchanged with the modules and goes with it."""

from pathlib import Path
from typing import Any

from runtime import driver_config
from tests.installer import layouts, settings, stacks
from tests.installer.incidents import Crew
from tests.installer.machines import Machine

PLACE = "/lib/firmware/updates/npu"
FIRMWARE: dict[str, Any] = stacks.KMOD | {
    "payloads": (driver_config.Payload(name="modules", paths=("/opt/lib/modules", "/firmware")),),
    "files": (driver_config.HostFiles(from_="/firmware", to=PLACE),),
}


def image(folder: Path, version: str) -> Path:
    """An image with modules and firmware."""
    layouts.put(folder / "payload/modules/firmware/a/npu.bin", f"firmware {version}\n".encode())
    return stacks.payload(folder, "modules", stacks.kmod_files(version))


def firmware(machine: Machine) -> str:
    """The firmware as the kernel finds it, from the root of the host."""
    folder = machine.host.path(PLACE)
    assert folder.is_symlink()
    led = folder.readlink()
    assert led.is_absolute()
    return (machine.root / str(led).lstrip("/") / "a/npu.bin").read_text()


def test_firmware_is_there_when_the_modules_are_loaded(machine: Machine, crew: Crew, tmp_path: Path) -> None:
    assert (machine.root / "lib").is_symlink()
    stated = {name: value for name, value in FIRMWARE.items() if name != "driver_version"}
    job, seen = crew.job("1.0", image(tmp_path, "1.0"), **stated), list[str]()
    job.at("load-modules", lambda: seen.append(firmware(machine)), event="begun")

    assert job.settle().ready

    assert seen == ["firmware 1.0\n"]


def test_firmware_is_exchanged_with_the_driver_and_goes_with_it(machine: Machine, tmp_path: Path) -> None:
    settings.installed(machine, image(tmp_path / "1", "1.0"), **FIRMWARE)
    second = image(tmp_path / "2", "1.1")

    settings.installed(machine, second, **FIRMWARE | {"driver_version": "1.1"})
    assert firmware(machine) == "firmware 1.1\n"
    settings.installed(machine, second, **FIRMWARE | {"driver_version": "1.1", "state": "Absent"})

    assert not machine.host.path(PLACE).is_symlink()
    assert not machine.host.path(PLACE).exists()
    assert list((machine.root / "opt").glob(".kae*")) == []


def test_a_failed_change_brings_the_firmware_back(machine: Machine, tmp_path: Path) -> None:
    settings.installed(machine, image(tmp_path / "1", "1.0"), **FIRMWARE)
    machine.fail("modprobe simple_procfs_kmod", "modprobe: ERROR: could not insert: Exec format error", times=1)

    shown = settings.installer(machine, image(tmp_path / "2", "1.1"), **FIRMWARE | {"driver_version": "1.1"}).settle()

    assert shown.state == "Failed"
    assert firmware(machine) == "firmware 1.0\n"
    assert settings.versions(machine) == {"1.0"}


def test_a_folder_of_others_is_refused_and_stays(machine: Machine, tmp_path: Path) -> None:
    layouts.put(machine.root / PLACE.lstrip("/") / "theirs.bin", b"of others")

    shown = settings.installer(machine, image(tmp_path, "1.0"), **FIRMWARE).settle()

    assert shown.state == "Failed"
    assert f"'{PLACE}' on the host holds what we did not put there" in shown.reason
    assert (machine.root / PLACE.lstrip("/") / "theirs.bin").read_bytes() == b"of others"


def test_changed_firmware_is_a_fault_that_is_repaired(machine: Machine, tmp_path: Path) -> None:
    settings.installed(machine, image(tmp_path, "1.0"), **FIRMWARE)
    (machine.host.resolved(PLACE) / "a/npu.bin").write_text("damaged\n")

    settings.installed(machine, image(tmp_path, "1.0"), **FIRMWARE)

    assert firmware(machine) == "firmware 1.0\n"
