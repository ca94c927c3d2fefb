"""Changes of the desired state, and the demands of a config on a host."""

from typing import Any

import pytest

from installer.decide import desired
from runtime import driver_config, driver_work
from tests.installer import machines, settings, stacks
from tests.installer.machines import Machine

BASE = ("uacce", "hisi_qm")


def test_another_driver_has_another_source_kernel_or_content_not_tag() -> None:
    stated = settings.config()
    digests = {
        desired.digest(stated, machines.KERNEL, "a"),
        desired.digest(settings.config(source=settings.BUILD), machines.KERNEL, "a"),
        desired.digest(stated, settings.OTHER_KERNEL, "a"),
        desired.digest(stated, machines.KERNEL, "b"),
    }

    assert len(digests) == 4
    assert desired.digest(settings.config(driver_version="2.0.2"), machines.KERNEL, "a") in digests


@pytest.mark.parametrize(
    "changes",
    [
        {"module_parameters": settings.parameters(uacce_mode=1)},
        {"sriov": {"hpre": 4}},
        {"source": driver_config.Source(build=driver_config.Build(repositories=("file:///mnt",)))},
        {"install_policy": "Always"},
        {"pool": "tls--canary"},
    ],
)
def test_what_is_no_part_of_the_files_makes_no_other_driver(changes: dict[str, Any]) -> None:
    stated, changed = ({"source": settings.BUILD} | more for more in ({}, changes))

    one, other = (desired.digest(settings.config(**each), machines.KERNEL, "a") for each in (stated, changed))

    assert one == other


@pytest.mark.parametrize(
    "changes",
    [
        {"module_parameters": settings.parameters(uacce_mode=1)},
        {"sriov": {"hpre": 4}},
        {"drain": driver_config.Drain(enabled=False)},
        {"source": driver_config.Source(prebuilt=driver_config.Prebuilt())} | {"state": "Absent"},
        {"leases": driver_config.Leases(namespace="kae-operator", names=(settings.MINE, settings.OTHERS))},
    ],
)
def test_whatever_is_asked_for_differently_is_tried_at_once(changes: dict[str, Any]) -> None:
    assert desired.asked(settings.config(**changes), "a") != desired.asked(settings.config(), "a")


def test_the_same_config_is_another_wish_with_another_content_alone() -> None:
    assert desired.asked(settings.config(), "a") == desired.asked(settings.config(), "a")
    assert desired.asked(settings.config(), "a") != desired.asked(settings.config(), "b")


def test_a_host_needs_the_modules_of_its_own_devices_and_those_below() -> None:
    zips = (settings.function("0000:75:00.0", "zip"), settings.function("0000:b5:00.0", "zip"))

    assert desired.modules(settings.config(), ()) == BASE
    assert desired.modules(settings.config(), zips) == (*BASE, "hisi_zip")
    assert desired.modules(settings.config(), settings.functions()) == settings.config().names


def test_modules_are_loaded_in_the_order_of_the_config() -> None:
    stated = settings.config(modules=("hisi_zip", "hisi_qm", "uacce"))

    assert desired.modules(stated, settings.functions()) == ("hisi_zip", "hisi_qm", "uacce")


def test_an_options_file_is_a_line_with_the_parameters_in_order() -> None:
    stated = settings.config(module_parameters={"hisi_zip": {"uacce_mode": 2, "pf_q_num": 256}, "hisi_hpre": {}})

    assert desired.options(stated) == {"hisi_zip": "options hisi_zip pf_q_num=256 uacce_mode=2\n"}


def test_virtual_functions_are_a_parameter_of_loaded_kinds_that_have_some() -> None:
    stated = settings.config(
        modules=("uacce", "hisi_qm", "hisi_hpre", "hisi_sec2"),
        module_parameters={"hisi_hpre": {"uacce_mode": 2}},
        sriov={"hpre": 4, "sec": 0, "zip": 2},
    )

    assert desired.options(stated) == {"hisi_hpre": "options hisi_hpre uacce_mode=2 vfs_num=4\n"}


@pytest.mark.parametrize(
    ("asked", "entries"), [({"uacce_mode": 2}, True), ({"uacce_mode": 1}, True), ({}, True), ({"uacce_mode": 0}, False)]
)
def test_devices_have_entries_unless_the_kernel_alone_is_to_use_them(asked: dict[str, int], entries: bool) -> None:
    stated = settings.config(module_parameters={"hisi_hpre": asked})

    assert desired.has_entries(stated, "hisi_hpre") is entries


def test_packages_are_named_with_the_version_and_other_sources_have_none() -> None:
    names = ("kae-driver-${DRIVER_VERSION}", "kae-openssl", "kae-zip-${DRIVER_VERSION}-1")
    stated = settings.config(source=driver_config.Source(packages=driver_config.Packages(names=names)))

    assert driver_work.packages(stated) == ("kae-driver-2.0.1", "kae-openssl", "kae-zip-2.0.1-1")
    assert driver_work.packages(settings.config()) == ()


@pytest.mark.parametrize(
    ("changes", "digests"),
    [
        ({"sriov": {"hpre": 4, "sec": 0}}, "1acdc6f2b8ca5c7d fda69c23ab802b54"),
        (stacks.ONLOAD, "e2fa35c67cab31a5 c21ae465198a48dd"),
    ],
)
def test_another_installer_swaps_no_driver(changes: dict[str, Any], digests: str, machine: Machine) -> None:
    parts = settings.wired(machine, stacks.onload(machine.image("2.0.1"), "9.0"), **changes)

    assert f"{parts.digest[:16]} {desired.asked(parts.settings, parts.digest)[:16]}" == digests
