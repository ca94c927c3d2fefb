"""A damaged file in the repository is told in one sentence, and never taken for a cluster without nodes."""

import json
from typing import Any

import pytest

from compiler.inventory import canonical_form, snapshot
from runtime import errors
from tests.watcher import fleet
from watcher import inventory_file


def text(*nodes: snapshot.Node, cluster: str = "east") -> str:
    return canonical_form.text(snapshot.Inventory(cluster=snapshot.ClusterName(cluster), file="", nodes=nodes))


GOOD: dict[str, Any] = json.loads(text(fleet.node("a", labels={"x": "1"})))
PROFILE = next(iter(GOOD["spec"]["profiles"]))


def changed(**spec: Any) -> bytes:
    return json.dumps(GOOD | {"spec": GOOD["spec"] | spec}).encode()


def test_what_the_watcher_writes_is_read() -> None:
    taint = snapshot.Taint(key="k", value="", effect="NoSchedule")
    nodes = (
        fleet.node("a", labels={"x": "1"}, os_image="openEuler " * 100, taints=(taint,)),
        fleet.unlabelled("b"),
        fleet.node("c")._replace(hostname=None),
        fleet.node("d")._replace(hostname="host-d"),
    )

    assert inventory_file.nodes(text(*nodes).encode(), "east") == nodes


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "truncated"),
        (b"<<<<<<< HEAD\n{}", "malformed"),
        (b"\xff\xfe", "malformed"),
        (b"[" * 1_000_000, "array"),
        (b'{"spec":' * 100_000, "missing required|nested|unknown"),
        (
            json.dumps(GOOD).replace('"labels": {', '"labels": ' + "[" * 50_000 + "{").encode(),
            r"Expected `object`, got `array`",
        ),
        (json.dumps(GOOD | {"extra": 1}).encode(), "unknown field `extra`"),
        (text(cluster="west").encode(), "it is that of 'west'"),
        (json.dumps(GOOD | {"apiVersion": "v2"}).encode(), "its apiVersion is not"),
        (json.dumps(GOOD | {"kind": "KAECluster"}).encode(), "KAECluster"),
        (changed(nodes=[{"name": "a", "profile": "none"}]), "it has no profile 'none'"),
        (changed(nodes=[{"name": "a", "profile": PROFILE}] * 2), "it names a node twice"),
        (changed(nodes=[{"name": "a", "profile": PROFILE, "labels": ["x"]}]), "Expected `object`, got `array`"),
        (changed(nodes=[{"name": "a", "profile": PROFILE, "labels": {"x": 1}}]), "Expected `str`, got `int`"),
        (changed(nodes=[{"name": "a", "profile": PROFILE, "labels": {"x": "y" * 64}}]), "length <= 63"),
        (changed(nodes=[{"name": "a" * 400, "profile": PROFILE}]), "length <= 317"),
        (changed(nodes=[{"name": 7, "profile": PROFILE}]), "Expected `str`, got `int`"),
        (changed(nodes={"a": 1}), "Expected `array`, got `object`"),
    ],
)
def test_a_damaged_file_is_one_sentence(content: bytes, reason: str) -> None:
    with pytest.raises(errors.Failure, match=reason) as caught:
        inventory_file.nodes(content, "east")

    said = str(caught.value)
    assert said.startswith("The inventory of east in the repository is none (")
    assert said.endswith("): restore it, or delete it.")
    assert len(said) < 320
    assert "\n" not in said
