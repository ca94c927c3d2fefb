"""kae.yaml says where a project's folders are, how severe its findings are, and what a compile may take away."""

import json
from pathlib import Path

import pytest

from compiler import cli, diagnostics
from compiler.project import project_file
from tests import builders, in_process, project
from tests.cli import fleet
from tests.cli.answers import refused, told, warned

LATEST = fleet.POLICY.replace("2.2.0", "latest")
"""A policy with the warning mutable-tag."""


def with_settings(folder: Path, text: str, policy: str = LATEST) -> Path:
    """A project with a kae.yaml, whose policy 'tls' has a warning."""
    return project.write(fleet.small(folder), {"kae.yaml": text, "policies/tls.yaml": policy})


def codes(answer: in_process.Answer) -> dict[str, str]:
    """Return the codes in an answer in JSON, with their severities."""
    return {item["code"]: item["severity"] for item in json.loads(answer.out)["diagnostics"]}


def test_folders_of_other_names_are_read_and_written(tmp_path: Path) -> None:
    folder = fleet.small(tmp_path)
    (folder / "policies").rename(folder / "rules")
    (folder / "inventory").rename(folder / "nodes")
    project.write(folder, {"kae.yaml": "policies: rules/\ninventory: [nodes]\noutput: manifests\n"})

    answer = in_process.kae(folder, "compile")

    assert (answer.code, answer.err) == (0, "")
    assert (folder / "manifests/east/index.json").is_file()
    assert not (folder / "output").exists()
    assert in_process.kae(folder, "bump", "tls", "--version", "2.3.0").out.startswith("rules/tls.yaml:")


def test_engines_apply_the_output_of_the_project_whatever_folder_is_compiled_to(tmp_path: Path) -> None:
    gitops = "spec:\n  gitops: {engine: flux, repository: {url: 'https://git.example.com/fleet.git'}}\n"
    folder = fleet.small(tmp_path)
    project.write(folder, {"kae.yaml": "output: manifests\n", "policies/west.yaml": fleet.CLUSTER + gitops[6:]})

    assert in_process.kae(folder, "compile", "--output-dir", "elsewhere").code == 0

    text = (folder / "elsewhere/west/bootstrap/kustomization-kae-west.yaml").read_text()
    assert "./manifests/west" in text


def test_several_folders_of_inventories_make_one_fleet(tmp_path: Path) -> None:
    north = {
        "policies/north.yaml": fleet.CLUSTER.replace("west", "north"),
        "more/north.json": fleet.listed(fleet.NODES[:1]),
    }
    folder = project.write(fleet.small(tmp_path), north | {"kae.yaml": "inventory: [inventory, more]\n"})

    lines = told(folder, "compile").splitlines()

    assert [line.partition(":")[0] for line in lines][-3:] == ["east", "north", "west"]
    assert "cluster north: 1 node" in in_process.kae(folder, "plan").out


def test_a_policy_in_a_named_folder_of_inventories_is_refused(tmp_path: Path) -> None:
    texts = {"kae.yaml": "inventory: [inventory, more]\n", "more/p.yaml": fleet.REST}
    said = "more/p.yaml:2:7: error[unknown-kind]: A KAEPolicy is not read from an inventory folder."

    assert said in refused(1, project.write(fleet.small(tmp_path), texts), "compile")


def test_the_command_line_goes_before_the_file(tmp_path: Path) -> None:
    folder = project.write(fleet.small(tmp_path), {"kae.yaml": "output: manifests\n"})

    in_process.kae(folder, "compile", "--output-dir", "elsewhere")

    assert (folder / "elsewhere/east/index.json").is_file()
    assert not (folder / "manifests").exists()


@pytest.mark.parametrize("text", ["", "# nothing yet\n", "{}\n"])
def test_a_file_that_says_nothing_changes_nothing(text: str, tmp_path: Path) -> None:
    assert warned(project.write(fleet.small(tmp_path), {"kae.yaml": text}), "compile") == ""


@pytest.mark.parametrize(
    ("text", "place", "said"),
    [
        ("limit: {}\n", "1:1", "error[unknown-field]: 'limit' is not a field of a project file."),
        ("findings: {mutable-tags: ignore}\n", "1:12", "error[invalid-value]: 'mutable-tags' is not the code of"),
        ("findings: {mutable-tag: warn}\n", "1:25", "error[invalid-value]: 'warn' is not one of error, warning and"),
        ("findings: {policy-overlap: ignore}\n", "1:12", "error[project-settings]: 'policy-overlap' is always an"),
        ("limits: {removedPercent: 101}\n", "1:26", "error[invalid-value]: 101 is not a whole number from 0 to 100."),
        ("inventory: []\n", "1:12", "error[invalid-value]: 'inventory' is empty."),
        ("inventory: [nowhere]\n", "1:13", "error[project-settings]: There is no folder 'nowhere'."),
        ("output: .git\n", "1:9", "error[project-settings]: 'output' is in .git, whose files git does not keep."),
        ("output: .kae_cache/x\n", "1:9", "error[project-settings]: 'output' is in .kae_cache, whose files git"),
        ("output: inventory\n", "1:9", "error[project-settings]: 'output' and 'inventory' are one folder, or one"),
        ("- policies\n", "1:1", "error[not-an-object]: Expected a mapping with the settings of the project."),
        ("{}\n---\n{}\n", "3:1", "error[project-settings]: A project file holds one document."),
        ("a: b: c\n", "1:5", "error[yaml-syntax]: A key and its ':' are not allowed here."),
    ],
)
def test_a_mistake_is_shown_at_its_place_and_nothing_written(text: str, place: str, said: str, tmp_path: Path) -> None:
    folder = with_settings(tmp_path, text)

    for command in (("compile",), ("plan",), ("explain", "kp920-01")):
        assert refused(1, folder, *command).startswith(f"kae.yaml:{place}: {said}")
    assert not (folder / "output").exists()


@pytest.mark.parametrize(
    ("written", "hint"),
    [("mutable-tags", "Did you mean 'mutable-tag'?"), ("Policy-Overlap", "Did you mean 'policy-overlap'?")],
)
def test_a_misspelt_code_is_shown_with_the_nearest(written: str, hint: str, tmp_path: Path) -> None:
    answer = in_process.kae(with_settings(tmp_path, f"findings: {{{written}: error}}\n"), "compile")

    assert f"hint: {hint}" in answer.err


def test_a_folder_in_the_place_of_the_file_is_said(tmp_path: Path) -> None:
    (fleet.small(tmp_path) / "kae.yaml").mkdir()

    assert refused(3, tmp_path, "compile") == "kae: 'kae.yaml' is no regular file.\nhint: Rename or remove it.\n"


def test_a_warning_that_is_made_an_error_stops_the_compile(tmp_path: Path) -> None:
    folder = with_settings(tmp_path, "findings: {mutable-tag: error}\n")

    assert "policies/tls.yaml:11:14: error[mutable-tag]" in refused(1, folder, "compile")
    assert not (folder / "output").exists()


def test_an_ignored_finding_is_counted_in_the_last_line(tmp_path: Path) -> None:
    folder = with_settings(tmp_path, "findings: {mutable-tag: ignore}\n", LATEST.replace("1.4.1", "latest"))

    for command in ("compile", "compile", "plan"):
        assert warned(folder, command, "--strict") == "ignored as kae.yaml says: 2 mutable-tag\n"


def test_ignored_findings_are_counted_for_a_question_about_one_node_or_kernel(tmp_path: Path) -> None:
    folder = project.write(fleet.full(tmp_path), {"kae.yaml": "findings: {node-opted-out: ignore}\n"})

    ignored = "ignored as kae.yaml says: 1 node-opted-out\n"
    assert in_process.kae(folder, "explain", "kp920-02").err.endswith(f"\n2 warnings; {ignored}")
    assert in_process.kae(folder, "preflight", "--kernel", "6.6.0-28.0.0.34.oe2403.aarch64").err == ignored


@pytest.mark.parametrize("severity", ["error", "ignore"])
def test_every_format_shows_the_projects_severity_and_counts_what_is_ignored(severity: str, tmp_path: Path) -> None:
    folder = with_settings(tmp_path, f"findings: {{mutable-tag: {severity}}}\n")

    answers = [in_process.kae(folder, "compile", "--format", form) for form in ("json", "github", "sarif")]

    as_json, github, sarif = answers
    (run,) = json.loads(sarif.out)["runs"]
    if severity == "error":
        assert {answer.code for answer in answers} == {1}
        assert codes(as_json) == {"mutable-tag": "error"}
        assert github.out.startswith("::error file=policies/tls.yaml,")
        assert [each["level"] for each in run["results"]] == ["error"]
    else:
        assert json.loads(as_json.out)["ignored"] == {"mutable-tag": 1}
        assert codes(as_json) == {}
        assert "::notice file=kae.yaml::ignored as kae.yaml says: 1 mutable-tag\n" in github.out
        assert (run["results"], run["properties"]) == ([], {"ignored": {"mutable-tag": 1}})


def test_strict_speaks_of_what_is_still_a_warning(tmp_path: Path) -> None:
    folder = with_settings(tmp_path, "findings: {mutable-tag: warning}\n")

    assert in_process.kae(folder, "compile", "--strict").code == 1
    assert in_process.kae(folder, "compile").code == 0


@pytest.mark.parametrize(("severity", "code"), [("error", 1), ("warning", 0), ("ignore", 0)])
def test_a_guard_stops_the_compile_unless_it_is_lowered(severity: str, code: int, tmp_path: Path) -> None:
    policy = fleet.POLICY.replace("[east]", "[east, north]")
    folder = with_settings(tmp_path, f"findings: {{cluster-unknown: {severity}}}\n", policy)

    assert in_process.kae(folder, "compile").code == code
    assert (folder / "output/east/index.json").is_file() == (code == 0)


def test_a_guard_on_the_nodes_of_a_cluster_does_not_stop_its_rendering(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stated = diagnostics.Code("guard", diagnostics.CODES["drain-unstated"].rule)
    monkeypatch.setattr(diagnostics, "CODES", {**diagnostics.CODES, "drain-unstated": stated})
    old = fleet.CLUSTER.replace("1.31", "1.29").replace("west", "east")
    text = "findings: {drain-unstated: warning, unguarded-eviction: ignore}\n"
    folder = project.write(with_settings(tmp_path, text, fleet.POLICY), {"policies/east.yaml": old})

    assert "warning[drain-unstated]" in warned(folder, "compile")
    assert (folder / "output/east/driver").is_dir()


def test_preflight_answers_despite_a_guard_that_is_lowered(tmp_path: Path) -> None:
    policy = fleet.POLICY.replace("[east]", "[east, north]")
    folder = with_settings(tmp_path, "findings: {cluster-unknown: warning}\n", policy)

    assert in_process.kae(folder, "preflight", "--kernel", "5.10.0").code == 0


def test_a_bump_to_what_the_project_forbids_is_refused(tmp_path: Path) -> None:
    folder = with_settings(tmp_path, "findings: {mutable-tag: error}\n", fleet.POLICY)

    assert "error[mutable-tag]" in refused(1, folder, "bump", "tls", "--version", "latest")
    assert "version: 2.2.0" in (folder / "policies/tls.yaml").read_text("utf-8")


def test_the_settings_hold_for_an_import(tmp_path: Path) -> None:
    texts = {"kae.yaml": "findings: {import-dropped: ignore}\n", "values.yaml": "operator:\n  upgradeCRD: true\n"}
    folder = project.write(tmp_path, texts)

    answer = warned(folder, "import", "values.yaml")

    assert "import-dropped]" not in answer
    assert answer.endswith("ignored as kae.yaml says: 1 import-dropped\n")


def test_limits_and_severities_are_values_for_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = with_settings(tmp_path, "findings: {mutable-tag: error}\nlimits: {removedPercent: 5}\n")
    monkeypatch.chdir(folder)

    stated = project_file.of(cli.parser().parse_args(["compile"]))

    assert stated.limits.removed_percent == 5
    severities = {code: stated.severity(code) for code in ("mutable-tag", "yaml-syntax", "no-cluster")}
    assert severities == {"mutable-tag": "error", "yaml-syntax": "error", "no-cluster": "warning"}


@pytest.mark.parametrize(
    ("settings", "code"),
    [("", 1), ("findings: {removes-drivers: ignore, removes-device-plugins: ignore}\n", 0)],
)
def test_a_removal_stops_the_compile_unless_the_project_ignores_it(settings: str, code: int, tmp_path: Path) -> None:
    folder = with_settings(tmp_path, settings, fleet.POLICY)
    told(folder, "compile")
    (folder / "policies/tls.yaml").unlink()

    assert in_process.kae(folder, "compile").code == code
    assert (folder / "output/east/driver").exists() == (code == 1)


@pytest.mark.parametrize(("percent", "code"), [(10, 1), (90, 0)])
def test_the_limit_says_how_many_nodes_may_lose_a_driver(percent: int, code: int, tmp_path: Path) -> None:
    labels = [fleet.HPRE | {"pool": "tls", "half": str(number % 2)} for number in range(10)]
    nodes = [builders.kubernetes_node(f"n-{number}", each) for number, each in enumerate(labels)]
    folder = with_settings(tmp_path, f"limits: {{removedPercent: {percent}}}\n", fleet.POLICY)
    project.write(folder, {"inventory/east.json": fleet.listed(tuple(nodes))})
    assert in_process.kae(folder, "compile").code == 0
    project.write(folder, {"policies/tls.yaml": fleet.POLICY.replace("pool: tls", 'pool: tls\n      half: "1"')})

    assert in_process.kae(folder, "compile").code == code


def test_no_error_of_syntax_or_schema_can_be_lowered() -> None:
    lowered = {code for code, stated in diagnostics.CODES.items() if stated.can_be_lowered}

    assert not lowered & {"yaml-syntax", "unknown-field", "wrong-type", "policy-overlap", "two-defaults"}
    assert {code for code, stated in diagnostics.CODES.items() if stated.severity == "warning"} <= lowered


def test_an_edit_of_the_file_is_seen_by_the_next_compile(tmp_path: Path) -> None:
    folder = with_settings(tmp_path, "findings: {mutable-tag: ignore}\n")
    in_process.kae(folder, "compile")
    project.write(folder, {"kae.yaml": "findings: {mutable-tag: error}\n"})

    stopped = in_process.kae(folder, "compile")
    (folder / "kae.yaml").unlink()
    warned = in_process.kae(folder, "compile")

    assert (stopped.code, "error[mutable-tag]" in stopped.err) == (1, True)
    assert (warned.code, "warning[mutable-tag]" in warned.err) == (0, True)


def test_a_named_folder_that_vanishes_is_an_error_in_an_unchanged_project_too(tmp_path: Path) -> None:
    folder = project.write(fleet.small(tmp_path), {"kae.yaml": "inventory: [inventory, more]\n"})
    (folder / "more").mkdir()
    told(folder, "compile")
    (folder / "more").rmdir()

    said = "kae.yaml:1:24: error[project-settings]: There is no folder 'more'."
    assert refused(1, folder, "compile").startswith(said)


def test_files_that_are_nearly_documents_are_named(tmp_path: Path) -> None:
    better = {
        "inventory/east.JSON": "east.json",
        "inventory/east.json.orig": "east.json",
        "kae.YAML": "kae.yaml",
        "kae.yml": "kae.yaml",
        "policies/#east.yaml#": "east.yaml",
        "policies/east.YAML": "east.yaml",
        "policies/east.Yml": "east.yml",
        "policies/east.yaml.disabled": "east.yaml",
        "policies/east.yaml.tmp": "east.yaml",
        "policies/east.yaml.~1~": "east.yaml",
        "policies/east.yaml~": "east.yaml",
        "policies/east.yml.txt": "east.yml",
        "policies/sub/east.yaml.bak": "east.yaml",
    }
    folder = project.write(fleet.small(tmp_path), dict.fromkeys(better, fleet.REST))

    first, second = (warned(folder, "compile") for _ in range(2))

    said = "is not read: its name is only nearly that of a document.\n"
    lines = (
        f"{name}: warning[nearly-a-document]: '{name}' {said}  hint: Rename it to {right}, or remove it.\n"
        for name, right in better.items()
    )
    assert first == second == "".join(lines) + "13 warnings\n"


def test_other_files_beside_documents_are_none_of_its_business(tmp_path: Path) -> None:
    names = ("README.md", ".gitkeep", ".east.yaml.swp", "yaml", "notes.txt", "east.yamllint")
    folder = project.write(fleet.small(tmp_path), {f"policies/{name}": "x" for name in names})

    assert warned(folder, "compile") == ""


def test_another_nearly_document_is_shown_in_place_of_an_earlier_one(tmp_path: Path) -> None:
    folder = project.write(fleet.small(tmp_path), {"policies/a.yaml~": "x"})
    in_process.kae(folder, "compile")
    (folder / "policies/a.yaml~").rename(folder / "policies/b.yaml~")

    assert in_process.kae(folder, "compile").err.startswith("policies/b.yaml~: ")


def test_a_project_whose_documents_are_all_misnamed_is_not_compiled_to_nothing(tmp_path: Path) -> None:
    folder = fleet.small(tmp_path)
    in_process.kae(folder, "compile")
    for path in [*folder.glob("policies/*.yaml"), *folder.glob("inventory/*.json")]:
        path.rename(path.with_suffix(path.suffix.upper()))
    before = project.tree(folder / "output")

    said = "hint: For 'inventory/east.JSON': Rename it to east.json, or remove it.\n"
    assert refused(3, folder, "compile").endswith(said)
    assert project.tree(folder / "output") == before


def test_json_beside_policies_is_read(tmp_path: Path) -> None:
    folder = fleet.small(tmp_path)
    document = {"apiVersion": "device.openfuyao.com/v1alpha1", "kind": "KAECluster", "metadata": {"name": "north"}}
    project.write(folder, {"policies/north.json": json.dumps({**document, "spec": {"kubernetesVersion": "1.31"}})})

    assert "north: " in in_process.kae(folder, "compile").out


def test_a_new_project_has_the_file_and_its_schema(tmp_path: Path) -> None:
    in_process.kae(tmp_path, "init", "fleet")

    assert "removedPercent: 20" in (tmp_path / "fleet/kae.yaml").read_text("utf-8")
    schema = (tmp_path / "fleet/schemas/kaeproject.json").read_text("utf-8")
    assert schema == told(tmp_path, "schema", "kaeproject")
