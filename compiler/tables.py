"""Tables for people: aligned columns below a head, as kubectl prints them."""

from collections.abc import Sequence


def plain(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a table, without spaces at their ends."""
    import tabulate  # noqa: PLC0415 - only people's tables need it

    drawn = tabulate.tabulate(rows, headers=head, tablefmt="plain", disable_numparse=True)
    return [line.rstrip() for line in drawn.splitlines()]
