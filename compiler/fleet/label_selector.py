"""Label selectors in the syntax of `kubectl get -l` (`Parse` in k8s.io/apimachinery/pkg/labels/selector.go)."""

import re
from typing import Final

from compiler.fleet import selectors

_KEY, _VALUE = r"[A-Za-z0-9][-A-Za-z0-9_./]*", r"[^\s,()!=<>]*"
_REQUIREMENT = re.compile(
    rf"""\s*(?:
        !\s*(?P<absent>{_KEY})
        | (?P<key>{_KEY})(?:
            \s*(?P<sign>==|!=|=|<|>)\s*(?P<value>{_VALUE})
            | \s+(?P<word>in|notin)\s*\((?P<values>[^()!=<>]*)\)
        )?
    )\s*(?P<end>,|$)""",
    re.VERBOSE,
)
_OPERATORS: Final[dict[str, selectors.Operator]] = {
    "=": "In",
    "==": "In",
    "!=": "NotIn",
    "<": "Lt",
    ">": "Gt",
    "in": "In",
    "notin": "NotIn",
}


def parse(text: str) -> selectors.Term:
    """Return a selector as a term; an empty one matches every node. Raise ValueError with the fault."""
    found: list[selectors.Requirement] = []
    rest, is_open = text, bool(text.strip())
    while is_open:
        match = _REQUIREMENT.match(rest)
        if match is None:
            raise ValueError(f"'{rest.strip()}' is no requirement on a label")
        found.append(_requirement(match))
        rest, is_open = rest[match.end() :], match["end"] == ","
    return tuple(found)


def _requirement(match: re.Match[str]) -> selectors.Requirement:
    requirement = _read(match)
    fault = selectors.misuse(requirement)
    if fault is not None:
        raise ValueError(f"'{requirement.key}' {fault}")
    return requirement


def _read(match: re.Match[str]) -> selectors.Requirement:
    if match["absent"]:
        return selectors.Requirement(match["absent"], "DoesNotExist")
    if match["sign"]:
        return selectors.Requirement(match["key"], _OPERATORS[match["sign"]], (match["value"],))
    if match["word"]:
        values = sorted({value.strip() for value in match["values"].split(",")})
        return selectors.Requirement(match["key"], _OPERATORS[match["word"]], tuple(values))
    return selectors.Requirement(match["key"], "Exists")
