"""The answer of `kae compile` says what changes by object, and on which nodes."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from compiler.changes import objects, pods
from compiler.views import object_changes
from tests import builders, in_process, project
from tests.cli import fleet

ROOT = Path(__file__).parents[2]
TWO = fleet.listed((fleet.NODES[0], builders.kubernetes_node("kp920-09", fleet.HPRE | {"pool": "tls"})))


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A project with two nodes that was compiled."""
    folder = project.write(fleet.small(tmp_path / "fleet"), {"inventory/east.json": TWO})
    assert in_process.kae(folder, "compile").code == 0
    return folder


def changes(folder: Path, *words: str) -> dict[str, Any]:
    """Return the changes of the one cluster that a check finds."""
    told: dict[str, Any]
    (told,) = json.loads(in_process.kae(folder, "compile", "--check", "-o", "json", *words).out)["changes"]
    return told


def named(items: list[dict[str, str]]) -> list[str]:
    """Return kind and name of each object."""
    return [f"{item['kind']} {item['name']}" for item in items]


def test_objects_and_nodes_come_before_the_difference_and_the_files(small: Path) -> None:
    project.write(small, {"policies/tls.yaml": fleet.POLICY.replace("2.2.0", "2.3.0")})

    checked, compiled = in_process.kae(small, "compile", "--check"), in_process.kae(small, "compile")

    summary = (
        "east: 1 object replaced; 2 nodes (kp920-01 and kp920-09) touched\n"
        "  replaced  DaemonSet kae-operator/kae-driver-tls, whose pods restart on 2 nodes\n"
    )
    assert checked.out.startswith(f"{summary}--- output/east/driver/")
    assert compiled.out == f"{summary}east: 2 files written, 0 removed\nwest: unchanged\n"


def test_what_goes_and_what_comes_is_listed(small: Path) -> None:
    project.write(small, {"policies/tls.yaml": fleet.POLICY.replace("name: tls", "name: web")})

    told = changes(small)

    rights = ("Role", "RoleBinding", "ServiceAccount")
    assert named(told["created"]) == [
        *("DaemonSet kae-device-plugin-web", "DaemonSet kae-driver-web"),
        *(f"{kind} kae-driver-web" for kind in rights),
    ]
    assert named(told["deleted"]) == [
        *("DaemonSet kae-device-plugin-tls", "DaemonSet kae-driver-tls"),
        *(f"{kind} kae-driver-tls" for kind in rights),
    ]
    assert (told["restarts"], told["nodes"]) == ([], ["kp920-01", "kp920-09"])


def test_an_object_without_pods_touches_no_node(small: Path) -> None:
    project.write(small, {"policies/east.yaml": f"{fleet.EAST}spec:\n  psa: {{enabled: true}}\n"})

    answer = in_process.kae(small, "compile", "--check")

    assert answer.out.startswith("east: 1 object replaced; no node touched\n  replaced  Namespace kae-operator\n---")
    assert changes(small)["replaced"] == [{"kind": "Namespace", "namespace": None, "name": "kae-operator"}]


def test_a_node_that_another_policy_serves_is_touched(small: Path) -> None:
    other = builders.kubernetes_node("kp920-09", fleet.HPRE | {"pool": "web"})
    project.write(small, {"inventory/east.json": fleet.listed((fleet.NODES[0], other))})
    in_process.kae(small, "compile")
    project.write(small, {"policies/tls.yaml": fleet.POLICY.replace("      pool: tls", "      kernel: rt")})

    told = changes(small)

    assert told["nodes"] == ["kp920-01", "kp920-09"]
    # A node affinity is part of a pod template, so the pod that stays restarts too.
    assert [(item["name"], item["nodes"]) for item in told["restarts"]] == [("kae-device-plugin-rest", ["kp920-09"])]


def test_pods_that_remove_a_driver_count(small: Path) -> None:
    absent = fleet.POLICY.replace("version: 2.2.0", "version: 2.2.0\n    state: Absent")
    project.write(small, {"policies/tls.yaml": absent})
    assert changes(small)["nodes"] == ["kp920-01", "kp920-09"]
    in_process.kae(small, "compile")

    project.write(small, {"policies/tls.yaml": absent.replace("2.2.0", "2.3.0")})

    assert changes(small)["nodes"] == ["kp920-01", "kp920-09"]


def test_the_nodes_are_those_whose_images_the_plan_changes(tmp_path: Path) -> None:
    for name in ("policies", "inventory", "output"):
        shutil.copytree(ROOT / name, tmp_path / name)
    before = _images(tmp_path)
    assert in_process.kae(tmp_path, "bump", "tls", "--version", "2.9.9").code == 0

    answer = json.loads(in_process.kae(tmp_path, "compile", "--check", "-o", "json").out)

    after = _images(tmp_path)
    touched = {(item["cluster"], name) for item in answer["changes"] for name in item["nodes"]}
    restarts = [(item["cluster"], row["nodes"]) for item in answer["changes"] for row in item["restarts"]]
    restarting = {(cluster, name) for cluster, names in restarts for name in names}
    assert touched == restarting == {node for node in before if before[node] != after[node]} != set()


def _images(folder: Path) -> dict[tuple[str, str], list[str | None]]:
    clusters = json.loads(in_process.kae(folder, "plan", "-o", "json").out)["clusters"]
    return {
        (cluster["name"], node["name"]): [node["driver"], node["devicePlugin"]]
        for cluster in clusters
        for node in cluster["nodes"]
    }


def test_a_lost_index_changes_no_object(small: Path) -> None:
    (small / "output/east/index.json").unlink()

    assert json.loads(in_process.kae(small, "compile", "--check", "-o", "json").out)["changes"] == []


def test_an_edited_object_is_replaced_whatever_it_holds_now(small: Path) -> None:
    text = "apiVersion: v1\nkind: ServiceAccount\nmetadata: {namespace: [a], labels: {}}\n"
    project.write(small / "output/east", {"driver/serviceaccount-kae-driver.yaml": text})

    told = changes(small)

    assert named(told["created"]) == ["ServiceAccount kae-driver"]
    assert named(told["deleted"]) == ["ServiceAccount "]


def test_many_objects_are_counted_and_those_that_go_are_listed_first() -> None:
    roles: list[Any] = [{"kind": "Role", "metadata": {"name": f"r{number:02}"}} for number in range(30)]
    both = zip([None] * 15 + roles[15:], roles[:20] + [None] * 10, strict=True)
    pairs = tuple(objects.Pair(component="", path="", before=old, after=new) for old, new in both)

    said = object_changes.said(pods.Compiled(cluster="east", pairs=pairs, pods=()), for_programs=False)
    assert said is not None
    first, *lines = object_changes.lines([said] * 12)

    assert first == "east: 15 objects created, 5 replaced, 10 deleted; no node touched"
    assert [line.split()[0] for line in lines[:20]] == ["deleted"] * 10 + ["replaced"] * 5 + ["created"] * 5
    assert lines[20:22] == ["  and 10 more objects, which -o json lists", first]
    assert lines[-3:] == ["  and 10 more objects, which -o json lists", first, first]


@pytest.mark.parametrize("left", [["gone.yaml"], []], ids=["its files are gone", "it records none"])
def test_an_index_without_objects_is_removed_and_said(left: list[str], small: Path) -> None:
    index = {"version": 2, "complete": False, "hasNodes": False, "files": left, "workloads": [], "frozen": []}
    project.write(small, {"output/north/index.json": json.dumps(index)})

    checked, compiled = in_process.kae(small, "compile", "--check"), in_process.kae(small, "compile")

    assert (checked.code, compiled.code) == (4, 0)
    assert "north: output exists, but the cluster is no longer declared\n" in checked.out
    assert compiled.out == "east: unchanged\nwest: unchanged\nnorth: removed\n"
    assert not (small / "output/north").exists()
