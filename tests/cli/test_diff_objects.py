"""The objects of `kae diff`: added, changed and pruned, by path and value."""

import itertools
import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from compiler.views.diff import review
from compiler.views.diff import text as diff_text
from tests import in_process, revisions
from tests.cli import diffs

CLUSTER = "policies/cluster.yaml"
MONITORING = "spec:\n  monitoring: {enabled: true}\n"


def objects(text: str) -> str:
    """Return the part of an answer on objects."""
    lines = text.partition("\nobjects:\n")[2].splitlines(keepends=True)
    return "".join(itertools.takewhile(lambda line: line.startswith("  "), lines))


@pytest.fixture
def monitored(rollout: Path) -> Path:
    """Return the example with monitoring, committed."""
    diffs.edit(rollout, ("spec:\n", MONITORING), file=CLUSTER)
    revisions.commit(rollout)
    return rollout


def test_objects_that_go_are_in_every_format(monitored: Path) -> None:
    diffs.edit(monitored, (MONITORING, "spec:\n"), file=CLUSTER)

    assert objects(diffs.shown(monitored)).splitlines() == [
        "  leaves the output: ConfigMap kae-operator/kae-dashboard",
        "  leaves the output: PrometheusRule kae-operator/kae",
    ]
    assert [(item["change"], item["kind"], item["name"]) for item in diffs.data(monitored)["objects"]] == [
        ("pruned", "ConfigMap", "kae-dashboard"),
        ("pruned", "PrometheusRule", "kae"),
    ]
    comment = in_process.kae(monitored, "diff", "-o", "markdown").out
    assert "- leaves the output: PrometheusRule kae-operator/kae\n" in comment


def test_a_changed_object_has_its_fields_and_a_config_is_data(rollout: Path) -> None:
    diffs.change(rollout, "drain")

    (item,) = [item for item in diffs.data(rollout)["objects"] if item["name"] == "kae-driver-tls--canary"]

    config = "spec.template.metadata.annotations[device.openfuyao.com/config]"
    path = "driver/daemonset-kae-driver-tls--canary.yaml"
    told = {"cluster": "east", "change": "changed", "kind": "DaemonSet", "namespace": "kae-operator", "path": path}
    assert told.items() <= {key: value for key, value in item.items() if key != "fields"}.items()
    assert {"path": f"{config}.drain.timeoutSeconds", "old": None, "new": 60} in item["fields"]
    assert f"    {config}.drain.timeoutSeconds: (none) -> 60\n" in diffs.shown(rollout)
    comment = in_process.kae(rollout, "diff", "-o", "markdown").out
    assert f"  - {review.prose(f'{config}.drain.timeoutSeconds: (none) -> 60')}\n" in comment


def test_an_object_that_an_engine_keeps_says_so(rollout: Path) -> None:
    engine = "  gitops:\n    engine: argocd\n    repository: {url: https://git.example.com/kae.git}\n"
    diffs.edit(rollout, ("spec:\n", f"spec:\n  namespace: kae-old\n{engine}"), file=CLUSTER)
    revisions.commit(rollout)
    diffs.edit(rollout, ("kae-old", "kae-new"), file=CLUSTER)

    (kept,) = [item for item in diffs.data(rollout)["objects"] if item["name"] == "kae-old"]

    assert (kept["change"], kept["kind"], kept["keptBy"]) == ("pruned", "Namespace", "argocd")
    assert "  pruned from the output, but Argo CD leaves it in the cluster: Namespace kae-old\n" in diffs.shown(rollout)


def test_objects_that_people_apply_by_hand_are_told(rollout: Path) -> None:
    engine = "spec:\n  gitops:\n    engine: argocd\n    repository: {url: https://git.example.com/kae.git}\n"
    diffs.edit(rollout, ("spec:\n", engine), file=CLUSTER)
    revisions.commit(rollout)
    diffs.edit(rollout, ("git.example.com/kae.git", "git.example.com/fleet.git"), file=CLUSTER)

    text = objects(diffs.shown(rollout))

    assert "  changed in bootstrap/, which people apply: Application argocd/" in text
    assert "https://git.example.com/kae.git -> https://git.example.com/fleet.git" in text


def copy(folder: Path, name: str) -> None:
    """Write a cluster of this name that is like that of the example."""
    for file, of_copy in (("inventory/east.json", f"inventory/{name}.json"), (CLUSTER, f"policies/{name}.yaml")):
        document = yaml.safe_load((folder / file).read_text())
        document["metadata"]["name"] = name
        (folder / of_copy).write_text(json.dumps(document))


def test_a_change_of_many_clusters_is_told_once_and_a_new_cluster_is_counted(rollout: Path) -> None:
    for name in ("north", "south", "west"):
        copy(rollout, name)
    diffs.edit(rollout, ("  clusters: [east]\n", ""))
    revisions.commit(rollout)
    diffs.change(rollout, "plugin version")
    copy(rollout, "young")

    first, second, *fields = objects(diffs.shown(rollout)).splitlines()

    assert re.fullmatch(r"  added: \d\d objects, with cluster young", first)
    assert second == "  changed: DaemonSet kae-operator/kae-device-plugin-tls in 4 clusters"
    image = "cr.openfuyao.cn/openfuyao/kae-device-plugin"
    assert fields == [f"    spec.template.spec.containers[device-plugin].image: {image}:1.4.1 -> {image}:1.5.0"]
    changed = [item["cluster"] for item in diffs.data(rollout)["objects"] if item["change"] == "changed"]
    assert changed == ["east", "north", "south", "west"]


def test_only_the_order_of_variables_is_said_to_be_one(rollout: Path) -> None:
    one, other = "{name: A, value: a}", "{name: B, value: b}"
    diffs.edit(rollout, ("  driver:\n", f"  driver:\n    env: [{one}, {other}]\n"))
    revisions.commit(rollout)
    diffs.edit(rollout, (f"{one}, {other}", f"{other}, {one}"))

    assert [item["fields"] for item in diffs.data(rollout)["objects"] if item["kind"] == "DaemonSet"] == [[], [], []]
    assert "    only the order of items\n" in diffs.shown(rollout)


def test_many_objects_and_fields_are_cut_and_counted(rollout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diff_text, "_OBJECTS", 3)
    monkeypatch.setattr(diff_text, "_FIELDS", 1)
    diffs.change(rollout, "module parameters")

    lines = objects(diffs.shown(rollout)).splitlines()

    assert [line.partition(":")[0] for line in lines[:3]] == ["  leaves the output"] * 3
    assert lines[3:] == ["  and 6 more lines; -o json has all objects"]
    monkeypatch.undo()
    monkeypatch.setattr(diff_text, "_FIELDS", 1)
    assert objects(diffs.shown(rollout)).splitlines()[-1] == "    and 1 more field"


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("a", None, ("a", "(none)")),
        ("1", 1, ('"1"', "1")),
        ({"a": 1}, [], ('{"a": 1}', "[]")),
        ("x" * 90, "y", (f"{'x' * 80}…", "y")),
        ("x" * 200 + "a", "x" * 200 + "b", (f"…{'x' * 20}a", f"…{'x' * 20}b")),
    ],
)
def test_a_value_is_cut_where_both_differ(old: Any, new: Any, expected: tuple[str, str]) -> None:
    assert diff_text.values(old, new) == expected
