"""The labels of loaded drivers decide nothing: whatever they say, the same is compiled, and nodes are as alike."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

from compiler.fleet import examples
from compiler.inventory import canonical_form, snapshot
from compiler.planning import loaded, plan
from runtime import driver_labels
from tests import builders, effort

ONLOAD = builders.recipe(
    "onload",
    match={"labels": {"example.com/card": ["yes"]}},
    images={**builders.IMAGES, "modules": {"repository": "r.test", "image": "modules", "version": "1.0"}},
    driver={"image": "installer", "payloads": [{"image": "modules", "paths": ["/m"]}], "modules": [{"name": "onload"}]},
)
ROLLOUT = {
    "version": "2.2.0",
    "kernelMappings": [{"name": "old", "regexp": r"^5\.10", "image": "drv-${KERNEL_FULL_VERSION}"}],
    "rollout": {
        "waves": [
            {"name": "canary", "percent": 20, "version": "2.3.0"},
            {"name": "zone", "inventorySelector": {"matchLabels": {"zone": "a"}}, "version": "2.3.0"},
        ]
    },
}
POLICIES = (
    builders.policy("tls", nodeSelector={"matchLabels": {"pool": "tls"}}, driver=ROLLOUT),
    builders.policy("rest", default=True, **builders.PINNED),
    builders.device_policy("desk", ONLOAD, driver={"rollout": {"waves": [{"name": "first", "percent": 30}]}}),
)
NAMES = tuple(f"n{number:02}" for number in range(16))
KEYS = tuple(f"openfuyao.com/{recipe}.driver-{of}" for recipe in ("kae", "onload") for of in ("version", "state"))

told = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(("2.2.0", "2.3.0", "Ready", "Failed", "true", "")))


def inventory(labels: Mapping[str, Mapping[str, str]] = {}) -> snapshot.Inventory:
    """Return a fleet, as it is read again, in which nodes have these labels too."""
    made = builders.reduced(*(_node(number, name, labels.get(name, {})) for number, name in enumerate(NAMES)))
    return canonical_form.of_document(made.file, json.loads(canonical_form.text(made)))


def _node(number: int, name: str, labels: Mapping[str, str]) -> dict[str, Any]:
    own = {"pool": ("tls", "web")[number % 2], "zone": ("a", "b", "c")[number % 3]}
    card = {"example.com/card": "yes"} if number % 4 == 0 else {}
    return builders.kubernetes_node(name, {**builders.HPRE, **own, **card, **labels})


PLAIN = inventory()


@hypothesis.settings(max_examples=effort.examples(15, 500))
@hypothesis.given(st.dictionaries(st.sampled_from(NAMES), told))
def test_whatever_is_loaded_the_same_is_compiled(labels: dict[str, dict[str, str]]) -> None:
    other = inventory(labels)

    assert builders.files(POLICIES, other.nodes) == builders.files(POLICIES, PLAIN.nodes)
    (was, found), (now, again) = (builders.view(POLICIES, one.nodes) for one in (PLAIN, other))
    assert [finding.message for finding in again] == [finding.message for finding in found]
    assert [_alike(one) for one in now.recipes] == [_alike(one) for one in was.recipes]


def _alike(one: plan.RecipePlan) -> list[tuple[str, ...]]:
    return [decision.names for decision in one.decisions]


def test_examples_of_a_fleet_are_as_few_as_the_drivers_that_are_loaded() -> None:
    """What is loaded decides nothing, and `kae diff` tells which nodes have what they get."""
    policies = POLICIES[1:2]
    keys = examples.keys(policies, [policies[0].recipe], "east")
    known = [{}, {name: {KEYS[0]: "2.2.0"} for name in NAMES}, {NAMES[0]: {KEYS[0]: "2.2.0"}}]

    found = [examples.examples(canonical_form.text(inventory(labels)).encode(), keys) for labels in known]

    assert [each and len(each.members) for each in found] == [1, 1, 2]


def test_nodes_stay_on_their_line_and_share_their_profile() -> None:
    text = canonical_form.text(inventory({name: {KEYS[0]: name, KEYS[1]: "Ready"} for name in NAMES}))

    plain = json.loads(canonical_form.text(PLAIN))["spec"]["profiles"]
    assert json.loads(text)["spec"]["profiles"] == plain


@pytest.mark.parametrize(
    ("labels", "text", "differs"),
    [
        (("1.0", "Ready"), "loaded 1.0, wants 1.0", False),
        (("0.9", "Ready"), "loaded 0.9, wants 1.0", True),
        (("1.0", "Blocked"), "loaded 1.0 (Blocked), wants 1.0", True),
        (("0.9", "Foreign"), "loaded 0.9 (Foreign), wants 1.0", False),
        ((None, "Ready"), "loaded none, wants 1.0", True),
        (("1.0", None), "loaded 1.0, wants 1.0", False),
        ((None, None), None, None),
    ],
)
def test_what_is_loaded_on_nodes_of_a_recipe_is_compared_by_its_image_that_counts(
    labels: Sequence[str | None], text: str | None, differs: bool | None
) -> None:
    known = {key: value for key, value in zip(KEYS[2:], labels, strict=True) if value is not None}
    of_cards = dict.fromkeys(NAMES[::4], known)

    view, _ = builders.view([builders.device_policy("desk", ONLOAD)], inventory(of_cards).nodes)

    (decision,) = (one for one in view.recipes[1].decisions if one.pool)
    found = loaded.of(decision)
    assert (found and found.sentence, found and found.differs) == (text, differs)


def test_a_long_version_is_compared_as_the_label_has_it() -> None:
    digest = "sha256:" + "a" * 64
    policy = builders.policy("rest", default=True, driver={"version": digest}, devicePlugin={"version": "1.0"})
    for label, differs in ((driver_labels.value(digest), False), ("sha256_" + "a" * 47 + ".00000000", True)):
        node = _node(0, "n00", {KEYS[0]: label, KEYS[1]: "Ready"})

        view, _ = builders.view([policy], builders.reduced(node).nodes)

        found = loaded.of(view.builtin.decisions[0])
        assert found is not None
        assert (found.wanted, found.differs) == (digest, differs)
