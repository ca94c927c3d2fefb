"""`kae schema`: the languages, as editors and clusters take them."""

from pathlib import Path

import jsonschema
import pytest

from compiler import names
from tests import in_process, outside, project
from tests.cli.answers import refused, told

ROOT = Path(__file__).parents[2]


def test_the_schemas_are_listed_by_name(tmp_path: Path) -> None:
    assert told(tmp_path, "schema").split() == sorted(path.stem for path in (ROOT / "schemas").glob("*.json"))


def test_each_schema_is_printed_as_it_is_shipped(tmp_path: Path) -> None:
    for name in ("kaepolicy", "kaeproject"):
        assert in_process.kae(tmp_path, "schema", name).out == (ROOT / f"schemas/{name}.json").read_text("utf-8")


def test_those_for_editors_are_written_where_that_is_wanted(tmp_path: Path) -> None:
    assert told(tmp_path, "schema", "--write", "deep/schemas") == ""

    shipped = project.tree(ROOT / "schemas")
    written = project.tree(tmp_path / "deep/schemas")
    assert written == {f"{name}.json": shipped[f"{name}.json"] for name in names.EDITED_SCHEMAS}


def test_what_init_wrote_is_written_anew_and_nothing_else(tmp_path: Path) -> None:
    in_process.kae(tmp_path, "init")
    before = project.tree(tmp_path)
    (tmp_path / "schemas/kaepolicy.json").write_text("{}")

    in_process.kae(tmp_path, "schema", "--write", "schemas")

    assert project.tree(tmp_path) == before


def test_a_schema_that_there_is_not_ends_with_3(tmp_path: Path) -> None:
    assert "kaepolicy" in refused(3, tmp_path, "schema", "kaepolicies")


@pytest.mark.parametrize("folder", ["file", "file/below"])
def test_a_folder_that_cannot_be_written_ends_with_3(folder: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")

    assert refused(3, tmp_path, "schema", "--write", folder).startswith("kae: '")


def test_the_definitions_are_ones_that_every_api_server_accepts(tmp_path: Path) -> None:
    answer = in_process.kae(tmp_path, "schema", "--crd")

    assert outside.assert_valid(answer.out) == 4
    names = [data["spec"]["names"]["kind"] for data in outside.documents(answer.out)]
    assert sorted(names) == ["DevicePolicy", "KAECluster", "KAEPolicy", "Recipe"]


def test_the_examples_are_objects_of_the_definitions(tmp_path: Path) -> None:
    definitions = {
        data["spec"]["names"]["kind"]: outside.schema_of(data)
        for data in outside.documents(in_process.kae(tmp_path, "schema", "--crd").out)
    }

    judged = 0
    for path in sorted((ROOT / "policies").rglob("*.yaml")):
        for data in outside.documents(path.read_text("utf-8")):
            jsonschema.Draft202012Validator(definitions[data["kind"]]).validate(data)
            judged += 1
    assert judged >= 5
