"""Rules for the driver: in every variant that mappings, waves and frozen groups make of it."""

from typing import Any

import pytest

from compiler import diagnostics
from compiler.checks import driver as checks
from tests import builders

SHA = f"sha256:{'0' * 64}"


def findings(**driver: Any) -> list[diagnostics.Diagnostic]:
    item = builders.policy(driver={"version": "2.2.0", **driver})
    return list(checks.findings(item, builders.variants(item)))


def codes(**driver: Any) -> list[str]:
    return builders.codes(findings(**driver))


@pytest.mark.parametrize(
    ("env", "code"),
    [
        ([("INSTALL_POLICY", "Always")], []),
        ([("INSTALL_POLICY", "Sometimes")], ["install-policy"]),
        ([("INSTALL_POLICY", "")], ["install-policy"]),
        ([("A", "1"), ("B", "1")], []),
        ([("A", "1"), ("A", "1")], ["duplicate-name"]),
        ([("NODE_NAME", "x")], ["duplicate-name"]),
    ],
)
def test_the_environment_names_each_variable_once(env: list[tuple[str, str]], code: list[str]) -> None:
    assert codes(env=[{"name": name, "value": value} for name, value in env]) == code


@pytest.mark.parametrize(
    ("value", "words"), [("Alway", "Did you mean 'Always'?"), ("Sometimes", "IfNotPresent to keep")]
)
def test_an_unknown_install_policy_is_told_with_what_to_write(value: str, words: str) -> None:
    (one,) = findings(env=[{"name": "INSTALL_POLICY", "value": value}])

    assert words in one.hint


@pytest.mark.parametrize(
    ("parameters", "sound"),
    [
        ({"hisi_hpre": {"pf_q_num": 2}}, True),
        ({"hisi_hpre": {"pf_q_num": 1}}, False),
        ({"hisi_hpre": {"pf_q_num": 1024}}, True),
        ({"hisi_hpre": {"pf_q_num": 1025}}, False),
        ({"hisi_sec2": {"ctx_q_num": 32}}, True),
        ({"hisi_sec2": {"ctx_q_num": 3}}, False),
        ({"hisi_zip": {"ctx_q_num": 2}}, False),
        ({"hisi_qm": {}}, False),
        ({"hisi_hpre": {"uacce_mode": 2}}, True),
        ({"hisi_hpre": {"uacce_mode": 3}}, False),
    ],
)
def test_a_parameter_is_known_and_in_its_range(parameters: dict[str, dict[str, int]], sound: bool) -> None:
    assert codes(moduleParameters=parameters) == ([] if sound else ["module-parameter"])


IN_TREE: dict[str, Any] = {"source": {"inTree": {}}}
MAPPING = {"name": "a", "regexp": "a"}
WAVE = {"name": "w", "percent": 5}
FROZEN = {"name": "f", "nodes": ["n"], "version": "2.1.0"}


@pytest.mark.parametrize(
    "driver",
    [
        IN_TREE,
        {"kernelMappings": [MAPPING, MAPPING | IN_TREE]},
        {"rollout": {"waves": [WAVE | IN_TREE]}},
        {"rollout": {"frozen": [FROZEN | IN_TREE]}},
    ],
)
def test_the_kernels_own_modules_know_fewer_modes_wherever_they_are_used(driver: dict[str, Any]) -> None:
    assert codes(moduleParameters={"hisi_hpre": {"uacce_mode": 2}}, **driver) == ["module-parameter"]


def test_a_source_that_every_mapping_replaces_limits_nothing() -> None:
    other: dict[str, Any] = MAPPING | {"source": {"build": {}}}

    assert codes(moduleParameters={"hisi_hpre": {"uacce_mode": 2}}, kernelMappings=[other], **IN_TREE) == []


@pytest.mark.parametrize(
    ("driver", "code"),
    [
        ({"sriov": {"hpre": 63}}, []),
        ({"sriov": {"hpre": 63}, "moduleParameters": {"hisi_hpre": {"pf_q_num": 961}}}, []),
        ({"sriov": {"hpre": 63}, "moduleParameters": {"hisi_hpre": {"pf_q_num": 962}}}, ["sriov-over-hardware"]),
        ({"sriov": {"hpre": 63}, "moduleParameters": {"hisi_zip": {"pf_q_num": 1024}}}, []),
        ({"sriov": {"hpre": 0}, "moduleParameters": {"hisi_hpre": {"pf_q_num": 1024}}}, []),
        ({"sriov": {"hpre": 1}, "enabled": False}, ["sriov-without-driver"]),
    ],
)
def test_virtual_functions_find_a_driver_and_a_queue_each(driver: dict[str, Any], code: list[str]) -> None:
    assert codes(**driver) == code


@pytest.mark.parametrize(("version", "sound"), [("2.2.0", True), (SHA, False), ("latest", False)])
def test_a_package_named_after_the_driver_needs_its_release(version: str, sound: bool) -> None:
    source = {"packages": {"names": ["kae-${DRIVER_VERSION}"]}}

    assert ("driver-version" in codes(version=version, source=source)) is not sound


PACKAGES = {"packages": {"names": ["kae-tools", "kae-${DRIVER_VERSION}"]}}


@pytest.mark.parametrize(
    ("driver", "field"),
    [
        ({"source": PACKAGES, "kernelMappings": [MAPPING | {"version": SHA}]}, "driver.kernelMappings[0].version"),
        ({"source": PACKAGES, "rollout": {"waves": [WAVE | {"version": SHA}]}}, "driver.rollout.waves[0].version"),
        (
            {"version": SHA, "rollout": {"frozen": [FROZEN | {"version": "latest", "source": PACKAGES}]}},
            "driver.rollout.frozen[0].version",
        ),
        ({"version": SHA, "rollout": {"waves": [WAVE | {"source": PACKAGES}]}}, "driver.version"),
    ],
)
def test_a_package_is_shown_where_it_stands_with_what_is_no_release(driver: dict[str, Any], field: str) -> None:
    (diagnostic,) = findings(**driver)

    assert diagnostic.code == "driver-version"
    assert diagnostic.span.text.strip() == '- "kae-${DRIVER_VERSION}"'
    assert f"{field} is" in diagnostic.message


def test_a_version_that_a_mapping_replaces_everywhere_is_not_asked_for() -> None:
    mapping = MAPPING | {"version": "2.3.0-${KERNEL_XYZ}"}

    assert codes(version="latest", source=PACKAGES, kernelMappings=[mapping]) == []
