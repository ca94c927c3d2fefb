"""What nodes have loaded, by their labels in the inventory, beside what the plan has for them: a rollout on its way."""

import json
from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from tests import builders, in_process, project
from tests.cli import answers, fleet, livecluster
from tests.kube import apiserver

POLICY = fleet.POLICY.replace(
    "    version: 2.2.0\n",
    """\
    version: 2.3.0
    rollout:
      waves:
        - name: gone
          nodes: [n08]
          state: Absent
""",
)
LOADED = {
    "n01": ("2.3.0", "Ready"),
    "n02": ("2.3.0", "Ready"),
    "n03": ("2.2.0", "Pending"),
    "n04": ("2.2.0", "Pending"),
    "n05": ("2.3.0", "Failed"),
    "n06": (None, "Pending"),
    "n07": ("2.0.0", "Foreign"),
    "n08": ("2.2.0", "Blocked"),
    "n09": (None, None),
}
"""The labels of each node of policy tls: the version and the state."""


def labels(version: str | None, state: str | None) -> dict[str, str]:
    named = {"openfuyao.com/kae.driver-version": version, "openfuyao.com/kae.driver-state": state}
    return {key: value for key, value in named.items() if value is not None}


NODES = tuple(
    builders.kubernetes_node(name, fleet.HPRE | {"pool": "tls", "openfuyao.com/kae.pool.tls": "rest"} | labels(*known))
    for name, known in LOADED.items()
)
DIFFERING = ["n03", "n04", "n05", "n06", "n08"]


@pytest.fixture
def rollout(tmp_path: Path) -> Path:
    """A project in the middle of a rollout."""
    return project.write(
        tmp_path,
        {
            "policies/tls.yaml": POLICY,
            "policies/east.yaml": fleet.EAST,
            "inventory/east.json": fleet.listed(NODES),
        },
    )


def planned(folder: Path, *options: str) -> dict[str, Any]:
    """Return the nodes of the plan by name."""
    read = json.loads(answers.told(folder, "plan", "-o", "json", *options))
    return {node["name"]: node for cluster in read["clusters"] for node in cluster["nodes"]}


def test_a_plan_shows_what_is_loaded_beside_what_is_wanted(rollout: Path, snapshot: SnapshotAssertion) -> None:
    said = answers.told(rollout, "plan")

    assert said == snapshot
    assert "2 nodes: loaded 2.2.0 (Pending), wants 2.3.0\n" in said
    assert "2 nodes (n03 and n04): loaded 2.2.0 (Pending), wants 2.3.0\n" in said


def test_a_fleet_without_these_labels_is_planned_as_ever(rollout: Path) -> None:
    whole = planned(rollout)
    bare = tuple(builders.kubernetes_node(name, fleet.HPRE | {"pool": "tls"}) for name in LOADED)
    project.write(rollout, {"inventory/east.json": fleet.listed(bare)})

    said = answers.told(rollout, "plan")

    assert "LOADED" not in said
    assert "loaded" not in said
    assert planned(rollout) == {name: node | {"loaded": None} for name, node in whole.items()}


def test_programs_get_what_is_loaded_and_what_is_wanted(rollout: Path) -> None:
    nodes = planned(rollout)

    assert nodes["n03"]["loaded"] == {"version": "2.2.0", "state": "Pending", "wanted": "2.3.0", "differs": True}
    assert nodes["n06"]["loaded"] == {"version": "", "state": "Pending", "wanted": "2.3.0", "differs": True}
    assert nodes["n07"]["loaded"] == {"version": "2.0.0", "state": "Foreign", "wanted": "2.3.0", "differs": False}
    assert nodes["n08"]["loaded"] == {"version": "2.2.0", "state": "Blocked", "wanted": "", "differs": True}
    assert nodes["n09"]["loaded"] is None
    assert [name for name, node in nodes.items() if (node["loaded"] or {}).get("differs")] == DIFFERING
    lines = map(json.loads, answers.told(rollout, "plan", "-o", "ndjson").splitlines())
    assert {line["name"]: line["loaded"] for line in lines if line["kind"] == "node"} == {
        name: node["loaded"] for name, node in nodes.items()
    }


def test_a_plan_is_restricted_to_the_nodes_that_differ(rollout: Path) -> None:
    assert list(planned(rollout, "--differing")) == DIFFERING
    assert list(planned(rollout, "--differing", "-l", "openfuyao.com/kae.driver-state=Failed")) == ["n05"]
    said = answers.told(rollout, "plan", "--differing")
    assert said.startswith("cluster east: 5 of 9 nodes (--differing), ")
    assert "n01" not in said


def test_one_node_is_explained_with_what_it_has_loaded(rollout: Path) -> None:
    said = answers.told(rollout, "explain", "n04")

    assert "  loaded 2.2.0 (Pending), wants 2.3.0, as labels of the node tell\n" in said
    read = json.loads(answers.told(rollout, "explain", "n04", "-o", "json"))
    assert read["loaded"] == {"version": "2.2.0", "state": "Pending", "wanted": "2.3.0", "differs": True}
    assert json.loads(answers.told(rollout, "explain", "n09", "-o", "json"))["loaded"] is None
    assert "as labels of the node tell" not in answers.told(rollout, "explain", "n09")


def test_a_report_counts_what_is_loaded(rollout: Path, snapshot: SnapshotAssertion) -> None:
    assert answers.told(rollout, "report") == snapshot


def test_the_page_filters_by_what_is_loaded(rollout: Path) -> None:
    answers.told(rollout, "report", "--html", "page.html")
    page = (rollout / "page.html").read_text()

    (east,) = json.loads(page.partition('type="application/json">')[2].partition("</script>")[0])["clusters"]
    facts = {name: east["facts"][number] for name, number in zip(east["names"], east["alike"], strict=True)}
    assert [name for name, fact in facts.items() if fact["loads"] == "differs"] == DIFFERING
    assert [name for name, fact in facts.items() if fact["loads"] == "unknown"] == ["n09"]
    assert facts["n03"]["loaded"] == "2.2.0 (Pending), wants 2.3.0"
    assert '<a href="#loads=differs">' in page
    assert '<select name="loads">' in page


def test_status_compares_the_live_labels(rollout: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    answers.told(rollout, "compile", "--accept", "removes-drivers:east")
    with apiserver.serving(tmp_path_factory.mktemp("server")) as server:
        livecluster.applied(server, rollout, "east")
        server.put(*NODES)
        said = in_process.kae(rollout, "status", "--kubeconfig", str(server.kubeconfig))
        read = json.loads(in_process.kae(rollout, "status", "--kubeconfig", str(server.kubeconfig), "-o", "json").out)

    assert "drivers not loaded as planned:\n  n03 and n04: loaded 2.2.0 (Pending), wants 2.3.0\n" in said.out
    assert {"recipe": "kae", "version": "2.2.0", "state": "Pending", "wanted": "2.3.0", "nodes": ["n03", "n04"]} in (
        read["cluster"]["loaded"]
    )
