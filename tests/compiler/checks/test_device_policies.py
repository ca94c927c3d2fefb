"""What is judged of a KAEPolicy is judged of a DevicePolicy, at the places of its own documents."""

from collections.abc import Sequence
from typing import Any

import pytest

from compiler import diagnostics
from compiler.checks import policy as checks
from compiler.fleet import definitions
from tests import builders

PER_KERNEL = "1.0-${KERNEL_FULL_VERSION}"
IMAGES: dict[str, Any] = {
    **builders.IMAGES,
    "modules": {"repository": "registry.example.com/drivers", "image": "kmod", "version": PER_KERNEL},
}
DRIVER: dict[str, Any] = {
    "image": "installer",
    "version": "modules",
    "payloads": [{"image": "modules", "paths": ["/opt/lib/modules"]}],
    "modules": [{"name": "kmod"}],
}
OFFERING = {"resources": [{"name": "x.com/a", "class": "token", "count": 1}]}
MAPPED: dict[str, Any] = {"kernelMappings": [{"name": "el8", "regexp": "el8"}]}


def lab(recipe: dict[str, Any] | None = None, **spec: Any) -> definitions.Policy:
    """Return a policy of a recipe whose image of modules is named after kernels."""
    return builders.device_policy(
        "lab",
        builders.recipe("kmod", **{"images": IMAGES, "driver": DRIVER, "devicePlugin": OFFERING, **(recipe or {})}),
        **spec,
    )


def findings(policy: definitions.Policy) -> Sequence[diagnostics.Diagnostic]:
    return list(diagnostics.merged(checks.findings(policy)))


def told_of(policy: definitions.Policy) -> list[tuple[str, str, str]]:
    return [(one.code, one.span.file, one.span.text.strip()) for one in findings(policy)]


POLICY, RECIPE = "policies/lab.yaml", "recipes/kmod/recipe.yaml"


def test_a_policy_of_a_recipe_needs_no_settings() -> None:
    assert told_of(lab(**MAPPED)) == []


def with_image(name: str, **parts: str) -> dict[str, Any]:
    return {"images": {**IMAGES, name: IMAGES[name] | parts}}


@pytest.mark.parametrize("name", ["installer", "modules", "device-plugin"])
def test_an_image_that_nothing_pins_is_told_where_its_version_stands(name: str) -> None:
    of_recipe = lab(with_image(name, version="latest"), **MAPPED)
    of_policy = lab(images={name: {"version": "latest"}}, **MAPPED)

    assert told_of(of_recipe) == [("mutable-tag", RECIPE, "version: latest")]
    assert ("mutable-tag", POLICY, "version: latest") in told_of(of_policy)
    assert f"the image '{name}'" in findings(of_recipe)[0].message
    by_command = f", here or in the policy by `kae bump POLICY --image {name} --version V`."
    assert (findings(of_recipe)[0].hint or "").endswith(by_command)
    assert all("kae bump" not in (one.hint or "") for one in findings(of_policy))


@pytest.mark.parametrize("group", ["waves", "frozen"])
def test_an_image_of_a_wave_or_a_frozen_group_is_told_there(group: str) -> None:
    images = {"installer": {"version": "-1"}, "modules": {"version": PER_KERNEL}}
    declared = {"name": "canary", "nodes": ["n"], "images": images}

    assert told_of(lab(rollout={group: [declared]}, **MAPPED)) == [("image-reference", POLICY, 'version: "-1"')]


@pytest.mark.parametrize(
    ("frozen", "count"),
    [
        ({"images": {"modules": {"version": "1"}, "installer": {"version": "1"}}}, 0),
        ({"images": {"modules": {"version": "1"}}}, 1),
        ({"driver": {"state": "Absent"}}, 0),
        ({}, 1),
    ],
)
def test_a_frozen_group_names_a_version_of_every_image_of_its_driver(frozen: dict[str, Any], count: int) -> None:
    group = {"name": "colo", "nodes": ["t-17"], **frozen}
    policy = lab({"driver": {**DRIVER, "version": "installer"}}, rollout={"frozen": [group]}, **MAPPED)

    assert builders.codes(findings(policy)).count("frozen-unpinned") == count


def test_a_policy_without_mappings_has_no_image_that_is_named_after_kernels() -> None:
    (of_recipe,) = findings(lab())
    own = lab(with_image("modules", version="1.0"), images={"modules": {"image": "kmod-${KERNEL_XYZ}"}})

    assert (of_recipe.code, of_recipe.span.file, of_recipe.span.text.strip()) == (
        "kernel-placeholder",
        POLICY,
        "recipe: kmod",
    )
    assert RECIPE in of_recipe.notes[0]
    assert of_recipe.hint == "Add kernelMappings; each kernel that they take gets a pool of its own."
    assert told_of(own) == [("kernel-placeholder", POLICY, 'image: "kmod-${KERNEL_XYZ}"')]


def test_the_device_plugin_has_one_image_for_all_kernels() -> None:
    judged = told_of(lab(images={"device-plugin": {"version": PER_KERNEL}}, **MAPPED))

    assert judged == [("kernel-placeholder", POLICY, f'version: "{PER_KERNEL}"')]


def test_an_image_that_is_named_after_kernels_is_so_in_every_wave() -> None:
    wave = {"name": "canary", "percent": 5, "images": {"modules": {"version": "1.1"}}}

    assert told_of(lab(rollout={"waves": [wave]}, **MAPPED)) == [("kernel-not-in-image", POLICY, 'version: "1.1"')]


def test_an_image_for_all_kernels_beside_one_for_each_is_no_mistake() -> None:
    wave = {"name": "canary", "percent": 5, "images": {"installer": {"version": "2.0"}}}

    assert told_of(lab(rollout={"waves": [wave]}, **MAPPED)) == []


@pytest.mark.parametrize(
    ("spec", "code", "line"),
    [
        ({"kernelMappings": [{"name": "a", "regexp": "["}]}, "kernel-pattern", 'regexp: "["'),
        ({"kernelMappings": [{"name": "a"}]}, "choose-one", "- name: a"),
        (
            {"kernelMappings": [{"name": "a", "regexp": "e"}, {"name": "b", "literal": "e"}]},
            "mapping-never-wins",
            "- literal: e",
        ),
        ({"rollout": {"maxUnavailable": 0}, **MAPPED}, "unavailable-zero", "maxUnavailable: 0"),
        ({"devicePlugin": {"maxUnavailable": "0%"}, **MAPPED}, "unavailable-zero", 'maxUnavailable: "0%"'),
        ({"pullSecrets": [{"name": "a"}, {"name": "a"}], **MAPPED}, "duplicate-name", "- name: a"),
        ({"driver": {"enabledCleanup": True}, **MAPPED}, "cleanup-with-pools", "enabledCleanup: true"),
        ({"driver": {"resources": {"limits": {"cpu": "0.1m"}}}, **MAPPED}, "resource-amount", 'cpu: "0.1m"'),
    ],
)
def test_a_mistake_is_told_at_its_place(spec: dict[str, Any], code: str, line: str) -> None:
    assert told_of(lab(**spec)) == [(code, POLICY, line)]


def test_packages_named_after_the_driver_need_a_release_of_the_image_that_counts() -> None:
    packages = {"source": {"packages": {"names": ["kmod-${DRIVER_VERSION}"]}}}
    digest = "sha256:" + "0123456789abcdef" * 4

    told = findings(lab(driver=packages, images={"modules": {"version": digest}}))
    (finding,) = (one for one in told if one.code == "driver-version")

    assert (finding.code, finding.span.text.strip()) == ("driver-version", '- "kmod-${DRIVER_VERSION}"')
    assert finding.hint is not None
    assert finding.hint.startswith("Set images.modules.version to the release")
    released = findings(lab(driver=packages, images={"modules": {"version": "1.0"}}))
    assert "driver-version" not in builders.codes(released)


@pytest.mark.parametrize(
    ("label", "is_effect"),
    [
        ("openfuyao.com/onload.pool.desk", True),
        ("openfuyao.com/onload.sfc.vf", True),
        ("openfuyao.com/kae.hpre.vf", True),
        ("openfuyao.com/onload.driver-version", True),
        ("openfuyao.com/kae.driver-state", True),
        ("openfuyao.com/onload.driver-age", False),
        ("openfuyao.com/onload.sfc.pf", False),
        ("openfuyao.com/onload.present", False),
        ("example.com/onload.pool.desk", False),
    ],
)
def test_no_selector_asks_for_what_a_policy_of_any_recipe_changes(label: str, is_effect: bool) -> None:
    selector: dict[str, Any] = {"nodeSelector": {"matchLabels": {label: "1"}}}

    for policy in (lab(**selector, **MAPPED), builders.policy(**builders.PINNED, **selector)):
        assert builders.codes(findings(policy)) == (["selector-on-effect"] if is_effect else [])


def test_a_label_can_hold_the_name_of_a_device_plugin_whose_recipe_has_a_long_name() -> None:
    recipe = builders.recipe("r" * 20, devicePlugin=OFFERING)

    (fits, beyond) = (findings(builders.device_policy("p" * length, recipe)) for length in (28, 29))

    assert builders.codes(fits) == []
    assert builders.codes(beyond) == ["name-too-long"]


ONE = {"modules": {"version": "8.2"}}


@pytest.mark.parametrize(
    "spec",
    [
        {"images": ONE, **MAPPED},
        {"images": ONE},
        {"kernelMappings": [{"name": "el8", "regexp": "el8", "images": ONE}]},
        {"rollout": {"frozen": [{"name": "old", "nodes": ["n"], "images": ONE}]}, "images": ONE, **MAPPED},
    ],
)
def test_an_override_that_loses_the_kernel_of_the_recipe_is_told_where_it_stands(spec: dict[str, Any]) -> None:
    told = findings(lab(**spec))

    assert {(one.code, one.span.file, one.span.text.strip()) for one in told} == {
        ("kernel-placeholder-lost", POLICY, 'version: "8.2"')
    }
    assert told[0].hint == 'Write "8.2-${KERNEL_FULL_VERSION}", unless the image serves every kernel.'


@pytest.mark.parametrize("tag", ["", "1.0@"])
def test_a_digest_for_all_kernels_is_answered_with_a_mapping_for_each(tag: str) -> None:
    told = findings(lab(images={"modules": {"version": f"{tag}sha256:{'a' * 64}"}}, **MAPPED))

    assert [one.code for one in told] == ["kernel-placeholder-lost"]
    assert told[0].hint == (
        "Write a mapping for each kernel (`literal`), each with its own digest, unless the image serves every kernel."
    )


@pytest.mark.parametrize(
    "images",
    [{"modules": {"version": "8.2-${KERNEL_XYZ}"}}, {"modules": {"version": "8.2", "image": "k-${KERNEL_XYZ}"}}],
)
def test_an_override_that_names_the_kernel_in_its_own_way_is_sound(images: dict[str, Any]) -> None:
    assert told_of(lab(images=images, **MAPPED)) == []


def test_a_mapping_of_one_kernel_may_write_the_image_of_that_kernel() -> None:
    mapping = {"name": "one", "literal": "5.14.0-427.el9_4.x86_64", "images": ONE}

    assert told_of(lab(kernelMappings=[mapping])) == []


def test_a_driver_that_is_removed_needs_no_image_with_modules() -> None:
    without = {"images": {"modules": {"version": "", "repository": ""}}}

    assert told_of(lab(driver={"state": "Absent"})) == []
    assert told_of(lab(driver={"state": "Absent"}, **without, **MAPPED)) == []
    assert [code for code, _, _ in told_of(lab(driver={"state": "Present"}))] == ["kernel-placeholder"]


@pytest.mark.parametrize(
    ("image", "is_refused"),
    [
        ({"repository": "registry.example.com/a/b", "image": "kae-device-plugin"}, False),
        ({"repository": "", "version": "", "image": f"m.test:5000/kae-device-plugin@sha256:{'0' * 64}"}, False),
        ({"image": "mirror/kae-device-plugin"}, False),
        ({"image": "intel-qat-plugin"}, True),
        ({"image": "kae-device-plugin/own"}, True),
        ({"repository": "", "version": "", "image": "r.test/kae-device-plugin/own:1"}, True),
    ],
)
def test_the_device_plugin_of_a_recipe_is_kaes_in_whatever_registry(image: dict[str, str], is_refused: bool) -> None:
    of_recipe = told_of(lab(with_image("device-plugin", **image), **MAPPED))
    of_policy = told_of(lab(images={"device-plugin": image}, **MAPPED))

    found = f"image: {image['image']}"
    assert of_recipe == ([("device-plugin-image", RECIPE, found)] if is_refused else [])
    assert of_policy == ([("device-plugin-image", POLICY, found)] if is_refused else [])


def test_a_vendors_device_plugin_is_no_matter_where_ours_does_not_run() -> None:
    assert told_of(lab(with_image("device-plugin", image="own"), devicePlugin={"enabled": False}, **MAPPED)) == []
