"""`kae import` prints documents on standard output, and everything that is to be said on standard error."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import in_process, project
from tests.cli.answers import refused, told, warned

VALUES = """\
operator:
  image: example.com/operator
  enabledSEC: true
driver:
  version: v2.1
"""
LIVE = {
    "apiVersion": "device.openfuyao.com/v1",
    "kind": "KAEPolicy",
    "metadata": {"name": "kae-policy", "uid": "5a"},
    "spec": {"driver": {"version": "v2.1"}},
}


def test_what_is_printed_compiles_in_a_repository_that_init_made(tmp_path: Path) -> None:
    in_process.kae(tmp_path, "init")
    for name in ("policy", "cluster"):
        (tmp_path / f"policies/{name}.yaml").unlink()
    project.write(tmp_path, {"values.yaml": VALUES})

    project.write(tmp_path, {"policies/imported.yaml": told(tmp_path, "import", "values.yaml")})

    assert told(tmp_path, "compile")
    images = (tmp_path / "output/default/images.txt").read_text()
    assert "cr.openfuyao.cn/openfuyao/kae-driver-installer:v2.1\n" in images


def test_what_has_no_meaning_is_said_with_its_place_and_fails_nothing(tmp_path: Path) -> None:
    project.write(tmp_path, {"values.yaml": VALUES})

    answer = warned(tmp_path, "import", "values.yaml")

    assert "values.yaml:2:3: warning[import-dropped]: 'operator.image' is not carried over." in answer
    assert "values.yaml:3:3: warning[import-differs]" in answer


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("driver: [\n", "values.yaml"),
        ("", "values.yaml"),
        ("driver: {}\ndriver: {}\n", "values.yaml"),
        (VALUES.replace("v2.1", "2.1"), "values.yaml:5:12: error[wrong-type]"),
        (VALUES.replace("v2.1", "2.1"), 'Put it in quotes: "2.1".'),
        ("foo: bar\n", "values.yaml:1:1: error[import-source]: It has no value of the KAE Operator's chart."),
        ("apiVersion: v1\nkind: Node\n", "values.yaml:2:7: error[import-source]: This is a 'Node' of 'v1'"),
    ],
)
def test_of_a_file_with_mistakes_nothing_is_printed(tmp_path: Path, text: str, words: str) -> None:
    project.write(tmp_path, {"values.yaml": text})

    assert words in refused(1, tmp_path, "import", "values.yaml")


def test_an_empty_pipe_is_refused(tmp_path: Path, piped: Callable[[str], None]) -> None:
    piped("")

    said = "kae: standard input is empty: the command before the pipe printed nothing.\nhint: Run"
    assert refused(1, tmp_path, "import").startswith(said)


@pytest.mark.parametrize("arguments", [(), ("-",)])
@pytest.mark.parametrize("text", [json.dumps(LIVE), VALUES])
def test_a_pipe_may_bring_json_or_yaml(
    tmp_path: Path, piped: Callable[[str], None], text: str, arguments: tuple[str, ...]
) -> None:
    piped(text)

    assert "version: v2.1" in told(tmp_path, "import", *arguments)


def test_names_are_taken_from_the_command_line(tmp_path: Path) -> None:
    project.write(tmp_path, {"live.json": json.dumps(LIVE)})
    names = ("--cluster", "east", "--policy", "tls", "--namespace", "accelerators")

    lines = told(tmp_path, "import", "live.json", *names).splitlines()

    assert {"  name: tls", "  - east", "  name: east", "  namespace: accelerators"} <= set(lines)


@pytest.mark.parametrize(("option", "name"), [("--cluster", "East"), ("--policy", "a--b"), ("--namespace", "a.b")])
def test_a_name_that_its_document_cannot_bear_is_refused(tmp_path: Path, option: str, name: str) -> None:
    project.write(tmp_path, {"values.yaml": VALUES})

    said = refused(2, tmp_path, "import", "values.yaml", option, name)

    assert f"argument {option}: '{name}' is not the name of a {option.removeprefix('--')}; use" in said


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    project.write(tmp_path, {"values.yaml": VALUES, "wrong.yaml": "driver: [", "old.yaml": "old: true\n"})

    printed = in_process.kae(tmp_path, "import", "values.yaml")
    written = in_process.kae(tmp_path, "import", "values.yaml", "--output-file", "new.yaml")
    refused = [
        in_process.kae(tmp_path, "import", "wrong.yaml", "--output-file", name) for name in ("old.yaml", "none.yaml")
    ]

    assert (written.code, written.out) == (0, "new.yaml: a KAEPolicy and a KAECluster\n")
    assert (tmp_path / "new.yaml").read_text() == printed.out
    assert [(answer.code, answer.out) for answer in refused] == [(3, ""), (1, "")]
    assert "hint: Remove it, or choose another name.\n" in refused[0].err
    assert (tmp_path / "old.yaml").read_text() == "old: true\n"
    assert not (tmp_path / "none.yaml").exists()


def test_options_at_the_operators_defaults_are_not_missed(tmp_path: Path) -> None:
    operator = {"image": "cr.openfuyao.cn/openfuyao/kae-operator", "version": "latest", "pullPolicy": "IfNotPresent"}
    values = {"operator": {**operator, "upgradeCRD": False, "cleanupCRD": False, "enabledSEC": False}}
    project.write(tmp_path, {"values.json": json.dumps(values)})

    assert "import-" not in warned(tmp_path, "import", "values.json")


def test_a_policy_with_the_images_of_the_operator_is_told_by_import_and_by_compile(tmp_path: Path) -> None:
    project.write(tmp_path, {"values.yaml": VALUES})

    imported = in_process.kae(tmp_path, "import", "values.yaml")
    project.write(tmp_path, {"policies/east.yaml": imported.out})
    compiled = in_process.kae(tmp_path, "compile")

    image = "cr.openfuyao.cn/openfuyao/kae-driver-installer:v2.1"
    for answer in (imported, compiled):
        assert f"warning[operator-image]: '{image}', the driver's image, is the KAE Operator's own." in answer.err
        assert answer.code == 0


def test_a_finding_that_the_project_makes_an_error_writes_nothing(tmp_path: Path) -> None:
    texts = {"values.yaml": VALUES, "kae.yaml": "findings:\n  operator-image: error\n"}
    project.write(tmp_path, texts)

    assert "error[operator-image]" in refused(1, tmp_path, "import", "values.yaml", "--output-file", "new.yaml")
    assert not (tmp_path / "new.yaml").exists()


def test_the_file_to_write_is_relative_to_where_the_command_runs(tmp_path: Path) -> None:
    project.write(tmp_path, {"values.yaml": VALUES, "policies/other/README.md": ""})

    told(tmp_path / "policies", "import", "../values.yaml", "--output-file", "east.yaml")

    assert (tmp_path / "policies/east.yaml").exists()
    assert not (tmp_path / "east.yaml").exists()


def test_a_file_that_is_not_there_is_the_worlds_fault(tmp_path: Path) -> None:
    assert "'values.yaml'" in refused(3, tmp_path, "import", "values.yaml")
