"""A second implementation of selectors and tolerations, for documents and for manifests."""

from collections.abc import Mapping, Sequence
from typing import Any

Raw = Mapping[str, Any]

_LIFECYCLE = tuple(
    f"node.kubernetes.io/{state}"
    for state in ("not-ready", "unreachable", "disk-pressure", "memory-pressure", "pid-pressure", "unschedulable")
)
"""Taints of a node's state that every DaemonSet's pod bears."""


def selects(selector: Raw | None, labels: Mapping[str, str]) -> bool:
    """Return whether a node selector matches a node with these labels."""
    return all(holds(one, labels.get(one["key"])) for one in _requirements(selector))


def denies(selector: Raw | None, labels: Mapping[str, str]) -> bool:
    """Return whether the negation of the selector, as selectors can say it, matches a node with these labels.

    Gt and Lt are false of what is no integer, and so are the Lt and Gt that negate them. What is no integer could be
    listed instead, and here and there the compiler does, where some other selector lists it: none here does.
    """
    for one in _requirements(selector):
        value = labels.get(one["key"])
        sayable = one["operator"] not in ("Gt", "Lt") or value is None or _integer(value) is not None
        if sayable and not holds(one, value):
            return True
    return False


def witness(one: Raw | None, other: Raw | None) -> bool:
    """Return whether some labels meet two node selectors: no key depends on another, so each is tried by itself."""
    both = [*_requirements(one), *_requirements(other)]
    for key in {requirement["key"] for requirement in both}:
        own = [requirement for requirement in both if requirement["key"] == key]
        named = {value for requirement in own for value in requirement.get("values", ())}
        around = {int(value) + step for value in named if _integer(value) is not None for step in (-1, 0, 1)}
        tried = {None, "unheard-of", *named, *(f"{number}" for number in around if number >= 0)}
        tried |= {f"0{value}" for value in tried if value and value.isdigit()}
        if not any(all(holds(requirement, value) for requirement in own) for value in tried):
            return False
    return True


def bears(tolerations: Sequence[Raw], node: Raw) -> bool:
    """Return whether a DaemonSet's pod with these tolerations comes to a node in spite of its taints."""
    lasting = [taint for taint in node["spec"].get("taints", ()) if taint["key"] not in _LIFECYCLE]
    return all(
        taint["effect"] == "PreferNoSchedule" or any(tolerates(item, taint) for item in tolerations)
        for taint in lasting
    )


def _requirements(selector: Raw | None) -> list[Raw]:
    chosen = selector or {}
    labels = chosen.get("matchLabels", {}).items()
    return [
        *({"key": key, "operator": "In", "values": [value]} for key, value in labels),
        *chosen.get("matchExpressions", ()),
    ]


def holds(requirement: Raw, value: str | None) -> bool:
    """Return whether a label with this value, None for no label, meets a requirement."""
    operator: str = requirement["operator"]
    values: Sequence[str] = requirement.get("values", ())
    if operator in ("In", "NotIn"):
        return (value in values) == (operator == "In")
    if operator in ("Exists", "DoesNotExist"):
        return (value is None) == (operator == "DoesNotExist")
    number, limit = _integer(value or ""), int(values[0])
    return number is not None and (number > limit if operator == "Gt" else number < limit)


def _integer(text: str) -> int | None:
    if not text.isascii() or not text.isdigit():
        return None
    return int(text) if int(text) < 2**63 else None


def tolerates(toleration: Raw, taint: Raw) -> bool:
    """Return whether a pod with this toleration bears a taint."""
    if toleration.get("effect", taint["effect"]) != taint["effect"]:
        return False
    if toleration.get("key", taint["key"]) != taint["key"]:
        return False
    return toleration.get("operator") == "Exists" or toleration.get("value", "") == taint.get("value", "")
