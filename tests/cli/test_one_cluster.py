"""Commands for one cluster read its inventory alone, so that they take no longer in a large fleet."""

from pathlib import Path
from typing import Any

import pytest

from compiler.project import document_files
from tests import in_process, project
from tests.cli import fleet
from tests.cli.answers import refused


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two clusters with inventories, both compiled."""
    west = fleet.listed(fleet.NODES[2:4])
    made = project.write(fleet.small(tmp_path), {"inventory/west.json": west})
    assert in_process.kae(made, "compile").code == 0
    return made


@pytest.fixture
def decoded(folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files that commands read once the folder is there."""
    names: list[str] = []
    real = document_files.read

    def read(file: document_files.Input, *edited: Any) -> bytes:
        names.append(file.name)
        return real(file, *edited)

    monkeypatch.setattr(document_files, "read", read)
    return names


@pytest.mark.parametrize(
    "arguments",
    [
        ("plan", "--cluster", "east"),
        ("plan", "--node", "east/kp920-01"),
        ("explain", "east/kp920-01"),
        ("explain", "kp920-01"),
        ("preflight", "--cluster", "east", "--kernel", "6.6.0-28.0.0.34.oe2403.aarch64"),
        ("compile", "--cluster", "east"),
        ("compile", "--cluster", "east", "--check"),
    ],
    ids=" ".join,
)
def test_the_inventory_of_another_cluster_is_not_decoded_and_stops_nothing(
    arguments: tuple[str, ...], folder: Path, decoded: list[str]
) -> None:
    project.write(folder, {"policies/east.yaml": f"# A change.\n{fleet.EAST}", "inventory/west.json": "{"})

    answer = in_process.kae(folder, *arguments)

    assert answer.code in (0, 1), answer.err
    assert "inventory/east.json" in decoded
    assert "json-syntax" not in answer.err
    # A node that is named without its cluster is searched for in the text of each inventory.
    assert ("inventory/west.json" in decoded) == (arguments == ("explain", "kp920-01"))


def test_a_mistake_in_any_inventory_stops_a_plan_of_all_clusters(folder: Path) -> None:
    project.write(folder, {"inventory/west.json": "{"})

    assert "json-syntax" in in_process.kae(folder, "plan").err


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("west.json", r'"kp920\u002d01"'),
        ("west.json", r'"\u006Bp920-01"'),
        ("west.yaml", r'"kp\x3920-01"'),
        ("west.yaml", r'"kp920\U0000002d01"'),
        ("west.yaml", '"kp920\\\n  -01"'),
    ],
)
def test_a_name_that_is_written_with_escapes_is_found(file: str, name: str, folder: Path) -> None:
    (folder / "inventory/west.json").unlink()
    west = fleet.listed(fleet.NODES[:1]).replace("uid-of-kp920-01", "uid").replace('"kp920-01"', name)
    project.write(folder, {f"inventory/{file}": west, "inventory/east.json": fleet.listed(fleet.NODES[1:2])})

    assert in_process.kae(folder, "explain", "kp920-01").out.startswith("node west/kp920-01\n")
    assert "cluster west: 1 of 1 node" in in_process.kae(folder, "plan", "--node", "kp920-01").out


def test_a_name_that_is_not_utf_8_is_no_node(folder: Path) -> None:
    assert refused(3, folder, "explain", "\udcff").startswith("kae: no inventory holds a node ")


@pytest.mark.parametrize("command", [("plan", "--node"), ("explain",)], ids=" ".join)
def test_a_node_that_a_damaged_inventory_lost_is_not_called_missing(command: tuple[str, ...], folder: Path) -> None:
    text = (folder / "inventory/west.json").read_text()
    project.write(folder, {"inventory/west.json": text[: text.index('"kp920-04"')]})
    assert refused(1, folder, *command, "kp920-04").startswith("inventory/west.json:")


def test_a_compile_of_all_takes_over_what_a_compile_of_one_has_made(folder: Path, decoded: list[str]) -> None:
    project.write(folder, {"inventory/east.json": fleet.listed(fleet.NODES[1:2])})
    in_process.kae(folder, "compile", "--cluster", "east")
    decoded.clear()
    answer = in_process.kae(folder, "compile")

    assert answer.out == "east: unchanged\nwest: unchanged\n"
    assert not [name for name in decoded if name.startswith("inventory/")]


def test_a_compile_of_all_compiles_what_a_compile_of_one_has_left(tmp_path: Path) -> None:
    declared = {"policies/east.yaml": fleet.EAST, "policies/west.yaml": fleet.CLUSTER}
    folder = project.write(tmp_path, {"policies/rest.yaml": fleet.REST, **declared})
    in_process.kae(folder, "compile", "--cluster", "east")
    left = (folder / "output/west").exists()
    in_process.kae(folder, "compile")

    assert (left, (folder / "output/west").exists()) == (False, True)


@pytest.mark.parametrize("command", ["plan", "explain", "compile", "status", "smoke"])
def test_a_cluster_that_no_inventory_and_no_document_names_is_refused(command: str, folder: Path) -> None:
    arguments = ("explain", "north/kp920-01") if command == "explain" else (command, "--cluster", "north")

    assert refused(3, folder, *arguments).startswith("kae: there is no cluster 'north'.")


@pytest.mark.parametrize("command", ["status", "smoke"])
def test_of_several_clusters_one_has_to_be_named(command: str, folder: Path) -> None:
    assert "the documents name east and west." in refused(3, folder, command)


def test_an_empty_inventory_that_a_person_accepts_counts_as_none(tmp_path: Path) -> None:
    """Its cluster has another one, and no KAECluster: neither is a second inventory, nor undeclared."""
    folder = fleet.small(tmp_path)
    project.write(folder, {"inventory/south.json": "", "inventory/south.yaml": fleet.listed(fleet.NODES[:1])})
    for name in ("east", "west"):
        (folder / f"policies/{name}.yaml").unlink()
    refused = in_process.kae(folder, "compile")
    accepted = in_process.kae(folder, "compile", "--accept", "inventory-empty:south")

    assert (refused.code, accepted.code) == (1, 0)
    assert "error[inventory-empty]" in refused.err
    assert "south: " in accepted.out
    assert (folder / "output/south/index.json").exists()


def test_an_empty_inventory_without_a_kaecluster_is_told_where_it_is_read(tmp_path: Path) -> None:
    folder = project.write(fleet.small(tmp_path), {"inventory/south.json": ""})
    shards = [("compile", "--shard", f"{index}/4", "--findings", f"{index}.json") for index in range(4)]
    codes = [in_process.kae(folder, *shard).code for shard in shards]
    accepted = [in_process.kae(folder, *shard, "--accept", "inventory-empty").code for shard in shards]

    assert sorted(codes) == [0, 0, 0, 1]
    assert accepted == [0] * 4
    assert in_process.kae(folder, "merge-findings", *(f"{index}.json" for index in range(4))).code == 0
    assert in_process.kae(folder, "plan", "--cluster", "east").code == 0
    assert in_process.kae(folder, "plan").code == 1
