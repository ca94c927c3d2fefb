"""Driver settings that differ for some nodes, and where they are written."""

from typing import Any

import msgspec
import pytest

from compiler.fleet import definitions
from compiler.planning import overrides
from runtime import driver_config
from tests import builders

TOP = ("spec", "driver")
DRIVER = {"version": "2.2.0", "repository": "r.test/a", "image": "kae", "state": "Present"}


def effective(*layers: dict[str, Any], kernel: str | None = None, **driver: Any) -> definitions.Driver:
    frozen = [{"name": f"f{number}", "nodes": ["n"], **layer} for number, layer in enumerate(layers)]
    item = builders.policy(driver={**DRIVER, **driver, "rollout": {"frozen": frozen}})
    assert item.driver is not None
    return overrides.filled(item.driver.overridden(*item.groups), kernel)


@pytest.mark.parametrize(
    ("field", "other"),
    [("version", "2.3.0"), ("repository", "r.test/b"), ("image", "kae2"), ("state", "Absent"), ("version", "")],
)
def test_an_override_replaces_its_field_alone(field: str, other: str) -> None:
    result = effective({field: other})

    assert {**result.parts, "state": result.state} == {**DRIVER, field: other}


def test_the_stronger_override_wins_field_by_field() -> None:
    result = effective({"version": "2.3.0", "image": "weak"}, {"image": "strong"}, {"state": "Absent"})

    assert (result.parts["version"], result.parts["image"], result.state) == ("2.3.0", "strong", "Absent")


def test_a_source_is_replaced_as_a_whole() -> None:
    result = effective({"source": {"inTree": {}}}, source={"packages": {"names": ["kae"]}})

    assert result.source == driver_config.Source(in_tree=driver_config.InTree())


def test_what_is_not_overridden_is_the_drivers_own() -> None:
    own: dict[str, Any] = {"sriov": {"hpre": 4}, "moduleParameters": {"hisi_hpre": {"pf_q_num": 8}}}
    driver, changed = effective(**own), effective({"version": "2.3.0"}, **own)

    assert driver.sriov == {"hpre": 4}
    assert driver.overridden(None) == effective({}, **own) == driver
    assert msgspec.structs.replace(changed, images=driver.images) == driver


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

    assert f"{result.parts['image']}:{result.parts['version']}" == reference


def variants(**driver: Any) -> list[overrides.Variant]:
    return list(overrides.variants(builders.policy(driver={"version": "2.2.0", **driver})))


def test_a_policy_without_overrides_has_one_driver_that_is_written_there() -> None:
    (only,) = variants()

    assert only.driver.parts["version"] == "2.2.0"
    assert only.source == (*TOP, "source")
    places = [only.counting.place(part) for part in overrides.PARTS]
    assert places == [(only.policy.source, (*TOP, part)) for part in overrides.PARTS]


def test_a_group_is_paired_with_every_mapping_and_every_mapping_stands_alone_too() -> None:
    results = variants(
        kernelMappings=[{"name": "a", "regexp": "a", "version": "a"}, {"name": "b", "regexp": "b", "state": "Absent"}],
        rollout={
            "waves": [{"name": "w", "percent": 5, "version": "w"}],
            "frozen": [{"name": "f", "nodes": ["n"], "version": "f"}],
        },
    )

    drivers = [(one.driver.parts["version"], one.driver.state) for one in results]
    paths = [one.counting.place("version")[1][2:-1] for one in results]
    told = sorted((*driver, path) for driver, path in zip(drivers, paths, strict=True))
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

    wave = next(variant for variant in results if variant.driver.parts["version"] == "w")
    assert wave.counting.place("version") == (wave.policy.source, (*TOP, "rollout", "waves", 0, "version"))
    assert wave.counting.place("image") == (wave.policy.source, (*TOP, "kernelMappings", 0, "image"))
    assert wave.source == (*TOP, "source")


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

    assert overrides.is_per_kernel(item, item.mappings[0]) is is_per_kernel


def test_a_mapping_may_override_what_is_named_after_kernels() -> None:
    mappings = [{"name": "a", "regexp": "a", "version": "2.1.0"}, {"name": "b", "regexp": "b"}]
    item = builders.policy(driver={"version": "2.2.0-${KERNEL_XYZ}", "kernelMappings": mappings})

    assert [overrides.is_per_kernel(item, mapping) for mapping in item.mappings] == [False, True]
