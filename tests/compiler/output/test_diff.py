"""Desired minus observed, without a disk."""

import json

import msgspec
import pytest

from compiler.output import diff, index_file, tree

OLD = tree.Tree.of("east", {"kept.yaml": "kept\n", "changed.yaml": "old\n", "gone/x.yaml": "x\n"})
NEW = tree.Tree.of("east", {"kept.yaml": "kept\n", "changed.yaml": "new\n", "added/y.yaml": "y\n"})


def on_disk(wanted: tree.Tree, *, complete: bool = True) -> diff.Observed:
    """A disk that holds a tree, and an index that says so."""
    index = wanted.index._replace(complete=complete)
    return diff.Observed(
        index=index_file.text(index).encode(),
        sides=(index,),
        files=wanted.contents(),
        folders=tree.folders_of(path for path, _ in wanted.files),
    )


def with_file(seen: diff.Observed, path: str, content: bytes | None) -> diff.Observed:
    """The same disk, where somebody wrote, or removed, a file."""
    files = {name: value for name, value in seen.files.items() if name != path}
    if content is not None:
        files[path] = content
    return msgspec.structs.replace(seen, files=files)


def test_nothing_is_to_be_done_where_nothing_differs() -> None:
    difference = diff.rewrite(OLD, on_disk(OLD))

    assert (difference.interim, difference.ends) == (None, False)
    assert (difference.new_folders, difference.writes, difference.removals, difference.old_folders) == ((), (), (), ())


def test_the_interim_index_is_incomplete_and_names_the_files_of_both_trees() -> None:
    difference = diff.rewrite(NEW, on_disk(OLD))

    assert difference.interim is not None
    assert index_file.parse(difference.interim) == index_file.Index(
        files=("added/y.yaml", "changed.yaml", "gone/x.yaml", "kept.yaml"), complete=False
    )


def test_only_what_changed_is_written_and_only_what_went_is_removed() -> None:
    difference = diff.rewrite(NEW, on_disk(OLD))

    assert difference.writes == (("added/y.yaml", b"y\n"), ("changed.yaml", b"new\n"))
    assert difference.removals == ("gone/x.yaml",)
    assert (difference.new_folders, difference.old_folders) == (("added",), ("gone",))


def test_an_index_that_alone_differs_is_replaced_at_once() -> None:
    difference = diff.rewrite(OLD, on_disk(OLD, complete=False))

    assert (difference.interim, difference.writes, difference.ends) == (None, (), True)


def test_a_removal_without_a_readable_index_removes_nothing() -> None:
    difference = diff.removal(diff.Observed(index=b"damaged", folders={""}))

    assert (difference.removals, difference.ends) == ((), False)


@pytest.mark.parametrize(
    ("seen", "kind"),
    [
        (on_disk(NEW), "fine"),
        (on_disk(OLD), "old"),
        (diff.Observed(), "old"),
        (on_disk(NEW, complete=False), "incomplete"),
        (on_disk(OLD, complete=False), "incomplete"),
        (with_file(on_disk(NEW), "kept.yaml", b"edited"), "old"),
        (with_file(on_disk(NEW), "kept.yaml", None), "edited"),
        (with_file(on_disk(OLD), "gone/x.yaml", None), "edited"),
        (diff.Observed(index=b"damaged", files=NEW.contents()), "edited"),
    ],
)
def test_a_state_has_the_name_of_what_happened(seen: diff.Observed, kind: str) -> None:
    assert diff.compare(NEW, seen).kind == kind


def test_an_index_in_another_layout_is_an_edited_one() -> None:
    seen = on_disk(NEW)
    assert seen.index is not None
    crlf = diff.Observed(index=seen.index.replace(b"\n", b"\r\n"), sides=seen.sides, files=seen.files)

    rewritten = diff.compare(NEW, crlf)

    assert (rewritten.kind, [difference.path for difference in rewritten.differences]) == ("edited", ["index.json"])


def test_an_index_of_version_1_is_taken_over_and_replaced() -> None:
    digests = {path: tree.digest(content) for path, content in OLD.contents().items()}
    content = json.dumps({"version": 1, "files": digests}, sort_keys=True, indent=2).encode() + b"\n"
    seen = msgspec.structs.replace(on_disk(OLD), index=content, sides=index_file.read(content))

    assert (diff.compare(OLD, seen).kind, diff.compare(OLD, seen).foreign, diff.blocked(NEW, seen)) == ("old", (), ())
    assert diff.rewrite(OLD, seen).writes == ()
    assert diff.rewrite(OLD, seen).final == on_disk(OLD).index
    assert diff.rewrite(NEW, seen).removals == ("gone/x.yaml",)


def test_every_file_that_is_not_as_compiled_is_a_difference() -> None:
    difference = diff.compare(NEW, on_disk(OLD))

    assert difference.differences == (
        diff.Difference("added/y.yaml", None, b"y\n"),
        diff.Difference("changed.yaml", b"old\n", b"new\n"),
        diff.Difference("gone/x.yaml", b"x\n", None),
    )


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        (b"a\nb\n", b"a\nc\n", "--- o/x\n+++ o/x (compiled)\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n"),
        (None, b"a\n", "--- /dev/null\n+++ o/x (compiled)\n@@ -0,0 +1 @@\n+a\n"),
        (b"a\n", None, "--- o/x\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n"),
        (None, b"", "--- /dev/null\n+++ o/x (compiled)\n"),
        (b"a", b"a\n", "--- o/x\n+++ o/x (compiled)\n@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+a\n"),
        (b"a\r\n", b"a\n", "--- o/x\n+++ o/x (compiled)\n@@ -1 +1 @@\n-a\\x0d\n+a\n"),
        (b"\x1b[2J\n", b"", "--- o/x\n+++ o/x (compiled)\n@@ -1 +0,0 @@\n-\\x1b[2J\n"),
        (b"\xff\n", b"a\n", "Binary files o/x and o/x (compiled) differ\n"),
    ],
)
def test_a_difference_reads_as_a_unified_diff(old: bytes | None, new: bytes | None, text: str) -> None:
    assert diff.unified("o", diff.Difference("x", old, new)) == text
