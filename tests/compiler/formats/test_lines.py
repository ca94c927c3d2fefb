"""Positions are counted as editors count them."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.formats import lines
from tests import effort


@given(st.lists(st.sampled_from(["a", "é", "\n", "\r", "\r\n", "b" * 33_000, "c" * 65_536]), max_size=12))
@settings(max_examples=effort.examples(gate=15, long=60))
def test_a_position_has_its_line_and_column_in_any_order_of_asking(parts: list[str]) -> None:
    text = "".join(parts)
    starts = [0, *(match.end() for match in re.finditer(r"\r\n|\r|\n", text))]
    asked = sorted({*starts, len(text)}, key=lambda start: (start * 7919) % 101)
    where = lines.Lines("a", text)

    for position in asked:
        line = sum(start <= position for start in starts)
        span = where.span(position)
        assert (span.line, span.column) == (line, position - starts[line - 1] + 1)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_the_line_is_shown_without_its_end(end: str) -> None:
    where = lines.Lines("a", f"one{end}two{end}three")

    assert [where.span(position).text for position in (0, 3 + len(end), 6 + 2 * len(end))] == ["one", "two", "three"]
