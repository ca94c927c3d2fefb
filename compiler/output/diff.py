"""The difference between output/<cluster>/ as observed and the tree that was compiled, and the steps that remove it.

Pure, so that the order of a rewrite can be read and tested in one place.
"""

import re
from collections.abc import Collection, Mapping
from typing import Literal

import msgspec

from compiler.output import index_file, tree

Kind = Literal["fine", "old", "incomplete", "conflict", "line-ends", "edited", "foreign"]
"""fine: as compiled. old: complete, but different. incomplete: a rewrite was interrupted. conflict: a merge left files
in conflict. line-ends: as compiled, but with CRLF. edited: a recorded file is missing, or index.json is missing or not
as the compiler writes it. foreign: as compiled, beside files of others."""

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class Observed(msgspec.Struct, frozen=True, kw_only=True):
    """The part of output/<cluster>/ that concerns a compile."""

    index: bytes | None = None
    sides: tuple[index_file.Index, ...] = ()
    """The parsed index, or both sides of its conflict; nothing where it is absent or damaged."""
    files: Mapping[str, bytes] = msgspec.field(default_factory=dict)
    """Recorded, wanted and conflicting files that exist."""
    conflicts: Collection[str] = ()
    """Paths that git has in conflict, and recorded and wanted files with its marks: the compiler's, whoever records
    them."""
    forgotten: Collection[str] = ()
    """Files that an earlier compile wrote as they are, and that no index records: git took its record back."""
    odd: Collection[str] = ()
    """Recorded and wanted paths that hold a link or a socket."""
    folders: Collection[str] = ()
    """Existing folders that hold recorded or wanted files; the cluster's own is the empty string."""
    leftovers: tuple[str, ...] = ()
    """Temporary files of an interrupted rewrite."""
    foreign: tuple[str, ...] = ()
    """Everything else; a folder ends with a slash."""

    @property
    def recorded(self) -> index_file.Index | None:
        """The index, with what either side of a conflict records; None where it is absent or damaged."""
        return index_file.union(self.sides)


class Steps(msgspec.Struct, frozen=True, kw_only=True):
    """The steps from the observed to the wanted tree, in this order. Without `final`, the index is removed too."""

    leftovers: tuple[str, ...]
    interim: bytes | None
    """The index that covers both trees; None where no file changes, or where it is on disk already."""
    new_folders: tuple[str, ...]
    writes: tuple[tuple[str, bytes], ...]
    removals: tuple[str, ...]
    old_folders: tuple[str, ...]
    """Folders to remove if they are empty, inner ones first."""
    final: bytes | None
    ends: bool
    """True when the index is replaced or removed at the end."""


class Difference(msgspec.Struct, frozen=True):
    """A file that is not as compiled: its bytes on disk and as wanted, None where it does not exist."""

    path: str
    old: bytes | None
    new: bytes | None


class State(msgspec.Struct, frozen=True):
    """The result of comparing output/<cluster>/ with the tree that was compiled."""

    kind: Kind
    differences: tuple[Difference, ...]
    foreign: tuple[str, ...]
    """Files that are not the compiler's, including those in the way of the tree."""


def blocked(wanted: tree.Tree, seen: Observed) -> tuple[str, ...]:
    """Return the wanted paths that hold something else, which is not the compiler's."""
    own = _own(seen)
    return tuple(
        path
        for path, content in wanted.contents().items()
        if path not in own and (path in seen.odd or seen.files.get(path, content) != content)
    )


def rewrite(wanted: tree.Tree, seen: Observed) -> Steps:
    """Return the steps that turn the observed into the wanted tree."""
    return _steps(wanted.contents(), wanted.index, seen, wanted.index_content())


def removal(seen: Observed) -> Steps:
    """Return the steps that remove every file of the compiler, the index last, unless that is unreadable."""
    steps = _steps({}, index_file.Index(), seen, None)
    return msgspec.structs.replace(steps, ends=steps.ends and (seen.recorded is not None or steps.interim is not None))


def compare(wanted: tree.Tree, seen: Observed) -> State:
    """Compare the observed with the wanted tree; index.json counts as a difference only where no other file differs."""
    contents = wanted.contents()
    differences = tuple(
        Difference(path, seen.files.get(path), contents.get(path))
        for path in sorted({*contents, *_own(seen)})
        if path in seen.odd or seen.files.get(path) != contents.get(path)
    )
    final = wanted.index_content()
    if not differences and seen.index != final:
        differences = (Difference(index_file.NAME, seen.index, final),)
    foreign = tuple(sorted({*seen.foreign, *blocked(wanted, seen)}))
    if seen.index == _crlf(final) and all(seen.files.get(path) == _crlf(text) for path, text in contents.items()):
        return State("line-ends", (), foreign)
    kind: Kind = "old" if differences else "foreign" if foreign else "fine"
    return State(_kind(seen) or kind, differences, foreign)


def unified(folder: str, difference: Difference) -> str:
    """Return a unified diff from the file on disk to the compiled one, with control characters escaped."""
    name = f"{folder}/{difference.path}"
    old_name = "/dev/null" if difference.old is None else name
    new_name = "/dev/null" if difference.new is None else f"{name} (compiled)"
    try:
        old, new = _lines(difference.old), _lines(difference.new)
    except UnicodeDecodeError:
        return f"Binary files {old_name} and {new_name} differ\n"
    import difflib  # noqa: PLC0415 - only where something differs

    return "".join(difflib.unified_diff(old, new, old_name, new_name)) or f"--- {old_name}\n+++ {new_name}\n"


def _steps(contents: Mapping[str, bytes], index: index_file.Index, seen: Observed, final: bytes | None) -> Steps:
    writes = tuple(
        (path, content) for path, content in contents.items() if path in seen.odd or seen.files.get(path) != content
    )
    gone = [path for path in _own(seen) if path not in contents]
    needed = tree.folders_of([*contents, index_file.NAME] if final is not None else [])
    removals = tuple(sorted(path for path in gone if path in seen.files or path in seen.odd))
    old_folders = (tree.folders_of(gone) - needed - {""}) & set(seen.folders)
    interim = None
    if writes or removals or old_folders:
        interim = index_file.text(index_file.interim(seen.recorded, index)).encode()
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


def _crlf(content: bytes) -> bytes:
    """Return a text as git writes it to the work tree with core.autocrlf."""
    return content.replace(b"\n", b"\r\n")


def _own(seen: Observed) -> frozenset[str]:
    """Return the paths of the compiler's files in the folder as it is."""
    recorded = seen.recorded.files if seen.recorded else ()
    return frozenset(recorded).union(seen.conflicts, seen.forgotten)


def _kind(seen: Observed) -> Kind | None:
    """Return what is wrong with the folder regardless of the wanted tree."""
    if len(seen.sides) > 1 or any(path in seen.files for path in seen.conflicts):
        return "conflict"
    if seen.recorded is None:
        # Without an index nothing is known to be the compiler's but its temporary files.
        return "incomplete" if seen.leftovers else "edited" if seen.index is not None or seen.files else None
    if not seen.recorded.complete or seen.leftovers:
        return "incomplete"
    is_canonical = seen.recorded.version != index_file.VERSION or seen.index == index_file.text(seen.recorded).encode()
    return None if is_canonical and all(path in seen.files for path in seen.recorded.files) else "edited"


def _lines(content: bytes | None) -> list[str]:
    """Return the lines of a text, each ready to follow a mark in the first column."""
    lines = (content or b"").decode().split("\n")
    ended = [_CONTROL.sub(lambda match: f"\\x{ord(match.group()):02x}", line) + "\n" for line in lines]
    if not lines[-1]:
        return ended[:-1]
    return [*ended[:-1], ended[-1] + "\\ No newline at end of file\n"]
