"""JSON is read by the standard scanner, and each mistake is reported at its position."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler import diagnostics
from compiler.formats import documents, json_text
from tests import effort


def findings(text: str) -> list[diagnostics.Diagnostic]:
    """Return the findings of a text, which yields no document where there are any."""
    read, findings = json_text.read(text, "a.json")
    assert (read == []) == bool(findings)
    return findings


def only(text: str) -> diagnostics.Diagnostic:
    (finding,) = findings(text)
    return finding


def where(finding: diagnostics.Diagnostic) -> tuple[str, int, int]:
    return finding.code, finding.span.line, finding.span.column


def read(text: str) -> documents.Document:
    (document,), _ = json_text.read(text, "a.json")
    return document


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**18) + 1, 10**18 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=9), inner, max_size=4),
    max_leaves=12,
)


def paths(value: Any, path: documents.Path = ()) -> list[tuple[documents.Path, Any]]:
    """The ways to all values inside a value, and to itself."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [(path, value), *(each for step, item in inside for each in paths(item, (*path, step)))]


@given(values, st.sampled_from([None, 1, "\t"]), st.booleans())
@settings(max_examples=effort.examples(gate=25, long=150))
def test_a_place_is_where_its_value_was_written(value: Any, indent: int | str | None, ascii_only: bool) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
    source = read(text)
    written = text.split("\n")

    assert source.data == value
    for path, item in paths(value):
        span, key = source.span(*path), source.positions.span(path, key=True)
        beginning = "\n".join(written[span.line - 1 :])[span.column - 1 :]
        assert json.JSONDecoder().raw_decode(beginning)[0] == item
        if path and isinstance(path[-1], str):
            beginning = written[key.line - 1][key.column - 1 :]
            assert json.JSONDecoder().raw_decode(beginning)[0] == path[-1]


PLACES = '{"a": [1, {"b": "]}"}],\r\n\t"c\\n": {"d" : null}}\n'


@pytest.mark.parametrize(
    ("path", "key", "value"),
    [
        ((), (1, 1), (1, 1)),
        (("a",), (1, 2), (1, 7)),
        (("a", 0), (1, 8), (1, 8)),
        (("a", 1, "b"), (1, 12), (1, 17)),
        (("a", 1, "absent", "more"), (1, 11), (1, 11)),
        (("a", 5), (1, 7), (1, 7)),
        (("a", "b"), (1, 7), (1, 7)),
        (("a", 0, "b"), (1, 8), (1, 8)),
        (("c\n", "d"), (2, 10), (2, 16)),
        (("absent",), (1, 1), (1, 1)),
        ((0,), (1, 1), (1, 1)),
    ],
)
def test_what_is_absent_stands_where_its_surroundings_do(
    path: documents.Path, key: tuple[int, int], value: tuple[int, int]
) -> None:
    places = read(PLACES).positions
    of_key, of_value = places.span(path, key=True), places.span(path)

    assert ((of_key.line, of_key.column), (of_value.line, of_value.column)) == (key, value)


def test_places_can_be_asked_for_in_any_order() -> None:
    places = read('{"a": {"b": 1}, "c": [2, 3]}').positions
    asked: list[documents.Path] = [("c", 1), ("a", "b"), ("c", 0), ("a", "b"), ("c", 1)]

    assert [places.span(path).column for path in asked] == [26, 13, 23, 13, 26]


@pytest.mark.parametrize(
    ("text", "line", "column", "message"),
    [
        ("[1,\n", 2, 1, "The file ends before its JSON value does."),
        ('{"a": 1', 1, 8, "The file ends before its JSON value does."),
        ('{"a": 1,\n}\n', 1, 8, "A closing bracket follows this ','."),
        ("[1, 2 , ]", 1, 7, "A closing bracket follows this ','."),
        ('{"a" 1}', 1, 6, "A ':' is missing here."),
        ("[1 2]", 1, 4, "A ',' or a closing bracket is missing here."),
        ("{a: 1}", 1, 2, "A key in double quotes is missing here."),
        ("[1, , 2]", 1, 5, "A value is missing here."),
        ('["a\tb"]', 1, 4, "A string cannot hold a raw tab."),
        ('{"a": "b,\n"c": 1}', 1, 10, "The string does not close on its line."),
        ('["a', 1, 2, "The string that opens here does not close."),
        ('["\\x"]', 1, 3, "A string holds an unknown escape."),
        ('["\\u12"]', 1, 4, "A string holds an unknown escape."),
        ("{}\n{}\n", 2, 1, "The file continues after its JSON value."),
        ("apiVersion: v1\n", 1, 1, "The file is not JSON."),
        ("# nodes\n{}\n", 1, 1, "The file is not JSON."),
        ("[01]", 1, 3, "A ',' or a closing bracket is missing here."),
        ("[nul]", 1, 2, "A value is missing here."),
        ("[NaN]", 1, 2, "'NaN' is not a number of JSON."),
        ("[1, -Infinity]", 1, 5, "'-Infinity' is not a number of JSON."),
        ('["1e999", 1e999]', 1, 11, "'1e999' is larger than any number that JSON readers hold."),
    ],
)
def test_what_is_no_json_is_said_in_a_sentence(text: str, line: int, column: int, message: str) -> None:
    finding = only(text)

    assert (*where(finding), finding.message) == ("json-syntax", line, column, message)


def test_yaml_under_the_name_of_json_is_told_so() -> None:
    assert only("apiVersion: v1\n").hint == "Name a YAML file .yaml."


def test_a_comment_is_told_so() -> None:
    assert only('{"a": 1, // one\n"b": 2}').hint == "JSON has no comments."


def test_a_path_after_a_string_that_ends_too_early_is_no_comment() -> None:
    assert only('{"path: "/dev", "b": 2}').hint == "Check that the string before it ends where it should."


def test_all_keys_that_stand_twice_are_found_with_their_first_places() -> None:
    text = '{"a": [{"b": 1, "\\u0062": 2}, {"b": {"c": 1, "c": 2}}],\n "d": {"a": 1}, "a": 0, "a": 0}'

    assert sorted((where(finding), finding.notes) for finding in findings(text)) == [
        (("duplicate-key", 1, 17), ("It first appears at a.json:1:9.",)),
        (("duplicate-key", 1, 46), ("It first appears at a.json:1:38.",)),
        (("duplicate-key", 2, 17), ("It first appears at a.json:1:2.",)),
        (("duplicate-key", 2, 25), ("It first appears at a.json:1:2.",)),
    ]


def test_a_file_of_nothing_but_faults_is_not_searched_to_its_end() -> None:
    pairs = '{"a":1,"a":1},'

    assert len(findings(f"[{pairs * 5000}0]")) <= documents.FINDINGS
    assert len(findings(f"[{'NaN,' * 5000}0]")) == documents.FINDINGS


@pytest.mark.parametrize("number", ["1" + "0" * 18, "-1" + "0" * 18, "9" * 5000])
def test_an_integer_that_loses_digits_is_refused(number: str) -> None:
    finding = only(f'{{"{number}": "{number}", "a": {number}}}')

    assert where(finding) == ("ambiguous-scalar", 1, 2 * len(number) + 15)


def test_an_integer_of_eighteen_digits_is_fine() -> None:
    assert read(f"[{'9' * 18}, -{'9' * 18}]").data == [10**18 - 1, 1 - 10**18]


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        (r'["\ud83d\ude00"]', []),
        (r'["\ud83d"]', [3]),
        (r'["\ude00"]', [3]),
        (r'["\ude00\ud83d"]', [3, 9]),
        (r'["\ud83d\ud83d\ude00"]', [3]),
        (r'["\\ud83d", "\\\ud83d"]', [16]),
        (r'{"\uD83D": "\uDE00"}', [3, 13]),
        (r'["\u003c\u00e9"]', []),
    ],
)
def test_half_a_character_is_refused(text: str, columns: list[int]) -> None:
    assert [where(finding) for finding in findings(text)] == [("forbidden-character", 1, column) for column in columns]


@pytest.mark.parametrize("opening", ["[", '{"a":', '[{"a":'])
def test_a_document_nests_64_levels_and_no_more(opening: str) -> None:
    levels = len(opening.replace('"a":', ""))
    closing = "".join({"[": "]", "{": "}"}[each] for each in reversed(opening.replace('"a":', "")))

    assert findings(opening * (64 // levels) + "0" + closing * (64 // levels)) == []
    for more in (66, 600, 100_000):
        times = more // levels
        finding = only(opening * times + "0" + closing * times)
        assert where(finding) == ("nesting-too-deep", 1, len(opening) * 64 // levels + 1)


def test_brackets_in_strings_are_no_levels() -> None:
    assert findings(json.dumps(["[" * 1000, {'{"' * 1000: "\\"}])) == []


def test_an_opening_without_end_is_too_deep() -> None:
    assert only("[" * 5_000_000).code == "nesting-too-deep"
