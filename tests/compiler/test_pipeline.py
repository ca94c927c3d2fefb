"""The order of the stages: what documents make up a fleet, and what each cluster of it comes to."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

from compiler import diagnostics, pipeline
from compiler.fleet import definitions
from compiler.formats import documents
from compiler.inventory import canonical_form
from tests import builders


def policy(name: str = "tls", **spec: Any) -> documents.Document:
    """A policy's document, with pinned images."""
    return builders.document(builders.raw("KAEPolicy", name, {**builders.PINNED, **spec}), f"policies/{name}.yaml")


def cluster(name: str = "east", file: str = "", **spec: Any) -> documents.Document:
    return builders.document(builders.raw("KAECluster", name, spec), file or f"policies/{name}.yaml")


def nodes(*items: dict[str, Any], file: str = "inventory/east.json") -> documents.Document:
    return builders.document({"apiVersion": "v1", "kind": "List", "items": list(items)}, file)


def canonical(name: str = "east", file: str = "inventory/east.json") -> documents.Document:
    return builders.document(builders.raw("NodeInventory", name, {"nodes": [], "profiles": {}}), file)


def read(*given: documents.Document, **known: str) -> tuple[definitions.Fleet, list[str]]:
    vouched = [(f"inventory/{name}.json", cluster) for name, cluster in known.items()]
    fleet, notes = pipeline.read(given, builders.judge(), vouched)
    return fleet, builders.codes(notes)


def names(fleet: definitions.Fleet) -> list[str]:
    return [item.name for item in fleet.clusters]


def test_a_cluster_is_what_has_a_document_or_an_inventory() -> None:
    fleet, codes = read(cluster("west"), nodes(builders.kubernetes_node()))

    assert (names(fleet), codes) == (["east", "west"], ["cluster-undeclared"])
    assert fleet.clusters[0].spec == builders.cluster().spec
    assert fleet.inventory(fleet.clusters[1]).nodes == ()


def test_without_any_kaecluster_an_inventory_is_enough() -> None:
    fleet, codes = read(
        nodes(builders.kubernetes_node()), nodes(builders.kubernetes_node(), file="inventory/west.json")
    )

    assert (names(fleet), codes) == (["east", "west"], [])


def test_a_kaecluster_that_is_refused_leaves_no_inventory_undeclared() -> None:
    refused = builders.document(builders.raw("KAECluster", "east", {"nfds": {}}), "policies/east.yaml")

    assert read(refused, cluster("west"), nodes(builders.kubernetes_node()))[1] == ["unknown-field"]


def test_an_inventory_that_was_found_sound_before_is_undeclared_too() -> None:
    assert read(cluster("west"), east="east")[1] == ["cluster-undeclared"]


def test_a_cluster_that_nothing_declares_gives_no_reason_to_speak_of_nodes() -> None:
    for given in ([policy(clusters=["eats"]), cluster()], [policy(), cluster("west"), canonical()]):
        fleet, codes = read(*given)

        assert (len(codes), fleet.sound) == (1, False)


def test_a_file_that_was_found_sound_before_still_makes_a_cluster() -> None:
    fleet, codes = read(policy(), east="east")

    assert (names(fleet), codes) == (["east"], [])
    assert fleet.inventories == {}


def test_a_file_that_was_found_sound_before_is_still_one_of_two() -> None:
    assert read(canonical(file="inventory/old/east.json"), east="east")[1] == ["duplicate-inventory"]


def test_the_order_of_documents_changes_nothing() -> None:
    given = [policy("a", clusters=["east"]), policy("b", clusters=["west"]), cluster("west"), canonical()]

    one, other = read(*given)[0], read(*reversed(given))[0]

    for fleet in (one, other):
        assert names(fleet) == ["east", "west"]
    for left, right in zip(one.clusters, other.clusters, strict=True):
        assert [item.policy.name for item in pipeline.plan_cluster(one, left)[0].divisions] == [
            item.policy.name for item in pipeline.plan_cluster(other, right)[0].divisions
        ]


@pytest.mark.parametrize("kind", ["KAEPolicy", "KAECluster"])
def test_what_decides_is_read_in_policies_alone(kind: str) -> None:
    given = builders.document(
        builders.raw(kind, "x", {"default": True} if kind == "KAEPolicy" else {}), "inventory/east.yaml"
    )

    fleet, codes = read(given)

    assert codes == ["unknown-kind"]
    assert (fleet.policies, fleet.clusters) == ((), ())


def test_a_document_that_its_schema_refuses_leaves_the_others() -> None:
    fleet, codes = read(policy("good"), policy("bad", drivers={}), canonical())

    assert codes == ["unknown-field"]
    assert [item.name for item in fleet.policies] == ["good"]
    assert not fleet.sound


def test_what_was_refused_gives_no_reason_to_speak_of_nodes() -> None:
    refused, sound = policy("tls", drivers={}), policy()
    given = nodes(builders.kubernetes_node())

    for document, codes in ((refused, []), (sound, ["rules-missing"])):
        fleet, _ = pipeline.read([document, given, cluster(nfd={"enabled": False})], builders.judge())
        assert builders.codes(pipeline.plan_cluster(fleet, fleet.clusters[0])[1]) == codes


def test_the_settings_of_a_cluster_say_which_labels_leave_its_list_of_nodes() -> None:
    item = builders.kubernetes_node(labels={"example.com/a": "1", "pool": "tls"})

    fleet, _ = read(cluster(watcher={"ignoreLabels": ["example.com/*"]}), nodes(item))

    assert dict(fleet.inventories["east"].nodes[0].labels) == {"pool": "tls"}


def test_the_settings_of_a_cluster_say_which_labels_its_list_of_nodes_keeps() -> None:
    item = builders.kubernetes_node(labels={"example.com/a": "1", "pool": "tls", "zone": "a"})

    fleet, _ = read(cluster(watcher={"inventory": {"labels": ["example.com/", "po*"]}}), nodes(item))

    assert dict(fleet.inventories["east"].nodes[0].labels) == {"example.com/a": "1", "pool": "tls"}


def test_kubectls_answer_and_its_canonical_form_are_one_inventory() -> None:
    items = [builders.kubernetes_node(name, builders.HPRE | {"pool": name}) for name in ("b", "a")]
    text = canonical_form.text(builders.reduced(*items))

    raw, _ = read(nodes(*items))
    again, _ = read(builders.document(json.loads(text), "inventory/east.json"))

    assert raw.inventories == again.inventories


@pytest.mark.parametrize(
    ("document", "code"),
    [
        (canonical(name="west"), "inventory-name"),
        (nodes(file="inventory/East_1.json"), "inventory-name"),
        (nodes(builders.kubernetes_node(), builders.kubernetes_node()), "duplicate-node"),
    ],
)
def test_an_inventory_that_is_not_sound_makes_no_cluster(document: documents.Document, code: str) -> None:
    fleet, codes = read(document)

    assert code in codes
    assert names(fleet) == []


def test_a_name_may_be_used_again_in_another_cluster() -> None:
    given = [policy("tls", clusters=["east"]), policy("tls", clusters=["west"]), cluster("east"), cluster("west")]
    fleet, codes = read(*given)

    assert codes == []
    for item in fleet.clusters:
        seen, notes = pipeline.plan_cluster(fleet, item)
        assert [entry.policy.clusters for entry in seen.divisions] == [(item.name,)]
        assert not diagnostics.has_errors(notes)


def test_the_clusters_that_were_asked_for_are_chosen_in_the_fleets_order() -> None:
    clusters = tuple(builders.cluster(name) for name in ("a", "b", "c"))
    fleet = definitions.Fleet(policies=(), clusters=clusters, inventories={})

    assert [item.name for item in fleet.selected(["c", "a"])] == ["a", "c"]
    assert fleet.selected([]) == clusters


def test_findings_about_nodes_stand_at_their_inventory_or_at_the_cluster() -> None:
    given = nodes(builders.kubernetes_node(labels={}), file="inventory/east.json")

    fleet, _ = pipeline.read([given], builders.judge())
    (note,) = pipeline.plan_cluster(fleet, fleet.clusters[0])[1]

    assert (note.code, note.span.file) == ("node-unknown", "inventory/east.json")


TYPO: dict[str, Any] = {"nodeSelector": {"matchLabels": {"pool": "tsl"}}}
TLS = builders.kubernetes_node("a", builders.HPRE | {"pool": "tls"})
TSL = builders.kubernetes_node("a", builders.HPRE | {"pool": "tsl"})


def settled(*given: documents.Document, planned: Sequence[str] = ()) -> list[diagnostics.Diagnostic]:
    """The findings on policies without nodes, of the planned clusters together."""
    fleet, _ = pipeline.read(given, builders.judge())
    on_clusters: dict[str, diagnostics.Findings] = {
        item.name: pipeline.plan_cluster(fleet, item)[1] for item in fleet.selected(planned)
    }
    findings = diagnostics.merged(pipeline.settle(fleet, on_clusters))
    return [finding for finding in findings if finding.code == "policy-matches-nothing"]


def test_a_policy_that_matches_no_node_anywhere_is_told_once() -> None:
    (finding,) = settled(policy(**TYPO), nodes(TLS), nodes(TLS, file="inventory/west.json"))

    assert (finding.message, finding.severity) == ("Policy 'tls' matches no node.", "warning")
    assert finding.notes == ("No node has the label pool=tsl; did you mean 'tls'?",)


def test_a_policy_without_a_node_beside_a_default_policy_is_told() -> None:
    assert len(settled(policy(**TYPO), policy("others", default=True), nodes(TLS))) == 1


def test_a_policy_may_serve_only_some_of_its_clusters() -> None:
    given = policy(**TYPO), nodes(TLS), nodes(TSL, file="inventory/west.json")

    assert settled(*given) == []
    assert settled(*given, planned=["east"]) == []


def test_a_cluster_that_is_not_planned_may_have_the_nodes_of_a_policy() -> None:
    given = nodes(TLS), nodes(TLS, file="inventory/west.json")

    assert settled(policy(**TYPO), *given, planned=["east"]) == []
    assert len(settled(policy(clusters=["east"], **TYPO), *given, planned=["east"])) == 1


@pytest.mark.parametrize("more", [[], [canonical("west", "inventory/west.json")]])
def test_a_cluster_whose_nodes_are_not_known_may_have_those_of_a_policy(more: list[documents.Document]) -> None:
    assert settled(policy(**TYPO), cluster(), cluster("west"), nodes(TLS), *more) == []


@pytest.mark.parametrize("spec", [{}, {"default": True}, {"nodeSelector": {"matchLabels": {"pool": "tls"}}}])
def test_a_policy_that_has_nodes_or_no_selector_is_sound(spec: dict[str, Any]) -> None:
    assert settled(policy(**spec), nodes(TLS)) == []
