"""Documents that an import makes: the names that a call wants, the values, and their positions in the source."""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from compiler import API_VERSION, diagnostics, wording
from compiler.formats import documents
from compiler.migrate import operator_source


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """The names that the source does not state, or that replace those of the source."""

    cluster: str
    policy: str | None = None
    recipe: str | None = None
    namespace: str | None = None


@dataclass(frozen=True, slots=True)
class Origins:
    """The positions of a translated document: those of what was translated."""

    positions: documents.Positions
    of: Mapping[documents.Path, documents.Path]

    def origin(self, path: documents.Path) -> documents.Path:
        """Return the source path of a value, or of the nearest value around it."""
        for length in range(len(path), 0, -1):
            if path[:length] in self.of:
                return (*self.of[path[:length]], *path[length:])
        return ()

    def span(self, path: documents.Path, *, key: bool = False) -> diagnostics.Span:
        """Return the position in the imported file."""
        return self.positions.span(self.origin(path), key=key)

    def reworded(self, finding: diagnostics.Diagnostic) -> diagnostics.Diagnostic:
        """Return a finding with the source's own names for its fields."""
        for target in sorted(self.of, key=len, reverse=True):
            ours, theirs = wording.dotted(target), operator_source.name(self.of[target])
            if f"'{ours}" in finding.message:
                return replace(finding, message=finding.message.replace(f"'{ours}", f"'{theirs}"))
        return finding


@dataclass(frozen=True, slots=True)
class Imported:
    """A translated document, and the source positions of its values."""

    document: documents.Document
    origins: Origins


@dataclass(frozen=True, slots=True)
class Draft:
    """A document in the making."""

    kind: str
    data: dict[str, Any] = field(default_factory=dict)
    of: dict[documents.Path, documents.Path] = field(default_factory=dict)

    def put(self, path: documents.Path, value: Any, origin: documents.Path = ()) -> None:
        """Set a value at a path, over an earlier one; None has a position and no value.

        An item of a list is set after those before it.
        """
        if origin:
            self.of[path] = origin
        if value is None:
            return
        inside: Any = self.data
        for step, following in itertools.pairwise(path):
            if isinstance(inside, list) and step == len(inside):
                inside.append({})
            elif isinstance(inside, dict):
                inside.setdefault(step, [] if isinstance(following, int) else {})
            inside = inside[step]
        if isinstance(inside, list) and path[-1] == len(inside):
            inside.append(value)
        else:
            inside[path[-1]] = value

    def imported(self, source: documents.Document) -> Imported:
        """Return the document with the positions of its source."""
        origins = Origins(source.positions, self.of)
        data = {"apiVersion": API_VERSION, "kind": self.kind, **self.data}
        return Imported(documents.Document(source.file, data, origins), origins)
