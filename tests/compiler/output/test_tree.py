"""Trees and their index as values."""

import hypothesis
import pytest
from hypothesis import strategies as st

from compiler.output import tree

PARTS = st.from_regex(r"[a-z0-9][a-z0-9.-]{0,5}", fullmatch=True)
PATHS = st.lists(PARTS, min_size=1, max_size=3).map("/".join).filter(tree.is_path)
INDEXES = st.builds(
    tree.Index,
    st.dictionaries(PATHS, st.binary(max_size=3).map(tree.digest), max_size=6),
    st.booleans(),
)


def test_the_index_names_one_file_a_line_in_sorted_order() -> None:
    wanted = tree.Tree.of("east", {"nfd/b.yaml": "", "images.txt": "x\n"})

    text = tree.index_text(tree.index_of(wanted))

    assert text == (
        "{\n"
        '  "files": {\n'
        '    "images.txt": "73cb3858a687a8494ca3323053016282f3dad39d42cf62ca4e79dda2aac7d9ac",\n'
        '    "nfd/b.yaml": "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"\n'
        "  },\n"
        '  "version": 1\n'
        "}\n"
    )


def test_only_an_incomplete_index_says_whether_it_is_complete() -> None:
    texts = [tree.index_text(tree.Index({}, complete)) for complete in (True, False)]

    assert ["complete" in text for text in texts] == [False, True]


@hypothesis.given(INDEXES)
def test_an_index_is_read_back_as_it_was_written(index: tree.Index) -> None:
    text = tree.index_text(index)

    assert tree.parse_index(text.encode()) == index


@hypothesis.given(INDEXES, st.data())
def test_an_index_that_lost_its_end_is_damaged(index: tree.Index, data: st.DataObject) -> None:
    text = tree.index_text(index).rstrip().encode()
    length = data.draw(st.integers(0, len(text) - 1))

    assert tree.parse_index(text[:length]) is None


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"[]",
        b"\xff",
        b"[" * 100_000,
        b'{"version": 2, "files": {}}',
        b'{"version": 1}',
        b'{"version": 1, "files": []}',
        b'{"version": 1, "files": {"a": 1}}',
        b'{"version": 1, "files": {"a": "short"}}',
        b'{"version": 1, "files": {}, "complete": "no"}',
        b'{"version": 1, "files": {}, "more": 1}',
        b'<<<<<<< HEAD\n{"version": 1, "files": {}}\n=======\n',
    ],
)
def test_what_is_no_index_is_damaged(text: bytes) -> None:
    assert tree.parse_index(text) is None


@pytest.mark.parametrize(
    "path",
    [
        *(
            "",
            "/",
            "/etc/passwd",
            "..",
            "../x",
            "a/../x",
            "a/./x",
            "a//x",
            "a/",
            "./a",
            ".git/config",
            "a/.x",
        ),
        *("a\\b", "a\nb", "a\n", "a\x00", "a b", "ä", "\ud800", "index.json", "a.yaml.kae-tmp"),
    ],
)
def test_a_path_that_the_compiler_never_writes_is_told(path: str) -> None:
    assert not tree.is_path(path)


@pytest.mark.parametrize(
    "path",
    [
        "images.txt",
        "bootstrap/application-east.yaml",
        "crds/customresourcedefinition-a.b.io.yaml",
        "a/index.json",
    ],
)
def test_paths_of_manifests_are_paths(path: str) -> None:
    assert tree.is_path(path)


@pytest.mark.parametrize(
    ("cluster", "files"),
    [
        ("../east", ()),
        ("", ()),
        ("a/b", ()),
        ("east", (("../x", ""),)),
        ("east", (("index.json", ""),)),
        ("east", (("b", ""), ("a", ""))),
        ("east", (("a", ""), ("a", ""))),
    ],
)
def test_a_tree_that_could_leave_its_folder_or_its_order_cannot_be_made(
    cluster: str, files: tuple[tuple[str, str], ...]
) -> None:
    with pytest.raises(ValueError, match="paths"):
        tree.Tree(cluster, files)


def test_the_folders_of_paths_reach_up_to_the_cluster_itself() -> None:
    found = tree.folders_of(["a/b/c.yaml", "x"])

    assert found == {"", "a", "a/b"}
