"""A DevicePolicy has the terms of a KAEPolicy: the same fields, with images, values and modules beside them."""

from typing import Any

from compiler.fleet import definitions, parse, stacks
from compiler.planning import kernels, overrides
from tests.builders import document, raw

RECIPE: dict[str, Any] = {
    "title": "Onload",
    "match": {"pci": [{"kind": "sfc", "vendor": "1924", "classes": ["0200"]}]},
    "parameters": {"properties": {"maxPods": {"type": "integer", "default": 100}}},
    "images": {
        "installer": {"repository": "r.example/kae", "image": "installer", "version": "1"},
        "modules": {"repository": "r.example/kae", "image": "modules", "version": "8-${KERNEL_FULL_VERSION}"},
        "user": {"repository": "r.example/kae", "image": "user", "version": "8"},
    },
    "driver": {
        "image": "installer",
        "version": "user",
        "payloads": [{"image": "modules", "paths": ["/opt/lib/modules"]}, {"image": "user", "paths": ["/opt/onload"]}],
        "modules": [{"name": "sfc", "optional": True}, {"name": "onload"}],
    },
    "devicePlugin": {"resources": [{"name": "amd.com/onload", "class": "token", "count": "${values.maxPods}"}]},
}
FROZEN = {"name": "colo", "nodes": ["t-17"], "images": {"user": {"version": "7"}}, "driver": {"modules": ["onload"]}}
POLICY: dict[str, Any] = {
    "recipe": "onload",
    "driver": {"modules": ["sfc", "onload"]},
    "kernelMappings": [{"name": "el8", "regexp": "el8"}],
    "rollout": {"frozen": [FROZEN]},
}


def _policy(**spec: Any) -> definitions.Policy:
    recipe = definitions.Recipe(name="onload", source=document(raw("Recipe", "onload", RECIPE), "recipe.yaml"))
    return parse.device_policy_of(document(raw("DevicePolicy", "desk", POLICY | spec), "policies/desk.yaml"), recipe)


def _driver(policy: definitions.Policy, group: int | None = None, kernel: str | None = None) -> stacks.Driver:
    layers = () if group is None else (policy.groups[group][1],)
    driver = overrides.effective(policy.spec.driver, *layers, kernel=kernel)
    assert isinstance(driver, stacks.Driver)
    return driver


def test_the_version_of_the_driver_is_that_of_the_image_that_the_recipe_names() -> None:
    policy = _policy(images={"user": {"version": "9"}})
    assert (_driver(policy).image, _driver(policy).version) == ("user", "9")


def test_a_frozen_group_overrides_parts_of_images_and_the_modules() -> None:
    frozen = _driver(_policy(), 0)
    assert frozen.version == "7"
    assert frozen.images["user"] == {"repository": "r.example/kae", "image": "user", "version": "7"}
    assert [module.name for module in frozen.modules] == ["onload"]
    assert [module.name for module in _driver(_policy()).modules] == ["sfc", "onload"]


def test_without_a_choice_all_modules_are_loaded_that_are_not_optional() -> None:
    assert [module.name for module in _driver(_policy(driver={})).modules] == ["onload"]


def test_every_image_of_the_pods_is_named_after_the_kernel() -> None:
    policy = _policy()
    assert kernels.named_in(policy.spec.driver)
    assert _driver(policy, kernel="4.18.0-1.el8").images["modules"]["version"] == "8-4.18.0-1.el8"
    assert not kernels.named_in(_driver(policy, kernel="4.18.0-1.el8"))


def test_a_value_stands_in_the_place_of_its_parameter() -> None:
    plugin = _policy(values={"maxPods": 40}).spec.devicePlugin
    assert isinstance(plugin, stacks.DevicePlugin)
    assert plugin.filled.devicePlugin is not None
    assert plugin.filled.devicePlugin.resources[0].count == 40


def test_groups_and_mappings_are_found_at_their_places_in_the_document() -> None:
    policy = _policy()
    assert [path for path, _ in (*policy.groups, *policy.mappings)] == [
        ("spec", "rollout", "frozen", 0),
        ("spec", "kernelMappings", 0),
    ]
