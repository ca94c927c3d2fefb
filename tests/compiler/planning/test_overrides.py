"""Driver settings that differ for some nodes, and where they are written."""

from typing import Any

import pytest

from compiler.model import driver as drivers
from compiler.planning import overrides
from tests import builders

TOP = ("spec", "driver")
DRIVER = {"version": "2.2.0", "repository": "r.test/a", "image": "kae", "state": "Present"}


def effective(*layers: dict[str, Any], kernel: str | None = None, **driver: Any) -> drivers.Driver:
    given = [drivers.Overrides.model_validate(layer) for layer in layers]
    return overrides.effective(drivers.Driver.model_validate({**DRIVER, **driver}), *given, kernel=kernel)


@pytest.mark.parametrize(
    ("field", "other"),
    [("version", "2.3.0"), ("repository", "r.test/b"), ("image", "kae2"), ("state", "Absent"), ("version", "")],
)
def test_an_override_replaces_its_field_alone(field: str, other: str) -> None:
    result = effective({field: other})

    assert {name: getattr(result, name) for name in DRIVER} == {**DRIVER, field: other}


def test_the_stronger_override_wins_field_by_field() -> None:
    result = effective({"version": "2.3.0", "image": "weak"}, {"image": "strong"}, {"state": "Absent"})

    assert (result.version, result.image, result.state) == ("2.3.0", "strong", "Absent")


def test_a_source_is_replaced_as_a_whole() -> None:
    result = effective({"source": {"inTree": {}}}, source={"packages": {"names": ["kae"]}})

    assert result.source == drivers.Source.model_validate({"inTree": {}})


def test_what_is_not_overridden_is_the_drivers_own() -> None:
    driver = drivers.Driver.model_validate({**DRIVER, "sriov": {"hpre": 4}, "moduleParameters": {"hisi_hpre": {}}})

    assert overrides.effective(driver) is driver
    assert overrides.effective(driver, None, drivers.Overrides()) is driver
    assert overrides.effective(driver, drivers.Overrides(version="2.3.0")).sriov == driver.sriov


@pytest.mark.parametrize(
    ("layer", "reference"),
    [
        ({}, "kae:2.2.0-5.10.0"),
        ({"image": "kae-${KERNEL_FULL_VERSION}"}, "kae-5.10.0-216.aarch64:2.2.0-5.10.0"),
        ({"version": "2.3.0"}, "kae:2.3.0"),
    ],
)
def test_the_kernel_is_filled_in_after_the_overrides(layer: dict[str, Any], reference: str) -> None:
    result = effective(layer, kernel="5.10.0-216.aarch64", version="2.2.0-${KERNEL_XYZ}")

    assert f"{result.image}:{result.version}" == reference


def variants(**driver: Any) -> list[overrides.Variant]:
    return list(overrides.variants(builders.policy(driver={"version": "2.2.0", **driver})))


def test_a_policy_without_overrides_has_one_driver_that_is_written_there() -> None:
    (only,) = variants()

    assert only.driver.version == "2.2.0"
    assert only.paths == {field: (*TOP, field) for field in overrides.FIELDS}


def test_a_group_is_paired_with_every_mapping_and_every_mapping_stands_alone_too() -> None:
    results = variants(
        kernelMappings=[{"name": "a", "regexp": "a", "version": "a"}, {"name": "b", "regexp": "b", "state": "Absent"}],
        rollout={
            "waves": [{"name": "w", "percent": 5, "version": "w"}],
            "frozen": [{"name": "f", "nodes": ["n"], "version": "f"}],
        },
    )

    told = sorted((variant.driver.version, variant.driver.state, variant.paths["version"][2:-1]) for variant in results)
    frozen, wave = ("rollout", "frozen", 0), ("rollout", "waves", 0)
    assert told == [
        ("2.2.0", "Absent", ()),
        ("a", "Present", ("kernelMappings", 0)),
        ("f", "Absent", frozen),
        ("f", "Present", frozen),
        ("w", "Absent", wave),
        ("w", "Present", wave),
    ]


def test_each_field_has_the_place_of_the_strongest_that_says_it() -> None:
    results = variants(
        kernelMappings=[{"name": "a", "regexp": "a", "version": "a", "image": "a"}],
        rollout={"waves": [{"name": "w", "percent": 5, "version": "w"}]},
    )

    wave = next(variant for variant in results if variant.driver.version == "w")
    assert wave.paths["version"] == (*TOP, "rollout", "waves", 0, "version")
    assert wave.paths["image"] == (*TOP, "kernelMappings", 0, "image")
    assert wave.paths["source"] == (*TOP, "source")


@pytest.mark.parametrize(
    ("driver", "is_per_kernel"),
    [
        ({}, False),
        ({"version": "${KERNEL_XYZ}"}, True),
        ({"image": "kae-${KERNEL_FULL_VERSION}"}, True),
        ({"rollout": {"waves": [{"name": "w", "percent": 5, "version": "${KERNEL_XYZ}"}]}}, True),
        ({"rollout": {"frozen": [{"name": "f", "nodes": ["n"], "image": "kae-${KERNEL_XYZ}"}]}}, True),
    ],
)
def test_a_mapping_is_for_each_kernel_where_some_group_names_its_image_after_one(
    driver: dict[str, Any], is_per_kernel: bool
) -> None:
    item = builders.policy(driver={"kernelMappings": [{"name": "a", "regexp": "a"}], **driver})

    assert overrides.is_per_kernel(item, item.spec.driver.kernelMappings[0]) is is_per_kernel


def test_a_mapping_may_override_what_is_named_after_kernels() -> None:
    mappings = [{"name": "a", "regexp": "a", "version": "2.1.0"}, {"name": "b", "regexp": "b"}]
    item = builders.policy(driver={"version": "2.2.0-${KERNEL_XYZ}", "kernelMappings": mappings})

    assert [overrides.is_per_kernel(item, mapping) for mapping in item.spec.driver.kernelMappings] == [False, True]
