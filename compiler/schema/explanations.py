"""The validator's errors in plain words, each mistake once."""

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from compiler import diagnostics, keywords, wording
from compiler.formats import documents
from compiler.schema import hints, phrases

diagnostics.shared_rule("missing-field", "error", "A document has every field that its schema requires.")
diagnostics.shared_rule("wrong-type", "error", "A value has the type that its schema states.")
diagnostics.shared_rule("invalid-value", "error", "A value is one that its schema allows.")
diagnostics.shared_rule("url-credentials", "error", "No URL in a document holds a user's password or token.")

MOST = 50
"""Mistakes of one document that are shown; the next run shows the rest."""

# Of several faults of one value only the first of these is shown: the length of a wrong type does not matter.
_RANKS = (
    "type",
    "const",
    "enum",
    "minLength",
    "maxLength",
    "pattern",
    "minimum",
    "maximum",
    "minItems",
    "maxItems",
    "additionalProperties",
    "minProperties",
    "maxProperties",
)


@dataclass(frozen=True, slots=True)
class Reader:
    """A document and the schema of its kind."""

    document: documents.Document
    schema: phrases.Schema

    def resolved(self, schema: phrases.Schema) -> phrases.Schema:
        """Return a schema with the schema that it refers to merged in."""
        return phrases.resolved(schema, self.schema)

    def owner(self, path: documents.Path) -> str:
        """Return the phrase for the value at a path."""
        return f"'{wording.dotted(path)}'" if path else f"a {self.schema['title']}"

    def diagnostic(self, code: str, fault: "_Fault", message: str, **more: Any) -> diagnostics.Diagnostic:
        """Return a finding at the position of a fault."""
        span = self.document.positions.span(fault.path, key=fault.key)
        return diagnostics.Diagnostic(code=code, span=span, message=message, **more)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fault:
    """A keyword of a schema that a value or key does not satisfy."""

    keyword: str
    path: documents.Path
    key: bool
    value: Any
    schema: phrases.Schema


def worded(errors: Iterable[Any], reader: Reader) -> list[diagnostics.Diagnostic]:
    """Return the mistakes of a document, each once, in the order of its lines."""
    # Several errors can come from one mistake, so more of them are fetched than are shown.
    faults = _distinct([_fault(error) for error in itertools.islice(errors, 4 * MOST)])
    findings = itertools.chain.from_iterable(_findings(fault, reader) for fault in faults)
    shown = list(diagnostics.merged(itertools.islice(findings, 4 * MOST)))
    if len(shown) > MOST:
        note = f"Only {MOST} mistakes of the document are shown."
        return [*shown[: MOST - 1], replace(shown[MOST - 1], notes=(*shown[MOST - 1].notes, note))]
    return shown


def _fault(error: Any) -> _Fault:
    steps = list(error.absolute_schema_path)
    key = len(steps) > 1 and steps[-2] == "propertyNames"
    path = tuple(error.absolute_path)
    return _Fault(
        keyword=error.validator,
        path=(*path, error.instance) if key else path,
        key=key,
        value=error.instance,
        schema=error.schema,
    )


def _distinct(faults: list[_Fault]) -> list[_Fault]:
    """Return one fault for each value, and one for the fields that it lacks."""
    best: dict[tuple[documents.Path, bool, bool], _Fault] = {}
    for fault in faults:
        subject = (fault.path, fault.key, fault.keyword == "required")
        if subject not in best or _rank(fault) < _rank(best[subject]):
            best[subject] = fault
    return list(best.values())


def _rank(fault: _Fault) -> int:
    return _RANKS.index(fault.keyword) if fault.keyword in _RANKS else len(_RANKS)


def _findings(fault: _Fault, reader: Reader) -> Iterator[diagnostics.Diagnostic]:
    if fault.keyword == "additionalProperties":
        yield from _unknown_fields(fault, reader)
    elif fault.keyword == "required":
        yield from _missing_fields(fault, reader)
    elif fault.keyword == "type":
        yield _wrong_type(fault, reader)
    else:
        yield _invalid_value(fault, reader)


@diagnostics.rule("unknown-field", "error")
def _unknown_fields(fault: _Fault, reader: Reader) -> Iterator[diagnostics.Diagnostic]:
    """A document has only the fields of its schema."""
    fields = fault.schema.get("properties", {})
    for name in fault.value:
        if name in fields:
            continue
        hint = hints.on_unknown_field(name, fields, reader.schema)
        field = replace(fault, path=(*fault.path, name), key=True)
        message = f"{wording.quoted(name)} is not a field of {reader.owner(fault.path)}."
        yield reader.diagnostic("unknown-field", field, message, hint=hint)


def _missing_fields(fault: _Fault, reader: Reader) -> Iterator[diagnostics.Diagnostic]:
    fields = fault.schema["properties"]
    # A misspelt field is reported as an unknown one, with a hint.
    misspelt = {hints.meant(name, fields) for name in fault.value if name not in fields}
    for name in fault.schema["required"]:
        if name in fault.value or ("additionalProperties" in fault.schema and name in misspelt):
            continue
        field = replace(fault, path=(*fault.path, name))
        message = f"'{wording.dotted(field.path)}' is missing."
        hint = f"Add {name}: {phrases.expected(reader.resolved(fields[name]))}."
        yield reader.diagnostic("missing-field", field, message, hint=hint)


def _wrong_type(fault: _Fault, reader: Reader) -> diagnostics.Diagnostic:
    if fault.value is None and not fault.key:
        message, hint = f"'{wording.dotted(fault.path)}' has no value.", hints.on_nothing(fault.path, fault.schema)
        return reader.diagnostic("wrong-type", fault, message, hint=hint)
    where = "as a key" if fault.key else f"in '{wording.dotted(fault.path)}'"
    message = f"Expected {phrases.typed(fault.schema)}, found {phrases.value(fault.value)} {where}."
    finding = reader.diagnostic("wrong-type", fault, message)
    hint = hints.on_type(fault.value, fault.path, fault.schema, reader.schema, finding.span)
    return replace(finding, hint=hint)


def _invalid_value(fault: _Fault, reader: Reader) -> diagnostics.Diagnostic:
    schema, value, place = fault.schema, fault.value, f"'{wording.dotted(fault.path)}'"
    code, hint = "invalid-value", ""
    notes: Iterable[str] = ()
    if fault.keyword == "maxProperties" and "properties" not in schema:
        message = f"{place} has {len(value)} keys, but may have at most {schema['maxProperties']}."
        hint = "Remove some of them."
    elif fault.keyword in ("minProperties", "maxProperties"):
        message = (
            f"Expected exactly one of {wording.listed(schema['properties'])} in {reader.owner(fault.path)}, "
            f"found {wording.listed(map(wording.cut, value))}."
        )
    elif fault.keyword == "minItems" and value:
        message = f"{place} has {len(value)} items, but needs at least {schema['minItems']}."
    elif fault.keyword == "minItems":
        message, hint = f"{place} is empty.", "Remove the key, or give the list an item."
    elif keywords.CREDENTIALS in schema and wording.without_credentials(value) != value:
        message = f"The URL in {place} holds credentials, and everyone who reads git sees them."
        code, hint = "url-credentials", schema[keywords.CREDENTIALS]
    elif fault.keyword == "maxItems":
        message = f"{place} has {len(value)} items, but may have at most {schema['maxItems']}."
        hint = hints.on_long_list(fault.path)
    else:
        quoted = wording.quoted(value) if isinstance(value, str) else wording.cut(value)
        message, hint = f"{quoted} is not {phrases.expected(schema)}.", hints.on_value(value, schema)
        notes = _notes(fault)
    return reader.diagnostic(code, fault, message, notes=tuple(notes), hint=hint)


def _notes(fault: _Fault) -> Iterator[str]:
    if fault.keyword == "maxLength":
        yield f"It is {len(fault.value)} characters long."
    if fault.keyword == "pattern" and " " in fault.value:
        yield "It holds a space." if fault.value.count(" ") == 1 else "It holds spaces."
