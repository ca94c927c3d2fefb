"""Installed kernels that the node may boot next: which of them have no driver, and that none is placed unproved."""

import json
from pathlib import Path
from typing import Any

import pytest

from installer.report import report
from runtime import driver_config
from tests.installer import settings
from tests.installer.machines import Machine

PACKAGES = driver_config.Source(packages=driver_config.Packages(names=("kae-driver-2.0.1-1",)))


def told(machine: Machine, image: Path, **changes: Any) -> list[str]:
    """Return what status and plan say about installed kernels."""
    parts = settings.wired(machine, image, **changes)
    made = parts.report()
    parts.close()
    said: list[str] = json.loads(report.as_json(made))["unservedKernels"]
    for text in (report.as_status(made), report.as_plan(made)):
        assert all(" ".join(sentence.split()) in " ".join(text.split()) for sentence in said)
    return said


@pytest.mark.parametrize(
    ("source", "lacking"),
    [
        (settings.PREBUILT, "the image holds no modules for it"),
        (settings.BUILD, f"kernel-devel-{settings.OTHER_KERNEL} is not installed"),
        (PACKAGES, "kae-driver-2.0.1-1 may hold no modules for it"),
        (settings.IN_TREE, None),
    ],
    ids=["prebuilt", "build", "packages", "inTree"],
)
def test_an_installed_kernel_that_may_have_no_driver_is_named(
    machine: Machine, image: Path, source: driver_config.Source, lacking: str | None
) -> None:
    machine.add_kernel(settings.OTHER_KERNEL)

    said = told(machine, image, source=source)

    sentence = f"Kernel {settings.OTHER_KERNEL} is installed, too, and {lacking}: see to it before the node boots it."
    assert said == ([sentence] if lacking else [])


def test_a_kernel_that_has_all_it_needs_is_not_named(machine: Machine, image: Path) -> None:
    machine.add_kernel(settings.OTHER_KERNEL)
    folder = image / f"opt/lib/modules/{machine.kernel}"
    folder.rename(folder.with_name(settings.OTHER_KERNEL))
    machine.host.write(
        f"/lib/modules/{settings.OTHER_KERNEL}/build/include/config/kernel.release", f"{settings.OTHER_KERNEL}\n"
    )

    assert told(machine, image) == []
    assert told(machine, image, source=settings.BUILD) == []


@pytest.mark.parametrize("changes", [{"state": "Absent"}, {"kernels": driver_config.Kernels(pattern="oe2203")}])
def test_a_kernel_of_another_pool_is_not_named(machine: Machine, image: Path, changes: dict[str, Any]) -> None:
    machine.add_kernel(settings.OTHER_KERNEL)

    assert told(machine, image, **changes) == []


def test_the_first_boot_of_a_kernel_loads_no_driver_that_was_never_proved(machine: Machine, image: Path) -> None:
    machine.add_kernel(settings.OTHER_KERNEL)
    machine.add_image(image, "2.0.1")
    settings.installed(machine, image)

    machine.reboot(settings.OTHER_KERNEL)

    assert settings.versions(machine) == {None}  # The kernel's own.
