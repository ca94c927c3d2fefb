"""Documents know which values they hold, and where; positions are counted as editors count them."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.formats import documents
from tests import builders, effort

ITEM = builders.policy("tls", default=True, driver={"sriov": {"hpre": 4}, "env": []})


@pytest.mark.parametrize(
    ("path", "written"),
    [
        (("spec", "driver"), True),
        (("spec", "driver", "sriov", "hpre"), True),
        (("spec", "driver", "sriov", "zip"), False),
        (("spec", "driver", "env", 0), False),
        (("spec", "default", "a"), False),
    ],
)
def test_a_document_knows_what_it_writes_itself(path: tuple[str | int, ...], written: bool) -> None:
    assert ITEM.source.has(path) is written


@pytest.mark.parametrize(
    ("path", "text", "column"),
    [
        (("spec", "default"), "  default: true", 12),
        (("spec", "driver", "sriov"), "    sriov:", 5),
        (("spec", "driver", "env"), "    env: []", 5),
    ],
)
def test_a_setting_is_shown_at_its_value_and_a_mapping_or_a_list_at_its_key(
    path: tuple[str, ...], text: str, column: int
) -> None:
    place = ITEM.source.setting_span(*path)

    assert (place.text, place.column) == (text, column)


def test_a_setting_that_is_not_written_is_shown_at_the_name() -> None:
    assert ITEM.source.setting_span("spec", "driver", "version") == ITEM.source.span("metadata", "name")


@given(st.lists(st.sampled_from(["a", "é", "\n", "\r", "\r\n", "b" * 33_000, "c" * 65_536]), max_size=12))
@settings(max_examples=effort.examples(gate=15, long=60))
def test_a_position_has_its_line_and_column_in_any_order_of_asking(parts: list[str]) -> None:
    text = "".join(parts)
    starts = [0, *(match.end() for match in re.finditer(r"\r\n|\r|\n", text))]
    asked = sorted({*starts, len(text)}, key=lambda start: (start * 7919) % 101)
    where = documents.Lines("a", text)

    for position in asked:
        line = sum(start <= position for start in starts)
        span = where.span(position)
        assert (span.line, span.column) == (line, position - starts[line - 1] + 1)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_the_line_is_shown_without_its_end(end: str) -> None:
    where = documents.Lines("a", f"one{end}two{end}three")

    assert [where.span(position).text for position in (0, 3 + len(end), 6 + 2 * len(end))] == ["one", "two", "three"]
