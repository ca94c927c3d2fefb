"""`kae diff`: what the change between two revisions does."""

import json
import shutil
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from compiler import API_VERSION
from compiler.fleet import examples
from compiler.formats import canonical
from tests import builders, in_process, project, revisions
from tests.cli import diffs, fleet
from tests.cli.answers import refused


def many(folder: Path) -> Path:
    """Return the example without waves, committed, and with an edit: its inventory can be read by examples."""
    shutil.copytree(diffs.EXAMPLE, folder, dirs_exist_ok=True)
    diffs.change(folder, "no waves")
    revisions.commit(folder)
    diffs.change(folder, "source")
    return folder


@pytest.mark.parametrize("name", diffs.EDITS)
def test_each_change_is_told_in_sentences(rollout: Path, name: str, snapshot: SnapshotAssertion) -> None:
    diffs.change(rollout, name)

    assert diffs.shown(rollout) == snapshot


def test_a_change_back_is_no_change(rollout: Path) -> None:
    diffs.change(rollout, "canary")
    canary = revisions.commit(rollout)
    revisions.git(rollout, "checkout", "--quiet", "HEAD~1", "--", "policies")

    assert diffs.shown(rollout, f"{canary}~1").endswith(" to the working tree: no change\n")


def test_a_quiet_node_is_another_pod_with_fewer_privileges_and_the_same_driver(tmp_path: Path) -> None:
    head = {"apiVersion": API_VERSION, "metadata": {"name": "east"}}
    policy = {
        **head,
        "kind": "KAEPolicy",
        "metadata": {"name": "tls"},
        "spec": {"driver": {"version": "2.2.0", "source": {"prebuilt": {}}}},
    }
    node = builders.kubernetes_node()
    node["status"]["nodeInfo"]["kubeletVersion"] = "v1.36.1"
    nodes = {"apiVersion": "v1", "kind": "List", "items": [node]}
    documents = {"policies/tls.yaml": json.dumps(policy), "inventory/east.json": json.dumps(nodes)}
    project.write(tmp_path, documents)
    for release in ("1.35", "1.36"):
        stated = {**head, "kind": "KAECluster", "spec": {"kubernetesVersion": release}}
        project.write(tmp_path, {"policies/east.yaml": json.dumps(stated)})
        revisions.commit(tmp_path)

    text = diffs.shown(tmp_path, "HEAD~1")

    assert "1 node of policy tls gets a new installer pod in cluster east, and keeps its driver." in text
    assert "+ container installer ends before its pod is ready" in text
    assert "- sees the node's processes (hostPID)" in text
    assert "privilege-gained" not in text


def test_comments_and_labels_that_decide_nothing_are_no_change(rollout: Path) -> None:
    diffs.edit(rollout, ("# The TLS", "# All TLS"))
    diffs.label_assets(rollout)

    assert diffs.shown(rollout) == "from HEAD (COMMIT) to the working tree: no change\n"
    assert in_process.kae(rollout, "diff", "--exit-code").code == 0


def test_nodes_that_join_and_leave_are_told(rollout: Path) -> None:
    diffs.edit(rollout, ("kp920-rack1-01", "kp920-rack9-99"), file="inventory/east.json")

    text = diffs.shown(rollout)

    assert "1 node joins the inventory in cluster east." in text
    assert "1 node of policy tls leaves the inventory in cluster east, and counts as gone with its pods." in text
    assert "1 node leaves the inventory. No other node ends up without its driver or its device plugin." in text
    assert "without an installer" not in text
    assert "1 node of policy tls gets driver 2.2.0 in" in text


def test_nodes_that_leave_with_their_inventory_are_gone_unless_their_cluster_is(rollout: Path) -> None:
    (rollout / "inventory/east.json").unlink()
    gone = diffs.shown(rollout)
    (rollout / "policies/cluster.yaml").unlink()
    lost = diffs.shown(rollout)

    assert "24 nodes of policy tls leave the inventory in cluster east, and count as gone with their pods." in gone
    assert "24 nodes leave the inventory. No other node ends up without its driver or its device plugin." in gone
    assert "lose" not in gone.partition("\npods:")[0]
    assert "and driver 2.2.0 stays on them without an installer." in lost
    assert "24 nodes lose the driver's installer and 24 nodes lose the device plugin." in lost
    assert "No node ends up" not in lost


def test_an_installer_that_has_removed_its_driver_keeps_none(rollout: Path) -> None:
    waves = (rollout / "policies/tls.yaml").read_text()
    plain = waves.partition("    rollout:")[0].replace("version: 2.2.0", "version: 2.2.0\n    state: Absent")
    (rollout / "policies/tls.yaml").write_text(plain)
    revisions.commit(rollout)
    (rollout / "policies/tls.yaml").write_text(plain + "    enabled: false\n")

    text = diffs.shown(rollout)

    assert "24 nodes of policy tls lose their installer pods in cluster east, which were to remove the drivers" in text


def test_a_node_that_leaves_does_not_hide_what_others_lose(rollout: Path) -> None:
    diffs.lose_a_node(rollout)
    diffs.change(rollout, "absent")

    assert "1 node leaves the inventory. 23 nodes lose the driver." in diffs.shown(rollout)


def test_other_kinds_of_devices_are_told_in_the_words_of_people(rollout: Path) -> None:
    zip_too = '"openfuyao.com/kae.present":"true","openfuyao.com/kae.zip.pf":"2","openfuyao.com/kae.zip.present":"true"'
    diffs.edit(rollout, ('"openfuyao.com/kae.present":"true"', zip_too), file="inventory/east.json")
    revisions.commit(rollout)
    diffs.edit(rollout, ("  driver:\n", "  operator: {enabledZIP: true}\n  driver:\n"))

    assert "for other kinds of devices" in diffs.shown(rollout)


def test_digests_in_sentences_are_as_short_as_those_of_the_plan(rollout: Path) -> None:
    old, new = (f"sha256:{digit * 64}" for digit in "ab")
    diffs.edit(rollout, (diffs.WAVES, ""), ("version: 2.2.0", f"version: {old}"), ("version: 1.4.1", f"version: {old}"))
    revisions.commit(rollout)
    diffs.edit(rollout, (old, new), (old, new))

    sentences = diffs.shown(rollout).partition("\neffect:")[2].partition("\npods:")[0]

    assert f"24 nodes of policy tls go from driver sha256:{'a' * 12} to sha256:{'b' * 12} in" in sentences
    assert f"go from device plugin kae-device-plugin@{'a' * 12} to kae-device-plugin@{'b' * 12} in" in sentences
    assert "b" * 13 not in sentences


def test_two_commits_are_compared_without_a_checkout(rollout: Path) -> None:
    before = revisions.commit(rollout)
    diffs.change(rollout, "canary")
    revisions.commit(rollout)
    shutil.rmtree(rollout / "inventory")
    diffs.change(rollout, "sharing")

    compared = diffs.data(rollout, before, "--to", "HEAD")

    paths = [field["path"] for item in compared["intent"] for field in item["fields"]]
    assert paths == ["spec.driver.rollout.waves[canary].version"]
    assert [(effect["nodes"], effect["driver"]) for effect in compared["effects"]] == [(["kp920-rack3-05"], "swaps")]


def test_the_effect_names_the_line_that_causes_it(rollout: Path) -> None:
    diffs.change(rollout, "canary")

    (effect,) = diffs.data(rollout)["effects"]

    assert (effect["cause"]["file"], effect["cause"]["line"]) == ("policies/tls.yaml", 21)


def test_of_a_mappings_change_and_an_earlier_one_the_mapping_is_the_cause(rollout: Path) -> None:
    (rollout / "policies/tls.yaml").write_text((rollout / "policies/tls.yaml").read_text().partition("    rollout:")[0])
    mapping = "    kernelMappings:\n      - {name: all, regexp: '.', version: 2.2.0}\n"
    diffs.edit(rollout, ("    source:\n      prebuilt: {}\n", mapping))
    revisions.commit(rollout)
    diffs.edit(rollout, ("version: 2.2.0\n", "version: 2.3.0\n"), ("'.', version: 2.2.0", "'.', version: 2.3.0"))

    (effect,) = diffs.data(rollout)["effects"]

    assert effect["cause"]["line"] == 15


def test_a_project_in_a_folder_of_the_repository_is_compared(tmp_path: Path) -> None:
    shutil.copytree(diffs.EXAMPLE, tmp_path / "clusters/fleet")
    revisions.commit(tmp_path)
    folder = tmp_path / "clusters/fleet"
    diffs.change(folder, "canary")

    assert [effect["nodes"] for effect in diffs.data(folder)["effects"]] == [["kp920-rack3-05"]]


def test_the_folders_are_those_of_the_revisions_own_project_file(rollout: Path) -> None:
    (rollout / "policies").rename(rollout / "rules")
    (rollout / "kae.yaml").write_text("policies: rules\n")

    compared = diffs.data(rollout)

    assert [(item["kind"], item["action"]) for item in compared["intent"]] == [("kae.yaml", "added")]
    assert compared["effects"] == []


def test_links_are_followed_inside_of_the_repository_only(rollout: Path) -> None:
    (rollout / "policies/tls.yaml").rename(rollout / "tls.yaml")
    (rollout / "policies/tls.yaml").symlink_to("../tls.yaml")
    (rollout / "inventory").rename(rollout / "nodes")
    (rollout / "inventory").symlink_to("nodes")
    revisions.commit(rollout)
    assert diffs.shown(rollout) == "from HEAD (COMMIT) to the working tree: no change\n"
    (rollout / "policies/other.yaml").symlink_to("/etc/hostname")
    revisions.commit(rollout)
    (rollout / "policies/other.yaml").unlink()

    assert "policies/other.yaml: error[link-outside]" in diffs.shown(rollout)


def test_an_older_revision_that_does_not_compile_is_told_and_not_fatal(rollout: Path) -> None:
    diffs.edit(rollout, ("maxParallel: 2", "maxParallel: two"))
    revisions.commit(rollout)
    diffs.edit(rollout, ("maxParallel: two", "maxParallel: 2"))

    text = diffs.shown(rollout)

    assert "1 error, so nothing is known of the effect" in text
    assert "policies/tls.yaml:17:20: error[wrong-type]" in text
    assert "  the working tree compiles:\n    24 nodes of policy tls get driver 2.2.0 in cluster east" in text


def test_a_project_file_with_mistakes_is_told_of_either_side(rollout: Path) -> None:
    (rollout / "kae.yaml").write_text("policies: nowhere\n")
    revisions.commit(rollout)
    (rollout / "kae.yaml").unlink()

    assert "kae.yaml:1:11: error[project-settings]" in diffs.shown(rollout)


@pytest.mark.parametrize("revision", ["nowhere", "--exec=true", "", "HEAD:policies"])
def test_a_revision_that_git_does_not_know_is_an_io_error(rollout: Path, revision: str) -> None:
    said = refused(3, rollout, "diff", "--to", "HEAD", "--", revision)

    assert said.startswith(f"kae: git knows no revision '{revision}'.")


@pytest.mark.parametrize(
    ("revision", "hint"),
    [
        ("HEAD~1..HEAD", "kae diff HEAD~1 --to HEAD"),
        ("main..", "kae diff main --to HEAD"),
        ("main...HEAD", "kae diff $(git merge-base main HEAD) --to HEAD"),
    ],
)
def test_a_range_of_revisions_is_answered_with_the_words_for_it(rollout: Path, revision: str, hint: str) -> None:
    assert f"hint: Write `{hint}`.\n" in refused(3, rollout, "diff", revision)


def test_a_project_without_a_commit_has_nothing_to_compare_with(tmp_path: Path) -> None:
    fleet.small(tmp_path)

    said = refused(3, tmp_path, "diff")
    assert said.startswith("kae: git says: not a git repository")
    assert "hint: Run `git init` and commit first: this compares with a commit.\n" in said
    revisions.git(tmp_path, "init", "--quiet")
    assert "hint: The repository has no commit yet: make one first.\n" in refused(3, tmp_path, "diff")


def test_the_exit_code_says_whether_something_differs_if_it_is_asked_for(rollout: Path) -> None:
    diffs.change(rollout, "canary")

    assert in_process.kae(rollout, "diff", "-q").code == 0
    assert in_process.kae(rollout, "diff", "-q", "--exit-code").code == 1


def test_a_cache_that_was_not_written_here_is_not_believed(tmp_path: Path) -> None:
    folder = many(tmp_path / "one")
    first = in_process.kae(folder, "diff")
    kept = (folder / ".kae_cache/examples.json").read_text()
    copied = many(tmp_path / "two")
    shutil.copytree(folder / ".kae_cache", copied / ".kae_cache")
    forged = kept.replace("kp920-rack1-01", "kp920-rack6-66")
    assert forged != kept
    (copied / ".kae_cache/examples.json").write_text(forged)

    assert "kp920-rack1-01" in first.out
    assert "kp920-rack6-66" not in in_process.kae(copied, "diff").out


@pytest.mark.parametrize("form", ["text", "json", "markdown"])
def test_the_answer_is_the_same_with_a_cache_and_without_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    folder = many(tmp_path)
    answers = {in_process.kae(folder, "diff", "-o", form, "--no-cache").out}
    is_cached = (folder / ".kae_cache").exists()
    answers |= {in_process.kae(folder, "diff", "-o", form).out for _ in range(2)}
    monkeypatch.setattr(examples, "examples", lambda _, __: None)
    answers.add(in_process.kae(folder, "diff", "-o", form, "--no-cache").out)

    assert len(answers) == 1
    assert not is_cached


def test_one_cluster_alone_is_compared(rollout: Path) -> None:
    (rollout / "policies/west.yaml").write_text(canonical.dump_yaml(builders.raw("KAECluster", "west", {})))
    revisions.commit(rollout)
    diffs.change(rollout, "canary")

    assert diffs.data(rollout, "--cluster", "west")["effects"] == []
    assert diffs.data(rollout, "--cluster", "east")["effects"]


@pytest.mark.parametrize("command", [("diff",), ("diff", "-o", "markdown"), ("simulate",)])
def test_a_cluster_that_there_is_not_is_no_empty_difference(command: tuple[str, ...], rollout: Path) -> None:
    answer = in_process.kae(rollout, *command, "--cluster", "eastt")

    assert (answer.code, answer.out) == (3, "")
    assert answer.err.startswith("kae: there is no cluster 'eastt'.\nhint: Did you mean 'east'?")
