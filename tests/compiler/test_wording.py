"""The phrases that messages share."""

import pytest

from compiler import wording


@pytest.mark.parametrize(
    ("names", "most", "text"),
    [
        ((), None, "none"),
        (("a",), None, "a"),
        (("a", "b"), None, "a and b"),
        (("a", "b", "c"), None, "a, b and c"),
        (("a", "b", "c"), 3, "a, b and c"),
        (("a", "b", "c"), 2, "a, b and 1 more"),
        (("a", "b", "c"), 1, "a and 2 more"),
    ],
)
def test_a_list_ends_with_and(names: tuple[str, ...], most: int | None, text: str) -> None:
    assert wording.listed(names, most) == text


def test_a_noun_agrees_with_its_number() -> None:
    assert [wording.counted(number, "node") for number in (0, 1, 2)] == ["0 nodes", "1 node", "2 nodes"]


def test_words_of_a_document_stay_on_one_line_and_are_cut_where_they_are_long() -> None:
    assert wording.quoted("a\n\t\x1b[2J\ud800é") == r"'a\n\t\x1b[2J\ud800é'"
    assert wording.quoted("a" * 80) == f"'{'a' * 80}'"
    assert wording.quoted("a" * 81) == f"'{'a' * 80}…'"


def test_a_source_line_keeps_its_columns() -> None:
    assert wording.masked("a:\t\x1b[2J\u202eb") == "a: \ufffd[2J\ufffdb"


def test_bytes_of_a_file_name_that_are_not_utf8_are_escaped() -> None:
    assert wording.file_name("é\udcff\n.yaml") == r"é\xff\n.yaml"


def test_a_path_is_written_with_dots_and_brackets() -> None:
    assert wording.dotted(("spec", "env", 0, "a.b/c", "x")) == "spec.env[0][a.b/c].x"


@pytest.mark.parametrize(("word", "near"), [("enabledHpre", "enabledHPRE"), ("xyz", None), (7, None)])
def test_the_nearest_word_is_found_in_any_case(word: object, near: str | None) -> None:
    assert wording.nearest(word, ["enabledHPRE", "enabledSEC"]) == near


@pytest.mark.parametrize(
    ("word", "near"),
    [("w1", "w01"), ("east/w1", None), ("w031", "w31"), ("w3", "w03"), ("w4O", "w40"), ("w100", "w10")],
)
def test_of_words_that_are_as_near_the_one_with_its_number_or_its_beginning_is_meant(
    word: str, near: str | None
) -> None:
    assert wording.nearest(word, [f"w{number:02}" for number in range(41)]) == near


@pytest.mark.parametrize(("word", "near"), [("tsl", "tls"), ("wbe", "web"), ("zip", None)])
def test_a_short_word_is_near_to_one_with_swapped_letters(word: str, near: str | None) -> None:
    assert wording.nearest(word, ["web", "tls"]) == near


def test_the_end_of_a_sentence_on_an_unknown_word_asks_for_the_nearest_one() -> None:
    assert wording.or_meant("eats", ["east", "west"]) == "; did you mean 'east'?"
    assert wording.or_meant("lab", ["east", "west"]) == "."


@pytest.mark.parametrize(
    ("nodes", "text"),
    [(["a"], "1 node (a)"), (["b", "a"], "2 nodes (a and b)"), (list("gfedcba"), "7 nodes (a, b, c, d, e and 2 more)")],
)
def test_nodes_are_named_in_order_the_first_few_of_them(nodes: list[str], text: str) -> None:
    assert wording.nodes(nodes) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("git:s3cr3t@h:x", "**********@h:x"),
        ("u:s3cr3t@mirror.example.com", "********@mirror.example.com"),
        ("kae:1.2@sha256:9f86d081", "kae:1.2@sha256:9f86d081"),
        ("git@git.example.com:fleet.git", "git@git.example.com:fleet.git"),
    ],
)
def test_a_password_is_hidden_without_a_scheme_too(text: str, shown: str) -> None:
    assert wording.without_credentials(text) == shown
