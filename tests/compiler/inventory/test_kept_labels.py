"""The allow list of labels: which the inventory keeps, and which changes of metadata it notices."""

from typing import Any

import pytest

from compiler.inventory import reduction
from tests import builders

NFD, ZONE = "feature.node.kubernetes.io/cpu-model.id", "topology.kubernetes.io/zone"


def node(**more: str) -> dict[str, Any]:
    return builders.kubernetes_node("a", {NFD: "1", ZONE: "x", "kubernetes.io/hostname": "a"} | more)


@pytest.mark.parametrize(
    ("kept", "left"),
    [
        ((), {NFD, ZONE}),
        (("feature.node.kubernetes.io/",), {NFD}),
        ((ZONE,), {ZONE}),
        (("topology.kubernetes.io/z*", "feature"), {ZONE}),
        (("topology.kubernetes.io",), set()),
    ],
)
def test_an_allow_list_keeps_keys_their_beginnings_and_the_hosts_name(kept: tuple[str, ...], left: set[str]) -> None:
    made = reduction.Reducer((), kept).node(node())

    assert {*made.labels, *made.profile.labels} == left
    assert made.hostname == "a"


@pytest.mark.parametrize(("key", "noticed"), [(NFD, True), (ZONE, False), ("example.com/any", False)])
def test_a_mark_changes_with_kept_labels_alone(key: str, noticed: bool) -> None:
    reducer = reduction.Reducer((), ("feature.node.kubernetes.io/",))

    marks = {reducer.mark(raw["metadata"]) for raw in (node(), node(**{key: "other"}))}

    assert (len(marks) == 2) is noticed
