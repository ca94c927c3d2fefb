"""Findings for people and for programs; no document can speak to a terminal or to a code host by itself."""

import json
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

from compiler import diagnostic_formats, diagnostics
from tests import effort

SPAN = diagnostics.Span(file="policies/tls.yaml", line=6, column=9, text="  name: tls")
FOUND = diagnostics.Diagnostic(
    code="policy-overlap", span=SPAN, message="Two match.", notes=("One fact.", "Another."), hint="Do this."
)
WARNING = diagnostics.Diagnostic(code="node-unknown", span=diagnostics.Span(file="inventory/east.json"), message="So.")


def saying(words: str) -> diagnostics.Diagnostic:
    """A finding whose every part holds words of a document."""
    span = diagnostics.Span(file="a.yaml", line=1, column=1, text=words)
    return diagnostics.Diagnostic(code="unknown-field", span=span, message=words, notes=(words,), hint=words)


def test_people_see_the_place_the_line_and_a_mark_below_its_column() -> None:
    assert diagnostic_formats.text([FOUND, WARNING], colour=False) == (
        "policies/tls.yaml:6:9: error[policy-overlap]: Two match.\n"
        "  6 |   name: tls\n"
        "    |         ^\n"
        "  note: One fact.\n"
        "  note: Another.\n"
        "  hint: Do this.\n"
        "inventory/east.json: warning[node-unknown]: So.\n"
    )


def test_colour_changes_no_word() -> None:
    painted = diagnostic_formats.text([FOUND], colour=True)

    for code in ("\x1b[1;31m", "\x1b[1m", "\x1b[36m", "\x1b[0m"):
        assert code in painted
        painted = painted.replace(code, "")
    assert painted == diagnostic_formats.text([FOUND], colour=False)


def test_a_tab_before_the_column_moves_the_mark_no_further() -> None:
    span = diagnostics.Span(file="a.json", line=1, column=3, text="\t\tx")
    finding = diagnostics.Diagnostic(code="json-syntax", span=span, message="Bad.")

    lines = diagnostic_formats.text([finding], colour=False).splitlines()

    assert (lines[1], lines[2]) == ("  1 |   x", "    |   ^")


@hypothesis.settings(max_examples=effort.examples(gate=33, long=200))
@hypothesis.given(st.text(min_size=1))
def test_no_control_character_of_a_document_reaches_the_terminal(words: str) -> None:
    shown = diagnostic_formats.text([saying(words)], colour=False)

    assert all(character.isprintable() for character in shown.replace("\n", ""))
    assert shown.count("\n") == 5


@pytest.mark.parametrize("words", ["\x1b[2J", "\x9b2J", "\r", "\u202e", "\u2028", "\x07", "\ud800"])
def test_what_could_repaint_the_terminal_is_escaped(words: str) -> None:
    assert words not in diagnostic_formats.text([saying(words)], colour=True)


def test_a_finding_for_programs_has_exactly_its_fields() -> None:
    assert diagnostic_formats.as_json(FOUND) == {
        "code": "policy-overlap",
        "severity": "error",
        "message": "Two match.",
        "file": "policies/tls.yaml",
        "line": 6,
        "column": 9,
        "notes": ["One fact.", "Another."],
        "hint": "Do this.",
    }


def test_a_finding_comes_back_from_the_cache_as_it_was() -> None:
    for finding in (FOUND, WARNING, saying("\x1b ö")):
        record = json.loads(json.dumps(diagnostic_formats.to_record(finding)))

        assert diagnostic_formats.from_record(record) == finding


def test_the_json_object_of_a_command_holds_its_result_beside_the_findings() -> None:
    assert json.loads("".join(diagnostic_formats.answer("json", [WARNING], clusters=[{"name": "east"}]))) == {
        "version": 1,
        "diagnostics": [diagnostic_formats.as_json(WARNING)],
        "clusters": [{"name": "east"}],
    }


def test_github_is_told_the_place_and_every_sentence() -> None:
    assert diagnostic_formats.github([FOUND, WARNING], str) == (
        "::error file=policies/tls.yaml,title=policy-overlap,line=6,col=9::"
        "Two match.%0AOne fact.%0AAnother.%0ADo this.\n"
        "::warning file=inventory/east.json,title=node-unknown::So.\n"
    )


def test_no_document_can_end_a_command_of_github_and_begin_another() -> None:
    span = diagnostics.Span(file="a,b:c%d.yaml", line=1, column=1)
    finding = diagnostics.Diagnostic(code="unknown-field", span=span, message="100%\r\n::add-mask::x")

    (line,) = diagnostic_formats.github([finding], str).splitlines()

    assert line == ("::error file=a%2Cb%3Ac%25d.yaml,title=unknown-field,line=1,col=1::100%25%0D%0A::add-mask::x")


@pytest.mark.parametrize("words", ["  ::error::x", "+ ##[add-mask]x"])
def test_a_text_with_commands_stands_between_a_pause_and_its_end(words: str) -> None:
    first, line, last = diagnostic_formats.without_commands(f"{words}\n").splitlines()

    token = first.removeprefix("::stop-commands::")
    assert (line, last, len(token)) == (words, f"::{token}::", 64)


def test_a_text_without_commands_stays_as_it_is() -> None:
    assert diagnostic_formats.without_commands("east: fine\n") == "east: fine\n"


def sarif(*finding: diagnostics.Diagnostic) -> Any:
    log = json.loads(diagnostic_formats.sarif(finding, str, {"policy-overlap": "An example.\n"}))
    assert set(log) == {"$schema", "version", "runs"}
    assert log["version"] == "2.1.0"
    (run,) = log["runs"]
    return run


def test_sarif_has_a_rule_for_each_code_and_a_result_for_each_finding() -> None:
    run = sarif(FOUND, WARNING, FOUND)

    driver = run["tool"]["driver"]
    rules = [rule["id"] for rule in driver["rules"]]
    assert (driver["name"], rules) == ("kae", ["node-unknown", "policy-overlap"])
    assert all(rule["shortDescription"]["text"].endswith(".") for rule in driver["rules"])
    without, with_example = (rule["help"] for rule in driver["rules"])
    assert "```text\nAn example.\n```" in with_example["markdown"]
    assert "`kae rule node-unknown`" in without["text"]
    assert [(result["ruleId"], result["level"]) for result in run["results"]] == [
        ("policy-overlap", "error"),
        ("node-unknown", "warning"),
        ("policy-overlap", "error"),
    ]
    assert all(rules[result["ruleIndex"]] == result["ruleId"] for result in run["results"])
    assert all(result["message"]["text"] for result in run["results"])


def test_sarif_counts_lines_from_one_and_leaves_out_a_region_that_is_not_known() -> None:
    places = [result["locations"][0]["physicalLocation"] for result in sarif(FOUND, WARNING)["results"]]

    assert places == [
        {"artifactLocation": {"uri": "policies/tls.yaml"}, "region": {"startLine": 6, "startColumn": 9}},
        {"artifactLocation": {"uri": "inventory/east.json"}},
    ]


def test_a_file_of_sarif_is_a_uri() -> None:
    span = diagnostics.Span(file="policies/my policy #1 ö.yaml", line=1)

    (result,) = sarif(diagnostics.Diagnostic(code="node-unknown", span=span, message="So."))["results"]

    place = result["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "policies/my%20policy%20%231%20%C3%B6.yaml"
    assert place["region"] == {"startLine": 1, "startColumn": 1}


def test_sarif_without_findings_is_a_run_without_results() -> None:
    run = sarif()

    assert (run["results"], run["tool"]["driver"]["rules"]) == ([], [])
