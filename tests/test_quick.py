"""`make quick`: which tests it takes for what changed."""

import pytest

from tests import quick


@pytest.mark.long
def test_a_change_of_any_module_of_the_programs_is_tried() -> None:
    modules = [
        str(path.relative_to(quick.ROOT))
        for program in quick.PROGRAMS
        for path in (quick.ROOT / program).rglob("*.py")
        if not path.name.startswith("_")
    ]

    assert [module for module in modules if not [*quick.tests_of([module])]] == []


@pytest.mark.parametrize(
    ("changed", "tried"),
    [
        ("compiler/commands/explain.py", "tests/cli/test_explain.py"),
        ("compiler/fleet/overlap.py", "tests/compiler/fleet/test_overlap.py"),
        ("tests/cli/test_plan.py", "tests/cli/test_plan.py"),
        ("templates/nfd/x.yaml", "tests/golden"),
        ("docs/tour.md", "tests/documentation"),
    ],
)
def test_the_tests_of_a_change_are_those_of_its_name_first(changed: str, tried: str) -> None:
    assert next(quick.tests_of([changed])) == tried
