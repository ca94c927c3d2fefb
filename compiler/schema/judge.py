"""The engines, and the verdict on a document."""

import functools
import re
from collections.abc import Iterator, Mapping
from typing import Any

from compiler import diagnostics
from compiler.formats import documents
from compiler.schema import explanations, phrases, recognition

_LARGE = ("nodeinventory", "nodelist")
"""Languages that machines write, at length: a compiled engine says whether there is anything to look for."""


class Judge:
    """The languages, ready to judge; what it needs of a language is made at its first document."""

    def __init__(self, schemas: Mapping[str, phrases.Schema]) -> None:
        """Take the schemas by the names of their files without `.json`."""
        self._schemas = schemas
        self._thorough = functools.cache(lambda stem: thorough()(schemas[stem]))
        self._quick = functools.cache(lambda stem: quick(schemas[stem]))

    def judge(
        self, document: documents.Document, *, lists: bool = True
    ) -> tuple[str | None, list[diagnostics.Diagnostic]]:
        """The kind of a document (NodeList for a List, too; None where it is none of ours) and its mistakes.

        `lists` says whether a list of nodes may stand where the document does.
        """
        kind, found = recognition.recognised(document, lists=lists)
        if kind is None or found:
            return kind, found
        stem = recognition.STEMS[kind]
        if stem in _LARGE and self._passes(stem, document.data):
            return kind, []
        errors = self._thorough(stem).iter_errors(document.data)
        return kind, explanations.worded(errors, explanations.Reader(document, self._schemas[stem]))

    def _passes(self, stem: str, data: Any) -> bool:
        try:
            return bool(self._quick(stem).is_valid(data))
        except ValueError:  # A key that is no string, or half a character: no JSON to the engine.
            return False


@functools.cache
def thorough() -> Any:
    """The engine that says what is wrong."""
    import jsonschema  # noqa: PLC0415 - 50 ms, which a run without changed documents saves.

    def pattern(_: Any, wanted: str, value: Any, __: Any) -> Iterator[jsonschema.ValidationError]:
        if isinstance(value, str) and not ecma(wanted).search(value):
            yield jsonschema.ValidationError(f"{value!r} does not match {wanted!r}")

    standard = jsonschema.Draft202012Validator
    return jsonschema.validators.extend(  # type: ignore[no-untyped-call]  # its stubs say nothing of it
        standard,
        {"pattern": pattern},
        type_checker=standard.TYPE_CHECKER.redefine("number", lambda _, value: _is_number(value)),
    )


def quick(schema: phrases.Schema) -> Any:
    """The engine that only says yes or no, a hundred times faster."""
    import jsonschema_rs  # noqa: PLC0415 - needed only where there is an inventory.

    return jsonschema_rs.Draft202012Validator(dict(schema), pattern_options=jsonschema_rs.RegexOptions())


@functools.cache
def ecma(pattern: str) -> re.Pattern[str]:
    """A pattern as ECMA-262 reads it: `$` is the end, where Python also stops before a last line break."""
    token = re.compile(r"\\.|\[(?:\\.|[^\]\\])*\]|\$")
    return re.compile(token.sub(lambda part: r"\Z" if part.group() == "$" else part.group(), pattern))


def _is_number(value: Any) -> bool:
    """Whether JSON knows the number; YAML also has infinity, and what is not a number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return isinstance(value, int) or abs(value) < float("inf")
