"""`kae config` prints a setting of the project, now or at a revision."""

import json
from pathlib import Path

import pytest

from tests import builders, in_process, project, revisions
from tests.cli.answers import refused, told


def committed(root: Path, settings: str, name: str = "") -> None:
    """Commit the project file of a folder of a repository."""
    project.write(root / name, {"kae.yaml": settings, "policies/.gitkeep": ""})
    revisions.commit(root)


def test_the_folder_of_outputs_is_output_by_default(tmp_path: Path) -> None:
    assert in_process.kae(tmp_path, "config", "output") == in_process.Answer(0, "output\n", "")


@pytest.mark.parametrize("settings", ["output: the gen", "{output: the gen/}", '"output" : ./the gen # ours'])
def test_the_folder_is_printed_as_kae_yaml_names_it(tmp_path: Path, settings: str) -> None:
    committed(tmp_path, settings)
    assert in_process.kae(tmp_path, "config", "output").out == "the gen\n"

    (tmp_path / "kae.yaml").write_text("output: gen", encoding="utf-8")

    assert in_process.kae(tmp_path, "config", "output").out == "gen\n"
    assert in_process.kae(tmp_path, "config", "output", "HEAD").out == "the gen\n"


def test_a_project_in_a_folder_of_the_repository_has_its_own_settings(tmp_path: Path) -> None:
    committed(tmp_path, "output: other\n")
    committed(tmp_path, "output: gen\n", "fleet")

    assert in_process.kae(tmp_path / "fleet", "config", "output", "HEAD").out == "gen\n"
    assert in_process.kae(tmp_path / "fleet", "config", "output", "HEAD^1").out == "output\n"


def test_other_mistakes_in_the_settings_of_a_revision_do_not_matter(tmp_path: Path) -> None:
    committed(tmp_path, "output: gen\npolicies: nowhere\nunknown: true\n")

    assert in_process.kae(tmp_path, "config", "output", "HEAD").out == "gen\n"
    assert in_process.kae(tmp_path, "config", "output").code == 1


@pytest.mark.parametrize("settings", ["output: [gen\n", "output: [gen]\n", "output: gen\noutput: gen2\n", "gen\n"])
def test_settings_that_may_name_any_folder_are_an_error(tmp_path: Path, settings: str) -> None:
    committed(tmp_path, settings)

    said = "kae: kae.yaml of 'HEAD' cannot be read, and may name a folder of outputs.\n"
    assert refused(3, tmp_path, "config", "output", "HEAD").startswith(said)


def test_a_folder_that_has_become_a_link_is_an_error(tmp_path: Path) -> None:
    committed(tmp_path, "output: deep/gen\n")
    (tmp_path / "deep").symlink_to("policies")

    assert "'deep' is a link" in refused(3, tmp_path, "config", "output", "HEAD")


def test_of_each_cluster_the_inventory_and_the_branch_of_its_watcher_are_printed(tmp_path: Path) -> None:
    where = {"url": "git@git.test:a", "branch": "b/west", "path": "."}
    specs = {"east": {}, "west": {"watcher": {"enabled": True, "secretName": "git", "repository": where}}}
    for name, spec in specs.items():
        project.write(tmp_path, {f"policies/{name}.json": json.dumps(builders.raw("KAECluster", name, spec))})
    project.write(tmp_path, {"inventory/east.yaml": ""})

    assert told(tmp_path, "config", "inventories").splitlines() == [
        "east\tinventory/east.yaml\tinventory/east\tinventory/east.json\t",
        "west\tinventory/west.json\tb/west\twest.json\twatcher",
    ]


def test_the_inventories_of_all_shards_are_those_of_the_project(tmp_path: Path) -> None:
    project.write(tmp_path, {f"inventory/c{number}.json": "" for number in range(9)} | {"policies/.gitkeep": ""})

    every = in_process.kae(tmp_path, "config", "inventories").out.splitlines()
    shards = [in_process.kae(tmp_path, "config", "inventories", "--shard", f"{index}/3").out for index in range(3)]

    assert sorted("".join(shards).splitlines()) == every
    assert all(0 < len(one.splitlines()) < len(every) for one in shards)
    assert in_process.kae(tmp_path, "config", "output", "--shard", "0/3").code == 2


def test_without_the_documents_the_inventories_are_not_known(tmp_path: Path) -> None:
    project.write(tmp_path, {"policies/east.yaml": "kind: KAECluster"})

    assert refused(1, tmp_path, "config", "inventories").startswith("policies/east.yaml:1:1: error")
    assert in_process.kae(tmp_path, "config", "inventories", "HEAD").code == 2
