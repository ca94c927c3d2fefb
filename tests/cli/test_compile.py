"""`kae compile` as a person, a pipeline and a bad night see it."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from syrupy.assertion import SnapshotAssertion

from compiler.cli import commands
from compiler.output import cache, tree
from tests import in_process, project
from tests.cli import fleet
from tests.cli.answers import answered, refused, told, warned

ROOT = Path(__file__).parents[2]
IMAGES = "output/east/images.txt"
STALE = "east: output is not what the documents compile to"
CUT = "east: a compile was interrupted and left output incomplete"


def test_a_sound_project_is_compiled_and_then_unchanged(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    folder = fleet.small(tmp_path)

    first, second = (in_process.kae(folder, "compile") for _ in range(2))

    assert (first.code, first.err, second.code, second.err) == (0, "", 0, "")
    assert [first.out, second.out] == snapshot
    assert sorted(path.name for path in (folder / "output").iterdir()) == ["east", "west"]


def test_a_change_writes_what_it_concerns(small: Path) -> None:
    before = project.tree(small / "output")
    project.write(small, {"policies/tls.yaml": fleet.POLICY.replace("1.4.1", "1.4.2")})

    assert told(small, "compile") == (
        "east: 1 object replaced; 1 node (kp920-01) touched\n"
        "  replaced  DaemonSet kae-operator/kae-device-plugin-tls, whose pods restart on 1 node\n"
        "east: 2 files written, 0 removed\nwest: unchanged\n"
    )
    changed = {path for path, text in project.tree(small / "output").items() if text != before.get(path)}
    assert changed == {"east/device-plugin/daemonset-kae-device-plugin-tls.yaml", "east/images.txt"}


def test_the_file_that_accepts_a_loss_for_the_watcher_is_none_of_the_compilers(small: Path) -> None:
    before = project.tree(small / "output")
    project.write(small, {"inventory/east.accept": "3f2a9c1d77e0\n"})

    assert answered(small, "compile") == "east: unchanged\nwest: unchanged\n"
    assert project.tree(small / "output") == before


def test_a_file_of_no_cluster_is_reported_until_it_goes(small: Path) -> None:
    project.write(small / "output", {"stray.yaml": "a: b\n", "README.md": "Do not edit.\n"})

    answers = [in_process.kae(small, "compile", *words) for words in ((), (), ("--check",), ("--cluster", "east"))]

    said = "output/stray.yaml: warning[foreign-file]"
    assert [said in answer.err for answer in answers] == [True, True, True, False]
    assert [answer.code for answer in answers] == [0, 0, 4, 0]
    assert answers[2].out.endswith("output/stray.yaml: not written by the compiler\n")
    assert not any("README" in answer.err for answer in answers)


@pytest.mark.parametrize("damage", [None, "", "\n{}"], ids=["deleted", "emptied", "edited"])
def test_an_index_that_a_person_changed_is_said_and_rewritten(damage: str | None, small: Path) -> None:
    index = small / "output/east/index.json"
    whole = index.read_bytes()
    if damage is None:
        index.unlink()
    else:
        index.write_text(damage)

    check, *compiled = [in_process.kae(small, "compile", *words) for words in (("--check",), (), ())]

    assert check.code == 4
    assert "east: output was edited by hand\n" in check.out
    assert [answer.out.splitlines()[0] for answer in compiled] == ["east: index.json rewritten", "east: unchanged"]
    assert index.read_bytes() == whole


@pytest.mark.parametrize("state", ["Present", "Absent"])
def test_the_compile_that_replaces_version_1_warns_of_a_driver_left_behind(state: str, small: Path) -> None:
    project.write(small, {"policies/tls.yaml": fleet.POLICY.replace("2.2.0", f"2.2.0\n    state: {state}")})
    in_process.kae(small, "compile")
    index = small / "output/east/index.json"
    digests = {path: tree.digest((index.parent / path).read_bytes()) for path in json.loads(index.read_text())["files"]}
    index.write_text(json.dumps({"version": 1, "files": digests}))
    (small / "policies/tls.yaml").unlink()

    warnings = warned(small, "compile", "--accept", "removes-drivers", "--accept", "removes-device-plugins")

    said = "output/east/driver/daemonset-kae-driver-tls.yaml: warning[driver-left-behind]"
    assert (said in warnings) is (state == "Present")


def test_other_nodes_of_the_same_kinds_change_no_output(small: Path) -> None:
    project.write(small, {"inventory/east.json": fleet.listed(fleet.NODES[:3])})

    assert in_process.kae(small, "compile", "--check").code == 0


def test_a_mistake_writes_nothing_and_ends_with_1(small: Path) -> None:
    before = project.tree(small / "output")
    project.write(small, {"policies/tls.yaml": fleet.POLICY.replace("version: 1.4.1", "verison: 1.4.2")})

    assert "error[unknown-field]" in refused(1, small, "compile")
    assert project.tree(small / "output") == before


def test_an_inventory_below_policies_is_checked_as_any_other(small: Path) -> None:
    nodes = [{"name": "a", "profile": "0000abcd"}, {"name": "a", "profile": "0000abcd"}]
    head = {"apiVersion": "device.openfuyao.com/v1alpha1", "kind": "NodeInventory", "metadata": {"name": "south"}}
    project.write(small, {"policies/north.yaml": json.dumps(head | {"spec": {"nodes": nodes, "profiles": {}}})})

    answer = in_process.kae(small, "compile", "-o", "json")

    codes = {finding["code"] for finding in json.loads(answer.out)["diagnostics"]}
    assert (answer.code, codes) == (1, {"duplicate-node", "inventory-name", "unknown-profile"})


def test_a_warning_ends_with_0_and_where_that_is_wanted_with_1(tmp_path: Path) -> None:
    folder = fleet.full(tmp_path)

    strict = refused(1, folder, "compile", "--strict")
    assert not (folder / "output").exists()

    usual = warned(folder, "compile").removesuffix("\n")
    assert "warning[" in usual
    assert usual.endswith(" warnings")
    assert strict == f"{usual}; --strict treats warnings as errors; nothing written\n"
    assert in_process.kae(folder, "compile", "--strict").err == strict


@pytest.mark.parametrize(
    "arguments",
    [
        ("compile", "--inventory", "nowhere"),
        ("compile", "--output-dir", "policies"),
        ("compile", "--output-dir", "inventory/east"),
        ("compile", "--output-dir", ""),
        ("compile", "--output-dir", "policies/tls.yaml/x"),
    ],
)
def test_a_world_that_is_not_as_it_was_said_ends_with_3_and_a_hint(arguments: tuple[str, ...], small: Path) -> None:
    before = project.tree(small)

    said = refused(3, small, *arguments)

    assert said.startswith("kae: ")
    assert "\nhint: " in said
    assert project.tree(small) == before


def test_the_last_line_counts_the_findings_and_says_what_follows(small: Path) -> None:
    project.write(small, {"policies/tls.yaml": fleet.POLICY.replace("spec:", "spce:")})

    for words, last in (("compile", "1 error; nothing written"), ("compile --check", "1 error"), ("plan", "1 error")):
        assert refused(1, small, *words.split()).splitlines()[-1] == last


def test_quiet_leaves_what_stops_and_the_exit_code(tmp_path: Path) -> None:
    folder = fleet.full(tmp_path)

    assert refused(4, folder, "compile", "--check", "-q") == ""
    assert answered(folder, "compile", "--quiet") == ""
    strict = refused(1, folder, "compile", "--quiet", "--strict")
    assert strict == in_process.kae(folder, "compile", "--strict").err


def test_a_misspelt_cluster_is_answered_with_the_nearest_one(small: Path) -> None:
    said = "kae: there is no cluster 'eats'.\nhint: Did you mean 'east'? Clusters are east and west.\n"

    assert refused(3, small, "compile", "--cluster", "eats") == said


def test_a_folder_without_documents_ends_with_3(tmp_path: Path) -> None:
    assert "`kae init`" in refused(3, tmp_path, "compile")
    assert list(tmp_path.iterdir()) == []


def test_a_check_shows_the_difference_and_writes_nothing(small: Path, snapshot: SnapshotAssertion) -> None:
    project.write(small, {"policies/tls.yaml": fleet.POLICY.replace("1.4.1", "1.4.2")})
    before = project.tree(small / "output")

    answer = in_process.kae(small, "compile", "--check")

    assert answer.code == 4
    assert [answer.out, answer.err] == snapshot
    assert project.tree(small / "output") == before


@pytest.mark.parametrize(
    ("damage", "state"),
    [
        (lambda folder: (folder / IMAGES).write_text("x\n"), STALE),
        (lambda folder: (folder / IMAGES).unlink(), "east: output was edited by hand"),
        (lambda folder: shutil.rmtree(folder / "output/east"), STALE),
        (lambda folder: (folder / f"{IMAGES}.kae-tmp").write_text("x\n"), CUT),
        (lambda folder: (folder / "output/east/index.json.kae-tmp").write_text("x\n"), CUT),
        (lambda folder: (folder / "policies/west.yaml").unlink(), "west: output exists, but the cluster is"),
    ],
)
def test_a_check_finds_every_damage_and_a_compile_repairs_it(
    damage: Callable[[Path], object], state: str, small: Path
) -> None:
    damage(small)

    checked = in_process.kae(small, "compile", "--check")

    assert checked.code == 4
    assert state in checked.out
    told(small, "compile", *fleet.ACCEPT_WEST)
    told(small, "compile", "--check")


def test_the_difference_is_a_patch_that_makes_output_what_a_compile_makes_it(small: Path) -> None:
    project.write(small, {"policies/tls.yaml": fleet.POLICY.replace("1.4.1", "1.4.2")})
    (small / "output.patch").write_text(in_process.kae(small, "compile", "--check").out)

    for command in (["patch", "--dry-run", "-p0", "-i", "output.patch"], ["git", "apply", "-p0", "output.patch"]):
        subprocess.run(command, cwd=small, check=True, capture_output=True, timeout=30)

    assert in_process.kae(small, "compile", "--check").code == 0


@pytest.mark.parametrize(("form", "stream"), [("text", "out"), ("github", "out"), ("json", "err"), ("sarif", "err")])
def test_a_check_that_fails_says_so_in_every_format(form: str, stream: str, small: Path) -> None:
    (small / IMAGES).write_text("x\n")

    answer = in_process.kae(small, "compile", "--check", "--format", form)

    assert answer.code == 4
    assert f"{STALE}\n" in getattr(answer, stream)


@pytest.mark.parametrize(
    ("arguments", "states"),
    [
        ((), {"east": "unchanged", "west": "unchanged"}),
        (("--check",), {"east": "fine", "west": "fine"}),
        (("--cluster", "west"), {"west": "unchanged"}),
    ],
)
def test_json_is_one_object_and_nothing_else(arguments: tuple[str, ...], states: dict[str, str], small: Path) -> None:
    answer = in_process.kae(small, "compile", "-o", "json", *arguments)

    read = json.loads(answer.out)
    clusters = read.pop("clusters")
    assert answer.err == ""
    assert read == {"version": 1, "diagnostics": [], "changes": [], "foreign": [], "extra": []}
    assert {item["name"]: item["state"] for item in clusters} == states


@pytest.mark.parametrize("command", ["compile", "plan"])
def test_json_of_a_mistake_is_one_object_too(command: str, small: Path) -> None:
    project.write(small, {"policies/tls.yaml": fleet.POLICY.replace("spec:", "spce:")})
    fields = {"code", "severity", "message", "file", "line", "column", "notes", "hint"}

    answer = in_process.kae(small, command, "-o", "json")

    read = json.loads(answer.out)
    assert (answer.code, read["clusters"]) == (1, [])
    assert answer.err.startswith("policies/tls.yaml:")
    assert {item["severity"] for item in read["diagnostics"]} == {"error"}
    assert all(set(item) == fields for item in read["diagnostics"])


def test_findings_come_as_the_code_hosts_want_them(tmp_path: Path) -> None:
    folder = fleet.full(tmp_path)

    github = in_process.kae(folder, "compile", "--format", "github")
    sarif = in_process.kae(folder, "compile", "--format", "sarif")

    assert (github.code, github.err, sarif.code) == (0, "", 0)
    *annotations, _, _, east, west = github.out.splitlines()
    assert all(line.startswith("::warning file=") for line in annotations)
    assert [east.partition(":")[0], west] == ["east", "west: 21 files written, 0 removed"]
    assert sarif.err == "east: unchanged\nwest: unchanged\n"
    results = json.loads(sarif.out)["runs"][0]["results"]
    assert len(results) == len(annotations) > 0


def test_json_of_the_findings_alone_leaves_the_states_to_people(small: Path) -> None:
    findings = in_process.kae(small, "compile", "--format", "json")
    both = in_process.kae(small, "compile", "--format", "json", "-o", "json")

    assert json.loads(findings.out) == {"version": 1, "diagnostics": []}
    assert findings.err == "east: unchanged\nwest: unchanged\n"
    assert (list(json.loads(both.out))[:3], both.err) == (["version", "diagnostics", "clusters"], "")


def test_yaml_is_the_same_answer(small: Path) -> None:
    answer = in_process.kae(small, "compile", "-o", "yaml")

    assert yaml.safe_load(answer.out) == json.loads(in_process.kae(small, "compile", "-o", "json").out)


def test_two_programs_cannot_read_one_stream(small: Path) -> None:
    said = refused(2, small, "compile", "-o", "json", "--format", "sarif")

    assert "-o json and --format sarif both print to standard output" in said


def test_output_of_a_cluster_that_is_gone_is_removed_and_said(small: Path) -> None:
    (small / "policies/west.yaml").unlink()

    answer = in_process.kae(small, "compile", *fleet.ACCEPT_WEST)

    assert answer.code == 0
    assert answer.out.startswith("west: 19 objects deleted\n  deleted   ClusterRole kae-nfd-gc\n")
    assert answer.out.endswith("east: unchanged\nwest: removed\n")
    assert "warning[cluster-removed]" in answer.err
    assert [path.name for path in (small / "output").iterdir()] == ["east"]


def test_a_cluster_asked_for_alone_takes_no_other_away(small: Path) -> None:
    (small / "policies/west.yaml").unlink()

    assert warned(small, "compile", "--cluster", "east") == ""
    assert (small / "output/west").is_dir()


def test_an_inventory_folder_cannot_bring_a_policy_in(small: Path) -> None:
    before = project.tree(small / "output")
    stolen = project.write(small / "checkout", {"east.json": fleet.listed(), "x.yaml": fleet.REST})

    assert "error[unknown-kind]" in refused(1, small, "compile", "--inventory", str(stolen))
    assert project.tree(small / "output") == before


def test_without_a_cache_no_result_is_left(tmp_path: Path) -> None:
    folder = fleet.small(tmp_path)

    assert in_process.kae(folder, "compile", "--no-cache").code == 0
    assert not (folder / cache.FOLDER / "results.json").exists()


HEAVY = """
import sys
from compiler import cli
for words in sys.argv[1:]:
    try:
        assert cli.main(words.split()) == 0
    except SystemExit as ended:
        assert not ended.code
heavy = {
    *("asyncio", "dataclasses", "difflib", "email", "jinja2", "jsonschema", "jsonschema_rs", "kubernetes", "msgspec"),
    *("multiprocessing", "pydantic", "re2", "subprocess", "yaml", "zoneinfo", "compiler.schema.explanations"),
}
print(*sorted(heavy & set(sys.modules)), file=sys.stderr)
"""
_FEW = "email jsonschema_rs msgspec yaml"
"""The judge of documents imports email itself, and the tables of people dataclasses."""


@pytest.mark.parametrize(
    ("calls", "modules"),
    [
        (["compile --no-cache"], _FEW),
        (["plan"], f"dataclasses {_FEW}"),
        (["compile", "compile --check"], ""),
        (["--version"], ""),
        (["--help"], ""),
        (["completion bash", "__complete kae"], ""),
        ([f"{name} --help" for name in commands.COMMANDS], ""),
    ],
    ids=lambda given: given[0] if isinstance(given, list) else "",
)
def test_a_call_imports_what_it_needs(calls: list[str], modules: str, small: Path) -> None:
    project.write(small, {"kae.yaml": "limits: {removedPercent: 5}\n"})
    assert in_process.kae(small, "compile").code == 0

    done = subprocess.run(
        [sys.executable, "-c", HEAVY, *calls],
        cwd=small,
        env={"PYTHONPATH": str(ROOT), "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )

    assert (done.returncode, done.stderr.splitlines()[-1]) == (0, modules)


def test_nothing_is_said_of_nodes_that_a_file_which_cannot_be_read_may_govern(tmp_path: Path) -> None:
    folder = fleet.small(tmp_path)
    (folder / "policies/tls.yaml").write_text("a: b: c\n")

    said = refused(1, folder, "compile")

    assert "error[yaml-syntax]" in said
    assert "node-without-policy" not in said


def test_a_policy_without_nodes_is_told_again_where_one_of_its_clusters_is_unchanged(tmp_path: Path) -> None:
    nodes = {name: fleet.listed(fleet.NODES[:1]) for name in ("inventory/east.json", "inventory/west.json")}
    typo = fleet.POLICY.replace("[east]", "[east, west]").replace("pool: tls", "pool: tsl")
    project.write(fleet.small(tmp_path), {"policies/tls.yaml": typo, **nodes})
    first = in_process.kae(tmp_path, "compile")
    project.write(tmp_path, {"inventory/west.json": fleet.listed(fleet.NODES[:2])})

    again = in_process.kae(tmp_path, "compile")
    project.write(tmp_path, {"inventory/west.json": nodes["inventory/west.json"].replace("tls", "tsl")})
    served = in_process.kae(tmp_path, "compile")

    for answer in (first, again):
        assert answer.code == 0
        assert answer.err.count("warning[policy-matches-nothing]: Policy 'tls' matches no node.") == 1
        assert answer.err.count("note: No node has the label pool=tsl; did you mean 'tls'?") == 1
    assert "policy-matches-nothing" not in served.err


@pytest.mark.parametrize(
    ("field", "value", "hint"),
    [
        ("operator: {enabledSEC: VALUE}", "yes", "Write true, without quotes."),
        ("driver: {drain: {timeoutSeconds: VALUE}}", "9" * 23, "Write a whole number from 1 to 86400."),
        ("driver: {version: VALUE}", "1.10e2", 'Write "1.10e2" for the string, or 110 for the number.'),
    ],
)
def test_a_scalar_that_readers_take_differently_is_one_mistake(
    field: str, value: str, hint: str, tmp_path: Path
) -> None:
    text = f"{fleet.REST.partition('  driver:')[0]}  {field.replace('VALUE', value)}\n"

    answer = in_process.kae(project.write(fleet.small(tmp_path), {"policies/rest.yaml": text}), "compile")

    assert (answer.code, answer.err.count("error[")) == (1, 1)
    assert "error[ambiguous-scalar]" in answer.err
    assert f"  hint: {hint}\n" in answer.err


def test_a_template_of_helm_is_told_that_nothing_fills_it_in(tmp_path: Path) -> None:
    text = fleet.POLICY.replace("2.2.0", "{{ .Values.version }}")

    said = refused(1, project.write(fleet.small(tmp_path), {"policies/tls.yaml": text}), "compile")

    assert "hint: Write the value itself: nothing fills in a template here. Run Helm before.\n" in said


def test_what_helm_left_without_a_value_is_told_in_any_string(tmp_path: Path, repository_root: Path) -> None:
    recipe = (repository_root / "templates/recipes/simple-kmod/recipe.yaml").read_text("utf-8")
    env = "  driver:\n    env: [{name: A, value: <no value>}]\n"
    files = {
        "recipes/simple-kmod/recipe.yaml": recipe.replace("title: ", "title: <no value> # "),
        "policies/tls.yaml": fleet.POLICY.replace("  driver:\n", env),
    }
    folder = project.write(fleet.small(tmp_path), files)

    said = refused(1, folder, "compile")

    assert "error[invalid-value]: 'spec.driver.env[0].value' has no value: it is '<no value>'.\n" in said
    assert "error[invalid-value]: 'spec.title' has no value: it is '<no value>'.\n" in said
    assert (
        said.count("hint: Write the value itself, or give it to Helm, which wrote '<no value>' for want of one.") == 2
    )
