"""NFD's custom resource definitions: what the API server is told to accept, and what to refuse."""

import copy
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jsonschema
import pytest

from tests import mutations, outside
from tests.templates.nfd import Rendered


@pytest.fixture
def definition(rendered: Rendered) -> Callable[[str], Any]:
    return lambda plural: rendered(16)[f"customresourcedefinition-{plural}.nfd.k8s-sigs.io"]


@pytest.fixture
def refusal(definition: Callable[[str], Any]) -> Callable[[str, Any], str | None]:
    """Why the API server refuses an object under strict field validation, or None."""

    def judged(plural: str, candidate: Any) -> str | None:
        judge = jsonschema.Draft202012Validator(outside.schema_of(definition(plural)))
        worst = jsonschema.exceptions.best_match(judge.iter_errors(candidate))
        return None if worst is None else worst.message

    return judged


def open_schema(definition: Mapping[str, Any]) -> Any:
    (version,) = definition["spec"]["versions"]
    return version["schema"]["openAPIV3Schema"]


def places(schema: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    yield path, schema
    for name, inner in schema.get("properties", {}).items():
        yield from places(inner, f"{path}.{name}")
    for word in ("items", "additionalProperties"):
        if word in schema:
            yield from places(schema[word], f"{path}[]")


@pytest.fixture
def rule(device_rules: Any) -> Any:
    """The compiler's own NodeFeatureRule, to spoil."""
    return copy.deepcopy(device_rules)


@pytest.mark.parametrize("plural", ["nodefeatures", "nodefeaturerules", "nodefeaturegroups"])
def test_a_schema_is_structural_and_keeps_no_unknown_field(definition: Callable[[str], Any], plural: str) -> None:
    defined = definition(plural)

    assert "preserveUnknownFields" not in defined["spec"]
    for path, schema in places(open_schema(defined)):
        assert isinstance(schema.get("type"), str), path
        assert not {"properties", "additionalProperties"} <= schema.keys(), path
        assert "x-kubernetes-preserve-unknown-fields" not in schema, path
        assert set(schema.get("required", ())) <= schema.get("properties", {}).keys(), path


def test_the_compiler_s_own_rules_are_accepted(refusal: Callable[[str, Any], str | None], rule: Any) -> None:
    assert refusal("nodefeaturerules", rule) is None


def test_every_field_that_a_rule_can_have_is_accepted(refusal: Callable[[str, Any], str | None]) -> None:
    full = {
        "name": "all",
        "labels": {"a/b": "true"},
        "labelsTemplate": "a=b",
        "vars": {"c": "d"},
        "varsTemplate": "e=f",
        "annotations": {"g/h": "i"},
        "extendedResources": {"j/k": "4"},
        "taints": [{"key": "l", "value": "m", "effect": "NoSchedule", "timeAdded": "2024-01-01T00:00:00Z"}],
        "matchFeatures": [
            {
                "feature": "kernel.version",
                "matchExpressions": {"full": {"op": "Ge", "value": ["5.10"], "type": "version"}},
                "matchName": {"op": "Exists"},
            }
        ],
        "matchAny": [{"matchFeatures": [{"feature": "cpu.cpuid"}]}],
    }

    assert refusal("nodefeaturerules", {"spec": {"rules": [full]}}) is None


VENDOR = ("matchFeatures", 0, "matchExpressions", "vendor")


@pytest.mark.parametrize(
    ("position", "value", "reason"),
    [
        ((*VENDOR, "op"), "Is", "'Is' is not one of"),
        ((*VENDOR, "value"), "19e5", "'19e5' is not of type 'array'"),
        (("labels", "openfuyao.com/kae.present"), True, "True is not of type 'string'"),
        (("matchFeature",), [], "'matchFeature' was unexpected"),
    ],
)
def test_a_rule_that_nfd_could_not_read_is_refused(
    refusal: Callable[[str, Any], str | None], rule: Any, position: mutations.Position, value: Any, reason: str
) -> None:
    rule["spec"]["rules"][0] = mutations.changed(rule["spec"]["rules"][0], position, value)

    assert reason in (refusal("nodefeaturerules", rule) or "")


def test_a_rule_has_a_name(refusal: Callable[[str, Any], str | None], rule: Any) -> None:
    del rule["spec"]["rules"][0]["name"]

    assert refusal("nodefeaturerules", rule) == "'name' is a required property"


def test_a_worker_s_report_is_accepted(refusal: Callable[[str, Any], str | None]) -> None:
    report = {
        "spec": {
            "labels": {"feature.node.kubernetes.io/kernel-version.full": "5.10.0"},
            "features": {
                "attributes": {"kernel.version": {"elements": {"full": "5.10.0"}}},
                "flags": {"kernel.loadedmodule": {"elements": {"uacce": {}}}},
                "instances": {"pci.device": {"elements": [{"attributes": {"vendor": "19e5", "device": "a258"}}]}},
            },
        }
    }

    assert refusal("nodefeatures", report) is None
    assert refusal("nodefeatures", {}) == "'spec' is a required property"


def test_the_members_of_a_group_are_told_apart_by_name(
    refusal: Callable[[str, Any], str | None], definition: Callable[[str], Any]
) -> None:
    spec = {"featureGroupRules": [{"name": "a", "matchFeatures": [{"feature": "cpu.cpuid"}]}]}
    nodes = open_schema(definition("nodefeaturegroups"))["properties"]["status"]["properties"]["nodes"]

    assert refusal("nodefeaturegroups", {"spec": spec, "status": {"nodes": [{"name": "n1"}]}}) is None
    assert refusal("nodefeaturegroups", {"spec": spec, "status": {"nodes": [{}]}}) == "'name' is a required property"
    assert (nodes["x-kubernetes-list-type"], nodes["x-kubernetes-list-map-keys"]) == ("map", ["name"])
