"""The meaning of plain YAML scalars; a scalar that readers of Kubernetes manifests take differently is refused.

The readers are sigs.k8s.io/yaml (go-yaml v2: Argo CD, kubectl), kyaml (go-yaml v3: kustomize, Flux) and
PyYAML. Their tables are go-yaml's resolve.go, PyYAML's resolver.py (YAML 1.1), and kyaml's isTypeAmbiguous.
"""

import functools
import math
import re

import msgspec

DIGITS = 18
"""Digits that an integer can have; some readers take longer ones for floats, which drop digits."""

_AGREED = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_WORDS = {
    **dict.fromkeys(("null", "=", "<<"), ""),
    **dict.fromkeys(("y", "yes", "on", "true"), "true for the boolean"),
    **dict.fromkeys(("n", "no", "off", "false"), "false for the boolean"),
}
_AMBIGUOUS = "is not read alike by every YAML reader"
# Longer than any date or word; longer numbers lose digits in any reader.
_SHORT = 80
_DIGITS = re.compile(r"[-+.0-9][-+.:_0-9A-Fa-fXxOo]*+")
_STARTS = frozenset("~nNyYtTfFoO=<.+-0123456789")
_INTEGER = re.compile(r"-?(0|[1-9][0-9]*)")
_FLOAT = re.compile(r"-?[0-9]+\.[0-9]+")
# Compared in lower case and without underscores, which go-yaml and PyYAML drop from numbers.
_NUMBER = re.compile(
    r"(?P<sign>[-+]?)(0x(?P<hex>[0-9a-f]*)|0b(?P<binary>[01]*)|0o?(?P<octal>[0-7]+)|0[bo][-+][0-7]+|\.inf|\.nan"
    r"|(?P<decimal>(\.[0-9]+|[0-9]+(\.[0-9]*)?)(e[-+]?[0-9]+)?))"
)
_BASES = {"hex": 16, "binary": 2, "octal": 8}
# PyYAML's numbers to the base 60: 12:30 is 750, and the PCI address 0000:35:00.0 is 2100.
_SEXAGESIMAL = re.compile(r"[-+]?([1-9][0-9_]*(:[0-5]?[0-9])+|[0-9][0-9_]*(:[0-5]?[0-9])+\.[0-9_]*)")
_TIME = re.compile(
    r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}"
    r"(([Tt]|[ \t]+)[0-9]{1,2}:[0-9]{1,2}:[0-9]{1,2}(\.[0-9]*)?([ \t]*([Zz]|[-+][0-9]{1,2}(:?[0-9]{2})?))?)?"
)


class Scalar(msgspec.Struct, frozen=True):
    """The value of a plain scalar, or why it is refused and how else to write it."""

    value: str | int | float | bool | None
    problem: str = ""
    other: str = ""


def plain(text: str) -> Scalar:
    """Return the meaning of a plain scalar."""
    if len(text) <= _SHORT:
        return _short(text)
    return Scalar(text, _AMBIGUOUS if _DIGITS.fullmatch(text) else "")


@functools.lru_cache(maxsize=8192)
def _short(text: str) -> Scalar:
    if text and text[0] not in _STARTS:
        return Scalar(text)
    if text in _AGREED:
        return Scalar(_AGREED[text])
    if _INTEGER.fullmatch(text):
        if len(text.lstrip("-")) > DIGITS:
            return Scalar(text, "has more digits than every YAML reader keeps")
        return Scalar(int(text))
    if _FLOAT.fullmatch(text) and math.isfinite(float(text)):
        return Scalar(float(text))
    other = _otherwise(text)
    return Scalar(text) if other is None else Scalar(text, _AMBIGUOUS, other)


def _otherwise(text: str) -> str | None:
    """Return how else to write a scalar that is no string to some reader, '' if unknown; None for a string."""
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    number = _NUMBER.fullmatch(text.replace("_", "").lower())
    if number:
        return _decimal(number)
    return "" if _SEXAGESIMAL.fullmatch(text) or _TIME.fullmatch(text) else None


def _decimal(number: re.Match[str]) -> str:
    """Return a number as Kubernetes reads it, in a form that all readers share, or '' if there is none."""
    value: float | None = None
    for base, radix in _BASES.items():
        if number[base] and len(number[base]) <= 60:  # 60 binary digits are 18 decimal ones.
            value = int(number[base], radix)
    if number["decimal"] and len(number["decimal"]) <= DIGITS:
        value = float(number["decimal"])
        value = int(value) if math.isfinite(value) and value.is_integer() else value
    if value is None:
        return ""
    written = repr(-value if number["sign"] == "-" else value)
    if (_INTEGER.fullmatch(written) and len(written.lstrip("-")) <= DIGITS) or _FLOAT.fullmatch(written):
        return f"{written} for the number"
    return ""
