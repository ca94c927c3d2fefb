"""The site of docs/: its navigation, and what becomes of GitHub's Markdown."""

from typing import Any

import yaml

from docs import site
from tests.documentation.pages import ROOT


class Loader(yaml.SafeLoader):
    """Reads mkdocs.yml, whose tags of MkDocs are of no interest here."""


Loader.add_multi_constructor("", lambda loader, suffix, node: None)


def navigation() -> list[Any]:
    config: dict[str, list[Any]] = yaml.load((ROOT / "mkdocs.yml").read_text("utf-8"), Loader)  # noqa: S506 - a SafeLoader
    return config["nav"]


def test_every_page_of_docs_is_in_the_navigation_once() -> None:
    named = [page for section in navigation() for pages in section.values() for page in pages]

    pages = {path.relative_to(ROOT / "docs").as_posix() for path in ROOT.glob("docs/*.md")}

    assert sorted(named) == sorted(pages | site.ELSEWHERE.keys() | {"decisions/README.md"}), "nav of mkdocs.yml"


def test_the_records_of_decisions_stand_behind_their_list() -> None:
    class Config:
        nav = navigation()

    *_, last = site.on_config(Config).nav

    assert len(last["Why"]) == 1 + len(list(ROOT.glob("docs/decisions/0*.md")))


def test_a_link_leads_to_a_page_of_the_site_and_otherwise_to_the_repository() -> None:
    text = "[a](../README.md#b) [c](d.md) ![e](images/f.png) [g](../ci/h.sh) `[i](../j)` [k\nl](https://m.example)\n"

    assert site.translated(text, "page.md", "https://host/kae") == (
        "[a](index.md#b) [c](d.md) ![e](images/f.png) [g](https://host/kae/blob/main/ci/h.sh) `[i](../j)`"
        " [k\nl](https://m.example)\n"
    )
    assert site.translated("[g](../ci/h.sh)\n", "page.md", "") == "g\n"
    assert site.translated("[g](docs/h.md)\n\n```\n[g](docs/h.md)\n```\n", "index.md", "") == (
        "[g](h.md)\n\n```\n[g](docs/h.md)\n```\n"
    )


def test_entries_of_lists_are_indented_by_four_columns_and_have_an_empty_line_where_they_need_one() -> None:
    text = "Text:\n- a\n  - b\n\n    code:\n      x\n- c\n\n1. d\n\n   ```yaml\n   - e\n   ```\n   f\n2. g\n"

    assert site.translated(text, "page.md", "") == (
        "Text:\n\n- a\n    - b\n\n        code:\n          x\n\n- c\n\n1. d"
        "\n\n    ```yaml\n    - e\n    ```\n    f\n\n2. g\n"
    )


def test_a_wrapped_text_that_begins_with_a_number_is_no_list() -> None:
    assert site.translated("of the year\n2026. So\n", "page.md", "") == "of the year\n2026. So\n"


def test_details_in_a_quotation_are_a_block() -> None:
    text = "> <details><summary>One</summary>\n>\n> | a |\n>\n> </details>\n> b\n"

    assert site.translated(text, "page.md", "") == '> ??? quote "One"\n> \n>     | a |\n> \n> b\n'
