"""The images of recipes that would serve a kernel that no node runs yet."""

from typing import Any

from compiler.planning import preflight
from tests import builders

KERNEL = "5.14.0-427.el9_4.x86_64"
IMAGES = dict(builders.IMAGES) | {
    name: {"repository": "r.example.com", "image": name, "version": "8-${KERNEL_FULL_VERSION}"}
    for name in ("modules", "user")
}
DRIVER: dict[str, Any] = {
    "image": "installer",
    "payloads": [{"image": "modules", "paths": ["/opt/lib/modules"]}, {"image": "user", "paths": ["/opt/onload"]}],
    "modules": [{"name": "onload"}],
}


def _answer(*, driver: dict[str, Any] | None = None, **spec: Any) -> preflight.Answer:
    stated: dict[str, Any] = {"driver": driver} if driver else {}
    recipe = builders.recipe(images=IMAGES, **stated)
    view, _ = builders.view([builders.device_policy("desk", recipe, **spec)])
    (division,) = view.recipes[1].divisions
    (answer,) = preflight.answers(division, KERNEL, view.cluster.spec)
    return answer


def test_a_kernel_gets_the_payloads_that_are_built_for_it() -> None:
    answer = _answer(driver=DRIVER, kernelMappings=[{"name": "el9", "regexp": "el9"}])

    (offer,) = answer.offers
    assert answer.is_served
    assert offer.images == (
        ("installer", "registry.example.com/drivers/installer:1.0"),
        ("modules", f"r.example.com/modules:8-{KERNEL}"),
        ("user", f"r.example.com/user:8-{KERNEL}"),
    )
    assert (offer.modules, offer.named) == ((offer.images[1][1],), (offer.images[2][1],))


def test_a_driver_that_is_removed_needs_no_payload() -> None:
    mapping = {"name": "el9", "regexp": "el9", "driver": {"state": "Absent"}}

    (offer,) = _answer(driver=DRIVER, kernelMappings=[mapping]).offers

    assert (offer.state, offer.modules, offer.named) == ("Absent", (), ())


def test_a_recipe_without_a_driver_serves_no_kernel() -> None:
    answer = _answer()

    assert (answer.is_served, answer.reason) == (False, "recipe 'onload' has no driver")


def test_a_kernel_has_an_answer_for_each_mapping_that_takes_it_on_some_system() -> None:
    mappings = [
        {"name": "sles", "regexp": "el9", "os": {"id": "sles", "versions": ["15.6", "15.7"]}},
        {"name": "rhel", "regexp": "el9", "os": {"id": "rhel"}},
        {"name": "rest", "regexp": "el9"},
        {"name": "never", "regexp": "el8"},
    ]
    recipe = builders.recipe(images=IMAGES, driver=DRIVER)
    view, _ = builders.view([builders.device_policy("desk", recipe, kernelMappings=mappings)])
    (division,) = view.recipes[1].divisions

    answers = preflight.answers(division, KERNEL, view.cluster.spec)

    assert [(one.mapping, one.reason.partition(",")[0]) for one in answers] == [
        ("sles", "mapping 'sles' takes it on sles 15.6 or 15.7"),
        ("rhel", "mapping 'rhel' takes it on rhel"),
        ("rest", "mapping 'rest' takes it"),
    ]
