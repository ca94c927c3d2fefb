"""YAML is read as Kubernetes reads it, and each mistake is reported at its position."""

from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler import diagnostics
from compiler.formats import canonical, documents, yaml_text
from tests import effort


def read(text: str) -> Any:
    return yaml_text.single(text, "text")


def findings(text: str) -> list[diagnostics.Diagnostic]:
    return yaml_text.read(text, "a.yaml")[1]


def only(text: str) -> diagnostics.Diagnostic:
    (finding,) = findings(text)
    return finding


def where(finding: diagnostics.Diagnostic) -> tuple[str, int, int]:
    return finding.code, finding.span.line, finding.span.column


def document(text: str) -> documents.Document:
    (only_one,), findings = yaml_text.read(text, "a.yaml")
    assert findings == []
    return only_one


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("yes", "true for the boolean"),
        ("n", "false for the boolean"),
        ("19e5", "1900000 for the number"),
        *[(text, "") for text in ("1:20", "2001-01-01", "=", "<<", "9007199254740993000")],
    ],
)
def test_a_trap_is_refused_with_the_forms_to_write_instead(text: str, other: str) -> None:
    finding = only(f"a:\n  b: {text}\n")

    assert where(finding) == ("ambiguous-scalar", 2, 6)
    assert f"'{text}'" in finding.message
    assert finding.hint == f'Write "{text}" for the string{other and f", or {other}"}.'


@pytest.mark.parametrize(
    "text", ["y", "19e5", "0644", "08", "1:20", "2001-01-01", "=", "1", "1.5", "true", "null", "~"]
)
def test_a_key_that_some_reader_takes_for_no_string_is_refused(text: str) -> None:
    finding = only(f"a:\n  {text}: b\n")

    assert where(finding) == ("ambiguous-scalar", 2, 3)
    assert finding.hint == f'Write "{text}".'


@pytest.mark.parametrize("text", ["y", "19e5", "0644", "2001-01-01", "=", "<<", "1", "null", ""])
def test_quotes_make_a_string_of_anything(text: str) -> None:
    assert read(f"'{text}': \"{text}\"\n") == {text: text}


def test_a_next_line_character_is_kept_where_it_is_escaped() -> None:
    assert read(r'a: "b\u0085c\u2028"') == {"a": "b\x85c\u2028"}


def test_all_traps_of_a_file_are_found() -> None:
    notes = findings("- y\n- {no: 1, a: 08}\n---\nb: 1\nb: 2\n- y: broken\n")

    assert [where(each) for each in notes] == [
        *[("ambiguous-scalar", 1, 3), ("ambiguous-scalar", 2, 4), ("ambiguous-scalar", 2, 14)],
        *[("duplicate-key", 5, 1), ("yaml-syntax", 6, 1)],
    ]


def test_a_file_of_nothing_but_faults_is_not_read_to_its_end() -> None:
    assert len(findings("- y\n" * 5000)) == documents.FINDINGS


def test_a_key_that_stands_twice_names_its_first_place() -> None:
    finding = only("a:\n  b: 1\n  'c': 2\n  \"b\": 3\n")

    assert where(finding) == ("duplicate-key", 4, 3)
    assert finding.notes == ("It first appears at a.yaml:2:3.",)


def test_the_same_key_in_other_mappings_is_fine() -> None:
    assert read("a: {b: 1}\nc: [{b: 1}, {b: 2}]\n") == {"a": {"b": 1}, "c": [{"b": 1}, {"b": 2}]}


def test_documents_come_in_their_order_without_empty_ones() -> None:
    finding = yaml_text.read("# nothing\n---\n---\na: 1\n---\n# nothing\n---\n[b]\n...\n---\n", "a.yaml")

    assert ([each.data for each in finding[0]], finding[1]) == ([{"a": 1}, ["b"]], [])


def test_a_document_that_says_null_is_one() -> None:
    assert document("--- ~\n").data is None


@pytest.mark.parametrize("text", ["", "a: 1\n---\nb: 2\n", "a: y\n", "a: [\n"])
def test_a_text_of_our_own_is_exactly_one_clean_document(text: str) -> None:
    with pytest.raises(ValueError, match="template"):
        yaml_text.single(text, "template")


def test_an_alias_repeats_what_its_anchor_names() -> None:
    assert read("a: &x {b: &y [1, c]}\nd: *x\ne: *y\n&k f: *k\n") == {
        **{"a": {"b": [1, "c"]}, "d": {"b": [1, "c"]}},
        **{"e": [1, "c"], "f": "f"},
    }


def test_an_anchor_can_be_used_again() -> None:
    assert read("- &a 1\n- *a\n- &a 2\n- *a\n- &a [&a x, *a]\n- *a\n") == [1, 1, 2, 2, ["x", "x"], "x"]


def test_an_alias_can_be_a_key() -> None:
    assert read("- &a b\n- {*a : 1}\n") == ["b", {"b": 1}]


def test_merged_keys_give_way_to_the_mapping_s_own() -> None:
    text = (
        "x: &x {a: 1, b: 1}\nw: &w {b: 2, c: 2}\nbefore: {b: 0, <<: *x}\nafter: {<<: *x, b: 0}\nboth: {<<: [*x, *w]}\n"
    )

    assert read(text + "inline: {<<: {d: 1}, e: 1}\nchain: {<<: {<<: *x}}\n") == {
        **{"x": {"a": 1, "b": 1}, "w": {"b": 2, "c": 2}, "before": {"a": 1, "b": 0}, "after": {"a": 1, "b": 0}},
        **{"both": {"a": 1, "b": 1, "c": 2}, "inline": {"d": 1, "e": 1}, "chain": {"a": 1, "b": 1}},
    }


def test_merging_changes_nothing_where_it_takes_from() -> None:
    assert read("x: &x {a: 1}\nw: {<<: *x, b: 2}\nz: *x\n")["z"] == {"a": 1}


@pytest.mark.parametrize(
    ("text", "code", "column"),
    [
        ("a: {<<: b}", "yaml-syntax", 9),
        ("a: {<<: [{}, [{}]]}", "yaml-syntax", 9),
        ("a: [&x [{}], {<<: *x}]", "yaml-syntax", 19),
        ("a: {<<: {}, <<: {}}", "duplicate-key", 13),
        ("a: *x", "yaml-syntax", 4),
        ("a: [&x [b], {*x : 1}]", "yaml-syntax", 14),
        ("a: &x [*x]", "alias-explosion", 8),
        ("a: &x {b: *x}", "alias-explosion", 11),
    ],
)
def test_an_alias_that_leads_nowhere_useful_is_refused(text: str, code: str, column: int) -> None:
    assert where(only(text)) == (code, 1, column)


def test_aliases_that_multiply_are_counted_and_not_expanded() -> None:
    lists = "".join(f"- &a{level} [{', '.join([f'*a{level - 1}'] * 9)}]\n" for level in range(1, 40))

    assert only(f"- &a0 x\n{lists}").code == "alias-explosion"


def test_many_values_without_aliases_are_no_explosion() -> None:
    assert len(read("- a\n" * (yaml_text.ALIASED + 1))) == yaml_text.ALIASED + 1


def test_anchors_of_one_document_do_not_reach_into_the_next() -> None:
    assert only("&a b\n---\n*a\n").code == "yaml-syntax"


@pytest.mark.parametrize(
    ("tag", "shown"),
    [("!!str", "!!str"), ("!!int", "!!int"), ("!", "!"), ("!own", "!own"), ("!<tag:yaml.org,2002:bool>", "!!bool")],
)
@pytest.mark.parametrize("value", ["1", "'1'", "[1]", "{a: 1}"])
def test_a_tag_is_refused(tag: str, shown: str, value: str) -> None:
    finding = only(f"a: {tag} {value}\n")

    assert (where(finding), f"'{shown}'" in finding.message) == (("yaml-tag", 1, 4), True)


def test_a_tag_of_a_key_is_refused() -> None:
    assert where(only("!!str a: b\n")) == ("yaml-tag", 1, 1)


@pytest.mark.parametrize("opening", ["[", "- ", "{a: "])
def test_a_document_nests_64_levels_and_no_more(opening: str) -> None:
    closing = {"[": "]", "{a: ": "}"}.get(opening, "")

    assert findings(opening * 64 + "x" + closing * 64) == []
    assert where(only(opening * 65 + "x" + closing * 65)) == ("nesting-too-deep", 1, 64 * len(opening) + 1)


def test_an_alias_can_nest_too_deep() -> None:
    deep = "[" * 40 + "]" * 40

    assert only(f"- &a {deep}\n- {'[' * 30}*a{']' * 30}\n").code == "nesting-too-deep"


@pytest.mark.parametrize("opening", ["[", "a: ", "- ", "{", "? ", "{a: ", "&a ", "!"])
def test_a_large_file_of_one_opening_is_answered(opening: str) -> None:
    assert len(findings(opening * 1_000_000)) == 1


@pytest.mark.parametrize(
    ("text", "line", "column", "message"),
    [
        ("a:\n\t- b\n", 2, 1, "A tab cannot indent YAML."),
        ("a: b\n\tc: d\n", 2, 1, "A tab cannot indent YAML."),
        ("a: |\n\tb\n", 2, 1, "A tab cannot indent YAML."),
        ("a: b: c\n", 1, 5, "A key and its ':' are not allowed here."),
        ("a: - b\n", 1, 4, "A list cannot begin here."),
        ("a: @b\n", 1, 4, "A plain value cannot begin with '@'."),
        ("a: %b\n", 1, 4, "A plain value cannot begin with '%'."),
        ("a:\n  b: 1\n c: 2\n", 3, 2, "The line does not continue the mapping around it."),
        ("a:\n- b\n c: d\n", 3, 3, "A key and its ':' are not allowed here."),
        ("a:\n  - b\n  c: d\n", 3, 3, "The line does not continue the list around it."),
        ("a: 'b\nc: d\n", 1, 4, "The quotes that open here do not close."),
        ('a: "\\q"\n', 1, 5, "Double quotes hold an unknown escape."),
        ('a: "\\ud83d\\ude00"\n', 1, 7, "Double quotes hold an escape for an unpaired surrogate."),
        ("a: [b\n", 2, 1, "The list neither continues with ',' nor closes with ']'."),
        ("a: {b\n", 2, 1, "The mapping neither continues with ',' nor closes with '}'."),
        ("a: {{ b }}\n", 1, 5, "A key cannot be a mapping or a list."),
        ("? [a]\n: b\n", 1, 3, "A key cannot be a mapping or a list."),
        ("a\nb: c\n", 2, 2, "A key and its ':' are not allowed here."),
        ("a: b\nc\n", 3, 1, "The line before is not a key with its ':'."),
        ("%YAML 2.0\n---\na\n", 1, 1, "The file asks for an unknown version of YAML."),
        ("a: b\x07\n", 0, 0, "The file is not well-formed YAML."),
    ],
)
def test_what_is_no_yaml_is_said_in_a_sentence(text: str, line: int, column: int, message: str) -> None:
    finding = only(text)

    assert (*where(finding), finding.message) == ("yaml-syntax", line, column, message)


@pytest.mark.parametrize(
    "rest",
    ['c: "d"\n', '# the "newest" one\nc: d\n', '# a comment\nc: "d"  # another\n'],
    ids=["value", "comment", "both"],
)
def test_quotes_that_a_later_value_or_comment_closes_are_told_where_they_open(rest: str) -> None:
    finding = only(f'a:\n  b: "1.0\n{rest}')

    line = 4 if "another" in rest else 3
    assert where(finding) == ("yaml-syntax", 2, 6)
    assert finding.message == f"The quotes that open here close on line {line}, before more text."
    assert finding.hint == "Close them on the line on which they open."


def test_quotes_of_several_lines_are_not_blamed_for_a_later_fault() -> None:
    assert where(only('a: "b\n  c"\nd: e: f\n')) == ("yaml-syntax", 3, 5)


def test_an_unclosed_list_says_where_it_opens() -> None:
    assert only("a: [b\n").notes == ("It opens at a.yaml:1:4.",)


PLACES = """\
kind: A
spec:
  "quoted": [x, {w: z}]
  list:
  - name: first
    value: 😀 one
  - name: second
  empty:
"""


@pytest.mark.parametrize(
    ("path", "key", "value"),
    [
        ((), (1, 1), (1, 1)),
        (("kind",), (1, 1), (1, 7)),
        (("spec",), (2, 1), (3, 3)),
        (("spec", "quoted"), (3, 3), (3, 13)),
        (("spec", "quoted", 1, "w"), (3, 18), (3, 21)),
        (("spec", "list"), (4, 3), (5, 3)),
        (("spec", "list", 0), (5, 5), (5, 5)),
        (("spec", "list", 0, "value"), (6, 5), (6, 12)),
        (("spec", "list", 1, "name"), (7, 5), (7, 11)),
        (("spec", "list", 1, "absent", "more"), (7, 5), (7, 5)),
        (("spec", "list", 9), (5, 3), (5, 3)),
        (("spec", "list", "name"), (5, 3), (5, 3)),
        (("spec", "empty", "absent"), (8, 9), (8, 9)),
        (("kind", 0), (1, 7), (1, 7)),
    ],
)
def test_every_value_and_key_has_its_place(path: documents.Path, key: tuple[int, int], value: tuple[int, int]) -> None:
    places = document(PLACES).positions
    of_key, of_value = places.span(path, key=True), places.span(path)

    assert ((of_key.line, of_key.column), (of_value.line, of_value.column)) == (key, value)
    assert of_value.text == PLACES.splitlines()[value[0] - 1]


def test_a_merged_value_stands_where_it_is_written() -> None:
    source = document("x: &x\n  a: 1\nw:\n  <<: *x\nz: *x\n")

    assert [str(source.span(*path)) for path in (("w", "a"), ("z",), ("z", "a"))] == [
        *["a.yaml:2:6", "a.yaml:5:4", "a.yaml:2:6"]
    ]


values = st.recursive(
    st.text(st.characters(blacklist_categories=["Cs"])) | st.booleans() | st.integers(-(10**17), 10**17),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(max_size=9).filter(lambda key: key != "<<"), inner, max_size=4)
    ),
    max_leaves=12,
)


def paths(value: Any, path: documents.Path = ()) -> list[tuple[documents.Path, Any]]:
    if isinstance(value, dict):
        return [each for key, item in value.items() for each in paths(item, (*path, key))]
    if isinstance(value, list):
        return [each for index, item in enumerate(value) for each in paths(item, (*path, index))]
    return [(path, value)]


@given(values)
@settings(max_examples=effort.examples(gate=16, long=100))
def test_a_place_is_where_its_value_was_written(value: Any) -> None:
    text = canonical.dump_yaml(value)
    source = document(text)
    written = text.split("\n")

    for path, item in paths(value):
        span = source.span(*path)
        beginning = written[span.line - 1][span.column - 1 :]
        assert beginning in ("|", "|-") or beginning.startswith(canonical.scalar(item))


@given(st.text("ab:-?{}[],&*!|>'\"%@` \n\t#<=~y1.0_e", max_size=40))
@settings(max_examples=effort.examples(gate=66, long=400))
def test_what_is_accepted_reads_the_same_in_python(text: str) -> None:
    read_documents, findings = yaml_text.read(text, "a.yaml")

    if not findings and "<<" not in text:
        expected = [each for each in yaml.load_all(text, Loader=yaml.CSafeLoader) if each is not None]
        assert [each.data for each in read_documents if each.data is not None] == expected
