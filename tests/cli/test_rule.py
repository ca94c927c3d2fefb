"""`kae rule`: a finding explained at the terminal."""

import json
from pathlib import Path

import pytest

from compiler import diagnostics
from tests import in_process
from tests.cli.answers import answered, refused


def test_a_rule_is_shown_with_its_example_and_its_fix(tmp_path: Path) -> None:
    head, _, example = answered(tmp_path, "rule", "policy-overlap").partition("\n\nAn example, with its fix:\n\n")
    assert head == "error[policy-overlap]: No node can match two policies that it cannot both have."
    assert "error[policy-overlap]: " in example
    assert "\n  hint: " in example


def test_a_long_line_of_an_example_is_whole(tmp_path: Path) -> None:
    answer = in_process.kae(tmp_path, "rule", "thaws-nodes")

    assert answer.out.endswith("where CI compiles, commit with 'Kae-Accept: thaws-nodes:east/tls'.\n")


@pytest.mark.parametrize("code", diagnostics.CODES)
def test_every_code_is_explained(code: str, tmp_path: Path) -> None:
    answer = in_process.kae(tmp_path, "rule", code, "-o", "json")

    read = json.loads(answer.out)
    assert (read["version"], read["code"], read["rule"]) == (1, code, diagnostics.CODES[code].rule)
    assert f"{diagnostics.CODES[code].severity}[{code}]" in read["example"]


def test_alone_it_lists_every_code(tmp_path: Path) -> None:
    listed = in_process.kae(tmp_path, "rule").out.splitlines()

    assert [line.split()[0] for line in listed] == list(diagnostics.CODES)


def test_a_misspelt_code_is_answered_with_the_nearest_one(tmp_path: Path) -> None:
    assert refused(3, tmp_path, "rule", "policy-overlaps") == (
        "kae: there is no finding 'policy-overlaps'.\n"
        "hint: Did you mean 'policy-overlap'? `kae rule` lists all of them.\n"
    )
