"""Edits of a policy's file by `kae wave add`, `promote`, `freeze`, `thaw` and `retire`."""

import json
import shutil
from pathlib import Path

import pytest

from tests import in_process, project, revisions
from tests.cli import diffs, fleet
from tests.cli.answers import refused, told

TLS = "policies/tls.yaml"
"""The policy of the example of docs/rollouts.md."""
NODES = ("--node", "kp920-rack1-03", "--node", "kp920-rack1-04")
MAPPED = """\
    kernelMappings:
      - name: lts
        regexp: '^5'
        version: 2.1.0
    rollout:
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The example fleet in a commit."""
    shutil.copytree(diffs.EXAMPLE / "policies", tmp_path / "policies")
    shutil.copytree(diffs.EXAMPLE / "inventory", tmp_path / "inventory")
    revisions.commit(tmp_path)
    return tmp_path


def text_of(folder: Path, name: str = TLS) -> str:
    """A file with the line breaks that it has."""
    return (folder / name).read_bytes().decode()


def have_west(folder: Path) -> None:
    """Give the policy a second cluster, which has no node of the examples by name."""
    text = text_of(folder, "inventory/east.json").replace("east", "west").replace("kp920-", "kp930-")
    cluster = text_of(folder, "policies/cluster.yaml").replace("east", "west")
    project.write(folder, {"inventory/west.json": text, "policies/west.yaml": cluster})
    diffs.edit(folder, ("clusters: [east]", "clusters: [east, west]"))
    revisions.commit(folder)


def changed(folder: Path) -> list[str]:
    """The lines that differ from the last commit."""
    shown = revisions.git(folder, "diff", "--unified=0", "--ignore-cr-at-eol")
    return [line for line in shown.splitlines() if line[0] in "+-" and not line.startswith(("+++", "---"))]


@pytest.mark.parametrize(
    ("words", "lines"),
    [
        (
            ("wave", "add", "tls", "all", "--percent", "80", "--version", "2.3.0"),
            ["+        - name: all", "+          percent: 80", "+          version: 2.3.0"],
        ),
        (
            ("wave", "add", "tls", "lab", *NODES, "--before", "canary", "--cluster", "east"),
            [
                *("+        - name: lab", "+          nodes: [kp920-rack1-03, kp920-rack1-04]"),
                "+          clusters: [east]",
            ],
        ),
        (
            ("wave", "add", "tls", "lab", "-l", "zone in (a,b),pool=tls,!x"),
            [
                *("+        - name: lab", "+          inventorySelector:", "+            matchLabels:"),
                *("+              pool: tls", "+            matchExpressions:", "+              - key: zone"),
                *("+                operator: In", "+                values: [a, b]", "+              - key: x"),
                "+                operator: DoesNotExist",
            ],
        ),
        (
            ("freeze", "tls", "batch7", *NODES),
            [
                *("+      frozen:", "+        - name: batch7", "+          nodes: [kp920-rack1-03, kp920-rack1-04]"),
                "+          version: 2.2.0",
            ],
        ),
        (("retire", "tls"), ["+    state: Absent"]),
    ],
    ids=lambda words: words[0] if isinstance(words[0], str) else "",
)
def test_an_edit_adds_its_lines_and_says_what_diff_says(words: tuple[str, ...], lines: list[str], folder: Path) -> None:
    check = in_process.kae(folder, *words, "--check")
    unwritten = changed(folder)
    answer = in_process.kae(folder, *words)
    differs = in_process.kae(folder, "diff")

    assert (check.code, check.out, check.err, unwritten) == (4, answer.out, answer.err, [])
    assert answer.code == 0
    assert sorted(changed(folder)) == sorted(lines)
    head, _, rest = answer.out.partition("\n\n")
    assert head.startswith(f"{TLS}:")
    assert rest.startswith(differs.out + "\nNext: `kae compile` and a commit; ")
    # Behind the risks of the change it says what a compile will say.
    assert answer.err.startswith(differs.err.rpartition("\n1 ")[0])


@pytest.mark.parametrize(
    "words",
    [("wave", "add", "tls", "lab", "--before", "canary"), ("freeze", "tls", "batch7")],
    ids=lambda words: words[0],
)
def test_nodes_by_name_are_those_of_the_clusters_that_have_them(words: tuple[str, ...], folder: Path) -> None:
    have_west(folder)

    answer = json.loads(told(folder, *words, *NODES, "-o", "json"))

    assert "+          clusters: [east]" in changed(folder)
    assert {effect["cluster"] for effect in answer["diff"]["effects"]} == {"east"}


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("lab", "--percent", "3", "--version", "2.4.0"), 1, "error[wave-bounds]"),
        (("lab", "--node", "kp920-typo", "--version", "2.4.0"), 0, "warning[group-stranger]"),
        (("lab", "-l", "zone=nowhere", "--version", "2.4.0"), 0, "warning[group-empty]"),
    ],
)
def test_an_edit_says_what_a_compile_will_say_of_it(words: tuple[str, ...], code: int, said: str, folder: Path) -> None:
    answer = in_process.kae(folder, "wave", "add", "tls", *words)

    assert answer.code == code
    assert said in answer.err
    assert (changed(folder) != []) == (code == 0)


def test_a_promotion_gives_the_policy_what_the_wave_has(folder: Path) -> None:
    told(folder, "bump", "tls", "--wave", "canary", "--version", "2.3.0")

    said = told(folder, "promote", "tls/canary")

    assert said.startswith(
        f"{TLS}:13: tls: the policy has what wave canary has: version 2.3.0; half keeps other values\n"
    )
    assert changed(folder) == [
        *("-    version: 2.2.0", "+    version: 2.3.0", "-          version: 2.2.0", "+          version: 2.3.0"),
    ]
    assert told(folder, "promote", "tls/canary") == f"{TLS}:19: tls: the policy has what wave canary has already\n"


def test_a_wave_leaves_its_policy_and_the_answer_says_what_its_nodes_get(folder: Path) -> None:
    told(folder, "bump", "tls", "--wave", "half", "--version", "2.3.0")
    revisions.commit(folder)
    line = text_of(folder).splitlines().index("        - name: half") + 1

    unknown = refused(1, folder, "wave", "remove", "tls/halff")
    answer = in_process.kae(folder, "wave", "remove", "tls/half")

    assert "policy 'tls' has no wave 'halff'.\nhint: Did you mean 'half'?" in unknown
    assert answer.out.startswith(f"{TLS}:{line}: tls: wave half is removed\n")
    assert (
        "12 nodes of policy tls go from driver 2.3.0 to 2.2.0 in group rest of cluster east, moving from po"
        in answer.out
    )
    assert "warning[pace-bypassed]" in answer.err
    assert changed(folder) == ["-        - name: half", "-          percent: 50", "-          version: 2.3.0"]


def test_a_promotion_names_the_clusters_in_which_nobody_has_tried(folder: Path) -> None:
    have_west(folder)
    diffs.edit(folder, ("        - name: canary\n", "        - name: canary\n          clusters: [west]\n"))
    told(folder, "bump", "tls", "--wave", "canary", "--version", "2.3.0")

    answer = in_process.kae(folder, "promote", "tls/canary", "--check")

    assert "; half keeps other values; wave canary has no node with a driver in cluster east\n" in answer.out
    assert json.loads(in_process.kae(folder, "promote", "tls/canary", "-o", "json").out)["untried"] == ["east"]


@pytest.mark.parametrize(
    ("edit", "wave", "words"),
    [
        (
            ("    rollout:\n", MAPPED),
            "canary",
            "mapping 'lts' hides 'version' of policy 'tls' from its nodes: policies/tls.yaml:19.",
        ),
        (
            ("          percent: 5\n          version: 2.2.0\n", "          percent: 5\n"),
            "canary",
            "has nothing of its own",
        ),
        (("percent: 5", "percent: 5"), "cannary", "policy 'tls' has no wave 'cannary'.\nhint: Did you mean 'canary'?"),
    ],
)
def test_a_promotion_that_reaches_nobody_is_refused(edit: tuple[str, str], wave: str, words: str, folder: Path) -> None:
    diffs.edit(folder, edit)
    before = text_of(folder)

    said = refused(1, folder, "promote", f"tls/{wave}")

    assert words in said
    assert "\nhint: " in said
    assert text_of(folder) == before


def test_a_mapping_with_the_same_value_hides_nothing(folder: Path) -> None:
    diffs.edit(
        folder,
        ("    rollout:\n", MAPPED),
        ("percent: 5\n          version: 2.2.0", "percent: 5\n          version: 2.1.0"),
    )

    assert told(folder, "promote", "tls/canary").startswith(f"{TLS}:13: tls: the policy has what wave canary has: ")


def test_freeze_and_thaw_leave_the_text_as_it_was(folder: Path) -> None:
    for text in (text_of(folder), text_of(folder).replace("\n", "\r\n"), text_of(folder).removesuffix("\n")):
        (folder / TLS).write_bytes(text.encode())

        told(folder, "freeze", "tls", "batch7", *NODES)
        frozen = text_of(folder)
        told(folder, "freeze", "tls", "batch8", "--node", "kp920-rack2-01")
        told(folder, "thaw", "tls", "batch8")

        assert text_of(folder) == frozen != text
        told(folder, "thaw", "tls", "batch7")
        assert text_of(folder) == text


def test_nodes_keep_what_the_last_commit_gives_them_or_the_version_that_is_named(folder: Path) -> None:
    told(folder, "bump", "tls", "--wave", "half", "--version", "2.3.0")
    before = text_of(folder)

    said = refused(1, folder, "freeze", "tls", "batch7", *NODES)

    assert said.startswith("kae: policy 'tls' has edits that are in no commit: its nodes would keep what these say.\n")
    assert text_of(folder) == before
    told(folder, "freeze", "tls", "batch7", *NODES, "--version", "2.2.0")
    made = (
        f"      frozen:\n        - name: batch7\n          nodes: [{NODES[1]}, {NODES[3]}]\n          version: 2.2.0\n"
    )
    assert text_of(folder) == before.replace("  devicePlugin:", f"{made}  devicePlugin:")


def test_the_comments_of_a_thawed_group_stay(folder: Path) -> None:
    frozen = "        # Batch 7.\n        - name: batch7   # sick\n          nodes: [a]\n          version: 2.2.0\n"
    diffs.edit(folder, ("  devicePlugin:", f"      frozen: # These stay.\n{frozen}  devicePlugin:"))

    told(folder, "thaw", "tls", "batch7")

    assert "          version: 2.2.0\n      # These stay.\n      # Batch 7.\n      # sick\n  devicePlugin:" in text_of(
        folder
    )


@pytest.mark.parametrize(
    ("words", "edit", "said"),
    [
        (("freeze", "tls", "half", *NODES), None, "policy 'tls' has a wave 'half' already: policies/tls.yaml:22."),
        (
            ("freeze", "tls", "x", "--node", "kp920-rack1-3"),
            None,
            "policy 'tls' has no node 'kp920-rack1-3'.\nhint: Did you mean",
        ),
        (("freeze", "tls", "x", "-l", "a=b"), None, "policy 'tls' has no node with these labels."),
        (
            ("freeze", "tls", "x", "-l", "pool=tls"),
            ("percent: 50\n          version: 2.2.0", "percent: 50\n          version: 2.3.0"),
            "the nodes differ: east/kp920-rack1-01 has ",
        ),
        (
            ("thaw", "tls", "x"),
            None,
            "policy 'tls' has no frozen group 'x'.\nhint: spec.driver.rollout.frozen has no entries.",
        ),
        (
            ("freeze", "tls", "x", *NODES),
            ("      waves:", "      frozen: []\n      waves:"),
            "'spec.driver.rollout.frozen' is empty.",
        ),
        (
            ("freeze", "tls", "x", *NODES),
            ("    rollout:\n", "    enabled: false\n    rollout:\n"),
            "brings nothing that a part of its nodes",
        ),
        (
            ("retire", "tls"),
            ("percent: 50\n", "percent: 50\n          state: Present\n"),
            "'half' of policy 'tls' has `state: Present`: policies/tls.yaml:24.",
        ),
        (("wave", "add", "tls", "x", "--percent", "9", "--image", "a", "--version", "1"), None, "images have no names"),
        (("wave", "add", "tls", "x", "--percent", "9", "--before", "y"), None, "policy 'tls' has no wave 'y'."),
        (("retire", "tlss"), None, "there is no policy 'tlss'.\nhint: Did you mean 'tls'?"),
    ],
)
def test_what_cannot_be_done_is_refused_and_nothing_is_written(
    words: tuple[str, ...], edit: tuple[str, str] | None, said: str, folder: Path
) -> None:
    if edit:
        diffs.edit(folder, edit)
        revisions.commit(folder)
    before = project.tree(folder / "policies")

    assert said in refused(1, folder, *words)
    assert project.tree(folder / "policies") == before


@pytest.mark.parametrize(
    "edit",
    [
        ("    rollout:\n", "    rollout: &r\n"),
        ("    rollout:\n      maxParallel: 2\n", "    rollout:\n      <<: {maxParallel: 2}\n"),
    ],
)
def test_anchors_and_merges_beside_the_edit_are_kept(edit: tuple[str, str], folder: Path) -> None:
    diffs.edit(folder, edit)

    told(folder, "freeze", "tls", "batch7", *NODES)

    assert edit[1] in text_of(folder)


def test_what_an_alias_repeats_is_not_edited(folder: Path) -> None:
    diffs.edit(
        folder, ("version: 2.2.0", "version: &v 2.2.0"), ("5\n          version: 2.2.0", "5\n          version: 2.3.0")
    )
    diffs.edit(folder, ("50\n          version: 2.2.0", "50\n          version: *v"))
    before = text_of(folder)

    said = refused(1, folder, "promote", "tls/canary")

    assert said == (
        f"kae: {TLS}:13:14: 'spec.driver.version' is shared by an anchor and its aliases.\n"
        "hint: Write the value out at this position.\n"
    )
    assert text_of(folder) == before


def test_an_edit_that_would_not_compile_is_not_written(folder: Path) -> None:
    before = text_of(folder)

    answer = in_process.kae(folder, "wave", "add", "tls", "last", "--percent", "20")

    assert answer.code == 1
    assert "error[wave-bounds]" in answer.err
    assert "1 error; nothing written\n" in answer.err
    assert text_of(folder) == before


def test_a_risk_that_the_project_forbids_is_written_only_where_it_is_accepted(folder: Path) -> None:
    project.write(folder, {"kae.yaml": "findings: {driver-removed: error}\n"})
    before = text_of(folder)

    answer = in_process.kae(folder, "retire", "tls")

    assert answer.code == 1
    assert "error[driver-removed]" in answer.err
    assert text_of(folder) == before
    told(folder, "retire", "tls", "--accept", "driver-removed:east/tls")
    assert text_of(folder) != before


def test_a_policy_retires_by_two_commits(folder: Path) -> None:
    first = told(folder, "retire", "tls")
    early = refused(1, folder, "retire", "tls")
    revisions.commit(folder)
    uncompiled = refused(1, folder, "retire", "tls")
    compiled(folder)
    label = ('"openfuyao.com/kae.hpre.pf"', '"openfuyao.com/kae.driver-version": "2.2.0", "openfuyao.com/kae.hpre.pf"')
    diffs.edit(folder, label, file="inventory/east.json")
    labelled = refused(1, folder, "retire", "tls")
    revisions.git(folder, "checkout", "inventory")
    second = told(folder, "retire", "tls")

    assert "`kae retire tls` again deletes the policy.\n" in first
    assert early.startswith("kae: `state: Absent` of policy 'tls' is in no commit yet: policies/tls.yaml:13.\nhint: ")
    assert "the output of the last commit does not remove the driver of policy 'tls': output/east/" in uncompiled
    assert "labels show the driver of policy 'tls' on " in labelled
    assert second.startswith(
        f"{TLS}:6: tls: the policy and its file are deleted; no label shows its driver on its 24 nodes; "
        "nobody has asked the hosts, which `kae status` does\n"
    )
    assert not (folder / TLS).exists()


def test_a_policy_retires_where_no_node_gets_an_installer(folder: Path) -> None:
    name = "policies/simple-kmod.yaml"
    told(folder, "recipe", "add", "simple-kmod")
    diffs.edit(folder, ("simple-kmod: example", "kubernetes.io/arch: arm64"), file=name)
    revisions.commit(folder)
    told(folder, "retire", "simple-kmod")
    compiled(folder)

    second = told(folder, "retire", "simple-kmod")

    assert "no label shows its driver on its 24 nodes" in second
    assert not (folder / name).exists()


def test_a_policy_that_retires_names_the_nodes_on_which_nothing_removes_its_driver(folder: Path) -> None:
    node = '"topology.kubernetes.io/zone":"rack1"},"name":"kp920-rack1-03"'
    opted_out, shown = '"openfuyao.com/kae.deploy.driver":"false",', '"openfuyao.com/kae.driver-version":"2.2.0",'
    diffs.edit(folder, (node, opted_out + node), file="inventory/east.json")
    first = told(folder, "retire", "tls")
    compiled(folder)
    second = in_process.kae(folder, "retire", "tls", "--check").out
    diffs.edit(folder, (opted_out, opted_out + shown), file="inventory/east.json")
    refusal = refused(1, folder, "retire", "tls")

    text = "; no installer runs on 1 node: east/kp920-rack1-03 (it has opted out: openfuyao.com/kae.depl"
    assert text in first
    assert text in second
    assert ", which were to remove the drivers before." in second
    assert "hint: No installer runs on east/kp920-rack1-03: it has opted out: openfuyao.com/kae.deploy." in refusal


def test_a_policy_that_retires_takes_the_driver_from_frozen_nodes_where_a_person_accepts_it(folder: Path) -> None:
    told(folder, "freeze", "tls", "batch7", *NODES)
    compiled(folder)
    accept = "thaws-nodes:east/tls"

    first = told(folder, "retire", "tls")
    refusal = refused(1, folder, "compile")
    told(folder, "compile", "--accept", accept)

    assert (
        f"\nNext: `kae compile --accept {accept}`, as 2 frozen nodes lose the driver too, and a commit; when no node"
        in first
    )
    assert (
        "2 nodes (kp920-rack1-03 and kp920-rack1-04) of cluster 'east' lose the driver in the frozen group" in refusal
    )
    assert "leave the frozen group" not in refusal


def test_a_node_that_has_not_got_its_driver_yet_is_not_frozen_at_it_as_if_it_had(folder: Path) -> None:
    label = (
        '"openfuyao.com/kae.hpre.pf"',
        '"openfuyao.com/kae.driver-version": "2.1.0", "openfuyao.com/kae.hpre.pf"',
    )
    diffs.edit(folder, label, file="inventory/east.json")

    said = refused(1, folder, "freeze", "tls", "batch7", "-l", "pool=tls")
    told(folder, "freeze", "tls", "batch7", "-l", "pool=tls", "--version", "2.1.0")

    assert " of policy 'tls' have not what the last commit orders: east/" in said
    assert " loaded 2.1.0, wants 2.2.0.\nhint: Name what all of them keep by --version" in said


def test_all_nodes_are_frozen_beside_those_that_are(folder: Path) -> None:
    told(folder, "freeze", "tls", "batch7", *NODES, "--version", "2.1.0")
    revisions.commit(folder)

    said = told(folder, "freeze", "tls", "stop", "-l", "pool=tls")
    by_name = refused(1, folder, "freeze", "tls", "again", *NODES)
    by_label = refused(1, folder, "freeze", "tls", "again", "-l", "pool=tls")

    assert "frozen group stop keeps 22 nodes at version 2.2.0; 2 nodes of frozen group batch7 stay there\n" in said
    assert "kp920-rack1-03" not in said.partition("effect:")[2]
    assert (
        "node 'kp920-rack1-03' is in frozen group 'batch7' already, and keeps what that says.\nhint: Leave it o"
        in by_name
    )
    assert "nodes of policy 'tls' with these labels are frozen already: stop and batch7.\nhint: `kae plan" in by_label


def compiled(folder: Path) -> None:
    """Compile, whatever that takes away, and commit."""
    removals = ("removes-drivers", "removes-device-plugins")
    told(folder, "compile", *(word for code in removals for word in ("--accept", code)))
    revisions.commit(folder)


@pytest.mark.parametrize("is_tracked", [True, False])
def test_a_policy_that_no_commit_has_as_it_is_does_not_go(folder: Path, *, is_tracked: bool) -> None:
    text = "apiVersion: device.openfuyao.com/v1alpha1\nkind: KAEPolicy\nmetadata:\n  name: nine\nspec:\n"
    text += "  nodeSelector:\n    matchLabels:\n      pool: nine\n  driver:\n    enabled: false\n"
    (folder / "policies/nine.yaml").write_text(text)
    if is_tracked:
        revisions.commit(folder)
        (folder / "policies/nine.yaml").write_text(f"{text}# Mine.\n")

    said = refused(1, folder, "retire", "nine")

    assert ("has edits that are in no commit" if is_tracked else "is in no commit") in said
    assert (folder / "policies/nine.yaml").exists()


def test_a_policy_without_nodes_in_the_inventory_does_not_go(folder: Path) -> None:
    told(folder, "retire", "tls")
    compiled(folder)
    (folder / "inventory/east.json").unlink()

    said = refused(1, folder, "retire", "tls")

    assert "the inventory has no node of policy 'tls', so nothing tells that its driver is gone." in said


def test_the_other_documents_of_a_file_stay_when_a_policy_goes(folder: Path) -> None:
    own = text_of(folder).replace("  driver:\n", "  driver:\n    state: Absent\n")
    texts = (f"# head\n{fleet.REST}", own, fleet.POLICY.replace("tls", "web"))
    for number in range(3):
        order = [*texts[1 : number + 1], texts[0], *texts[number + 1 :]]
        (folder / TLS).write_text("---\n".join(order))
        compiled(folder)

        told(folder, "retire", "tls")

        left = [text for text in order if text is not own]
        kept = own[: own.index("apiVersion")] if order[0] is own else ""
        assert text_of(folder).removeprefix(kept).removeprefix("---\n") == "---\n".join(left)


def test_programs_get_the_difference_too(folder: Path) -> None:
    answer = json.loads(in_process.kae(folder, "freeze", "tls", "batch7", *NODES, "--check", "-o", "json").out)
    told(folder, "freeze", "tls", "batch7", *NODES)
    differs = json.loads(told(folder, "diff", "-o", "json"))

    assert answer.pop("diff") == {key: each for key, each in differs.items() if key not in ("version", "diagnostics")}
    assert answer.pop("next").startswith("`kae compile`")
    assert answer == {
        **{"version": 1, "diagnostics": [], "policy": "tls", "file": TLS, "frozen": "batch7", "written": False},
        "nodes": ["east/kp920-rack1-03", "east/kp920-rack1-04"],
    }


def test_a_folder_without_git_is_not_edited(folder: Path) -> None:
    shutil.rmtree(folder / ".git")
    before = text_of(folder)

    assert in_process.kae(folder, "retire", "tls").code == 3
    assert text_of(folder) == before


def test_a_policy_of_two_files_is_edited_in_the_one_that_is_named(folder: Path) -> None:
    west = text_of(folder).replace("[east]", "[west]")
    project.write(folder, {"policies/west.yaml": west, "policies/cluster-west.yaml": fleet.CLUSTER})
    words = ("wave", "add", "tls", "all", "--percent", "80")

    assert "hint: Choose a file with --file.\n" in refused(1, folder, *words)
    told(folder, *words, "--file", "policies/west.yaml")
    assert text_of(folder, "policies/west.yaml") == west.replace(
        "  devicePlugin:", "        - name: all\n          percent: 80\n  devicePlugin:"
    )
