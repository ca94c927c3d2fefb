"""NodeFeatureRules as NFD carries them out on a machine's PCI functions, as far as the compiler writes them."""

from collections.abc import Mapping, Sequence
from typing import Any

Functions = Sequence[Mapping[str, str]]
"""PCI functions: the attributes vendor and device of each."""

_COUNT = "{{ len .pci.device }}"


def labels(rule: Mapping[str, Any], functions: Functions) -> dict[str, str]:
    """The labels that the rules of a NodeFeatureRule give a machine.

    Raises:
        AssertionError: A rule says something that this reader does not know.
    """
    found: dict[str, str] = {}
    for entry in rule["spec"]["rules"]:
        assert entry.keys() <= {"name", "labels", "labelsTemplate", "matchFeatures"}, entry
        (term,) = entry["matchFeatures"]
        matched = [function for function in functions if _matches(term, function)]
        if matched:
            found |= entry.get("labels", {})
            found |= dict(line.split("=", 1) for line in _filled(entry, len(matched)).split())
    return found


def _matches(term: Mapping[str, Any], function: Mapping[str, str]) -> bool:
    assert term["feature"] == "pci.device", term
    expressions = term["matchExpressions"]
    assert {expression["op"] for expression in expressions.values()} == {"In"}, term
    return all(function[name] in expression["value"] for name, expression in expressions.items())


def _filled(entry: Mapping[str, Any], count: int) -> str:
    text = str(entry.get("labelsTemplate", "")).replace(_COUNT, str(count))
    assert "{{" not in text, entry
    return text
