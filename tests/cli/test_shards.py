"""`kae compile --shard` on several machines, and the one verdict of `kae merge-findings`."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests import in_process, project
from tests.cli import fleet
from tests.cli.answers import refused

pytestmark = pytest.mark.long

NORTH = fleet.EAST.replace("east", "north")
NOWHERE = (
    fleet.POLICY.replace("name: tls", "name: nowhere")
    .replace("[east]", "[east, north]")
    .replace("pool: tls", "pool: none")
)


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """Three clusters, of which the second of two shards has one."""
    folder = fleet.small(tmp_path / "small")
    return project.write(folder, {"policies/north.yaml": NORTH, "inventory/north.json": fleet.listed(fleet.NODES[2:3])})


def shards(folder: Path, count: int, *arguments: str) -> list[in_process.Answer]:
    """The answers of all shards, each of which leaves its findings in a file."""
    return [shard(folder, f"{index}/{count}", f"shard-{index}.json", *arguments) for index in range(count)]


def shard(folder: Path, which: str, file: str, *arguments: str) -> in_process.Answer:
    """The answer of a shard that leaves its findings in a file."""
    return in_process.kae(folder, "compile", "--shard", which, "--findings", file, *arguments)


def merged(folder: Path, count: int, *arguments: str) -> in_process.Answer:
    """The verdict on all shards."""
    return in_process.kae(folder, "merge-findings", *(f"shard-{index}.json" for index in range(count)), *arguments)


def test_shards_write_what_one_compile_writes(small: Path, tmp_path: Path) -> None:
    whole = shutil.copytree(small, tmp_path / "whole")
    one = in_process.kae(whole, "compile", "-o", "json")
    answers = shards(small, 2)

    assert project.tree(small / "output") == project.tree(whole / "output")
    assert [answer.code for answer in answers] == [0, 0]
    verdict = json.loads(merged(small, 2, "-o", "json").out)
    assert verdict["diagnostics"] == json.loads(one.out)["diagnostics"]
    assert [cluster["name"] for cluster in verdict["clusters"]] == ["east", "north", "west"]


def test_each_shard_names_its_clusters_alone(small: Path) -> None:
    names = [[line.partition(":")[0] for line in answer.out.splitlines()] for answer in shards(small, 2)]

    assert sorted(name for own in names for name in set(own)) == ["east", "north", "west"]


def test_a_check_of_shards_ends_as_one_check_does(small: Path) -> None:
    shards(small, 2)
    fine = [*shards(small, 2, "--check"), merged(small, 2)]
    (small / "output/east/kustomization.yaml").write_text("resources: []\n")
    differing = [*shards(small, 2, "--check"), merged(small, 2)]

    assert [answer.code for answer in fine] == [0, 0, 0]
    assert sorted(answer.code for answer in differing) == [0, 4, 4]
    assert differing[-1].out == "east: output is not what the documents compile to\n3 clusters in 2 shards\n"


def test_a_mistake_in_an_inventory_is_the_verdict_and_stops_its_shard_alone(small: Path) -> None:
    project.write(small, {"inventory/north.json": "{"})
    answers, verdict = shards(small, 2), merged(small, 2)

    assert sorted(answer.code for answer in answers) == [0, 1]
    assert (verdict.code, verdict.out) == (1, "")
    assert "inventory/north.json:1:2: error[json-syntax]" in verdict.err


def test_a_policy_that_matches_nothing_in_any_shard_is_found_by_the_verdict_alone(small: Path) -> None:
    project.write(small, {"policies/nowhere.yaml": NOWHERE})
    answers, verdict = shards(small, 2), merged(small, 2)
    strict = merged(small, 2, "--strict")

    assert not any("policy-matches-nothing" in answer.err for answer in answers)
    assert "warning[policy-matches-nothing]: Policy 'nowhere' matches no node." in verdict.err
    assert (verdict.code, strict.code) == (0, 1)


def test_the_output_of_a_cluster_that_is_gone_is_removed_by_its_shard(small: Path) -> None:
    shards(small, 2)
    (small / "inventory/north.json").unlink()
    gone = merged(small, 2)
    (small / "policies/north.yaml").unlink()
    answers = shards(small, 2, "--accept", "removes-drivers", "--accept", "removes-device-plugins")

    assert gone.err.startswith("kae: the inventories are not those that the shards have read: ")
    assert [answer.code for answer in answers] == [0, 0]
    assert ["north: removed\n" in answer.out for answer in answers] == [False, True]
    assert not (small / "output/north").exists()
    assert '"north"' in merged(small, 2, "-o", "json").out


def test_a_removal_that_is_not_accepted_is_the_verdict(small: Path) -> None:
    shards(small, 2)
    (small / "policies/tls.yaml").unlink()
    answers, verdict = shards(small, 2), merged(small, 2)

    assert sorted(answer.code for answer in answers) == [0, 1]
    assert verdict.code == 1
    assert "error[removes-drivers]" in verdict.err


@pytest.mark.parametrize("check", [False, True])
def test_a_file_that_belongs_to_no_cluster_is_found_once(check: bool, small: Path) -> None:
    in_process.kae(small, "compile")
    files = [f"output/{name}.txt" for name in "abcdef"]
    project.write(small, dict.fromkeys(files, "mine\n"))
    answers = shards(small, 3, *(["--check"] if check else []))
    verdict = merged(small, 3)

    assert [sum(file in answer.err for answer in answers) for file in files] == [1] * 6
    assert (max(answer.code for answer in answers), verdict.code) == ((4, 4) if check else (0, 0))
    assert [file for file in files if file in verdict.err] == files


def test_a_file_that_engines_read_stops_the_shard_of_its_cluster_alone(small: Path) -> None:
    in_process.kae(small, "compile")
    project.write(small, {"output/north/kustomization.yml": "resources: []\n"})

    assert [answer.code for answer in shards(small, 2)] == [0, 1]
    assert merged(small, 2).code == 1


def test_a_shard_calls_no_folder_of_another_one_strange(small: Path) -> None:
    in_process.kae(small, "compile")

    assert [answer.err for count in (2, 7) for answer in shards(small, count)] == [""] * 9


def test_files_that_are_not_those_of_all_shards_give_no_verdict(small: Path) -> None:
    shards(small, 2)
    shard(small, "1/3", "other.json")
    project.write(small, {"list.json": "[]"})

    for files, said in (
        ("shard-0.json", "no file is of shard 1/2."),
        ("shard-1.json", "no file is of shard 0/2."),
        ("shard-0.json shard-0.json shard-1.json", "several files are of shard 0/2."),
        ("shard-0.json other.json", "the files are of 2 and 3 shards."),
        ("shard-0.json policies/tls.yaml", "'policies/tls.yaml' is not what `kae compile --findings`"),
        ("shard-0.json list.json", "'list.json' is not what `kae compile --findings`"),
        ("shard-0.json none.json", "'none.json' cannot be read"),
    ):
        answer = in_process.kae(small, "merge-findings", *files.split())

        assert answer.code in (1, 3), files
        assert answer.err.startswith(f"kae: {said}"), files


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"policies/tls.yaml": fleet.POLICY.replace("2.2.0", "2.3.0")}, "a shard has compiled other policies"),
        ({"kae.yaml": "limits: {removedPercent: 30}\n"}, "a shard has compiled other policies"),
        ({"inventory/south.json": fleet.listed()}, "the inventories are not those that the shards have read: "),
    ],
    ids=["a policy", "a setting", "a new inventory"],
)
def test_shards_of_other_documents_give_no_verdict(changed: dict[str, str], said: str, small: Path) -> None:
    shards(small, 2)
    project.write(small, changed)
    answer = merged(small, 2)

    assert (answer.code, answer.out) == (1, "")
    assert answer.err.startswith(f"kae: {said}")


def test_a_shard_that_does_not_end_leaves_no_earlier_findings(small: Path) -> None:
    shards(small, 2)
    (small / "output/north/index.json").unlink()
    project.write(small, {"output/north/kustomization.yaml": "mine\n"})  # It is in the way now.
    codes = [answer.code for answer in shards(small, 2)]

    assert sorted(codes) == [0, 3]
    assert f"'shard-{codes.index(3)}.json' cannot be read" in merged(small, 2).err


def test_one_shard_of_other_documents_is_one_too_many(small: Path) -> None:
    shards(small, 2)
    before = (small / "policies/tls.yaml").read_text()
    project.write(small, {"policies/tls.yaml": before.replace("2.2.0", "2.3.0")})
    shard(small, "0/2", "shard-0.json")
    project.write(small, {"policies/tls.yaml": before})

    assert merged(small, 2).err.startswith("kae: a shard has compiled other policies")


def test_findings_are_left_by_a_shard_that_changes_nothing_too(small: Path) -> None:
    shards(small, 1)
    (small / "shard-0.json").unlink()
    shards(small, 1)

    assert merged(small, 1).code == 0


def test_a_cluster_or_a_node_is_not_chosen_together_with_a_shard(small: Path) -> None:
    for command in ("compile", "plan"):
        assert in_process.kae(small, command, "--cluster", "east", "--shard", "0/2").code == 2
    assert in_process.kae(small, "compile", "--cluster", "east", "--findings", "east.json").code == 2
    # The node may be in another shard, whose inventories are not searched.
    said = refused(2, small, "plan", "--node", "kp920-01", "--shard", "0/2")
    assert "--node and --shard both choose clusters." in said


def test_a_plan_of_a_shard_is_of_its_clusters(small: Path) -> None:
    plans = [json.loads(in_process.kae(small, "plan", "--shard", f"{index}/2", "-o", "json").out) for index in range(2)]

    assert sorted(cluster["name"] for plan in plans for cluster in plan["clusters"]) == ["east", "north", "west"]


RECORD = {
    "code": "no-cluster",
    "severity": "warning",
    "message": "One.",
    "file": "policies/tls.yaml",
    "line": 1,
    "column": 1,
    "notes": ["A note."],
    "hint": "",
    "text": "kind: KAEPolicy",
}
REFUSED = "kae: 'shard-0.json' is not what `kae compile --findings` of this version writes."


@pytest.fixture
def findings(small: Path) -> dict[str, Any]:
    """The findings of the only shard."""
    shards(small, 1)
    data: dict[str, Any] = json.loads((small / "shard-0.json").read_text())
    return data


def verdict_on(folder: Path, findings: dict[str, Any]) -> in_process.Answer:
    """Return the verdict where the only shard had these findings."""
    project.write(folder, {"shard-0.json": json.dumps(findings)})
    return merged(folder, 1)


def assert_refused(folder: Path, findings: dict[str, Any], changed: dict[str, Any]) -> None:
    """Assert that there is no verdict on these findings, in which something was changed."""
    answer = verdict_on(folder, findings)
    assert answer.code == 1, changed
    assert answer.err.startswith(REFUSED), changed


@pytest.mark.parametrize("kind", ["onInventories", "onPolicies", "onNodes"])
def test_a_finding_that_no_shard_writes_is_refused(kind: str, small: Path, findings: dict[str, Any]) -> None:
    findings["clusters"][0][kind] = [RECORD]
    assert verdict_on(small, findings).code == 0

    for changed in (
        {"code": "unknown"},
        {"message": None},
        {"file": "a\n::error::b"},
        {"file": "\x1b[31m"},
        {"hint": "\ud800"},
        {"line": -1},
        {"column": 10**50},
        {"notes": [["a"]]},
        {"more": 1},
    ):
        findings["clusters"][0][kind] = [RECORD | changed]
        assert_refused(small, findings, changed)


def test_a_file_of_another_version_or_shape_is_refused(small: Path, findings: dict[str, Any]) -> None:
    wrong: tuple[dict[str, Any], ...] = (
        {"release": "0.0.1"},
        {"check": 1},
        {"clusters": {}},
        {"findings": [{}]},
        {"removed": ["a\nb"]},
        {"shard": "0/\u0661"},
        {"more": 1},
    )
    for changed in wrong:
        assert_refused(small, findings | changed, changed)


def test_a_cluster_without_a_verdict_or_with_two_is_refused(small: Path, findings: dict[str, Any]) -> None:
    for kept in ([], [0], [0, 0, 1, 2]):
        answer = verdict_on(small, findings | {"clusters": [findings["clusters"][number] for number in kept]})

        assert answer.code == 1, kept
        assert answer.out == "", kept
        assert answer.err.startswith("kae: the files are not of every cluster once: "), kept


@pytest.mark.parametrize(
    "place", ["policies/f.json", "policies/tls.yaml", "inventory/east.json", "output/f.json", "kae.yaml", "link/f.json"]
)
def test_findings_replace_no_document_and_no_output(place: str, small: Path) -> None:
    (small / "link").symlink_to("policies")
    project.write(small, {"kae.yaml": "limits: {removedPercent: 30}\n"})
    before = project.tree(small)
    said = refused(1, small, "compile", "--findings", place)

    assert said.startswith(f"kae: '{place}' is in a folder of documents or of output, or is kae.yaml.")
    assert project.tree(small) == before


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("", "no file can be written to ''."),
        (".", "no file can be written to '.'."),
        ("nowhere/f.json", "no file can be written to 'nowhere/f.json'."),
        ("pipe", "'pipe' is not a regular file."),
        ("away", "'away' is a link that leads out of the project."),
    ],
)
def test_findings_that_have_no_place_stop_a_shard_before_it_writes(place: str, words: str, small: Path) -> None:
    os.mkfifo(small / "pipe")
    (small / "away").symlink_to("/tmp/shard-0.json")  # noqa: S108 - it is never made

    assert refused(3, small, "compile", "--findings", place).startswith(f"kae: {words}")
    assert not (small / "output").exists()


def test_warnings_that_stop_a_shard_stop_the_verdict(small: Path) -> None:
    project.write(small, {"policies/nowhere.yaml": NOWHERE})
    answer = shards(small, 1, "--strict")[0]
    verdict, strict = merged(small, 1), merged(small, 1, "--strict")

    assert (answer.code, verdict.code, strict.code) == (1, 1, 1)
    assert "kae: shards have stopped before east, north and west, and no error says why." in verdict.err
    assert not (small / "output").exists()


def test_shards_that_compile_and_shards_that_check_give_no_verdict(small: Path) -> None:
    shard(small, "0/2", "shard-0.json")
    shard(small, "1/2", "shard-1.json", "--check")
    answer = merged(small, 2)

    assert (answer.code, answer.out) == (1, "")
    assert answer.err.startswith("kae: some of the files are of a check, and some of a compile.")


def test_a_shard_that_changes_nothing_names_its_clusters_alone(tmp_path: Path) -> None:
    declared = [fleet.EAST.replace("east", name) for name in ("east", "north", "west")]
    folder = project.write(tmp_path, {f"policies/{number}.yaml": text for number, text in enumerate(declared)})
    shards(folder, 2)

    clusters = [cluster for answer in shards(folder, 2, "-o", "json") for cluster in json.loads(answer.out)["clusters"]]

    assert sorted(cluster["name"] for cluster in clusters) == ["east", "north", "west"]
