"""A file that git left in conflict has two sides."""

import subprocess
from pathlib import Path

import pytest

from compiler.output import conflict

BASE, OURS, THEIRS = "a\nb\nc\nd\n", "a\nours\nc\nd\n", "a\ntheirs\nc\nd\nmore\n"


def merged(folder: Path, style: str, *texts: str) -> bytes:
    """Return what git writes for our text, that of the ancestor, and theirs."""
    names = ("ours", "base", "theirs")
    for name, text in zip(names, texts, strict=True):
        (folder / name).write_bytes(text.encode())
    options = [] if style == "merge" else [f"--{style}"]
    labels = [part for label in ("HEAD", "", "main") for part in ("-L", label)]
    done = subprocess.run(
        ("git", "merge-file", "--stdout", *options, *labels, *names), cwd=folder, capture_output=True, check=False
    )
    return done.stdout


@pytest.mark.parametrize("style", ["merge", "diff3", "zdiff3"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_both_sides_are_read_in_each_style(style: str, end: str, tmp_path: Path) -> None:
    ours, base, theirs = (text.replace("\n", end) for text in (OURS, BASE, THEIRS))
    text = merged(tmp_path, style, ours, base, theirs)

    # What merged without a conflict is in both.
    assert conflict.sides(text) == (f"{ours}more{end}".encode(), theirs.encode())
    assert conflict.is_marked(text)


def test_a_file_may_have_several_conflicts(tmp_path: Path) -> None:
    ours, base, theirs = (f"{text}1\n2\n3\n4\n{text}" for text in ("x\n", "y\n", "z\n"))

    assert conflict.sides(merged(tmp_path, "merge", ours, base, theirs)) == (ours.encode(), theirs.encode())


def test_longer_marks_of_an_ancestor_are_its_text() -> None:
    text = b"<<<<<<< HEAD\nours\n||||||| 1\n<<<<<<<<< x\n=========\n>>>>>>>>> y\n=======\ntheirs\n>>>>>>> main\n"

    assert conflict.sides(text) == (b"ours\n", b"theirs\n")


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"a\n",
        b"<<<<<<< HEAD\na\n",
        b"<<<<<<< HEAD\na\n=======\nb\n",
        b"=======\na\n>>>>>>> main\n",
        b"<<<<<<<< HEAD\na\n========\nb\n>>>>>>>> main\n",
    ],
)
def test_a_file_without_a_whole_conflict_is_its_own_only_side(text: bytes) -> None:
    assert conflict.sides(text) == (text,)
    assert not conflict.is_marked(text)
