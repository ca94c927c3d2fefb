"""The pages for people who come from another way: short, and each has a source in docs/examples/."""

from pathlib import Path

import pytest

from tests.documentation.pages import ROOT, commands, name, text_of

PAGES = sorted(ROOT.glob("docs/coming-from-*.md"))


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_a_page_is_short_and_runs_its_commands(page: Path) -> None:

    assert len(text_of(page).split()) <= 500
    assert "    kae compile\n" in "".join(block.text for block in commands(page))
    assert "## The switch\n" in text_of(page)


def test_every_source_is_on_a_page_and_the_list_has_every_page() -> None:
    texts = "".join(map(text_of, PAGES))

    sources = [path.name for path in (ROOT / "docs/examples/coming-from").iterdir()]
    assert [each for each in sources if f"examples/coming-from/{each}" not in texts] == []
    assert [page.name for page in PAGES if f"({page.name})" not in text_of(ROOT / "docs/migration.md")] == []
    assert len(text_of(ROOT / "docs/migration.md").split()) <= 150
