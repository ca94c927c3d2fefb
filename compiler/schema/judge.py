"""The decision on a document: its kind, its mistakes by the schema of the kind, the defaults of an accepted one."""

import functools
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from compiler import API_VERSION, diagnostics, names, wording
from compiler.formats import documents
from compiler.schema import phrases

diagnostics.shared_rule("not-an-object", "error", "A document is a mapping with apiVersion, kind, metadata and spec.")
diagnostics.shared_rule(
    "unknown-kind", "error", "A document is of a kind that the compiler reads, and in a folder for it."
)
diagnostics.shared_rule("unknown-version", "error", "The compiler reads the apiVersion of every document.")

_STEMS: Mapping[str, str] = MappingProxyType(
    {
        "KAEPolicy": "kaepolicy",
        "DevicePolicy": "devicepolicy",
        "KAECluster": "kaecluster",
        "NodeInventory": "nodeinventory",
        "NodeList": "nodelist",
        "Recipe": "recipe",
    }
)
"""The name of each kind's schema."""

_LISTS = ("List", "NodeList")


class Judge:
    """Validators for all kinds of documents; each is built for the first document of its kind.

    A compiled validator decides whether a document is valid. The one that explains errors, whose import takes a tenth
    of a compile of few nodes, sees only documents that the compiled one refuses.
    """

    def __init__(self, schemas: Mapping[str, phrases.Schema]) -> None:
        """Take the schemas by the names of their files, without `.json`."""
        self._schemas = schemas
        self._thorough = functools.cache(lambda stem: thorough()(schemas[stem]))
        self._quick = functools.cache(lambda stem: quick(schemas[stem]))

    def knowing(self, recipes: Mapping[str, Mapping[str, Any]]) -> "Judge":
        """Return a judge that holds DevicePolicies to their recipes, given by their specs."""
        if not recipes:
            return self
        from compiler.schema import recipe_schema  # noqa: PLC0415 - only projects with recipes need it

        own, of_recipes = self._schemas["devicepolicy"], self._schemas["recipe"]
        made = {_stem_of(name): recipe_schema.spliced(own, of_recipes, spec) for name, spec in recipes.items()}
        return Judge({**self._schemas, **made})

    def schema_of(self, kind: str) -> phrases.Schema:
        """Return the schema of a kind."""
        found: phrases.Schema = self._schemas[_STEMS[kind]]
        return found

    def complete(self, kind: str, data: Any) -> Any:
        """Return the data of an accepted document of a kind with the defaults of its schema."""
        return completed(self._schemas[_STEMS[kind]], data)

    def judge(
        self, document: documents.Document, *, lists: bool = True
    ) -> tuple[str | None, list[diagnostics.Diagnostic]]:
        """Return the kind of a document, or None if it is unknown, and the document's mistakes.

        The kind of a List is NodeList; `lists` is False where lists of nodes are not allowed.
        """
        kind, findings = _recognised(document, lists=lists)
        if kind is None or findings:
            return kind, findings
        return kind, self.faults(document, self._stem(kind, document.data))

    def _stem(self, kind: str, data: Mapping[str, Any]) -> str:
        """Return the name of a document's schema: for a DevicePolicy of a known recipe, that of its own."""
        spec = data.get("spec") if kind == "DevicePolicy" else None
        own = _stem_of(spec.get("recipe")) if isinstance(spec, dict) else ""
        return own if own in self._schemas else _STEMS[kind]

    def faults(self, document: documents.Document, stem: str) -> list[diagnostics.Diagnostic]:
        """Return the mistakes of a document of a known schema."""
        if self._passes(stem, document.data):
            return []
        from compiler.schema import explanations  # noqa: PLC0415 - only a document with mistakes needs it

        errors = self._thorough(stem).iter_errors(document.data)
        return explanations.worded(errors, document, self._schemas[stem])

    def accepts(self, kind: str, data: Any) -> bool:
        """Return whether data has no mistakes by the schema of a kind."""
        return self._passes(_STEMS[kind], data)

    def _passes(self, stem: str, data: Any) -> bool:
        try:
            return bool(self._quick(stem).is_valid(data))
        except ValueError:  # A key that is no string, or an unpaired surrogate, is no JSON to the validator.
            return False


_Recognised = tuple[str | None, list[diagnostics.Diagnostic]]


def _recognised(document: documents.Document, *, lists: bool) -> _Recognised:
    """Return the kind of a document; or None, and why its kind or version is not read."""
    data = document.data
    if not isinstance(data, dict):
        message = f"Expected a mapping with apiVersion, kind, metadata and spec, found {phrases.value(data)}."
        return _refused(document, "not-an-object", message)
    kind = data.get("kind")
    if not isinstance(kind, str):
        return _without_kind(document, kind)
    if kind in _LISTS:
        return _recognised_list(document, kind, lists)
    if kind not in _STEMS:
        return _unknown_kind(document, kind)
    version = data.get("apiVersion")
    if isinstance(version, str) and version != API_VERSION:
        return _unknown_version(document, kind, API_VERSION)
    return kind, []  # The schema reports a version that is missing or no string.


_KUSTOMIZATION = "Kustomization"
_ON_KUSTOMIZATION = (
    "Remove the file: every document of its folder is read, and `kae compile` writes the kustomization.yaml of each "
    "cluster."
)


def _without_kind(document: documents.Document, kind: Any) -> _Recognised:
    hint = f"Write kind: with one of {wording.listed(_STEMS)}."
    if names.stem(document.file) == _KUSTOMIZATION.lower():
        hint = _ON_KUSTOMIZATION
    if kind is not None:
        message = f"Expected a string, found {phrases.value(kind)} in 'kind'."
        return _refused(document, "wrong-type", message, "kind", hint=hint)
    if "kind" in document.data:
        return _refused(document, "wrong-type", "'kind' has no value.", "kind", hint=hint)
    return _refused(document, "missing-field", "'kind' is missing.", "kind", hint=hint)


def _unknown_kind(document: documents.Document, kind: str) -> _Recognised:
    hint = f"Keep only {wording.listed(_STEMS)} here, and apply other objects separately."
    if kind == _KUSTOMIZATION:
        hint = _ON_KUSTOMIZATION
    elif kind == "Node":
        hint = "Put the output of 'kubectl get nodes -o json' into inventory/: a list, even of one node."
    elif near := wording.nearest(kind, _STEMS):
        hint = f"Did you mean '{near}'?"
    message = f"{wording.quoted(kind)} is not a kind of document that the compiler reads."
    return _refused(document, "unknown-kind", message, "kind", hint=hint)


def _unknown_version(document: documents.Document, kind: str, wanted: str) -> _Recognised:
    version, hint = document.data["apiVersion"], f"Write apiVersion: {wanted}."
    if kind == "KAEPolicy" and version.startswith(f"{API_VERSION.partition('/')[0]}/"):
        hint = f"{hint[:-1]}, or translate a KAEPolicy of the KAE Operator with 'kae import FILE'."
    message = f"{wording.quoted(version)} is not a version of {kind} that the compiler reads."
    return _refused(document, "unknown-version", message, "apiVersion", hint=hint)


def _recognised_list(document: documents.Document, kind: str, lists: bool) -> _Recognised:
    """Return NodeList for a List of Kubernetes whose items are all Nodes; a List can hold any objects."""
    if not lists:
        hint = "Keep lists of nodes in inventory/, and separate other documents by lines of '---'."
        return _refused(document, "unknown-kind", f"A {kind} is not read here.", "kind", hint=hint)
    version = document.data.get("apiVersion")
    if isinstance(version, str) and version != "v1":
        return _unknown_version(document, kind, "v1")
    items = document.data.get("items")
    for index, item in enumerate(items if isinstance(items, list) else ()):
        other = item.get("kind", "Node") if isinstance(item, dict) else "Node"
        if isinstance(other, str) and other != "Node":
            message = f"A {kind} is read for Nodes, and this one holds a {wording.quoted(other)}."
            hint = "Keep Nodes only in a list, and separate other documents by lines of '---'."
            return _refused(document, "unknown-kind", message, "items", index, "kind", hint=hint)
    return "NodeList", []


def _refused(document: documents.Document, code: str, message: str, *path: str | int, hint: str = "") -> _Recognised:
    return None, [diagnostics.Diagnostic(code=code, span=document.span(*path), message=message, hint=hint)]


def completed(schema: phrases.Schema, value: Any, root: phrases.Schema | None = None) -> Any:
    """Return a value that its schema accepts with all defaults; a field without one stays absent.

    `root` is the schema of the document; without it the value is the document.
    """
    root = schema if root is None else root
    schema = phrases.resolved(schema, root)
    if isinstance(value, Mapping):
        fields: Mapping[str, Any] = schema.get("properties", {})
        others = schema.get("additionalProperties")
        other: phrases.Schema = others if isinstance(others, Mapping) else {}
        found = {key: completed(fields.get(key, other), inner, root) for key, inner in value.items()}
        for name, field in fields.items():
            if name not in found and "default" in field:
                found[name] = completed(field, field["default"], root)
        return found
    if isinstance(value, list) and "items" in schema:
        return [completed(schema["items"], item, root) for item in value]
    # JSON Schema takes 2.0 for an integer, too (6.1.1 of its validation).
    return int(value) if isinstance(value, float) and _is_of_integers(schema, root) else value


def _is_of_integers(schema: phrases.Schema, root: phrases.Schema) -> bool:
    stated = schema.get("type")
    several = [phrases.resolved(one, root) for one in schema.get("anyOf", ())]
    return stated == "integer" or any(_is_of_integers(one, root) for one in several)


def _stem_of(recipe: Any) -> str:
    """Return the name of the schema of a recipe's policies."""
    return f"devicepolicy of {recipe}"


@functools.cache
def thorough() -> Any:
    """Return the validator class that explains errors."""
    import jsonschema  # noqa: PLC0415 - 30 ms, which only a document with mistakes needs

    def pattern(_: Any, wanted: str, value: Any, __: Any) -> Iterator[jsonschema.ValidationError]:
        if isinstance(value, str) and not is_found(wanted, value):
            yield jsonschema.ValidationError(f"{value!r} does not match {wanted!r}")

    standard = jsonschema.Draft202012Validator
    return jsonschema.validators.extend(  # type: ignore[no-untyped-call]  # its stubs have no types for it
        standard,
        {"pattern": pattern},
        type_checker=standard.TYPE_CHECKER.redefine("number", lambda _, value: _is_number(value)),
    )


def quick(schema: phrases.Schema) -> Any:
    """Return the compiled validator, which explains nothing and is a hundred times faster."""
    import jsonschema_rs  # noqa: PLC0415 - needed only where a document is judged

    return jsonschema_rs.Draft202012Validator(dict(schema), pattern_options=jsonschema_rs.RegexOptions())


def is_found(pattern: str, text: str) -> bool:
    """Return whether a pattern matches somewhere in a text, in a time that grows with the text alone.

    Recipes bring patterns of others, on some of which Python's re would take for ever. RE2 has no such patterns, and
    its `$` is that of ECMA-262: the end of the text, not also the place before a last line break.
    """
    return _compiled(pattern).search(text.encode(errors="surrogatepass")) is not None


@functools.cache
def _compiled(pattern: str) -> Any:
    import re2  # noqa: PLC0415 - only a document with mistakes needs it

    return re2.compile(pattern)


def _is_number(value: Any) -> bool:
    """Return whether a value is a number of JSON; YAML also has infinity and NaN."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return isinstance(value, int) or abs(value) < float("inf")
