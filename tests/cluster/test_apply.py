"""Every object that the compiler writes, before the real API server: taken as it is, and left as it was."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from compiler.status import drift
from tests import in_process
from tests.cluster.control import control_plane as control_planes
from tests.cluster.control import manifests
from tests.cluster.control import objects as kinds
from tests.cluster.local import waiting
from tests.fuzz import mutants
from tests.golden import trees

MANAGER = "kae"
MUTANTS = 200
KEPT = ("Namespace", "CustomResourceDefinition")
"""They take seconds to go, and are the same in every tree."""


@pytest.fixture(params=trees.titles())
def tree(
    request: pytest.FixtureRequest,
    control_plane: control_planes.ControlPlane,
    objects: kinds.Objects,
    definitions: None,
) -> Iterator[Sequence[manifests.Manifest]]:
    """The objects of a cluster, with foreign namespaces and definitions made; at the end the applied are gone."""
    objects.define((item.data, item.text) for item in manifests.definitions_of_nfd())
    items = manifests.parsed(trees.files(request.param))
    make_namespaces(control_plane, items)
    yield items
    for item in reversed(items):
        if item.kind not in KEPT:
            objects.delete(item.data)


def make_namespaces(plane: control_planes.ControlPlane, items: Sequence[manifests.Manifest]) -> None:
    for name in manifests.namespaces(items) - {item.data["metadata"]["name"] for item in items}:
        answer = plane.api.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
        assert answer.status in (201, 409), answer


def applied(objects: kinds.Objects, item: manifests.Manifest) -> Any:
    live = objects.apply(item.data, item.text, MANAGER)
    if item.kind == "CustomResourceDefinition":
        objects.wait_until_established(item.data)
    return live


def owned(live: Any) -> Any:
    (own,) = (entry for entry in live["metadata"]["managedFields"] if entry["manager"] == MANAGER)
    return own["fieldsV1"]


def applied_again(objects: kinds.Objects, item: manifests.Manifest) -> Any:
    """Return the object, applied again without a change of its version.

    A controller may write the status meanwhile; and where it does so by an apply of its own, as for a
    ValidatingAdmissionPolicy, the API server once puts its list of managers into another order. Neither lasts.
    """

    def unchanged() -> Any:
        before = objects.get(item.data)
        after = objects.apply(item.data, item.text, MANAGER)
        is_same = before["metadata"]["resourceVersion"] == after["metadata"]["resourceVersion"]
        assert is_same or "status" in after, f"{item} was changed: {before} to {after}"
        return after if is_same else None

    return waiting.until(f"{item}, unchanged", unchanged)


def test_what_is_applied_is_taken_as_it_is_and_a_second_time_changes_nothing(
    tree: Sequence[manifests.Manifest], objects: kinds.Objects
) -> None:
    first = [applied(objects, item) for item in tree]

    second = [applied_again(objects, item) for item in tree]

    for item, before, after in zip(tree, first, second, strict=True):
        assert after["metadata"].get("generation") == before["metadata"].get("generation"), str(item)
        assert owned(after) == owned(before), str(item)
        assert list(manifests.differences(item.data, objects.get(item.data))) == [], str(item)
        assert drift.changes(item.data, objects.get(item.data)) == (), str(item)


def compiled(folder: Path) -> Iterator[manifests.Manifest]:
    """Yield the objects of mutated example policies and clusters that compile, each once."""
    seen: set[str] = set()
    for number in range(MUTANTS):
        mutant = mutants.mutant(0, number)
        root = folder / str(number)
        if mutant.sort == mutants.NEAR and "/policies/" in mutant.origin:
            for name, content in mutant.files.items():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_bytes(content)
            if in_process.kae(root, "compile", "--no-cache").code == 0:
                items = [item for tree in root.glob("output/*/") for item in manifests.of(tree)]
                yield from (item for item in items if item.text not in seen)
                seen |= {item.text for item in items}


def test_whatever_compiles_is_taken(
    control_plane: control_planes.ControlPlane, objects: kinds.Objects, definitions: None, tmp_path: Path
) -> None:
    for item in manifests.definitions_of_nfd():
        applied(objects, item)
    count, refused = 0, []

    for item in compiled(tmp_path):
        make_namespaces(control_plane, [item])
        answer = control_plane.api.apply(objects.path(item.data), item.text, MANAGER, dry_run=True)
        if answer.status not in (200, 201) or answer.warnings:
            refused.append((item.text, answer.warnings, answer.body.get("message")))
        count += 1

    assert refused == []
    assert count > MUTANTS / 2


def test_every_tree_is_applied() -> None:
    every = trees.every()

    assert {"output/east", "output/lab", "output/west"} <= every.keys()
    assert len(every) >= 16
    assert all(manifests.parsed(files) for files in every.values())


def test_a_field_that_we_render_differs_where_the_live_one_is_another() -> None:
    rendered = {"same": [{"a": 1}], "longer": [1], "text": {"b": "0.5"}, "kind": 1}
    live = {"same": [{"a": 1, "added": 2}], "longer": [1, 2], "text": {"b": "500m"}, "kind": True, "added": 2}

    assert list(manifests.differences(rendered, live)) == [
        ".longer: [1] was rendered, and [1, 2] is there",
        ".text.b: '0.5' was rendered, and '500m' is there",
        ".kind: 1 was rendered, and True is there",
    ]
