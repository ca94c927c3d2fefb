"""Commands work in the root of the project around them, and take the paths of the call from where they run."""

from pathlib import Path

import pytest

from tests import in_process, project
from tests.cli import fleet
from tests.cli.answers import refused, told, warned


def below(folder: Path, name: str = "policies/sub") -> Path:
    """A folder below a project."""
    made = fleet.small(folder) / name
    made.mkdir(parents=True, exist_ok=True)
    return made


@pytest.mark.parametrize("name", ["policies/sub", "inventory", "docs/more", "output/east/driver"])
def test_a_compile_below_the_root_writes_the_output_of_the_root(name: str, tmp_path: Path) -> None:
    folder = below(tmp_path, name)

    assert warned(folder, "compile") == ""
    assert (tmp_path / "output/east/index.json").is_file()
    assert not (folder / "output").exists()


def test_paths_in_findings_stay_relative_to_the_root(tmp_path: Path) -> None:
    folder = project.write(below(tmp_path), {"broken.yaml": "a: b: c\n"})

    assert refused(1, folder, "compile").startswith("policies/sub/broken.yaml:1:5: error[yaml-syntax]")


def test_the_search_begins_in_the_folder_of_c_and_includes_the_repository_itself(tmp_path: Path) -> None:
    below(tmp_path / "fleet")
    (tmp_path / "fleet/.git").mkdir()

    assert in_process.kae(tmp_path, "-C", "fleet/policies/sub", "plan").code == 0


def test_kae_yaml_alone_makes_a_root(tmp_path: Path) -> None:
    fleet.small(tmp_path)
    (tmp_path / "policies").rename(tmp_path / "rules")
    project.write(tmp_path, {"kae.yaml": "policies: rules\n"})

    assert warned(tmp_path / "inventory", "compile") == ""


@pytest.mark.parametrize("document", ["rest", "west"])
def test_a_document_that_is_called_kae_yaml_makes_no_root(document: str, tmp_path: Path) -> None:
    policies = fleet.small(tmp_path) / "policies"
    (policies / f"{document}.yaml").rename(policies / "kae.yaml")

    assert warned(policies, "compile") == ""
    assert (tmp_path / "output/east/index.json").is_file()


def test_the_search_does_not_leave_a_repository(tmp_path: Path) -> None:
    fleet.small(tmp_path)
    (tmp_path / "clone/.git").mkdir(parents=True)
    (tmp_path / "clone/src").mkdir()

    said = "kae: there are no documents: neither policies/ nor inventory/ holds a "
    assert refused(3, tmp_path / "clone/src", "compile").startswith(said)


def test_folders_on_the_command_line_are_those_of_where_the_command_runs(tmp_path: Path) -> None:
    folder = below(tmp_path, "build")

    assert warned(folder, "compile", "--inventory", "../inventory", "--output-dir", "out") == ""
    assert (folder / "out/east/index.json").is_file()


def test_a_file_on_the_command_line_is_that_of_where_the_command_runs(tmp_path: Path) -> None:
    folder = fleet.small(tmp_path) / "policies"

    said = "policies/tls.yaml:11: tls driver: version 2.2.0 -> 2.3.0\n"
    assert told(folder, "bump", "tls", "--version", "2.3.0", "--file", "tls.yaml") == said


def test_a_folder_outside_of_the_project_can_be_named_from_below(tmp_path: Path) -> None:
    folder = below(tmp_path / "fleet")
    project.write(tmp_path, {"other/east.json": fleet.listed(fleet.NODES[:2])})

    assert "cluster east: 2 nodes" in told(folder, "plan", "--inventory", "../../../other")


def test_init_makes_a_project_where_it_runs(tmp_path: Path) -> None:
    folder = below(tmp_path, "apart")

    in_process.kae(folder, "init", ".")

    assert (folder / "kae.yaml").is_file()
