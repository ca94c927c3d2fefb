"""`kae recipe`: the shipped recipes, and the copies of them in a project."""

import json
import re
from pathlib import Path

import pytest

from compiler.formats import decode
from compiler.project import package_data
from tests import project

SHIPPED = sorted(package_data.recipes())


@pytest.fixture
def fleet(tmp_path: Path) -> Path:
    """A new project."""
    assert project.kae(tmp_path, "init").code == 0
    return tmp_path


def states(folder: Path) -> dict[str, str]:
    answer = project.kae(folder, "recipe", "list", "-o", "json")
    return {each["name"]: each["state"] for each in json.loads(answer.out)["recipes"]}


def test_simple_kmod_and_onload_are_shipped() -> None:
    assert SHIPPED == ["onload", "simple-kmod"]


@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_recipe_is_named_as_its_folder_and_its_example_is_a_policy_of_it(name: str) -> None:
    folder = package_data.recipes()[name]
    (recipe,), faults = decode.decode("recipe.yaml", (folder / "recipe.yaml").read_bytes())
    (policy,), more = decode.decode("policy.yaml", (folder / "policy.yaml").read_bytes())

    assert faults + more == []
    assert (recipe.data["kind"], recipe.data["metadata"]["name"]) == ("Recipe", name)
    assert (policy.data["kind"], policy.data["spec"]["recipe"]) == ("DevicePolicy", name)


def test_shipped_recipes_are_listed_outside_of_any_project(tmp_path: Path) -> None:
    answer = project.kae(tmp_path, "recipe", "list")

    assert (answer.code, answer.err) == (0, "")
    head, *rows = answer.out.splitlines()
    assert head.split() == ["NAME", "VERSION", "STATE", "TITLE"]
    assert rows == [
        "onload       8.1.2.26-ubi8               shipped  OpenOnload",
        "simple-kmod  1.0-${KERNEL_FULL_VERSION}  shipped  Two small modules, without a device",
    ]


def test_a_copy_is_the_shipped_text_below_two_lines_with_an_example_beside_it(fleet: Path) -> None:
    answer = project.kae(fleet, "recipe", "add", "onload")

    assert (answer.code, answer.err) == (0, "")
    assert answer.out.startswith("Made:\n  recipes/onload/recipe.yaml\n  policies/onload.yaml\n")
    schema, mark, text = (fleet / "recipes/onload/recipe.yaml").read_text().split("\n", 2)
    shipped = package_data.recipes()["onload"]
    assert schema == "# yaml-language-server: $schema=../.schemas/recipe.json"
    assert mark.startswith("# From `kae recipe add onload`, sha256:")
    assert text == (shipped / "recipe.yaml").read_text()
    schema, text = (fleet / "policies/onload.yaml").read_text().split("\n", 1)
    assert schema == "# yaml-language-server: $schema=../recipes/.schemas/devicepolicy.json"
    assert text == (shipped / "policy.yaml").read_text()
    assert states(fleet) == {"onload": "added", "simple-kmod": "shipped"}


def test_a_copy_of_an_edited_file_is_still_one_of_the_shipped_recipe(fleet: Path) -> None:
    project.kae(fleet, "recipe", "add", "onload")
    file = fleet / "recipes/onload/recipe.yaml"
    file.write_text(file.read_text().replace("registry.example.com", "registry.example.org"))

    assert states(fleet)["onload"] == "added"


def test_a_copy_of_another_text_is_behind_and_says_how_to_go_on(fleet: Path) -> None:
    project.kae(fleet, "recipe", "add", "onload")
    file = fleet / "recipes/onload/recipe.yaml"
    file.write_text(re.sub("sha256:[0-9a-f]{8}", "sha256:00000000", file.read_text()))

    answer = project.kae(fleet, "recipe", "list")
    strict = project.kae(fleet, "recipe", "list", "--strict")

    assert (answer.code, strict.code) == (0, 1)
    assert "onload       8.1.2.26-ubi8               behind " in answer.out
    assert "recipes/onload/recipe.yaml:2:1: warning[recipe-behind]: kae ships another version" in answer.err
    assert "run `kae recipe add onload`, compare by `git diff`" in answer.err


def test_a_recipe_of_ones_own_is_listed_even_if_it_is_broken(fleet: Path) -> None:
    project.write(fleet, {"recipes/npu-x/recipe.yaml": "spec: {title: An NPU}\n", "recipes/bad/recipe.yaml": "a: [\n"})

    answer = project.kae(fleet, "recipe", "list")

    assert answer.code == 1
    assert [line.split()[:3] for line in answer.out.splitlines()][1:3] == [["bad", "-", "own"], ["npu-x", "-", "own"]]
    assert "recipes/bad/recipe.yaml:2:1: error[yaml-syntax]" in answer.err


def test_nothing_is_overwritten(fleet: Path) -> None:
    project.write(fleet, {"policies/onload.yaml": "mine: true\n"})

    first = project.kae(fleet, "recipe", "add", "onload")
    before = project.tree(fleet)
    second = project.kae(fleet, "recipe", "add", "onload")

    assert first.code == 0
    assert "\n'policies/onload.yaml' was there, and stays as it is.\n" in first.out
    assert (fleet / "policies/onload.yaml").read_text() == "mine: true\n"
    assert (second.code, project.tree(fleet)) == (3, before)
    assert second.err.startswith("kae: 'recipes/onload/recipe.yaml' exists, and would be overwritten.\n")


def test_a_name_that_kae_does_not_ship_is_refused_with_the_nearest_one(fleet: Path) -> None:
    answer = project.kae(fleet, "recipe", "add", "onlaod")

    assert answer.code == 3
    assert answer.err == (
        "kae: kae ships no recipe 'onlaod'.\nhint: Did you mean 'onload'? kae ships onload and simple-kmod.\n"
    )


def test_a_recipe_is_added_to_projects_only(tmp_path: Path) -> None:
    answer = project.kae(tmp_path, "recipe", "add", "onload")

    assert (answer.code, list(tmp_path.iterdir())) == (3, [])
    assert "hint: Run `kae init` first, or choose one with -C DIR.\n" in answer.err


def test_a_link_out_of_the_project_is_not_followed(fleet: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    outside = tmp_path_factory.mktemp("outside")
    (fleet / "recipes").symlink_to(outside)

    answer = project.kae(fleet, "recipe", "add", "onload")
    listed = project.kae(fleet, "recipe", "list")

    assert (answer.code, listed.code, list(outside.iterdir())) == (3, 3, [])
    assert "'recipes' is a link that leads out of the project." in listed.err


def test_the_example_lies_in_the_folder_that_the_project_names(fleet: Path) -> None:
    (fleet / "kae.yaml").write_text("policies: fleet/policies\n")
    (fleet / "policies").rename(fleet / "was")
    (fleet / "fleet").mkdir()
    (fleet / "was").rename(fleet / "fleet/policies")

    answer = project.kae(fleet, "recipe", "add", "simple-kmod")

    assert answer.code == 0, answer.err
    (head, _) = (fleet / "fleet/policies/simple-kmod.yaml").read_text().split("\n", 1)
    assert head == "# yaml-language-server: $schema=../../recipes/.schemas/devicepolicy.json"
