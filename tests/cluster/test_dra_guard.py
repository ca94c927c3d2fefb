"""The guard of ResourceSlices on the real API server: a device plugin takes no name that another node's slices have."""

from collections.abc import Iterator
from typing import Any

import pytest

from device_plugin.dra import slices
from tests.cluster.control import api as apis
from tests.cluster.control import control_plane as control_planes
from tests.cluster.control import manifests
from tests.cluster.local import waiting

DRIVER = "kae.openfuyao.com"
SLICES = "/apis/resource.k8s.io/v1/resourceslices"
LONG = ".".join(("long", "n" * 60, "n" * 60, "n" * 60, "kae"))
LONGER = ".".join(("long", "n" * 60, "n" * 60, "n" * 60, "x", "kae", "b" * 20))
NODES = ("a", "a-kae", "a.kae", "a-kae-kae", "a-kae-0", "a-kae-0a1b2c3d", "a-b", LONG, LONGER)
"""Some of them are the beginnings of others, or differ in a character that has a meaning in a pattern."""
REFUSED = "may write only ResourceSlices that are named after the node that it runs on"


@pytest.fixture(scope="module")
def guarded(
    control_plane: control_planes.ControlPlane, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, apis.Api]]:
    """A caller for each node, with a token of the device plugin there."""
    documents = {
        "policies/tls.yaml": manifests.document("KAEPolicy", "tls", {"devicePlugin": {"interface": "DRA"}}),
        "policies/test.yaml": manifests.cluster(),
    }
    folder = manifests.compiled(tmp_path_factory.mktemp("project"), documents)
    made = [item.data for item in manifests.of(folder / "output/test") if item.component in _COMPONENTS]
    applied = [item for item in made if item["kind"] != "DaemonSet"]
    nodes = [{"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}} for name in NODES]
    control_plane.apply(*applied, *nodes)
    try:
        callers = {name: _caller(control_plane, name) for name in NODES}
        unnamed = slice_of("a", "unnamed")
        waiting.until("the guard", lambda: callers["a"].request("POST", f"{SLICES}?dryRun=All", unnamed).status == 403)
        yield callers
    finally:
        control_plane.delete(*applied, *nodes)


_COMPONENTS = ("namespace", "device-plugin", "guard")


def _caller(plane: control_planes.ControlPlane, node: str) -> apis.Api:
    bound = ("--bound-object-kind=Node", f"--bound-object-name={node}")
    made = plane.kubectl("create", "token", "kae-device-plugin", "-n", manifests.NAMESPACE, *bound)
    return plane.api.with_token(made.strip())


def slice_of(node: str, name: str, **metadata: Any) -> dict[str, Any]:
    """Return a slice of a node, with a name."""
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": []}
    stated = {"name": name, **metadata} if name else metadata
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": stated, "spec": spec}


def names(node: str) -> list[str]:
    """Return the names that the program of a node gives to its slices."""
    devices = [{"name": f"d-{number}"} for number in range(slices.SLICE + 1)]
    return [made["metadata"]["name"] for made in slices.slices(DRIVER, node, None, devices, (1, "0a1b2c3d"))]


@pytest.mark.parametrize("number", [0, 1])
def test_a_device_plugin_writes_and_deletes_slices_named_after_its_node(
    number: int, guarded: dict[str, apis.Api]
) -> None:
    for node, caller in guarded.items():
        name = names(node)[number]
        caller.ask("POST", SLICES, slice_of(node, name))
        caller.ask("PUT", f"{SLICES}/{name}", caller.ask("GET", f"{SLICES}/{name}"))
        assert caller.request("DELETE", f"{SLICES}/{name}").status == 200


def test_no_device_plugin_takes_a_name_of_another_nodes_slices(guarded: dict[str, apis.Api]) -> None:
    taken = [
        (taker, name)
        for taker, caller in guarded.items()
        for node in NODES
        if node != taker
        for name in names(node)
        for answer in [caller.request("POST", f"{SLICES}?dryRun=All", slice_of(taker, name))]
        if answer.status != 403 or REFUSED not in answer.body["message"]
    ]

    assert taken == []


def test_a_generated_name_is_judged_as_any_other(guarded: dict[str, apis.Api]) -> None:
    made = slice_of("a", "", generateName="a-b-kae-0-")

    answer = guarded["a"].request("POST", f"{SLICES}?dryRun=All", made)

    assert (answer.status, REFUSED in answer.body["message"]) == (403, True)
