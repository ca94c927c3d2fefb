"""A second implementation of NFD's master: the labels that NodeFeatureRules give a node.

It reads the objects as an API server would store them, and shares no code with the compiler. The rules are those of
`Rule.Execute` and `MatchExpression.Match` in NFD's pkg/apis/nfd/nodefeaturerule. It knows what the compiler's rules
use, and refuses everything else instead of skipping it.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

MATCHED = "rule.matched"
"""The feature that holds the labels and variables of all rules before: of one object in order, of objects by name."""

KERNEL_AND_CPU = ("kernel.loadedmodule", "kernel.enabledmodule", "kernel.config", "cpu.cpuid", "cpu.security")
"""Features of which a node may have none."""

_EXPIRY = "# +expiry-time="
# Extended resources are no labels.
_RULE_FIELDS = {"name", "labels", "labelsTemplate", "vars", "matchFeatures", "matchAny", "extendedResources"}
_COUNT = re.compile(r"([^=\s]+)=\{\{ len \.pci\.device \}\}")
_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Features:
    """The features of a NodeFeature: attributes by feature and name, instances by feature."""

    attributes: Mapping[str, Mapping[str, str]]
    instances: Mapping[str, tuple[Mapping[str, str], ...]]


UNREPORTED = Features(attributes={}, instances={})
"""A node without NodeFeature, as the releases take it that evaluate rules there: as one without features."""


def local(files: Mapping[str, str], now: datetime) -> dict[str, str]:
    """The features of the source `local`, by the texts of its files: `parseFeatureFile` in NFD's source/local."""
    found: dict[str, str] = {}
    for name in sorted(name for name in files if not name.startswith(".")):
        is_over = False
        for line in filter(None, map(str.strip, files[name].splitlines())):
            if line.startswith(_EXPIRY):
                is_over = datetime.fromisoformat(line.removeprefix(_EXPIRY)) < now
            elif not line.startswith("#") and not is_over:
                key, mark, value = line.partition("=")
                found[key] = value if mark else "true"
    return found


def labels(objects: Iterable[Mapping[str, Any]], features: Features) -> dict[str, str]:
    """The labels that the rules give to a node with these features."""
    found: dict[str, str] = {}
    known: dict[str, str] = {}
    for item in sorted(objects, key=lambda item: item["metadata"]["name"].encode()):
        for index, rule in enumerate(item["spec"]["rules"]):
            if index == 0 and any(term["feature"] == MATCHED for term in rule.get("matchFeatures", ())):
                raise ValueError(f"the first rule of {item['metadata']['name']} reads {MATCHED}: an error to NFD 0.16")
            given = _given(rule, features, known)
            known.update(given)
            known.update(rule.get("vars", {}) if given is not _NOTHING else {})
            found.update(given)
    return {key: value for key, value in found.items() if _VALUE.fullmatch(value)}


_NOTHING: Mapping[str, str] = {}
"""The result of a rule that does not match; another object than no labels."""


def _given(rule: Mapping[str, Any], features: Features, known: Mapping[str, str]) -> Mapping[str, str]:
    """The labels of a rule; `_NOTHING` itself where it does not match."""
    if not rule.keys() <= _RULE_FIELDS:
        raise ValueError(f"unknown fields of a rule: {sorted(rule.keys() - _RULE_FIELDS)}")
    if "matchAny" in rule and all(_given(one, features, known) is _NOTHING for one in rule["matchAny"]):
        return _NOTHING
    devices = 0
    for term in rule.get("matchFeatures", ()):
        expressions = term["matchExpressions"]
        if term["feature"] == "pci.device":
            matching = sum(_all(expressions, device) for device in features.instances.get("pci.device", ()))
            if not matching:
                return _NOTHING
            devices += matching
        elif not _all(expressions, known if term["feature"] == MATCHED else _attributes(term["feature"], features)):
            return _NOTHING
    labels = {key: _dynamic(value, features) for key, value in rule.get("labels", {}).items()}
    return {**dict(_templated(rule.get("labelsTemplate", ""), devices)), **labels}


def _dynamic(value: str, features: Features) -> str:
    """A value, or where it begins with @ that of the attribute: `getDynamicValue` in NFD's pkg/nfd-master."""
    if not value.startswith("@"):
        return value
    domain, feature, name = value[1:].split(".", 2)
    return features.attributes[f"{domain}.{feature}"][name]


def _attributes(feature: str, features: Features) -> Mapping[str, str]:
    known = ("kernel.version", "system.name", "local.feature", *KERNEL_AND_CPU)
    if feature not in (*known, *features.attributes):
        raise ValueError(f"unknown feature {feature}")
    return features.attributes.get(feature, {})


def _templated(template: str, devices: int) -> Iterator[tuple[str, str]]:
    for line in filter(None, map(str.strip, template.splitlines())):
        shape = _COUNT.fullmatch(line)
        if shape is None:
            raise ValueError(f"unknown template {line}")
        yield shape[1], str(devices)


def _all(expressions: Mapping[str, Mapping[str, Any]], values: Mapping[str, str]) -> bool:
    return all(_matches(expression, values.get(name)) for name, expression in expressions.items())


def _matches(expression: Mapping[str, Any], value: str | None) -> bool:
    """Return whether an expression holds; unlike in a label selector, NotIn does not hold where there is no value."""
    operator: str = expression["op"]
    wanted: Sequence[str] = expression.get("value", ())
    if operator in ("Exists", "DoesNotExist"):
        return (value is not None) == (operator == "Exists")
    if operator in ("IsTrue", "IsFalse"):
        return value == operator.removeprefix("Is").lower()
    if operator not in ("In", "NotIn", "InRegexp"):
        raise ValueError(f"unknown operator {operator}")
    if value is None:
        return False
    if operator == "InRegexp":
        return any(re.search(pattern, value) for pattern in wanted)
    return (value in wanted) == (operator == "In")
