"""The source of an import, values of a chart or an object of an operator, and the findings on it."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from compiler import API_VERSION, diagnostics, wording
from compiler.formats import documents
from compiler.schema import phrases

GROUPS: Mapping[str, str] = MappingProxyType(
    {
        "KAEPolicy": API_VERSION.partition("/")[0],
        "Module": "kmm.sigs.x-k8s.io",
        "Onload": "onload.amd.com",
        "SpecialResource": "sro.openshift.io",
    }
)
"""The API group of each kind of object that is imported; no version of one takes part in what its fields mean."""

_SRO_VALUES = ("Values", GROUPS["SpecialResource"])
"""What the Special Resource Operator wants `spec.set` to call itself, and what values for its charts may."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Settings of an operator, as a document holds them."""

    kind: str
    """The object's kind; for values of a chart, that of the operator's object, and `identity` is empty."""
    document: documents.Document
    root: documents.Path
    """The path of the options: empty in values, spec in a live object."""
    options: Mapping[Any, Any]
    identity: documents.Path
    """The path of a live object's metadata."""
    metadata: Mapping[Any, Any]
    """Empty for values, which have none."""
    others: tuple[documents.Document, ...] = ()
    """The other objects of its file, such as accounts."""

    def key(self, at: documents.Path) -> diagnostics.Span:
        """Return the position of a key."""
        return self.document.key_span(*at)


def of(read: Sequence[documents.Document]) -> Source | diagnostics.Diagnostic:
    """Return the options in a file, or the finding that says why there are none.

    Beside an object of an operator of other stacks, the file may hold the accounts and rights of this operator.
    """
    others: tuple[documents.Document, ...] = ()
    if len(read) > 1:
        wanted = [document for document in read if _kind(document.data) in GROUPS.keys() - {"KAEPolicy"}]
        others = tuple(document for document in read if document not in wanted)
        if len(wanted) != 1:
            return _refused(read[1], (), "The file holds more than one document.")
        read = wanted
    document = read[0]
    data: Any = document.data
    root: documents.Path = ()
    if isinstance(data, dict) and str(data.get("kind", "")).endswith("List"):
        items = data.get("items")
        if not isinstance(items, list) or len(items) != 1:
            return _refused(document, ("items",), "The list does not hold exactly one object.")
        data, root = items[0], ("items", 0)
    if not isinstance(data, dict):
        return _refused(document, root, f"Expected a mapping, found {phrases.value(data)}.")
    is_object = ("kind" in data or "apiVersion" in data) and (data.get("kind"), _group(data)) != _SRO_VALUES
    if is_object:
        return _live(document, root, data, others)
    kind = "SpecialResource" if "kmodNames" in data or "kind" in data else "KAEPolicy"
    return Source(kind=kind, document=document, root=root, options=data, identity=(), metadata={})


def _kind(data: Any) -> str | None:
    """Return the kind of an object that is imported; None for any other."""
    kind = data.get("kind") if isinstance(data, dict) else None
    return kind if isinstance(kind, str) and GROUPS.get(kind) == _group(data) else None


def _group(data: Mapping[Any, Any]) -> str:
    return str(data.get("apiVersion")).partition("/")[0]


def _live(
    document: documents.Document, root: documents.Path, data: Mapping[Any, Any], others: tuple[documents.Document, ...]
) -> Source | diagnostics.Diagnostic:
    kind = _kind(data)
    if kind is None:
        found, version = (wording.quoted(data.get(field)) for field in ("kind", "apiVersion"))
        return _refused(document, (*root, "kind"), f"This is a {found} of {version}, which is not imported.")
    for field in ("metadata", "spec"):
        if not isinstance(data.get(field, {}), dict):
            return not_a_mapping(document, (*root, field), data[field])
    return Source(
        kind=kind,
        document=document,
        root=(*root, "spec"),
        options=data.get("spec", {}),
        identity=(*root, "metadata"),
        metadata=data.get("metadata", {}),
        others=others,
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
        hint=f"Import 'kubectl get KIND NAME -o yaml', where KIND is one of {wording.listed(sorted(GROUPS))}, or the "
        "values of a chart of the KAE Operator or the Special Resource Operator.",
    )
