"""`kae import` of other operators' objects: each folder of imports/ holds a source, its documents and its findings."""

from pathlib import Path

import pytest

from tests import in_process, project

CASES = Path(__file__).parent / "imports"
MODULE = (CASES / "module-of-one-kernel/source.yaml").read_text(encoding="utf-8")


@pytest.mark.parametrize("case", sorted(path.name for path in CASES.iterdir()))
def test_a_source_becomes_exactly_these_documents_and_every_loss_is_said(case: str, tmp_path: Path) -> None:
    folder = CASES / case
    project.write(tmp_path, {"source.yaml": (folder / "source.yaml").read_text(encoding="utf-8")})

    answer = in_process.kae(tmp_path, "import", "source.yaml", "--cluster", "east")

    found = {"documents.yaml": answer.out, "findings.txt": answer.err}
    if project.accepting():
        project.write(folder, found)
    assert answer.code == 0
    assert found == {name: (folder / name).read_text(encoding="utf-8") for name in found}


def imported(folder: Path, text: str, *options: str) -> in_process.Answer:
    """Import a text."""
    project.write(folder, {"source.yaml": text})
    return in_process.kae(folder, "import", "source.yaml", *options)


def test_a_recipe_is_written_to_its_own_folder_and_the_policy_to_the_named_file(tmp_path: Path) -> None:
    in_process.kae(tmp_path, "init")
    below = tmp_path / "policies"

    answer = in_process.kae(
        project.write(below, {"../source.yaml": MODULE}), "import", "../source.yaml", "-o", "kmod.yaml"
    )

    assert answer.code == 0
    assert answer.out == (
        "recipes/simple-kmod/recipe.yaml: a Recipe\npolicies/kmod.yaml: a DevicePolicy\n"
        "recipes/.schemas/devicepolicy.json: a schema for editors\nrecipes/.schemas/recipe.json: a schema for editors\n"
    )
    assert "simple-kmod" in (tmp_path / "recipes/.schemas/devicepolicy.json").read_text()
    assert "\nkind: Recipe\n" in (tmp_path / "recipes/simple-kmod/recipe.yaml").read_text()
    assert "\nkind: DevicePolicy\n" in (below / "kmod.yaml").read_text()


def test_neither_is_written_where_one_of_them_exists(tmp_path: Path) -> None:
    project.write(tmp_path, {"recipes/simple-kmod/recipe.yaml": "mine\n"})

    answer = imported(tmp_path, MODULE, "-o", "kmod.yaml")

    assert (answer.code, answer.out) == (3, "")
    assert "'recipes/simple-kmod/recipe.yaml' exists, and would be overwritten." in answer.err
    assert not (tmp_path / "kmod.yaml").exists()


@pytest.mark.parametrize("in_the_way", ["", "policies", "recipes/.schemas"])
def test_neither_is_written_where_one_of_them_cannot_be(in_the_way: str, tmp_path: Path) -> None:
    project.write(tmp_path, {in_the_way: "a file\n"} if in_the_way else {})
    if in_the_way != "policies" and in_the_way:
        (tmp_path / "policies").mkdir()

    answer = imported(tmp_path, MODULE, "-o", "policies/kmod.yaml")

    assert (answer.code, answer.out) == (3, "")
    assert "cannot be " in answer.err
    assert not (tmp_path / "recipes/simple-kmod").exists()


def test_recipe_and_policy_have_the_names_of_the_call(tmp_path: Path) -> None:
    answer = imported(tmp_path, MODULE, "--recipe", "kmod", "--policy", "lab", "--cluster", "west")

    assert answer.code == 0
    lines = answer.out.splitlines()
    assert "# For recipes/kmod/recipe.yaml:" in lines
    assert [line for line in lines if "name: " in line][:1] == ["  name: kmod"]
    assert {"  name: lab", "  recipe: kmod", "  - west"} <= set(lines)


def test_a_name_that_is_too_long_for_a_recipe_asks_for_another(tmp_path: Path) -> None:
    long = MODULE.replace("  name: simple-kmod", "  name: a-module-with-a-long-name")

    answer = imported(tmp_path, long)

    assert (answer.code, answer.out) == (1, "")
    assert (
        "source.yaml:4:9: error[import-source]: 'a-module-with-a-long-name' cannot be the name of a recipe"
        in answer.err
    )
    assert "hint: Choose another one by --recipe NAME." in answer.err
    assert imported(tmp_path, long, "--recipe", "kmod").code == 0


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ("moduleLoader:", "devicePlugin:", "error[import-source]: The Module loads no module"),
        ("moduleName: simple-kmod", "rawArgs: {load: [x]}", "error[import-source]: The Module names no module."),
        ("          containerImage: drivers/simple-kmod\n", "", "error[import-source]: The mapping has no image."),
        ("literal: 6.1.0-50-amd64", "literal: 6", "error[wrong-type]: Expected a text in"),
        ("containerImage: drivers/simple-kmod", "containerImage: a/B:${X}", "error[import-source]: No kernel has an"),
        ("selector: {}", "selector: []", "error[wrong-type]: Expected a mapping in 'spec.selector', found a list."),
        ("selector: {}", "selector: {a: 'b c'}", "source.yaml:6:17: error[invalid-value]: "),
    ],
)
def test_what_cannot_be_imported_is_an_error_at_its_place(tmp_path: Path, old: str, new: str, found: str) -> None:
    assert old in MODULE

    answer = imported(tmp_path, MODULE.replace(old, new))

    assert (answer.code, answer.out) == (1, "")
    assert found in answer.err


def test_the_only_object_of_a_list_is_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    onload = (CASES / "onload-with-names-of-samples/source.yaml").read_text(encoding="utf-8")
    plain = imported(tmp_path, onload)
    text = f"apiVersion: v1\nkind: List\nitems:\n- {onload.strip().replace(chr(10), chr(10) + '  ')}\n"

    listed = imported(tmp_path, text)

    assert (listed.code, listed.out) == (0, plain.out)
    assert "'items[0].spec.devicePlugin.preload' is not carried over." in listed.err


def test_no_finding_shows_the_line_of_a_secret(tmp_path: Path) -> None:
    source = (CASES / "special-resource/source.yaml").read_text(encoding="utf-8")

    answer = imported(tmp_path, source)

    assert "'spec.set.pull_secret_creds' is not carried over." in answer.err
    assert "bm90IGEgc2VjcmV0" in source
    assert "bm90IGEgc2VjcmV0" not in answer.out + answer.err


def test_a_special_resource_without_modules_has_no_recipe(tmp_path: Path) -> None:
    source = (CASES / "special-resource/source.yaml").read_text(encoding="utf-8")

    answer = imported(tmp_path, source.replace("kmodNames: [simple-kmod, simple-procfs-kmod]", "other: 1"))

    assert (answer.code, answer.out) == (1, "")
    assert "error[import-source]: 'spec.set.kmodNames' names no kernel module" in answer.err


def test_two_objects_of_operators_in_one_file_are_refused(tmp_path: Path) -> None:
    answer = imported(tmp_path, f"{MODULE}---\n{MODULE}")

    assert (answer.code, answer.out) == (1, "")
    assert "error[import-source]: The file holds more than one document." in answer.err


@pytest.mark.parametrize("case", sorted(path.name for path in CASES.iterdir()))
def test_what_is_written_compiles_in_a_project(case: str, tmp_path: Path) -> None:
    in_process.kae(tmp_path, "init")
    in_process.kae(tmp_path, "recipe", "add", "onload")
    (tmp_path / "policies/onload.yaml").unlink()
    source = (CASES / case / "source.yaml").read_text(encoding="utf-8")

    written = imported(tmp_path, source, "-o", "policies/imported.yaml")
    compiled = in_process.kae(tmp_path, "compile")

    assert (written.code, compiled.code) == (0, 0), written.err + compiled.err


def test_values_that_exclude_each_other_are_an_error_at_the_operators_field(tmp_path: Path) -> None:
    source = (CASES / "onload/source.yaml").read_text(encoding="utf-8")

    answer = imported(tmp_path, source.replace("setPreload: false", "setPreload: true"))

    assert (answer.code, answer.out) == (1, "")
    assert "source.yaml:38:17: error[values-exclusive]: " in answer.err


def test_a_name_that_other_programs_have_is_refused(tmp_path: Path) -> None:
    answer = imported(tmp_path, MODULE, "--recipe", "npu")

    assert (answer.code, answer.out) == (1, "")
    assert "error[recipe-name]: A recipe cannot be named 'npu'." in answer.err


def test_a_namespace_of_the_call_that_no_document_takes_is_said(tmp_path: Path) -> None:
    answer = imported(tmp_path, MODULE, "--namespace", "drivers")

    assert answer.code == 0
    assert "source.yaml:1:1: warning[import-dropped]: The namespace of the call is not carried over." in answer.err
