"""What a change does to nodes of a recipe."""

import pytest

from compiler.changes.revisions import effects
from tests.compiler.views import stacked


@pytest.mark.parametrize(("node", "sort"), [("t-1", "wave"), ("t-2", "rest"), ("t-4", None)])
def test_the_group_of_a_recipes_node_has_the_sort_that_its_policy_declares(node: str, sort: str | None) -> None:
    (onload,) = (stack for stack in stacked.view().stacks if stack.recipe.name == "onload")
    (decision,) = (decision for decision in onload.decisions if node in decision.names)

    placement = effects.Half(side=None, decision=decision).placement()

    assert placement
    assert placement.group_sort == sort
