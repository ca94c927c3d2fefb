"""No command reads or writes what a link of the project leads to outside of it."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import in_process, project
from tests.cli.answers import refused
from tests.failures import projects
from tests.property.hostile import acts

SECRET = "token: hunter2: {\n"  # noqa: S105 - it is the one that must not appear


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A project beside a file that holds a secret."""
    (tmp_path / "secret").write_text(SECRET)
    texts = {"policies/tls.yaml": projects.POLICY, "policies/east.yaml": projects.CLUSTER}
    return project.write(tmp_path / "project", texts)


@pytest.mark.parametrize(
    "command",
    [
        ("compile",),
        ("compile", "--check"),
        ("plan",),
        ("bump", "tls", "--version", "2.3.0"),
        ("bump", "tls", "--version", "2.3.0", "--file", "policies/linked.yaml"),
        ("import", "policies/linked.yaml"),
    ],
    ids=" ".join,
)
def test_a_linked_document_outside_of_the_project_is_not_read(folder: Path, command: tuple[str, ...]) -> None:
    (folder / "policies/linked.yaml").symlink_to("../../secret")

    answer = in_process.kae(folder, *command)

    assert answer.code in (1, 3)
    assert "'policies/linked.yaml' is a link that leads out of the project." in answer.err
    assert "hunter2" not in answer.out + answer.err


@pytest.mark.parametrize("target", ["../secret", "/proc/kmsg"])
def test_a_project_file_outside_of_the_project_is_not_read(folder: Path, target: str) -> None:
    (folder / "kae.yaml").symlink_to(target)
    (folder / "below").mkdir()

    for place in (folder, folder / "below"):
        said = refused(3, place, "compile")
        assert said.startswith("kae: 'kae.yaml' is a link that leads out of the project.\n")
        assert "hunter2" not in said


@pytest.mark.parametrize("target", ["../../elsewhere.yaml", "../../secret"])
def test_a_file_to_write_is_no_link_out_of_the_project(folder: Path, target: str, piped: Callable[[str], None]) -> None:
    (folder / "inventory").mkdir()
    (folder / "inventory/east.json").symlink_to(target)
    piped("apiVersion: v1\nkind: List\nitems: []\n")

    said = refused(3, folder, "inventory", "--cluster", "east", "--output-file", "inventory/east.json")

    assert said.startswith("kae: 'inventory/east.json' is a link that leads out of the project.\n")
    assert sorted(path.name for path in folder.parent.iterdir()) == ["project", "secret"]
    assert (folder.parent / "secret").read_text() == SECRET


def test_a_new_repository_is_not_made_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "new").mkdir()
    (tmp_path / "new/policies").symlink_to("../outside")

    assert "is a link that leads out of the project." in refused(3, tmp_path, "init", "new", "--cluster", "east")
    assert project.tree(tmp_path) == {}


def test_a_folder_that_kae_yaml_names_elsewhere_is_read(folder: Path) -> None:
    project.write(folder.parent, {"shared/east.json": '{"apiVersion": "v1", "kind": "List", "items": []}'})
    project.write(folder, {"kae.yaml": "inventory: [../shared]\n"})

    assert in_process.kae(folder, "compile", "--no-cache").code == 0


def test_a_folder_that_kae_yaml_names_in_the_project_is_no_link_out_of_it(folder: Path) -> None:
    project.write(folder.parent, {"shared/east.json": SECRET})
    project.write(folder, {"kae.yaml": "inventory: [shared]\n"})
    (folder / "shared").symlink_to("../shared")

    said = refused(3, folder, "compile", "--no-cache")

    assert said.startswith("kae: 'shared' is a link that leads out of the project.\n")
    assert "hunter2" not in said


def test_an_output_that_leads_in_circles_is_a_failure(folder: Path) -> None:
    (folder / "output").symlink_to("output")
    project.write(folder, {"kae.yaml": "output: output\n"})

    assert refused(3, folder, "compile").startswith("kae: 'output' is a link,")


@pytest.mark.long
@pytest.mark.parametrize("place", ["output/east", "output/new"])
def test_folders_deeper_than_python_recurses_are_looked_through(folder: Path, place: str) -> None:
    assert in_process.kae(folder, "compile", "--no-cache").code == 0
    (folder / place).mkdir(exist_ok=True)
    acts.deep(folder / place, 1200, "a.yaml")

    try:
        answer = in_process.kae(folder, "compile", "--check")
    finally:
        subprocess.run(("rm", "-rf", folder / "output"), check=True)  # They are deeper than pytest removes.

    assert (answer.code, "warning[foreign-file]" in answer.err) == (4, True)
