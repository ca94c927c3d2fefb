"""`kae explain`: the label that decided, for one node."""

import json
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from tests import builders, in_process, project
from tests.cli import fleet
from tests.cli.answers import refused, told


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project whose nodes meet every fate; a name stands in two clusters."""
    folder = fleet.full(tmp_path_factory.mktemp("fleet"))
    return project.write(folder, {"inventory/west.json": fleet.listed(fleet.NODES[:1])})


@pytest.mark.parametrize("name", ["kp920-02", "kp920-03", "kp920-04", "new-01", "x86-01"])
def test_each_fate_is_explained_down_to_its_label(name: str, folder: Path, snapshot: SnapshotAssertion) -> None:
    assert told(folder, "explain", name) == snapshot


def test_people_and_programs_get_the_same_findings(folder: Path) -> None:
    as_text, as_json = (in_process.kae(folder, "explain", "east/kp920-02", "-o", shape) for shape in ("text", "json"))

    findings = json.loads(as_json.out)["diagnostics"]
    assert findings
    assert all(f"warning[{each['code']}]: {each['message']}\n" in as_text.err for each in findings)


def test_programs_get_the_same_answer(folder: Path) -> None:
    read = json.loads(told(folder, "explain", "east/kp920-02", "-o", "json"))

    assert set(read) == {
        *("version", "diagnostics", "cluster", "node", "policy", "policies"),
        *("pool", "driver", "devicePlugin", "loaded", "resources", "reasons"),
    }
    assert (read["version"], read["cluster"], read["node"], read["policy"]) == (1, "east", "kp920-02", "tls")
    assert read["driver"]["image"] is None
    assert "kae.deploy.driver=false" in read["driver"]["reason"]
    assert {entry["name"]: entry["governs"] for entry in read["policies"]} == {"rest": False, "tls": True}


@pytest.mark.parametrize("arguments", [("east/kp920-01",), ("kp920-01", "--cluster", "east")])
def test_a_name_that_stands_in_two_clusters_is_told_apart(arguments: tuple[str, ...], folder: Path) -> None:
    assert told(folder, "explain", *arguments).startswith("node east/kp920-01\n")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("kp920-01",), "clusters east and west have a node 'kp920-01'"),
        (("nowhere",), "no inventory holds a node 'nowhere'"),
        (("east/nowhere",), "no inventory holds a node 'east/nowhere'"),
        (("east/",), "no inventory holds a node 'east/'"),
        (("",), "no inventory holds a node ''"),
        (("north/kp920-01",), "there is no cluster 'north'"),
        (("kp920-01", "--cluster", "north"), "there is no cluster 'north'"),
        (("kp920-02", "--cluster", "west"), "no inventory holds a node 'kp920-02'"),
    ],
)
def test_a_node_that_is_not_the_one_node_ends_with_3(arguments: tuple[str, ...], words: str, folder: Path) -> None:
    assert words in refused(3, folder, "explain", *arguments)


@pytest.mark.parametrize("cluster", ["", "east/"])
def test_a_misspelt_node_is_answered_with_the_nearest_one(cluster: str, folder: Path) -> None:
    hint = f"hint: Did you mean '{cluster}kp920-02'? `kae plan -o json` lists all nodes.\n"

    assert refused(3, folder, "explain", f"{cluster}kp920-o2").endswith(hint)


@pytest.mark.parametrize("command", [("explain",), ("plan", "--node")])
@pytest.mark.parametrize(
    ("wanted", "near"), [("east/w1", "east/w01"), ("w1", "w01"), ("west/w01", "east/w01"), ("west/k1", "west/k01")]
)
def test_a_node_that_is_misspelt_or_of_another_cluster_is_answered_with_it(
    wanted: str, near: str, command: tuple[str, ...], tmp_path: Path
) -> None:
    east = [builders.kubernetes_node(name, fleet.HPRE) for name in ("w01", "w02", "w11")]
    west = [builders.kubernetes_node("k01", fleet.HPRE)]
    files = {"inventory/east.json": fleet.listed(tuple(east)), "inventory/west.json": fleet.listed(tuple(west))}
    folder = project.write(fleet.small(tmp_path), files)

    said = refused(3, folder, *command, wanted)

    assert said.startswith(f"kae: no inventory holds a node '{wanted}'.\nhint: Did you mean '{near}'? ")
