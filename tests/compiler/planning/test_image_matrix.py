"""The images that a recipe's pools need for each kernel."""

from typing import Any

import pytest

from compiler.planning import image_matrix
from tests import builders

EL8 = "4.18.0-553.el8_10.x86_64"
EL9 = "5.14.0-427.el9_4.x86_64"
IMAGES = dict(builders.IMAGES) | {
    "modules": {"repository": "r.example.com", "image": "onload-module", "version": "8-${KERNEL_FULL_VERSION}"},
    "user": {"repository": "r.example.com", "image": "onload-user", "version": "8"},
}
PAYLOADS = [{"image": "modules", "paths": ["/opt/lib/modules"]}, {"image": "user", "paths": ["/opt/onload"]}]


def _needs(own: dict[str, Any], **spec: Any) -> list[tuple[str, str, tuple[str, ...], int]]:
    stated = {"image": "installer", "modules": [{"name": "onload"}], **own}
    recipe = builders.recipe(driver=stated, images=IMAGES)
    policy = builders.device_policy("desk", recipe, **spec)
    nodes = [
        builders.node(f"t-{number}", machine=builders.profile({}, kernel_version=kernel))
        for number, kernel in enumerate((EL8, EL8, EL9))
    ]
    view, _ = builders.view([policy], nodes)
    _, stack = view.recipes
    needed = image_matrix.needs(stack.divisions, stack.decisions)
    return [(need.kernel, need.image, need.pools, need.nodes) for need in needed]


def test_images_that_are_named_after_kernels_are_built_for_each() -> None:
    mappings = [{"name": "el", "regexp": r"\.el[89]"}]

    (first, image, (pool,), nodes), second = _needs({"payloads": PAYLOADS}, kernelMappings=mappings)

    assert (first, image, nodes) == (EL8, f"r.example.com/onload-module:8-{EL8}", 2)
    assert pool.startswith("el--")
    assert second[:2] == (EL9, f"r.example.com/onload-module:8-{EL9}")


# The installer finds modules in each: see tests/installer/test_recipes.py.
@pytest.mark.parametrize("path", ["/opt/lib/modules", "/opt/lib", "/opt", f"/opt/lib/modules/{EL8}", "/lib/modules"])
def test_a_payload_with_modules_holds_those_of_every_kernel(path: str) -> None:
    payloads = [{"image": "modules", "paths": [path]}, PAYLOADS[1]]
    image = "r.example.com/onload-module:8"

    needed = _needs({"payloads": payloads}, images={"modules": {"version": "8"}})

    assert needed == [(EL8, image, ("desk",), 2), (EL9, image, ("desk",), 1)]


def test_without_a_payload_of_modules_the_installers_image_holds_them() -> None:
    image = "registry.example.com/drivers/installer:1.0"

    assert _needs({}) == [(EL8, image, ("desk",), 2), (EL9, image, ("desk",), 1)]


def test_a_driver_of_packages_needs_no_image_for_a_kernel() -> None:
    repositories = {"repositories": ["https://r.example.com"], "names": ["onload"]}

    assert _needs({"sources": ["packages"]}, driver={"source": {"packages": repositories}}) == []


def test_a_driver_that_is_removed_needs_no_image() -> None:
    assert _needs({}, driver={"state": "Absent"}) == []
