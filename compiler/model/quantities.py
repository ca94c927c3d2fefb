"""Quantities of Kubernetes: numbers with a suffix, of which several spellings are equal."""

import re
from fractions import Fraction

_PATTERN = re.compile(r"([+-]?[0-9]+(?:\.[0-9]*)?|[+-]?\.[0-9]+)(?:([numkMGTPE]|[KMGTPE]i)|[eE]([+-]?[0-9]{1,3}))?")
_DECIMAL = ("n", "u", "m", "", "k", "M", "G", "T", "P", "E")
_BINARY = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")


def value(amount: object) -> Fraction | None:
    """Return the exact value of a quantity; None for other text and for exponents of more than three digits.

    https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/
    """
    match = _PATTERN.fullmatch(str(amount))
    if match is None:
        return None
    number, suffix, exponent = Fraction(match[1]), match[2] or "", match[3]
    if exponent is not None:
        return number * Fraction(10) ** int(exponent)
    if suffix in _DECIMAL:
        return number * Fraction(1000) ** (_DECIMAL.index(suffix) - _DECIMAL.index(""))
    return number * Fraction(1024) ** _BINARY.index(suffix)
