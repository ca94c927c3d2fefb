"""Bytes become documents, or one clear finding."""

import codecs

import pytest

from compiler import diagnostics
from compiler.formats import decode


def findings(name: str, content: bytes) -> list[diagnostics.Diagnostic]:
    return decode.decode(name, content)[1]


def only(name: str, content: bytes) -> diagnostics.Diagnostic:
    (finding,) = findings(name, content)
    return finding


def where(finding: diagnostics.Diagnostic) -> tuple[str, int, int]:
    return finding.code, finding.span.line, finding.span.column


@pytest.mark.parametrize(
    ("name", "content"),
    [("a.yaml", b"a: 1\n---\n- b\n"), ("a.yml", b"a: 1\n---\n[b]"), ("a.yaml", b'{"a":\t1}\n---\n["b"]')],
)
def test_a_yaml_file_holds_several_documents(name: str, content: bytes) -> None:
    documents, findings = decode.decode(name, content)

    assert ([(each.file, each.data) for each in documents], findings) == ([(name, {"a": 1}), (name, ["b"])], [])


def test_a_json_file_holds_one_document_and_may_be_indented_with_tabs() -> None:
    (document,), findings = decode.decode("nodes.json", b'{\r\n\t"a": [1e3, "y", "19e5"]\r\n}\r\n')

    assert (document.file, document.data, findings) == ("nodes.json", {"a": [1000.0, "y", "19e5"]}, [])


def test_yaml_in_a_json_file_is_no_json() -> None:
    assert where(only("a.json", b"a: 1\n")) == ("json-syntax", 1, 1)


@pytest.mark.parametrize("name", ["a.yaml", "a.json"])
@pytest.mark.parametrize(
    ("content", "line", "column"),
    [
        (b'{"a": "\xe9"}', 1, 8),
        ('{"é😀":\r\n"'.encode() + b'\xff"}', 2, 2),
        (b'["\xed\xa0\xbd"]', 1, 3),
        (b'["\xc3', 1, 3),
        (b'["\xc0\x80"]', 1, 3),
    ],
)
def test_what_is_not_utf_8_is_refused_where_it_stands(name: str, content: bytes, line: int, column: int) -> None:
    assert where(only(name, content)) == ("bad-encoding", line, column)


@pytest.mark.parametrize("name", ["a.yaml", "a.json"])
@pytest.mark.parametrize(
    ("mark", "encoding"),
    [
        (codecs.BOM_UTF8, "UTF-8"),
        (codecs.BOM_UTF16_LE, "UTF-16"),
        (codecs.BOM_UTF16_BE, "UTF-16"),
        (codecs.BOM_UTF32_LE, "UTF-32"),
        (codecs.BOM_UTF32_BE, "UTF-32"),
    ],
)
def test_a_byte_order_mark_is_named(name: str, mark: bytes, encoding: str) -> None:
    finding = only(name, mark + b"{}")

    assert (where(finding), f"mark of {encoding}." in finding.message) == (("bad-encoding", 1, 1), True)


@pytest.mark.parametrize("name", ["a.yaml", "a.json"])
@pytest.mark.parametrize("code", [0x00, 0x01, 0x07, 0x08, 0x0B, 0x0C, 0x1B, 0x1F])
def test_a_control_character_is_refused_where_it_stands(name: str, code: int) -> None:
    finding = only(name, b'{"a":\n"b' + bytes([code]) + b'"}')

    assert where(finding) == ("forbidden-character", 2, 3)
    assert (f"U+{code:04X}" in finding.message, finding.span.text) == (True, '"b\ufffd"}')


@pytest.mark.parametrize("character", ["\x7f", "\x85", "\x9b", "\u2028", "\u2029", "\ufeff", "\ufffe", "\uffff"])
def test_what_yaml_readers_dispute_is_refused_in_yaml_alone(character: str) -> None:
    content = f'["é", "b{character}"]'.encode()

    assert where(only("a.yaml", content)) == ("forbidden-character", 1, 9)
    assert decode.decode("a.json", content)[0][0].data == ["é", f"b{character}"]


def test_utf_16_without_a_mark_is_refused() -> None:
    assert where(only("a.yaml", "a: b".encode("utf-16-le"))) == ("forbidden-character", 1, 2)


@pytest.mark.parametrize("content", [b"", b"\n \n", b"\r\n\r\n"])
@pytest.mark.parametrize("name", ["a.yaml", "a.json"])
def test_an_empty_file_is_a_warning(name: str, content: bytes) -> None:
    finding = only(name, content)

    assert (where(finding), finding.severity) == (("empty-file", 0, 0), "warning")


def test_a_file_of_comments_is_empty() -> None:
    assert only("a.yaml", b"# policies\n---\n# none\n").code == "empty-file"


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_line_ends_change_neither_data_nor_places(end: bytes) -> None:
    (document,), _ = decode.decode("a.yaml", end.join([b"a: |", b"  x", b"", b"  y", b"b:", b"- c", b""]))

    assert document.data == {"a": "x\n\ny\n", "b": ["c"]}
    assert (str(document.span("b", 0)), document.span("b", 0).text) == ("a.yaml:6:3", "- c")


def test_yaml_is_limited_in_size_and_json_is_not() -> None:
    content = b'["' + b"a" * decode.YAML_BYTES + b'"]'

    assert where(only("a.yaml", content)) == ("file-too-large", 0, 0)
    assert findings("a.json", content) == []


@pytest.mark.parametrize(
    ("name", "opening"),
    [("a.json", b"["), ("a.json", b'{"a":'), ("a.yaml", b"["), ("a.yaml", b"a: "), ("a.yaml", b"- ")],
)
def test_a_large_file_of_one_opening_is_answered(name: str, opening: bytes) -> None:
    assert len(findings(name, opening * (10_000_000 // len(opening)))) == 1


def test_a_line_that_is_shown_is_short_and_steers_no_terminal() -> None:
    text = only("a.yaml", b"a: b\x1b[2J" + b"c" * 1000).span.text

    assert (text[:9], len(text)) == ("a: b\ufffd[2Jc", 200)


def test_a_place_far_to_the_right_shows_no_line() -> None:
    span = only("a.yaml", b"[" + b"a, " * 1000 + b"y]").span

    assert (span.column, span.text) == (3002, "")


@pytest.mark.parametrize(
    ("name", "code"), [("policies/tls.yaml", "yaml-syntax"), ("inventory/east.json", "json-syntax")]
)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("begin", ["<<<<<<< HEAD", "<<<<<<<", ">>>>>>> theirs"])
def test_the_marks_of_a_merge_conflict_are_one_finding(name: str, code: str, end: str, begin: str) -> None:
    text = end.join(['{"a": 1,', begin, '"b": 1}', "=======", '"b": 2}', ">>>>>>> theirs", ""])

    finding = only(name, text.encode())

    assert where(finding) == (code, 2, 1)
    assert finding.message == "The file holds the marks of a merge conflict."
    assert finding.hint == "Keep one side, and remove the lines that begin with <<<<<<<, ======= and >>>>>>>."


@pytest.mark.parametrize("text", ["a: <<<<<<< HEAD\n", "a: |\n  <<<<<<< HEAD\n", "<<<<<<<<: 1\n", "<<<<<<<: 1\n"])
def test_angle_brackets_within_a_document_are_no_merge_conflict(text: str) -> None:
    assert findings("a.yaml", text.encode()) == []
