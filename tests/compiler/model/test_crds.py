"""NFD's custom resource definitions: what the API server is told to accept, and what to refuse."""

import copy
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from compiler.rendering import cluster_values, ir, node_feature_rules, templates
from tests import builders, mutations

GROUP = "nfd.k8s-sigs.io"


@pytest.fixture(scope="module")
def renders(repository_root: Path) -> Callable[[ir.Manifest], Any]:
    paths = (
        path for folder in ("crds", "node-feature-rule") for path in (repository_root / "templates" / folder).iterdir()
    )
    return templates.renderer({f"{path.parent.name}/{path.name}": path.read_text(encoding="utf-8") for path in paths})


@pytest.fixture(scope="module")
def definition(renders: Callable[[ir.Manifest], Any]) -> Callable[..., Any]:
    def defined(plural: str, minor: int = 16) -> Any:
        value = cluster_values.Nfd(
            namespace="kae-operator",
            image="registry.example/nfd:v1",
            pull_policy="Always",
            minor=minor,
            tolerations=(),
            worker_tolerations=(),
            pull_secrets=(),
            terms=(),
            master=cluster_values.NfdPod(priority_class="system-cluster-critical", resources=None),
            worker=cluster_values.NfdPod(priority_class="system-node-critical", resources=None),
            gc=cluster_values.NfdPod(priority_class=None, resources=None),
            fixed_user=True,
        )
        template = f"customresourcedefinition-{plural}.{GROUP}.yaml"
        return renders(ir.Manifest(component="crds", template=template, value=value))

    return defined


@pytest.fixture(scope="module")
def refusal(definition: Callable[..., Any]) -> Callable[[str, Any], str | None]:
    """Why the API server refuses an object under strict field validation, or None."""

    def judged(plural: str, candidate: Any) -> str | None:
        schema = closed(open_schema(definition(plural)))
        worst = jsonschema.exceptions.best_match(jsonschema.Draft202012Validator(schema).iter_errors(candidate))
        return None if worst is None else worst.message

    return judged


def open_schema(definition: Mapping[str, Any]) -> Any:
    (version,) = definition["spec"]["versions"]
    return version["schema"]["openAPIV3Schema"]


def closed(schema: Any) -> Any:
    """The schema with unknown fields refused wherever it lists the fields."""
    if isinstance(schema, list):
        return [closed(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    shut = {key: closed(value) for key, value in schema.items()}
    return {**shut, "additionalProperties": False} if isinstance(schema.get("properties"), dict) else shut


def places(schema: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    yield path, schema
    for name, inner in schema.get("properties", {}).items():
        yield from places(inner, f"{path}.{name}")
    for word in ("items", "additionalProperties"):
        if word in schema:
            yield from places(schema[word], f"{path}[]")


@pytest.fixture
def rule(renders: Callable[[ir.Manifest], Any]) -> Any:
    """The compiler's own NodeFeatureRule, to spoil."""
    (manifest,) = node_feature_rules.of_cluster(builders.cluster(), ())
    return copy.deepcopy(renders(manifest))


@pytest.mark.parametrize("plural", ["nodefeatures", "nodefeaturerules", "nodefeaturegroups"])
def test_a_schema_is_structural_and_keeps_no_unknown_field(definition: Callable[..., Any], plural: str) -> None:
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
    refusal: Callable[[str, Any], str | None], definition: Callable[..., Any]
) -> None:
    spec = {"featureGroupRules": [{"name": "a", "matchFeatures": [{"feature": "cpu.cpuid"}]}]}
    nodes = open_schema(definition("nodefeaturegroups"))["properties"]["status"]["properties"]["nodes"]

    assert refusal("nodefeaturegroups", {"spec": spec, "status": {"nodes": [{"name": "n1"}]}}) is None
    assert refusal("nodefeaturegroups", {"spec": spec, "status": {"nodes": [{}]}}) == "'name' is a required property"
    assert (nodes["x-kubernetes-list-type"], nodes["x-kubernetes-list-map-keys"]) == ("map", ["name"])
