"""Each project in tests/golden/<case> compiles to its stored trees, and outside tools accept what is stored."""

import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode
from syrupy.location import PyTestLocation
from syrupy.types import SnapshotIndex

from tests import in_process, outside, project
from tests.golden import trees


class AtPath(SingleFileSnapshotExtension):
    """Stores a text below tests/golden, at the path that is the snapshot's name."""

    _write_mode = WriteMode.TEXT
    file_extension = ""

    @classmethod
    def get_location(cls, *, test_location: PyTestLocation, index: SnapshotIndex) -> str:
        """Return the file of a snapshot."""
        return str(trees.HERE / str(index))

    @classmethod
    def matches_test_location(cls, *, test_location: PyTestLocation, snapshot_location: str) -> bool:
        """Return whether the test is that of the snapshot's case."""
        return Path(snapshot_location).is_relative_to(trees.HERE)


def compiled(case: str, folder: Path) -> Mapping[str, trees.Files]:
    """Compile a case in an empty folder; return the tree of each cluster."""
    for name in ("policies", "recipes", "inventory"):
        if (trees.HERE / case / name).is_dir():
            shutil.copytree(trees.HERE / case / name, folder / name)
    answer = in_process.kae(folder, "compile", "--no-cache")
    assert answer.code == 0, answer.err
    return {path.name: trees.read(path) for path in sorted((folder / "output").iterdir())}


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> trees.Files:
    """The tree of the smallest case, as it compiles now."""
    return compiled(trees.BASE, tmp_path_factory.mktemp("base"))[trees.BASE_TREE.name]


def test_the_smallest_project_compiles_to_its_files(base: trees.Files, snapshot: SnapshotAssertion) -> None:
    stored = snapshot.use_extension(AtPath)
    folder = trees.BASE_TREE.relative_to(trees.HERE)

    for path, text in base.items():
        assert text == stored(name=f"{folder}/{path}")
    assert trees.read(trees.BASE_TREE).keys() == base.keys(), "Remove the files that are no longer made."


@pytest.mark.parametrize("case", [case for case in trees.CASES if case != trees.BASE])
def test_a_golden_project_compiles_to_its_trees(
    case: str, base: trees.Files, snapshot: SnapshotAssertion, tmp_path: Path
) -> None:
    stored = snapshot.use_extension(AtPath)
    folder = trees.HERE / case / "output"

    for cluster, files in compiled(case, tmp_path).items():
        assert trees.diff(base, files) == stored(name=f"{case}/output/{cluster}.diff")
        assert trees.expanded(base, (folder / f"{cluster}.diff").read_text("utf-8")) == files
    assert {path.stem for path in folder.iterdir()} == {path.name for path in (tmp_path / "output").iterdir()}


IN_GATE = tuple(
    f"tests/golden/{case}/"
    for case in (
        "argocd-with-everything",
        "flux-own-source",
        "openshift",
        "recipes-beside-kae",
        "recipes-of-vendors",
        "smallest",
    )
)
"""The cases that have every sort of object between them."""


@pytest.mark.parametrize(
    "title",
    [title if title.startswith(IN_GATE) else pytest.param(title, marks=pytest.mark.long) for title in trees.titles()],
)
def test_a_tree_is_built_by_kubectl_and_accepted_by_every_schema(title: str, tmp_path: Path) -> None:
    files = dict(trees.files(title))
    objects = [path for path in files if path.endswith(".yaml") and path.count("/") and "bootstrap/" not in path]

    assert outside.assert_valid(outside.built(project.write(tmp_path, files))) == len(objects)


def test_every_golden_case_says_why_in_a_sentence() -> None:
    sentences = [(trees.HERE / case / "why.md").read_text(encoding="utf-8").strip() for case in trees.CASES]

    assert len(trees.CASES) >= 6
    assert all(sentence.endswith(".") and "\n" not in sentence for sentence in sentences)


def test_a_diff_that_does_not_fit_the_smallest_tree_is_refused() -> None:
    with pytest.raises(AssertionError, match="does not fit"):
        trees.expanded({"a.yaml": "a: 2\n"}, "changed a.yaml\n@@ -1 +1 @@\n-a: 1\n+a: 3\n")
