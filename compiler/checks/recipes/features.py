"""The rule for the features of NFD by which a recipe knows its nodes: one that never holds would label no node."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

from compiler import wording
from compiler.diagnostics import Diagnostic
from compiler.formats import documents
from compiler.planning import kernels

_SOURCES = frozenset({"cpu", "kernel", "memory", "network", "pci", "storage", "system", "usb"})
"""The sources of features that NFD's worker reads here ("Available features" of its documentation)."""
_HINTS: Mapping[str, str] = {
    "local": "Give the nodes a label, and match by labels: the worker reads no files of features from the host.",
    "rule": "Match by match.labels what other rules label.",
}
_VALUES: Mapping[str, tuple[str, int, float]] = {
    **dict.fromkeys(("Exists", "DoesNotExist", "IsTrue", "IsFalse"), ("no value", 0, 0)),
    **dict.fromkeys(("In", "NotIn", "InRegexp"), ("one value or more", 1, math.inf)),
    **dict.fromkeys(("Gt", "Lt"), ("one value", 1, 1)),
    "GtLt": ("two values", 2, 2),
}
"""The least and the most values of an operator, without which NFD skips the rule (`MatchExpression` of its API)."""


def findings(source: documents.Document) -> Iterator[Diagnostic]:
    """NFD's worker reports the features, and its master can evaluate their conditions."""
    match: Mapping[str, Any] = source.data["spec"]["match"]
    for index, feature in enumerate(match.get("features", ())):
        path: documents.Path = ("spec", "match", "features", index)
        reported_by = feature["feature"].partition(".")[0]
        if reported_by not in _SOURCES:
            hint = _HINTS.get(reported_by, f"The sources of features are {', '.join(sorted(_SOURCES))}.")
            yield _wrong(source, (*path, "feature"), f"NFD reports no feature '{feature['feature']}'.", hint)
        for attribute, condition in feature["matchExpressions"].items():
            yield from _condition(source, (*path, "matchExpressions", attribute), condition)


def _condition(source: documents.Document, path: documents.Path, condition: Mapping[str, Any]) -> Iterator[Diagnostic]:
    values = condition.get("value", ())
    wanted, least, most = _VALUES[condition["op"]]
    if not least <= len(values) <= most:
        yield _wrong(source, (*path, "op"), f"The operator {condition['op']} takes {wanted}.", "Correct 'value'.")
    for index, value in enumerate(values if condition["op"] == "InRegexp" else ()):
        if kernels.fault(value) is not None:
            message = f"{wording.quoted(value)} is not a pattern of RE2."
            hint = "See https://github.com/google/re2/wiki/Syntax."
            yield _wrong(source, (*path, "value", index), message, hint)


def _wrong(source: documents.Document, path: documents.Path, message: str, hint: str) -> Diagnostic:
    return Diagnostic(code="invalid-value", span=source.span(*path), message=message, hint=hint)
