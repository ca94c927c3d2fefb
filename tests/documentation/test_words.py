"""The hand-written pages stay short, and so do their sentences."""

import re
import runpy
from pathlib import Path

import pytest

from tests.documentation import pages

COUNT = runpy.run_path(str(pages.ROOT / "ci/words.py"))
MOST = {"README": 900, "first-rollout": 700, "glossary": 650, "quick-start": 900}
"""The words that a page may have; those of the others count in the sum alone."""

IN_ALL = 28_000
SENTENCE = 20
ENTRIES = 40


def test_the_pages_and_all_of_them_together_have_no_more_words_than_they_may() -> None:
    counts = {page.stem: COUNT["words"](pages.text_of(page)) for page in COUNT["pages"]()}

    assert {name: count for name, count in counts.items() if count > MOST.get(name, IN_ALL)} == {}
    assert sum(counts.values()) <= IN_ALL


@pytest.mark.parametrize("page", [*COUNT["pages"]()], ids=pages.name)
def test_the_sentences_of_a_page_are_short_on_average(page: Path) -> None:
    assert COUNT["sentence_length"](pages.text_of(page)) <= SENTENCE


def test_the_glossary_is_sorted_and_has_few_entries() -> None:
    words = re.findall(r"^\| ([^|]+) \|", pages.text_of(pages.ROOT / "docs/glossary.md"), re.MULTILINE)

    _, _, *entries = words

    assert entries == sorted(entries, key=str.casefold)
    assert len(entries) <= ENTRIES


def test_code_tables_and_targets_of_links_are_no_words_of_a_sentence() -> None:
    text = "# A b c\n\nOne `two and more` [three](x.md).\n\n    kae plan\n\n| a b c d e f g |\n\n- Four five six.\n"

    assert COUNT["sentence_length"](text) == 3
    assert COUNT["words"]("a  b\n| c") == 4
