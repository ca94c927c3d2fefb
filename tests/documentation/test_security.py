"""docs/security.md claims nothing without a test."""

import re

from tests.documentation import pages

PAGE = pages.ROOT / "docs/security.md"

_ROW = re.compile(r"^\| (?P<claim>[^|]+) \|.*\| (?P<tests>[^|]+) \|$", re.MULTILINE)
_TEST = re.compile(r"`(test_\w+)`")
_DEFINED = re.compile(r"^(?:async )?def (test_\w+)\(", re.MULTILINE)


def test_every_claim_names_a_test_that_is_there() -> None:
    text = pages.text_of(PAGE)
    defined = {
        name for path in (pages.ROOT / "tests").rglob("test_*.py") for name in _DEFINED.findall(path.read_text("utf-8"))
    }
    rows = [row for row in _ROW.finditer(text) if row["tests"] != "test"]

    assert len(rows) > 20
    assert [row["claim"] for row in rows if not _TEST.findall(row["tests"])] == []
    assert set(_TEST.findall(text)) - defined == set()
