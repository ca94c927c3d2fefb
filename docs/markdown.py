"""Tables of the generated pages."""

from collections.abc import Iterable

Row = tuple[str, ...]


def table(head: Row, rows: Iterable[Row]) -> str:
    """Return a table of Markdown."""
    lines = [head, ("---",) * len(head), *rows]
    return "".join(f"| {' | '.join(map(cell, line))} |\n" for line in lines)


def cell(text: str) -> str:
    """Return a text on one line, with `|` and the `<` of an HTML tag escaped."""
    parts = " ".join(text.split()).replace("|", "\\|").split("`")
    return "`".join(part if index % 2 else part.replace("<", "\\<") for index, part in enumerate(parts))
