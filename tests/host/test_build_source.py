"""The source build: kernel-devel by real rpm and dnf, and a real compiler."""

import shutil
from pathlib import Path

import pytest

from installer.host import rpm
from runtime import driver_config
from tests import tools
from tests.host.repositories import BOTH, FIRST, ODD
from tests.installer import machines, settings


def from_source(*repositories: str) -> driver_config.Source:
    return driver_config.Source(build=driver_config.Build(repositories=repositories))


@pytest.fixture
def image(machine: machines.Machine, tmp_path: Path) -> Path:
    """An image with the source of a driver, and a host whose kernel names its build folder, as its package does."""
    for program in ("gcc", "make"):
        tools.require(program, program)
    machine.add_image(tmp_path / "image", "2.0.1", prebuilt=False)
    (machine.root / f"lib/modules/{machine.kernel}/build").symlink_to(f"/usr/src/kernels/{machine.kernel}")
    return tmp_path / "image"


def refusal(machine: machines.Machine, image: Path, *repositories: str) -> str:
    shown = settings.installer(machine, image, source=from_source(*repositories)).settle()
    assert shown.state == "Failed"
    assert machine.loaded() == {}
    return shown.reason


def test_the_driver_is_compiled_against_the_running_kernels_headers(machine: machines.Machine, image: Path) -> None:
    settings.installed(machine, image, source=from_source(BOTH))

    assert settings.versions(machine) == {"2.0.1"}
    assert list(rpm.installed(machine.host, ("kernel-devel",))) == ["kernel-devel"]
    built = machine.root / f"lib/modules/{machine.kernel}/updates/kae/hisi_zip.ko"
    assert built.read_bytes().startswith(b"\x7fELF")


def test_headers_of_another_kernel_are_refused_whatever_their_package(machine: machines.Machine, image: Path) -> None:
    assert "is installed, and still" in refusal(machine, image, ODD)


def test_a_repository_without_the_headers_is_named(machine: machines.Machine, image: Path) -> None:
    reason = refusal(machine, image, FIRST)

    assert f"kernel-devel-{machine.kernel}" in reason
    assert FIRST in reason


def test_what_the_compiler_says_is_told(machine: machines.Machine, image: Path) -> None:
    (image / "opt/src/kae/hisi_qm.c").write_text("#error KAE needs a newer kernel\n")

    assert "KAE needs a newer kernel" in refusal(machine, image, BOTH)


def test_an_image_without_source_says_so(machine: machines.Machine, image: Path) -> None:
    shutil.rmtree(image / "opt/src")

    assert "The image has no driver source at /opt/src/kae" in refusal(machine, image, BOTH)
