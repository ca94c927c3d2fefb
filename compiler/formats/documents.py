"""A document as read from a file: plain data, the position of each value, and the lines of the file."""

import functools
import operator
import re
from collections.abc import Callable
from typing import Any, Protocol

import msgspec

from compiler import diagnostics, wording

diagnostics.shared_rule("duplicate-key", "error", "A mapping has each key once.")
diagnostics.shared_rule(
    "ambiguous-scalar", "error", "A plain scalar has the same meaning in every YAML reader of Kubernetes."
)
diagnostics.shared_rule("nesting-too-deep", "error", "Documents nest at most 64 levels deep.")

DEPTH = 64
"""The largest depth of a document, as in the rule of nesting-too-deep."""

TOO_DEEP = f"The document nests more than {DEPTH} levels deep."

FINDINGS = 1000
"""Findings after which reading ends, so that a large broken file does not fill the memory."""

SHOWN = 200
"""Characters of a line that are shown; longer lines are data, not text for people."""

_STEP = 1 << 16  # Positions between two checkpoints: small to search, and few even in the largest inventory.
_BREAK = re.compile(r"[\r\n]")

Path = tuple[str | int, ...]
"""The keys and indexes that lead from the top of a document to a value."""


class Positions(Protocol):
    """Positions of a document's values in its file."""

    def span(self, path: Path, *, key: bool = False) -> diagnostics.Span:
        """Return the span of the value at `path`, or of its key.

        For a value that the document does not hold, it is the span of the nearest value around it.
        """
        ...


class TextPositions(msgspec.Struct, frozen=True):
    """Positions in a text, from branch to branch: what a reader keeps of a mapping or list, or finds again."""

    lines: "Lines"
    at: int
    """Where the document begins."""
    root: Any
    member: Callable[[Any, str | int], tuple[int, int, Any] | None]
    """Returns the positions of a member's key and value and the branch of the value; None without the member."""

    def span(self, path: Path, *, key: bool = False) -> diagnostics.Span:
        """Return the span of a value or its key, or of the nearest value around one that is absent."""
        key_at, at, branch = self.at, self.at, self.root
        for step in path:
            found = self.member(branch, step)
            if found is None:
                return self.lines.span(at)
            key_at, at, branch = found
        return self.lines.span(key_at if key else at)


class Document(msgspec.Struct, frozen=True):
    """A document as read from a file: plain data, and the positions of its values."""

    file: str
    data: Any
    positions: Positions
    meaning: Any = None
    """What the document says, where it was read for that at once; its data are then no more than is left to judge."""

    def has(self, path: Path) -> bool:
        """Return whether the document itself holds a value at `path`."""
        value = self.data
        for step in path:
            try:
                value = value[step]
            except (KeyError, IndexError, TypeError):
                return False
        return True

    def value(self, path: Path) -> Any:
        """Return the value at `path`, which the document holds."""
        return functools.reduce(operator.getitem, path, self.data)

    def span(self, *path: str | int) -> diagnostics.Span:
        """Return the span of the value at `path`."""
        return self.positions.span(path)

    def key_span(self, *path: str | int) -> diagnostics.Span:
        """Return the span of the key that leads to `path`."""
        return self.positions.span(path, key=True)

    def setting_span(self, *path: str | int) -> diagnostics.Span:
        """Return the span of a scalar, of the key of a mapping or list, or of metadata.name where `path` is absent."""
        if not self.has(path):
            return self.span("metadata", "name")
        return self.positions.span(path, key=isinstance(self.value(path), dict | list))


Reading = tuple[list[Document], list[diagnostics.Diagnostic]]
"""The documents of a file, and its mistakes."""


class Lines:
    """The text of a file; LF, CR LF and CR end a line, and columns count characters."""

    __slots__ = ("_known", "file", "text")

    def __init__(self, file: str, text: str) -> None:
        self.file = file
        self.text = text
        self._known = [(0, 0)]  # At each checkpoint: lines that ended before it, and the start of its line.

    def span(self, position: int) -> diagnostics.Span:
        """Return the span of a position in the text."""
        while len(self._known) <= position // _STEP:
            at = len(self._known) * _STEP
            self._known.append(self._counted(at))
        ended, start = self._counted(position)
        column = position - start + 1
        return diagnostics.Span(
            file=self.file, line=ended + 1, column=column, text=self._shown(start) if column <= SHOWN else ""
        )

    def finding(
        self, position: int, code: str, message: str, hint: str = "", notes: tuple[str, ...] = ()
    ) -> diagnostics.Diagnostic:
        """Return the finding for a mistake at a position in the text."""
        return diagnostics.Diagnostic(code=code, span=self.span(position), message=message, notes=notes, hint=hint)

    def _counted(self, position: int) -> tuple[int, int]:
        """Return the number of lines that ended before a position, and the start of its own line."""
        step = max(position - 1, 0) // _STEP
        ended, start = self._known[step]
        since = step * _STEP
        text = self.text
        # CR LF is one end of a line, and was counted twice.
        pairs = text.count("\r\n", max(since - 1, 0), position)
        ended += text.count("\n", since, position) + text.count("\r", since, position) - pairs
        last = max(text.rfind("\n", since, position), text.rfind("\r", since, position))
        return ended, last + 1 if last >= 0 else start

    def _shown(self, start: int) -> str:
        most = start + 5 * SHOWN  # What is not shown may be the @ that ends a password.
        end = _BREAK.search(self.text, start, most)
        line = wording.without_credentials(self.text[start : end.start() if end else most])
        return wording.masked(line[:SHOWN])
