"""The table of codes is what the modules of the compiler state, and each code is stated once."""

from pathlib import Path

import pytest

from docs import codes
from tests import project

_CHECK = '@rule("a", "error")\ndef check():\n    """Its rule.\n\n    Why.\n    """\n    Diagnostic(code="a")\n'


def test_the_table_of_codes_is_what_the_code_says() -> None:
    assert codes.TABLE.read_text("utf-8") == codes.text(), "run `make codes`"


def test_a_new_code_comes_after_those_of_its_module(tmp_path: Path) -> None:
    one, other = f'{_CHECK}shared_rule("new", "warning", "New.")\n', 'diagnostics.shared_rule("z", "risk", "Z.")\n'

    table = codes.text(project.write(tmp_path, {"one.py": one, "other.py": other}), earlier=("a", "gone", "z"))

    rows = '    "a": ("error", "Its rule."),\n    "new": ("warning", "New."),\n    "z": ("risk", "Z."),\n'
    assert table.endswith(f"TABLE = {{\n{rows}}}\n")


@pytest.mark.parametrize(
    ("other", "fault"),
    [
        ('shared_rule("a", "error", "Other.")', "one.py and .*other.py both have the rule of 'a'"),
        ('Diagnostic(code="a" if holds else "b")', "other.py reports 'a', the rule of a check in .*one.py"),
        ('diagnostics.Diagnostic(code="b")', "other.py reports 'b', which has no rule"),
        ('change.acceptable("b", span)', "other.py reports 'b', which has no rule"),
        ("def check():\n    found()\n\ndef found():\n    Diagnostic(span=span)", "without a code: .* found"),
    ],
)
def test_a_code_has_one_rule_and_is_reported_where_its_check_is(other: str, fault: str, tmp_path: Path) -> None:
    folder = project.write(tmp_path, {"one.py": _CHECK, "other.py": other})

    with pytest.raises(SystemExit, match=fault):
        codes.text(folder, ())
