"""The mutants of a seed stay the same ones whatever else is edited."""

from pathlib import Path

import pytest

from tests.mutants import places

CODE = "def first(a):\n    return a > 1\n\n\ndef second(a):\n    return a > 1 or a > 1\n"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    (tmp_path / "runtime").mkdir()
    (tmp_path / "runtime/one.py").write_text(CODE)
    return tmp_path


def test_each_fault_has_a_name_of_its_own(checkout: Path) -> None:
    names = [mutant.name for mutant in places.every(checkout)]

    assert len(names) == len(set(names)) == 7
    assert "runtime/one.py (second): a > 1 -> a >= 1 #2" in names


def test_an_edit_elsewhere_picks_the_same_mutants(checkout: Path) -> None:
    before = places.picked(checkout, 3, seed=5)

    (checkout / "runtime/one.py").write_text(f"# A comment.\n{CODE}\n\ndef third(a):\n    pass\n")

    assert [mutant.name for mutant in places.picked(checkout, 3, seed=5)] == [mutant.name for mutant in before]
    assert [mutant.name for mutant in places.named(checkout, map(str, before))] == [mutant.name for mutant in before]


def test_a_name_that_no_mutant_has_is_refused(checkout: Path) -> None:
    with pytest.raises(KeyError, match="third"):
        places.named(checkout, ["runtime/one.py:9 (third): a > 1 -> a >= 1"])
