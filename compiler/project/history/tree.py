"""The files of a commit, as `git ls-tree` lists them, with links followed as a checkout in this place follows them.

The rules on documents are those of `document_files`, so that a commit and its checkout have the same findings.
"""

import os
import posixpath
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from compiler import diagnostics, errors, names, wording
from compiler.project import document_files, links, project_file

_LINKS = 40
"""The most links on the way to a file, as in Linux."""

_STEPS = 10_000
"""The most parts of paths on the way to a file; more are a circle of links."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A path of a commit: its mode in git, and the id of its content."""

    path: str
    """Relative to the repository."""
    mode: str
    blob: str

    @property
    def is_link(self) -> bool:
        """True for a symbolic link."""
        return self.mode == "120000"

    @property
    def is_file(self) -> bool:
        """True for a regular file; a submodule is none."""
        return self.mode.startswith("100")

    @property
    def is_submodule(self) -> bool:
        """True for a folder whose files are in another repository."""
        return self.mode == "160000"


@dataclass(frozen=True, slots=True)
class File:
    """A document file of a revision: its name in findings, and the id of its content."""

    name: str
    blob: str


@dataclass(frozen=True, slots=True)
class Place:
    """A path without links."""

    path: str
    """Relative to the repository; of a place outside of it, the one on this host."""
    is_outside: bool = False
    is_broken: bool = False
    """True where the links of the way lead nowhere, or only a checkout of a submodule would tell where."""


class Tree:
    """The files of a commit; names are relative to the project, whose folder in the repository is `prefix`.

    `top` is the repository's folder on this host: links that are absolute are written for it.
    """

    def __init__(self, prefix: str, entries: Iterable[Entry], read: Callable[[str], bytes], top: str) -> None:
        self._prefix = prefix
        self._read = read
        self._top = top
        self._entries = {entry.path: entry for entry in entries}
        self._children: dict[str, set[str]] = {"": set()}
        for path in self._entries:
            self._add(path)

    def _add(self, path: str) -> None:
        parent, _, name = path.rpartition("/")
        if parent not in self._children:
            self._children[parent] = set()
            self._add(parent)
        self._children[parent].add(name)

    def is_folder(self, name: str) -> bool:
        """Return whether a name is a folder, or a link to one."""
        return self.leads_to_folder(self.place(self._path(name)))

    def project_file(self) -> File | None:
        """Return the project file; None where there is none. Raises WorldError for what is no file."""
        path = self._path(names.PROJECT_FILE)
        if path not in self._entries and path not in self._children:
            return None
        place = self.place(path)
        if not is_inside(place, [self._path(".")]):
            raise errors.WorldError(links.message(names.PROJECT_FILE), hint=project_file.HINT)
        entry = self._entries.get(place.path)
        if entry is None or not entry.is_file:
            raise project_file.no_file()
        return File(names.PROJECT_FILE, entry.blob)

    def documents(self, folders: Sequence[str]) -> tuple[list[File], list[diagnostics.Diagnostic]]:
        """Return the document files below folders, sorted by name, and a finding for each that is no file.

        Hidden names are skipped, and each folder is read once, as in the working tree. Raises WorldError.
        """
        paths = [self._path(name) for name in folders]
        walk = _Walk(self, [self._path("."), *(self.place(path).path for path in paths if self._is_far(path))])
        for name, path in zip(folders, paths, strict=True):
            self._require_folder(name, path)
        pending = [("" if name == "." else name, self.place(path)) for name, path in zip(folders, paths, strict=True)]
        while pending or walk.links:
            if not pending:  # Links come last, so that a document has the name of its real folder.
                walk.links.sort(reverse=True)
                name, path = walk.links.pop()
                pending = [(name, Place(path))]
            pending += walk.folder(*pending.pop())
        return sorted(walk.files, key=lambda item: item.name), walk.findings

    def _require_folder(self, name: str, path: str) -> None:
        """Raise WorldError for what is no folder of documents; a missing one counts as empty."""
        entry, place = self._entries.get(path), self.place(path)
        if entry is not None and entry.is_link and not self._is_there(place):
            raise document_files.link_to_nothing(name)
        if not self._is_far(path) and not is_inside(place, [self._path(".")]):
            raise errors.WorldError(links.message(name), hint=document_files.FOLDER_HINT)
        if place.is_outside:
            raise not_in_git(name)
        if self.sort(place) == document_files.FILE:
            raise document_files.no_folder(name)

    def _path(self, name: str) -> str:
        """Return the path in the repository of a name in the project; empty for the repository itself."""
        path = posixpath.normpath(posixpath.join(self._prefix, name))
        return "" if path == "." else path

    def _is_far(self, path: str) -> bool:
        """Return whether a path is written as one outside of the project."""
        return not _is_below(path, self._path("."))

    def _is_there(self, place: Place) -> bool:
        if place.is_outside:
            return os.path.exists(place.path)  # noqa: PTH110 - it raises nothing
        return self.sort(place) != document_files.NOTHING

    def leads_to_folder(self, place: Place) -> bool:
        """Return whether a place is a folder; of one that git does not keep, whether it is one on this host."""
        if place.is_outside or links.GIT in place.path.split("/"):
            return os.path.isdir(posixpath.join(self._top, place.path))  # noqa: PTH112 - it raises nothing
        return self.sort(place) == document_files.FOLDER

    def sort(self, place: Place) -> str:
        """Return what a place in the repository is: a file, a folder or nothing."""
        entry = self._entries.get(place.path)
        if place.is_broken:
            return document_files.NOTHING
        if place.path in self._children or (entry is not None and entry.is_submodule):
            return document_files.FOLDER
        return document_files.FILE if entry is not None and entry.is_file else document_files.NOTHING

    def blob(self, place: Place) -> str:
        """Return the id of a file's content."""
        return self._entries[place.path].blob

    def visible(self, folder: str) -> Sequence[str]:
        """Return the names in a folder that are not hidden, sorted; none in a folder that is not there."""
        return sorted(name for name in self._children.get(folder, ()) if not name.startswith("."))

    def is_submodule(self, path: str) -> bool:
        """Return whether a path is a submodule."""
        entry = self._entries.get(path)
        return entry is not None and entry.is_submodule

    def place(self, path: str) -> Place:
        """Return the place that a path leads to by links, in this commit or on this host."""
        pending, real = _steps(path), list[str]()
        followed, is_broken = 0, False
        for _ in range(_STEPS):
            here = "/".join(real)
            # The files of a submodule are in another repository, so nothing is known of what is below it.
            if not pending or self.is_submodule(here):
                return Place(here, is_broken=is_broken or followed > _LINKS)
            step = pending.pop()
            if step == ".." and real:
                is_broken = is_broken or here not in self._children
                real.pop()
                continue
            entry = self._entries.get("/".join((*real, step)))
            if step != ".." and (entry is None or not entry.is_link):
                real.append(step)
                continue
            target = step
            if entry is not None:
                target = self._read(entry.blob).decode("utf-8", "surrogateescape")
                followed += 1
            if step == ".." or target.startswith("/"):
                host = posixpath.normpath(posixpath.join(self._top, target, *reversed(pending)))
                if not _is_below(host, self._top):
                    return Place(host, is_outside=True)
                real, pending, target = [], [], posixpath.relpath(host, self._top)
            pending += _steps(target)
        return Place(path, is_broken=True)


class _Walk:
    """A walk through the folders of documents of a commit, with its results so far."""

    def __init__(self, tree: Tree, allowed: Sequence[str]) -> None:
        self.files: list[File] = []
        self.findings: list[diagnostics.Diagnostic] = []
        self.links: list[tuple[str, str]] = []
        self._tree = tree
        self._allowed = allowed
        self._read: set[str] = set()

    def folder(self, prefix: str, folder: Place) -> list[tuple[str, Place]]:
        """Record the documents of a folder, and return the real folders in it."""
        if folder.path in self._read:
            return []
        if self._tree.is_submodule(folder.path):
            raise errors.WorldError(
                f"'{wording.file_name(prefix)}' is in a submodule, and git has its files in another repository.",
                hint="Put the documents into the repository of the project.",
            )
        self._read.add(folder.path)
        document_files.require_few(len(self._read))
        inside = []
        children = self._tree.visible(folder.path)
        self.findings += document_files.templates(prefix, children)
        for child in children:
            inside += self._entry(posixpath.join(prefix, child), posixpath.join(folder.path, child))
        return inside

    def _entry(self, name: str, path: str) -> list[tuple[str, Place]]:
        place = self._tree.place(path)
        if not is_inside(place, self._allowed):
            self.findings += document_files.outside(name, is_folder=self._tree.leads_to_folder(place))
            return []
        sort = self._tree.sort(place)
        if document_files.is_read(name, sort):
            self.files.append(File(name, self._tree.blob(place)))
        elif document_files.is_entered(name, sort):
            if place.path == path:
                return [(name, place)]
            self.links.append((name, place.path))
        else:
            self.findings += document_files.unread(name, sort)
        return []


def is_inside(place: Place, allowed: Iterable[str]) -> bool:
    """Return whether a place is in one of the `allowed` folders of the repository, and not in the folder of git."""
    if place.is_outside or links.GIT in place.path.split("/"):
        return False
    return any(_is_below(place.path, folder) for folder in allowed)


def not_in_git(name: str) -> errors.WorldError:
    """Return the error on a folder of documents outside of the repository."""
    return errors.WorldError(
        f"'{wording.file_name(name)}' is outside of the git repository, which so has no older version of it.",
        hint="Move it into the repository.",
    )


def _is_below(path: str, folder: str) -> bool:
    return not folder or path == folder or path.startswith(f"{folder}/")


def _steps(path: str) -> list[str]:
    """Return the parts of a path, the last one first."""
    return [part for part in reversed(path.split("/")) if part not in ("", ".")]
