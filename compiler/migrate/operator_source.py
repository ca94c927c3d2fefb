"""The source of an import, values of the KAE Operator's chart or its live KAEPolicy, and the findings on it."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from compiler import API_VERSION, diagnostics, wording
from compiler.formats import documents
from compiler.schema import phrases


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Options of the operator, as a document holds them."""

    document: documents.Document
    root: documents.Path
    """The path of the options: empty in values, spec in a live object."""
    options: Mapping[Any, Any]
    identity: documents.Path
    """The path of a live object's metadata."""
    metadata: Mapping[Any, Any]
    """Empty for values, which have none."""

    def key(self, at: documents.Path) -> diagnostics.Span:
        """Return the position of a key."""
        return self.document.key_span(*at)


def of(read: Sequence[documents.Document]) -> Source | diagnostics.Diagnostic:
    """Return the options in the one document of a file, or the finding that says why there are none."""
    if len(read) > 1:
        return _refused(read[1], (), "The file holds more than one document.")
    document = read[0]
    data: Any = document.data
    root: documents.Path = ()
    if isinstance(data, dict) and str(data.get("kind", "")).endswith("List"):
        items = data.get("items")
        if not isinstance(items, list) or len(items) != 1:
            return _refused(document, ("items",), "The list does not hold exactly one KAEPolicy.")
        data, root = items[0], ("items", 0)
    if not isinstance(data, dict):
        return _refused(document, root, f"Expected a mapping, found {phrases.value(data)}.")
    if "kind" not in data and "apiVersion" not in data:
        return Source(document=document, root=root, options=data, identity=(), metadata={})
    return _live(document, root, data)


def _live(
    document: documents.Document, root: documents.Path, data: Mapping[Any, Any]
) -> Source | diagnostics.Diagnostic:
    kind, version = str(data.get("kind")), str(data.get("apiVersion"))
    # The operator's own version of its API is not known, and takes no part in what the fields mean.
    if kind != "KAEPolicy" or version.partition("/")[0] != API_VERSION.partition("/")[0]:
        message = f"This is a {wording.quoted(kind)} of {wording.quoted(version)}, not a KAEPolicy of the operator."
        return _refused(document, (*root, "kind"), message)
    for field in ("metadata", "spec"):
        if not isinstance(data.get(field, {}), dict):
            return not_a_mapping(document, (*root, field), data[field])
    return Source(
        document=document,
        root=(*root, "spec"),
        options=data.get("spec", {}),
        identity=(*root, "metadata"),
        metadata=data.get("metadata", {}),
    )


def name(at: documents.Path) -> str:
    """Return an option as the guide writes it; a chart's keys often have a hyphen."""
    return re.sub(r"^\[([A-Za-z][\w-]*)\]", r"\1", wording.dotted(at))


def dropped(source: Source, at: documents.Path, why: str, hint: str = "") -> diagnostics.Diagnostic:
    """Every option has a meaning here."""
    return diagnostics.Diagnostic(
        code="import-dropped",
        span=source.key(at),
        message=f"'{name(at)}' is not carried over.",
        notes=(why,) if why else (),
        hint=hint,
    )


def differs(source: Source, at: documents.Path, how: str) -> diagnostics.Diagnostic:
    """An option does here what it did there."""
    return diagnostics.Diagnostic(
        code="import-differs",
        span=source.key(at),
        message=f"'{name(at)}' means something else here.",
        notes=(how,),
    )


def not_a_mapping(document: documents.Document, at: documents.Path, value: Any) -> diagnostics.Diagnostic:
    """A section is a mapping."""
    return diagnostics.Diagnostic(
        code="wrong-type",
        span=document.span(*at),
        message=f"Expected a mapping in '{name(at)}', found {phrases.value(value)}.",
    )


def _refused(document: documents.Document, at: documents.Path, message: str) -> diagnostics.Diagnostic:
    return diagnostics.Diagnostic(
        code="import-source",
        span=document.span(*at),
        message=message,
        hint="Import the values of the KAE Operator's chart, or 'kubectl get kaepolicy NAME -o yaml'.",
    )
