"""Trees as values."""

import pytest

from compiler.output import tree


@pytest.mark.parametrize(
    "path",
    [
        *("", "/", "/etc/passwd", "..", "../x", "a/../x", "a/./x", "a//x", "a/", "./a", ".git/config", "a/.x"),
        *("a\\b", "a\nb", "a\n", "a\x00", "a b", "ä", "\ud800", "index.json", "a.yaml.kae-tmp"),
    ],
)
def test_a_path_that_the_compiler_never_writes_is_told(path: str) -> None:
    assert not tree.is_path(path)


@pytest.mark.parametrize(
    "path",
    ["images.txt", "bootstrap/application-east.yaml", "crds/customresourcedefinition-a.b.io.yaml", "a/index.json"],
)
def test_paths_of_manifests_are_paths(path: str) -> None:
    assert tree.is_path(path)


@pytest.mark.parametrize(
    ("cluster", "path"), [("../east", "a"), ("", "a"), ("a/b", "a"), ("east", "../x"), ("east", "index.json")]
)
def test_a_tree_outside_its_folder_cannot_be_made(cluster: str, path: str) -> None:
    with pytest.raises(ValueError, match="paths"):
        tree.Tree.of(cluster, {path: ""})


def test_a_tree_and_its_index_have_the_paths_in_order() -> None:
    made = tree.Tree.of("east", {"b": "", "a": ""})

    assert (tuple(made.contents()), made.index.files) == (("a", "b"), ("a", "b"))


def test_the_folders_of_paths_reach_up_to_the_cluster_itself() -> None:
    assert tree.folders_of(["a/b/c.yaml", "x"]) == {"", "a", "a/b"}
