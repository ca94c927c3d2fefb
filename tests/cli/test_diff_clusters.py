"""`kae diff` on many clusters that a policy changes alike: people read one sentence, programs each cluster."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests import builders, in_process, project, revisions
from tests.cli import diffs
from tests.cli.answers import told
from tests.cli.fleet import listed

CLUSTERS = 12
SPEC = {
    "nodeSelector": {"matchLabels": {"pool": "tls"}},
    "driver": {"version": "2.2.0", "repository": "registry.example.com/kae"},
    "devicePlugin": {"version": "1.4.1"},
}


@pytest.fixture
def fleet(tmp_path: Path) -> Path:
    """Return a committed fleet of clusters with two nodes each, but for one that has four."""
    project.write(tmp_path, {"policies/tls.yaml": yaml.safe_dump(builders.raw("KAEPolicy", "tls", SPEC))})
    for number in range(CLUSTERS):
        names = [f"{number:02}-{index}" for index in range(4 if number == 0 else 2)]
        nodes = tuple(builders.kubernetes_node(name, builders.HPRE | {"pool": "tls"}) for name in names)
        project.write(tmp_path, {f"inventory/c{number:02}.json": listed(nodes)})
    revisions.commit(tmp_path)
    return tmp_path


@pytest.fixture
def changed(fleet: Path) -> Path:
    """Return the fleet with another driver from another registry, everywhere."""
    diffs.edit(fleet, ("2.2.0", "2.3.0"), ("registry.example.com", "mirror.example.com"))
    return fleet


def declare(folder: Path, spec: dict[str, Any], most: int = CLUSTERS) -> None:
    """Write the KAEClusters of the fleet, or of the first ones."""
    for number in range(most):
        cluster = builders.raw("KAECluster", f"c{number:02}", {"kubernetesVersion": "1.31", **spec})
        project.write(folder, {f"policies/c{number:02}.yaml": yaml.safe_dump(cluster)})


def data(folder: Path, *arguments: str) -> Any:
    """Return the answer for programs."""
    return json.loads(in_process.kae(folder, "diff", *arguments).out)


def test_what_happens_in_many_clusters_is_one_sentence_with_all_nodes(changed: Path) -> None:
    answer = in_process.kae(changed, "diff")

    sentence = "26 nodes of policy tls go from driver 2.2.0 to 2.3.0 in 12 clusters; each first evicts "
    assert answer.out.count(sentence) == answer.out.count(", one host at a time in each cluster; hosts without ") == 1
    assert "  DaemonSet kae-driver-tls in 12 clusters: 26 replaced\n" in answer.out
    assert answer.out.count("  DaemonSet kae-driver-tls in 12 clusters:\n    + images from mirror.example.com\n") == 1
    assert answer.out.count("  changed: DaemonSet kae-operator/kae-driver-tls in 12 clusters\n") == 1
    assert "c05" not in answer.out


def test_a_risk_of_many_clusters_is_one_finding_that_counts_them(changed: Path) -> None:
    answer = in_process.kae(changed, "diff")

    assert answer.err.count("large-step]") == answer.err.count("registry-changed]") == 1
    assert "takes the drivers of 26 of its 26 nodes in 12 clusters out of use in one step.\n" in answer.err
    assert "note: The clusters are c00, c01, c02, c03, c04, c05, c06, c07 and 4 more.\n" in answer.err
    assert "run `kae diff --accept large-step`, or in CI commit with 'Kae-Accept: large-step';" in answer.err
    assert "for one cluster it is large-step:c00/tls." in answer.err
    assert answer.err.endswith("\n2 warnings\n")


def test_the_nodes_of_a_risk_are_named_with_their_clusters(fleet: Path) -> None:
    diffs.edit(fleet, ("  driver:\n", "  driver:\n    state: Absent\n"))

    nodes = "c00/00-0, c00/00-1, c00/00-2, c00/00-3, c01/01-0 and 21 more"
    said = f"The driver of policy 'tls' is removed from 26 nodes ({nodes}) of 12 clusters.\n"
    assert said in in_process.kae(fleet, "diff").err


def test_a_comment_is_as_long_for_many_clusters_as_for_one(changed: Path) -> None:
    text = in_process.kae(changed, "diff", "-o", "markdown").out

    assert text.count("**warning**") == 2
    assert "| DaemonSet `kae-driver-tls` in 12 clusters |  | 26 |  |\n" in text
    assert "- changed: DaemonSet kae-operator/kae-driver-tls in 12 clusters\n" in text
    assert len(text.splitlines()) < 60


def test_a_line_has_one_annotation_of_a_code(changed: Path) -> None:
    lines = in_process.kae(changed, "diff", "--format", "github").out.splitlines()
    (run,) = data(changed, "--format", "sarif")["runs"]

    notices = [line for line in lines if "line=" in line]
    assert sorted(line.partition(" ")[0] for line in notices) == ["::notice", "::warning", "::warning"]
    assert all("12 clusters" in line for line in notices)
    assert sorted(result["ruleId"] for result in run["results"]) == ["effect", "large-step", "registry-changed"]


def test_several_risks_of_a_code_at_a_line_are_one_annotation(fleet: Path) -> None:
    mirrors = [{"from": name, "to": "mirror.example.com"} for name in ("cr.openfuyao.cn", "registry.example.com")]
    declare(fleet, {})
    revisions.commit(fleet)
    declare(fleet, {"images": {"mirrors": mirrors}}, most=1)

    told = in_process.kae(fleet, "diff")
    notices = in_process.kae(fleet, "diff", "--format", "github").out.splitlines()

    assert told.err.count("warning[registry-changed]: ") == 2
    (line,) = (line for line in notices if "title=registry-changed" in line)
    assert line.count(" comes from mirror.example.com, and did not before.") == 2
    assert line.count("To accept it, run `kae diff --accept registry-changed:c00") == 2


def test_programs_read_each_cluster(changed: Path) -> None:
    read = data(changed, "-o", "json")

    scopes = [f"large-step:c{number:02}/tls" for number in range(CLUSTERS)]
    assert [risk["scope"] for risk in read["risks"] if risk["code"] == "large-step"] == scopes
    assert len(read["diagnostics"]) == len(data(changed, "--format", "json")["diagnostics"]) == 2 * CLUSTERS
    assert len(read["effects"]) == len(read["privileges"]) == CLUSTERS


def test_the_code_accepts_a_risk_of_all_clusters(changed: Path) -> None:
    answer = told(changed, "diff", "--accept", "large-step", "--fail-on", "large-step")

    assert "accepted:\n  large-step: Policy 'tls' takes the drivers of 26 of its 26 nodes in 12 clusters " in answer
    assert "The clusters are c00, c01, " in answer


def test_an_accepted_cluster_is_none_of_those_that_are_left(changed: Path) -> None:
    answer = in_process.kae(changed, "diff", "--accept", "large-step:c00/tls", "--fail-on", "large-step")

    assert answer.code == 1
    assert "accepted:\n  large-step:c00/tls: Policy 'tls' takes the drivers of 4 of its 4 nodes in clus" in answer.out
    assert "error[large-step]: Policy 'tls' takes the drivers of 22 of its 22 nodes in 11 clusters " in answer.err


def test_clusters_with_a_line_of_their_own_have_a_finding_of_their_own(fleet: Path) -> None:
    declare(fleet, {})
    revisions.commit(fleet)
    declare(fleet, {"kubernetesVersion": "1.29"}, most=2)

    answer = in_process.kae(fleet, "diff")

    places = re.findall(r"^(\S+): warning\[guard-off\]: The drivers of cluster '(c..)' lose", answer.err, re.MULTILINE)
    assert [cluster for _, cluster in places] == ["c00", "c01"]
    assert [place.partition(":")[0] for place, _ in places] == ["policies/c00.yaml", "policies/c01.yaml"]


def test_clusters_that_come_and_go_together_are_one_sentence(fleet: Path) -> None:
    for number in range(3):
        (fleet / f"inventory/c{number:02}.json").rename(fleet / f"inventory/d{number:02}.json")

    text = in_process.kae(fleet, "diff").out

    assert "  3 clusters are new: d00, d01 and d02.\n  3 clusters are gone: c00, c01 and c02.\n" in text
