"""What lies in output/<cluster>/, what shall lie there, and the steps in between.

Desired minus observed: pure, so that the order of a rewrite can be read, and proved, in one place.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from compiler.output import tree

Kind = Literal["fine", "old", "incomplete", "edited"]
"""fine: as compiled. old: whole, but of other input. incomplete: a rewrite died. edited: not as recorded."""

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """What lies in output/<cluster>/, as far as it concerns a compile."""

    index: bytes | None = None
    recorded: tree.Index | None = None
    """The index as far as it can be read; None where it is absent or damaged."""
    files: Mapping[str, bytes] = field(default_factory=dict)
    """Recorded and wanted files that exist."""
    odd: Collection[str] = ()
    """Recorded and wanted paths at which a link or a socket stands."""
    folders: Collection[str] = ()
    """Existing folders that hold recorded or wanted files; the cluster's own is the empty string."""
    leftovers: tuple[str, ...] = ()
    """Temporary files of a rewrite that died."""
    foreign: tuple[str, ...] = ()
    """Whatever else is there; a folder ends with a slash."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """What turns the observed into the wanted, in this order. Without `final`, the index goes too."""

    leftovers: tuple[str, ...]
    interim: bytes | None
    """The index that covers both trees; None where no file changes, or where it stands there already."""
    new_folders: tuple[str, ...]
    writes: tuple[tuple[str, bytes], ...]
    removals: tuple[str, ...]
    old_folders: tuple[str, ...]
    """To be removed if they are empty, inner ones first."""
    final: bytes | None
    ends: bool
    """Whether the index is replaced, or removed, at the end."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A file that is not as compiled: its bytes on disk and as wanted, None where it is not there."""

    path: str
    old: bytes | None
    new: bytes | None


@dataclass(frozen=True, slots=True)
class State:
    """How output/<cluster>/ compares with the tree that was compiled."""

    kind: Kind
    differences: tuple[Difference, ...]
    foreign: tuple[str, ...]
    """What the compiler did not write, files in the way of the tree among them."""


def blocked(wanted: tree.Tree, seen: Observed) -> tuple[str, ...]:
    """Wanted paths at which something stands that the compiler neither wrote nor would write."""
    recorded = _recorded(seen)
    return tuple(
        path
        for path, content in wanted.contents().items()
        if path not in recorded and (path in seen.odd or seen.files.get(path, content) != content)
    )


def rewrite(wanted: tree.Tree, seen: Observed) -> Steps:
    """The steps that make the observed the wanted tree; none where it already is."""
    contents = wanted.contents()
    return _steps(contents, seen, tree.index_text(tree.index_of(wanted)).encode())


def removal(seen: Observed) -> Steps:
    """The steps that remove everything recorded, the index at the end; none where no index can be read."""
    found = _steps({}, seen, None)
    return replace(found, ends=found.ends and seen.recorded is not None)


def compare(wanted: tree.Tree, seen: Observed) -> State:
    """How the observed differs from the wanted tree; index.json is shown only where it alone differs."""
    contents, recorded = wanted.contents(), _recorded(seen)
    differences = tuple(
        Difference(path, seen.files.get(path), contents.get(path))
        for path in sorted({*contents, *recorded})
        if path in seen.odd or seen.files.get(path) != contents.get(path)
    )
    final = tree.index_text(tree.index_of(wanted)).encode()
    if not differences and seen.index != final:
        differences = (Difference(tree.INDEX, seen.index, final),)
    foreign = tuple(sorted({*seen.foreign, *blocked(wanted, seen)}))
    return State(_kind(seen) or ("old" if differences else "fine"), differences, foreign)


def unified(folder: str, difference: Difference) -> str:
    """A difference as a unified diff from the disk to what was compiled; control characters are escaped."""
    name = f"{folder}/{difference.path}"
    old_name = "/dev/null" if difference.old is None else name
    new_name = "/dev/null" if difference.new is None else f"{name} (compiled)"
    try:
        old, new = _lines(difference.old), _lines(difference.new)
    except UnicodeDecodeError:
        return f"Binary files {old_name} and {new_name} differ\n"
    import difflib  # noqa: PLC0415 - only where something differs

    return "".join(difflib.unified_diff(old, new, old_name, new_name)) or f"--- {old_name}\n+++ {new_name}\n"


def _steps(contents: Mapping[str, bytes], seen: Observed, final: bytes | None) -> Steps:
    recorded = _recorded(seen)
    writes = tuple(item for item in contents.items() if item[0] in seen.odd or seen.files.get(item[0]) != item[1])
    gone = [path for path in recorded if path not in contents]
    needed = tree.folders_of([*contents, tree.INDEX] if final is not None else [])
    removals = tuple(sorted(path for path in gone if path in seen.files or path in seen.odd))
    old_folders = (tree.folders_of(gone) - needed - {""}) & set(seen.folders)
    interim = None
    if writes or removals or old_folders:
        union = {**recorded, **{path: tree.digest(content) for path, content in contents.items()}}
        interim = tree.index_text(tree.Index(union, complete=False)).encode()
    return Steps(
        leftovers=seen.leftovers,
        interim=None if interim == seen.index else interim,
        new_folders=tuple(sorted(needed - set(seen.folders))),
        writes=writes,
        removals=removals,
        old_folders=tuple(sorted(old_folders, reverse=True)),
        final=final,
        ends=interim is not None or seen.index != final,
    )


def _recorded(seen: Observed) -> Mapping[str, str]:
    return seen.recorded.files if seen.recorded else {}


def _kind(seen: Observed) -> Kind | None:
    """What is wrong with the folder in itself, if anything."""
    if seen.recorded is None:
        return None if seen.index is None else "edited"
    if not seen.recorded.complete:
        return "incomplete"
    as_recorded = all(
        path in seen.files and tree.digest(seen.files[path]) == value for path, value in seen.recorded.files.items()
    )
    return None if as_recorded and seen.index == tree.index_text(seen.recorded).encode() else "edited"


def _lines(content: bytes | None) -> list[str]:
    """The lines of a text, ready to be shown after a mark in the first column."""
    lines = (content or b"").decode().split("\n")
    ended = [_CONTROL.sub(lambda match: f"\\x{ord(match.group()):02x}", line) + "\n" for line in lines]
    if not lines[-1]:
        return ended[:-1]
    return [*ended[:-1], ended[-1] + "\\ No newline at end of file\n"]
