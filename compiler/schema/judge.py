"""The validators, and the decision on a document."""

import functools
from collections.abc import Iterator, Mapping
from typing import Any

from compiler import diagnostics
from compiler.formats import documents
from compiler.schema import completion, phrases, recognition


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
        found: phrases.Schema = self._schemas[recognition.STEMS[kind]]
        return found

    def complete(self, kind: str, data: Any) -> Any:
        """Return the data of an accepted document of a kind with the defaults of its schema."""
        return completion.completed(self._schemas[recognition.STEMS[kind]], data)

    def judge(
        self, document: documents.Document, *, lists: bool = True
    ) -> tuple[str | None, list[diagnostics.Diagnostic]]:
        """Return the kind of a document, or None if it is unknown, and the document's mistakes.

        The kind of a List is NodeList; `lists` is False where lists of nodes are not allowed.
        """
        kind, findings = recognition.recognised(document, lists=lists)
        if kind is None or findings:
            return kind, findings
        return kind, self.faults(document, self._stem(kind, document.data))

    def _stem(self, kind: str, data: Mapping[str, Any]) -> str:
        """Return the name of a document's schema: for a DevicePolicy of a known recipe, that of its own."""
        spec = data.get("spec") if kind == "DevicePolicy" else None
        own = _stem_of(spec.get("recipe")) if isinstance(spec, dict) else ""
        return own if own in self._schemas else recognition.STEMS[kind]

    def faults(self, document: documents.Document, stem: str) -> list[diagnostics.Diagnostic]:
        """Return the mistakes of a document of a known schema."""
        if self._passes(stem, document.data):
            return []
        from compiler.schema import explanations  # noqa: PLC0415 - only a document with mistakes needs it

        errors = self._thorough(stem).iter_errors(document.data)
        return explanations.worded(errors, explanations.Reader(document, self._schemas[stem]))

    def _passes(self, stem: str, data: Any) -> bool:
        try:
            return bool(self._quick(stem).is_valid(data))
        except ValueError:  # A key that is no string, or an unpaired surrogate, is no JSON to the validator.
            return False


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
