"""An inventory by examples: what becomes one, and the names that an example stands for."""

import json

import pytest

from compiler import kae
from compiler.fleet import examples
from tests import builders

_KEYS = frozenset({"pool"})


def text(*names: str) -> bytes:
    """A NodeInventory of nodes in the pools a and b by turns, each in a zone of its own."""
    nodes = [
        {"labels": {"pool": "ab"[number % 2], "zone": f"z{number}"}, "name": name, "profile": "p"}
        for number, name in enumerate(names)
    ]
    return json.dumps({"kind": "NodeInventory", "spec": {"nodes": nodes, "profiles": {"p": {}}}}).encode()


def test_nodes_that_differ_in_other_labels_share_an_example() -> None:
    shown = examples.examples(text("kp-4", "kp-3", "kp-2", "kp-1"), _KEYS)

    assert shown is not None
    own = {node["name"]: node["labels"] for node in json.loads(shown.text)["spec"]["nodes"]}
    assert own == {"kp-4": {"pool": "a"}, "kp-3": {"pool": "b"}}
    assert shown.expanded(["kp-4"]) == ("kp-2", "kp-4")
    assert shown.count(["kp-4"]) == 2
    assert shown.expanded([]) == ()
    assert shown.expanded(["kp-3", "kp-4"]) == ("kp-1", "kp-2", "kp-3", "kp-4")


@pytest.mark.parametrize("names", [("kp-1", "kp-2", "kp-1"), ("kp-1 kp-2", "kp-3"), ("", "kp-1"), ("kp-1", "kp\t2")])
def test_names_that_no_nodes_have_are_left_to_the_thorough_reader(names: tuple[str, ...]) -> None:
    assert examples.examples(text(*names), _KEYS) is None


def test_nodes_that_a_recipe_distinguishes_share_no_example() -> None:
    lab = builders.device_policy("lab", builders.recipe("fpga", match={"labels": {"vendor.io/fpga": ["yes"]}}))

    keys = examples.keys([builders.policy(), lab], [kae.RECIPE, lab.recipe], "east")

    told = {lab.recipe.driver_version, lab.recipe.driver_state}
    assert keys - examples.keys([builders.policy()], [kae.RECIPE], "east") == {*lab.recipe.deciding, *told}
