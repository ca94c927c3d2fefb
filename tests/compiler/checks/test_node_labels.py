"""Labels of nodes: what people misspell is told where it stands, and labels of others are left alone."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from compiler.checks import inventory as checks
from compiler.diagnostics import Diagnostic
from compiler.fleet import definitions
from compiler.formats import canonical as canonical_text
from compiler.formats import documents
from compiler.inventory import canonical_form
from compiler.read import fleet as reader
from tests import builders

FILE = "inventory/east.json"
RECIPES = (
    builders.recipe("net", match={"pci": [{"kind": "nic", "vendor": "1924", "classes": ["0200"]}]}),
    builders.recipe("gpu", match={"labels": {"example.com/gpu": ["yes"]}}),
    builders.recipe("cpu", match={"features": [{"feature": "cpu.cpuid", "matchExpressions": {"X": {"op": "Exists"}}}]}),
)
POLICIES: tuple[definitions.Policy, ...] = (
    builders.policy(),
    *(builders.device_policy(recipe.data["metadata"]["name"], recipe) for recipe in RECIPES),
)


def told(document: documents.Document) -> list[Diagnostic]:
    inventory = reader.inventory_of(document, builders.cluster().spec)
    return list(checks.labels(document, inventory, reader.recipes_of(POLICIES)))


def listed(*labels: Mapping[str, str]) -> documents.Document:
    """A list of nodes as kubectl prints it."""
    items: list[Any] = [
        builders.kubernetes_node(name, labels=dict(own)) for name, own in zip("cab", labels, strict=False)
    ]
    return builders.document({"apiVersion": "v1", "kind": "List", "items": items}, FILE)


def canonical(document: documents.Document) -> documents.Document:
    inventory = reader.inventory_of(document, builders.cluster().spec)
    return builders.document(json.loads(canonical_form.text(inventory)), FILE)


def text_at(document: documents.Document, found: Diagnostic) -> str:
    """The text of a document from the place of a finding on."""
    lines = canonical_text.dump_json(document.data).splitlines()
    return lines[found.span.line - 1][found.span.column - 1 :]


def own(name: str) -> str:
    return f"openfuyao.com/{name}"


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        (own("kae.deploy.drvier"), own("kae.deploy.driver")),
        (own("kae.deploy.Driver"), own("kae.deploy.driver")),
        (own("kae.deploy.device_plugin"), own("kae.deploy.device-plugin")),
        (own("kae.deploy.deviceplugin"), own("kae.deploy.device-plugin")),
        (own("kae.depoly.driver"), own("kae.deploy.driver")),
        (own("kea.deploy.driver"), own("kae.deploy.driver")),
        (own("KAE.deploy.driver"), own("kae.deploy.driver")),
        (own("nte.deploy.drvier"), own("net.deploy.driver")),
        (own("net.deploy.drivers"), own("net.deploy.driver")),
        (own("gpu.deploy-driver"), own("gpu.deploy.driver")),
        (own("kae.hpre.presnt"), own("kae.hpre.present")),
        ("openfuyao.io/kae.deploy.driver", own("kae.deploy.driver")),
        ("net.deploy.device-plugin", own("net.deploy.device-plugin")),
    ],
)
def test_a_misspelt_label_is_told_with_what_was_meant(key: str, meant: str) -> None:
    for document in (listed({key: "false"}), canonical(listed({key: "false"}))):
        (found,) = told(document)

        assert found.message == f"The label '{key}' of 1 node (c) of cluster 'east' is not read."
        assert found.hint == f"Did you mean '{meant}'? Correct it on the node."
        assert text_at(document, found).startswith(f'"{key}"')


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        *((own("kae.deploy.driver"), value, "keep the driver away") for value in ("False", "no", "0", "off", "")),
        (own("kae.deploy.device-plugin"), "FALSE", "keep the device plugin away"),
        (own("net.deploy.driver"), "False", "keep the driver away"),
        (own("gpu.deploy.device-plugin"), "no", "keep the device plugin away"),
        (own("kae.present"), "True", "KAE devices are not seen"),
        (own("kae.hpre.present"), "True", "KAE devices are not seen"),
        (own("net.nic.present"), "yes", "devices of recipe 'net' are not seen"),
        (own("cpu.present"), "True", "devices of recipe 'cpu' are not seen"),
        ("example.com/gpu", "Yes", "devices of recipe 'gpu' are not seen"),
        (own("kae.hpre.pf"), "two", "no device is counted"),
        (own("net.nic.vf"), "-1", "no device is counted"),
    ],
)
def test_a_value_that_is_not_read_is_told_where_it_stands(key: str, value: str, says: str) -> None:
    for document in (listed({"a": "b"}, {key: value}), canonical(listed({"a": "b"}, {key: value}))):
        (found,) = told(document)

        assert f"The label '{key}' of 1 node (a) of cluster 'east' has the value '{value}', " in found.message
        assert says in found.message
        assert text_at(document, found).startswith(f'"{value}"')


@pytest.mark.parametrize(
    "labels",
    [
        {own("kae.deploy.driver"): "false", own("net.deploy.device-plugin"): "true", own("gpu.deploy.driver"): "false"},
        {
            own("kae.present"): "true",
            own("kae.hpre.present"): "false",
            own("kae.hpre.pf"): "2",
            own("kae.hpre.vf"): "0",
        },
        {own("npu.deploy.driver"): "no", own("npu.present"): "True", own("npu.deploy.drvier"): "false"},
        {own("other.deploy.driver"): "false", own("other.card.present"): "1", own("kae.dpu.present"): "1"},
        {own("kae.driver-version"): "2.3.0", own("kae.driver-state"): "Ready", own("old.driver-state"): "x"},
        {own("team"): "a", own("numa.enabled"): "x", "deploy.driver": "false", "example.com/gpu": "none"},
        {"example.com/kae.deploy.drvier": "false", "pool": "tls"},
    ],
)
def test_what_is_read_and_what_is_of_others_is_not_told(labels: dict[str, str]) -> None:
    assert told(listed(labels)) == told(canonical(listed(labels))) == []


def test_nodes_with_one_fault_share_a_finding_at_the_first_of_them() -> None:
    wrong = {own("kae.deploy.driver"): "False"}

    (found,) = told(listed(wrong, {}, wrong))

    assert "of 2 nodes (b and c) " in found.message
