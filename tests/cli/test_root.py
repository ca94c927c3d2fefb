"""Commands work in the root of the project around them, and take the paths of the call from where they run."""

from pathlib import Path

import pytest

from tests import in_process, project
from tests.cli import fleet
from tests.cli.answers import refused


def below(folder: Path, name: str = "policies/sub") -> Path:
    """A folder below a project."""
    made = fleet.small(folder) / name
    made.mkdir(parents=True, exist_ok=True)
    return made


@pytest.mark.parametrize("name", ["policies/sub", "inventory", "docs/more", "output/east/driver"])
def test_a_compile_below_the_root_writes_the_output_of_the_root(name: str, tmp_path: Path) -> None:
    folder = below(tmp_path, name)

    answer = in_process.kae(folder, "compile")

    assert (answer.code, answer.err) == (0, "")
    assert (tmp_path / "output/east/index.json").is_file()
    assert not (folder / "output").exists()


def test_paths_in_findings_stay_relative_to_the_root(tmp_path: Path) -> None:
    folder = below(tmp_path)
    project.write(folder, {"broken.yaml": "a: b: c\n"})

    answer = in_process.kae(folder, "compile")

    assert answer.err.startswith("policies/sub/broken.yaml:1:5: error[yaml-syntax]")


def test_the_search_begins_in_the_folder_of_c_and_includes_the_repository_itself(tmp_path: Path) -> None:
    below(tmp_path / "fleet")
    (tmp_path / "fleet/.git").mkdir()

    assert in_process.kae(tmp_path, "-C", "fleet/policies/sub", "plan").code == 0


def test_kae_yaml_alone_makes_a_root(tmp_path: Path) -> None:
    fleet.small(tmp_path)
    (tmp_path / "policies").rename(tmp_path / "rules")
    project.write(tmp_path, {"kae.yaml": "policies: rules\n"})

    answer = in_process.kae(tmp_path / "inventory", "compile")

    assert (answer.code, answer.err) == (0, "")


@pytest.mark.parametrize("kind", ["KAEPolicy", "KAECluster"])
def test_a_document_that_is_called_kae_yaml_makes_no_root(kind: str, tmp_path: Path) -> None:
    folder = fleet.small(tmp_path)
    (folder / ("policies/rest.yaml" if kind == "KAEPolicy" else "policies/west.yaml")).rename(
        folder / "policies/kae.yaml"
    )

    answer = in_process.kae(folder / "policies", "compile")

    assert (answer.code, answer.err) == (0, "")
    assert (folder / "output/east/index.json").is_file()


def test_the_search_does_not_leave_a_repository(tmp_path: Path) -> None:
    fleet.small(tmp_path)
    clone = tmp_path / "clone"
    (clone / ".git").mkdir(parents=True)
    (clone / "src").mkdir()

    said = refused(3, clone / "src", "compile")

    assert said.startswith("kae: there are no documents: neither policies/ nor inventory/ holds a ")


def test_folders_on_the_command_line_are_those_of_where_the_command_runs(tmp_path: Path) -> None:
    folder = below(tmp_path, "build")

    answer = in_process.kae(folder, "compile", "--inventory", "../inventory", "--output-dir", "out")

    assert (answer.code, answer.err) == (0, "")
    assert (folder / "out/east/index.json").is_file()


def test_a_file_on_the_command_line_is_that_of_where_the_command_runs(tmp_path: Path) -> None:
    fleet.small(tmp_path)

    answer = in_process.kae(tmp_path / "policies", "bump", "tls", "--version", "2.3.0", "--file", "tls.yaml")

    assert answer.out == "policies/tls.yaml:11: tls driver: version 2.2.0 -> 2.3.0\n"


def test_a_folder_outside_of_the_project_can_be_named_from_below(tmp_path: Path) -> None:
    folder = below(tmp_path / "fleet")
    project.write(tmp_path, {"other/east.json": fleet.listed(fleet.NODES[:2])})

    answer = in_process.kae(folder, "plan", "--inventory", "../../../other")

    assert "cluster east: 2 nodes" in answer.out


def test_init_makes_a_project_where_it_runs(tmp_path: Path) -> None:
    folder = below(tmp_path, "apart")

    in_process.kae(folder, "init", ".")

    assert (folder / "kae.yaml").is_file()
