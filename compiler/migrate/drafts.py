"""Documents that an import makes: the names that a call wants, the values, their positions in the source, the text."""

import itertools
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from compiler import API_VERSION, diagnostics, wording
from compiler.formats import canonical, documents

_SCHEMAS = {
    "DevicePolicy": "../recipes/.schemas/devicepolicy.json",
    "KAECluster": "../schemas/kaecluster.json",
    "KAEPolicy": "../schemas/kaepolicy.json",
    "Recipe": "../.schemas/recipe.json",
}
"""The schema of each kind for editors, by its path in a repository that `kae init` made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """The names that the source does not state, or that replace those of the source."""

    cluster: str
    policy: str | None = None
    recipe: str | None = None
    namespace: str | None = None


@dataclass(frozen=True, slots=True)
class _Origins:
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


@dataclass(frozen=True, slots=True)
class Draft:
    """A document in the making, which is translated from a source."""

    kind: str
    source: documents.Document
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

    @property
    def document(self) -> documents.Document:
        """The document, with the positions of its source."""
        data = {"apiVersion": API_VERSION, "kind": self.kind, **self.data}
        return documents.Document(self.source.file, data, _Origins(self.source.positions, self.of))

    def reworded(self, finding: diagnostics.Diagnostic) -> diagnostics.Diagnostic:
        """Return a finding with the source's own names for its fields."""
        for target in sorted(self.of, key=len, reverse=True):
            ours, theirs = wording.dotted(target), option(self.of[target])
            if f"'{ours}" in finding.message:
                return replace(finding, message=finding.message.replace(f"'{ours}", f"'{theirs}"))
        return finding


def option(at: documents.Path) -> str:
    """Return an option as the guide of its operator writes it; a chart's keys often have a hyphen."""
    return re.sub(r"^\[([A-Za-z][\w-]*)\]", r"\1", wording.dotted(at))


def text(objects: Iterable[Mapping[str, Any]]) -> str:
    """Return documents as the text of a file; a directory Application of Argo CD passes over it for its first line."""
    parts = (
        f"# yaml-language-server: $schema={_SCHEMAS[data['kind']]}\n{canonical.dump_yaml(data)}" for data in objects
    )
    return "# +argocd:skip-file-rendering\n" + "---\n".join(parts)
