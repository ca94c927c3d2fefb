"""`kae import` of other operators' objects: each folder of imports/ holds a source, its documents and its findings."""

import re
from pathlib import Path

import pytest

from tests import in_process, project
from tests.cli.answers import told

pytestmark = pytest.mark.long

CASES = Path(__file__).parent / "imports"


def source(case: str) -> str:
    """Return the source of a case."""
    return (CASES / case / "source.yaml").read_text(encoding="utf-8")


MODULE, SPECIAL, ONLOAD = map(source, ("module-of-one-kernel", "special-resource", "onload"))
QAT, GPU = map(source, ("qat-device-plugin", "gpu-device-plugin"))
RECIPE = "recipes/simple-kmod/recipe.yaml"
IMAGE = "          containerImage: drivers/simple-kmod\n"
LIST = "error[wrong-type]: Expected a mapping in 'spec.selector', found a list."
KMODS = "kmodNames: [simple-kmod, simple-procfs-kmod]"
LONG = MODULE.replace("  name: simple-kmod", "  name: a-module-with-a-long-name")


@pytest.mark.parametrize("case", sorted(path.name for path in CASES.iterdir()))
def test_a_source_becomes_exactly_these_documents_and_every_loss_is_said(case: str, tmp_path: Path) -> None:
    answer = imported(tmp_path, source(case), "--cluster", "east")

    made = {"documents.yaml": answer.out, "findings.txt": answer.err}
    assert answer.code == 0
    assert made == {name: project.expected(CASES / case / name, text) for name, text in made.items()}


def imported(folder: Path, text: str, *options: str) -> in_process.Answer:
    """Import a text."""
    project.write(folder, {"source.yaml": text})
    return in_process.kae(folder, "import", "source.yaml", *options)


def test_a_recipe_is_written_to_its_own_folder_and_the_policy_to_the_named_file(tmp_path: Path) -> None:
    in_process.kae(tmp_path, "init")
    below = project.write(tmp_path / "policies", {"../source.yaml": MODULE})

    assert told(below, "import", "../source.yaml", "--output-file", "kmod.yaml") == (
        "recipes/simple-kmod/recipe.yaml: a Recipe\npolicies/kmod.yaml: a DevicePolicy\n"
        "recipes/.schemas/devicepolicy.json: a schema for editors\nrecipes/.schemas/recipe.json: a schema for editors\n"
    )
    assert "simple-kmod" in (tmp_path / "recipes/.schemas/devicepolicy.json").read_text()
    assert "\nkind: Recipe\n" in (tmp_path / "recipes/simple-kmod/recipe.yaml").read_text()
    assert "\nkind: DevicePolicy\n" in (below / "kmod.yaml").read_text()


@pytest.mark.parametrize(
    ("in_the_way", "said"),
    [
        ({}, "cannot be "),
        ({"policies": "a file\n"}, "cannot be "),
        ({"recipes/.schemas": "a file\n", "policies/README.md": ""}, "cannot be "),
        ({RECIPE: "mine\n", "policies/README.md": ""}, f"'{RECIPE}' exists, and would be overwritten."),
    ],
)
def test_neither_is_written_where_one_of_them_cannot_be(in_the_way: dict[str, str], said: str, tmp_path: Path) -> None:
    project.write(tmp_path, in_the_way)

    answer = imported(tmp_path, MODULE, "--output-file", "policies/kmod.yaml")

    assert (answer.code, answer.out) == (3, "")
    assert said in answer.err
    assert project.tree(tmp_path).keys() == {"source.yaml", *in_the_way}


def test_recipe_and_policy_have_the_names_of_the_call(tmp_path: Path) -> None:
    answer = imported(tmp_path, MODULE, "--recipe", "kmod", "--policy", "lab", "--cluster", "west")

    assert answer.code == 0
    lines = answer.out.splitlines()
    assert "# For recipes/kmod/recipe.yaml:" in lines
    assert [line for line in lines if "name: " in line][:1] == ["  name: kmod"]
    assert {"  name: lab", "  recipe: kmod", "  - west"} <= set(lines)


def test_a_name_that_is_too_long_for_a_recipe_asks_for_another(tmp_path: Path) -> None:
    answer = imported(tmp_path, LONG)

    said = "source.yaml:4:9: error[import-source]: 'a-module-with-a-long-name' cannot be the name of a recipe"
    assert (answer.code, answer.out) == (1, "")
    assert said in answer.err
    assert "hint: Choose another one by --recipe NAME." in answer.err
    assert imported(tmp_path, LONG, "--recipe", "kmod").code == 0
    reserved = imported(tmp_path, MODULE, "--recipe", "npu")
    assert (reserved.code, reserved.out) == (1, "")
    assert "error[recipe-name]: A recipe cannot be named 'npu'." in reserved.err


@pytest.mark.parametrize(
    ("text", "old", "new", "said"),
    [
        (MODULE, "moduleLoader:", "devicePlugin:", "error[import-source]: The Module loads no module"),
        (MODULE, "moduleName: simple-kmod", "rawArgs: {load: [x]}", "error[import-source]: The Module names no module"),
        (MODULE, IMAGE, "", "error[import-source]: The mapping has no image."),
        (MODULE, "literal: 6.1.0-50-amd64", "literal: 6", "error[wrong-type]: Expected a text in"),
        (MODULE, IMAGE.strip(), "containerImage: a/B:${X}", "error[import-source]: No kernel has an"),
        (MODULE, "selector: {}", "selector: []", LIST),
        (MODULE, "selector: {}", "selector: {a: 'b c'}", "source.yaml:6:17: error[invalid-value]: "),
        (MODULE, MODULE, f"{MODULE}---\n{MODULE}", "error[import-source]: The file holds more than one document."),
        (SPECIAL, KMODS, "other: 1", "error[import-source]: 'spec.set.kmodNames' names no kernel module"),
        (ONLOAD, "setPreload: false", "setPreload: true", "source.yaml:38:17: error[values-exclusive]: "),
        (QAT, "- 420xxvf", "- 5xxxvf", "source.yaml:12:7: error[invalid-value]: "),
        (QAT, "maxNumDevices: 8", "maxNumDevices: 8.5", "error[wrong-type]: Expected a whole number in"),
        (QAT, "dpdkDriver: vfio-pci", "dpdkDriver: vfio_pci", "source.yaml:9:15: error[invalid-value]: "),
        (GPU, "sharedDevNum: 10", "denyIDs: '0x56c0'", "error[values-exclusive]: "),
        (GPU, '"0x56c0, 0x56c1"', '"56c0"', "source.yaml:8:13: error[invalid-value]: "),
    ],
)
def test_what_cannot_be_imported_is_told_at_its_place(tmp_path: Path, text: str, old: str, new: str, said: str) -> None:
    assert old in text

    answer = imported(tmp_path, text.replace(old, new))

    assert (answer.code, answer.out) == (1, "")
    assert said in answer.err


def test_the_only_object_of_a_list_is_imported(tmp_path: Path) -> None:
    onload = source("onload-with-names-of-samples")
    plain = imported(tmp_path, onload)
    text = f"apiVersion: v1\nkind: List\nitems:\n- {onload.strip().replace(chr(10), chr(10) + '  ')}\n"

    listed = imported(tmp_path, text)

    assert (listed.code, listed.out) == (0, plain.out)
    assert "'items[0].spec.devicePlugin.preload' is not carried over." in listed.err


def test_no_finding_shows_the_line_of_a_secret(tmp_path: Path) -> None:
    answer = imported(tmp_path, SPECIAL)

    assert "'spec.set.pull_secret_creds' is not carried over." in answer.err
    assert "bm90IGEgc2VjcmV0" in SPECIAL
    assert "bm90IGEgc2VjcmV0" not in answer.out + answer.err


@pytest.mark.parametrize("case", sorted(path.name for path in CASES.iterdir()))
def test_what_is_written_compiles_in_a_project(case: str, tmp_path: Path) -> None:
    in_process.kae(tmp_path, "init")
    (recipe,) = re.findall(r"^  recipe: (\S+)$", (CASES / case / "documents.yaml").read_text(), re.MULTILINE)
    if not (CASES / case / "documents.yaml").read_text().count("kind: Recipe\n"):
        told(tmp_path, "recipe", "add", recipe)
        (tmp_path / f"policies/{recipe}.yaml").unlink()

    written = imported(tmp_path, source(case), "--output-file", "policies/imported.yaml")

    assert written.code == 0, written.err
    assert told(tmp_path, "compile")


def test_a_namespace_of_the_call_that_no_document_takes_is_said(tmp_path: Path) -> None:
    answer = imported(tmp_path, MODULE, "--namespace", "drivers")

    assert answer.code == 0
    assert "source.yaml:1:1: warning[import-dropped]: The namespace of the call is not carried over." in answer.err
