"""Revisions of a project, read from git's objects; nothing is checked out.

Links are followed as a checkout in this place follows them. The rules on documents are those of `document_files`, so
that a commit and its checkout have the same findings.
"""

import hashlib
import os
import posixpath
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import msgspec

from compiler import diagnostics, errors, names, wording
from compiler.formats import decode
from compiler.project import document_files, git, links, project_file
from compiler.settings import Settings

_LINKS = 40
"""The most links on the way to a file, as in Linux."""

_STEPS = 10_000
"""The most parts of paths on the way to a file; more are a circle of links."""


class _Entry(msgspec.Struct, frozen=True):
    """What a commit has at a path: its mode in git, and the id of its content."""

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


class Source(msgspec.Struct, frozen=True):
    """A document file: its name, a function that reads it, and the id that git gives its content, if git has it."""

    name: str
    read: Callable[[], bytes]
    blob: str | None = None

    def digest(self, like: str) -> str:
        """Return the id that git gives the content, in the form of another id."""
        if self.blob is not None:
            return self.blob
        content = self.read()
        algorithm = hashlib.sha256 if len(like) == hashlib.sha256().digest_size * 2 else hashlib.sha1
        return algorithm(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


class Place(msgspec.Struct, frozen=True):
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

    def __init__(self, prefix: str, entries: Mapping[str, _Entry], read: Callable[[str], bytes], top: str) -> None:
        self._prefix = prefix
        self._read = read
        self._top = top
        self._entries = entries
        self._submodules = {path for path, entry in entries.items() if entry.mode == "160000"}
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
        return self._leads_to_folder(self.place(_path(self._prefix, name)))

    def project_file(self) -> Source | None:
        """Return the project file; None where there is none. Raises WorldError for what is no file."""
        path = _path(self._prefix, names.PROJECT_FILE)
        if path not in self._entries and path not in self._children:
            return None
        place = self.place(path)
        if not _is_inside(place, [_path(self._prefix, ".")]):
            raise errors.WorldError(links.message(names.PROJECT_FILE), hint=project_file.HINT)
        entry = self._entries.get(place.path)
        if entry is None or not entry.is_file:
            raise project_file.no_file()
        return self._source(names.PROJECT_FILE, place)

    def documents(self, folders: Sequence[str]) -> tuple[list[Source], list[diagnostics.Diagnostic]]:
        """Return the document files below folders as `document_files.find` does for the disk. Raises WorldError."""
        paths = [_path(self._prefix, name) for name in folders]
        allowed = [_path(self._prefix, "."), *(self.place(path).path for path in paths if self._is_far(path))]
        for name, path in zip(folders, paths, strict=True):
            self._require_folder(name, path)
        pending = [("" if name == "." else name, self.place(path)) for name, path in zip(folders, paths, strict=True)]

        def sort_of(_: str, entry: document_files.Entry[Place]) -> str:
            if _is_inside(entry.place, allowed):
                return self._sort(entry.place)
            is_folder = self._leads_to_folder(entry.place)
            return document_files.FOLDER_OUTSIDE if is_folder else document_files.OUTSIDE

        files, findings = document_files.walk(pending, self._listed, sort_of)
        return [self._source(name, place) for name, place in files], findings

    def _listed(self, name: str, folder: Place) -> tuple[str, list[document_files.Entry[Place]]]:
        """Return the path of a folder, and its entries; one that is missing has none."""
        if folder.path in self._submodules:
            message = f"'{wording.file_name(name)}' is in a submodule, and git has its files in another repository."
            raise errors.WorldError(message, hint="Put the documents into the repository of the project.")
        found = []
        for child in sorted(self._children.get(folder.path, ())):
            path = posixpath.join(folder.path, child)
            place = self.place(path)
            found.append(document_files.Entry(child, place, place.path != path))
        return folder.path, found

    def _source(self, name: str, place: Place) -> Source:
        blob = self._entries[place.path].blob
        return Source(name, lambda: self._read(blob), blob)

    def _require_folder(self, name: str, path: str) -> None:
        """Raise WorldError for what is no folder of documents; a missing one counts as empty."""
        entry, place = self._entries.get(path), self.place(path)
        is_there = os.path.exists(place.path) if place.is_outside else self._sort(place) != document_files.NOTHING  # noqa: PTH110
        if entry is not None and entry.is_link and not is_there:
            raise document_files.link_to_nothing(name)
        if not self._is_far(path) and not _is_inside(place, [_path(self._prefix, ".")]):
            raise errors.WorldError(links.message(name), hint=document_files.FOLDER_HINT)
        if place.is_outside:
            raise _not_in_git(name)
        if self._sort(place) == document_files.FILE:
            raise document_files.no_folder(name)

    def _is_far(self, path: str) -> bool:
        """Return whether a path is written as one outside of the project."""
        return not _is_below(path, _path(self._prefix, "."))

    def _leads_to_folder(self, place: Place) -> bool:
        """Return whether a place is a folder; of one that git does not keep, whether it is one on this host."""
        if place.is_outside or links.GIT in place.path.split("/"):
            return os.path.isdir(posixpath.join(self._top, place.path))  # noqa: PTH112 - it raises nothing
        return self._sort(place) == document_files.FOLDER

    def _sort(self, place: Place) -> str:
        """Return what a place in the repository is: a file, a folder or nothing."""
        entry = self._entries.get(place.path)
        if place.is_broken:
            return document_files.NOTHING
        if place.path in self._children or place.path in self._submodules:
            return document_files.FOLDER
        return document_files.FILE if entry is not None and entry.is_file else document_files.NOTHING

    def place(self, path: str) -> Place:
        """Return the place that a path leads to by links, in this commit or on this host."""
        pending, real = _steps(path), list[str]()
        followed, is_broken = 0, False
        for _ in range(_STEPS):
            here = "/".join(real)
            # The files of a submodule are in another repository, so nothing is known of what is below it.
            if not pending or here in self._submodules:
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


class Repository(git.Objects):
    """The git repository around the current folder."""

    def __init__(self) -> None:
        super().__init__()
        self._prefix = git.answer("rev-parse", "--show-prefix").decode("utf-8", "surrogateescape").rstrip("\n")

    def names(self) -> list[str]:
        """Return the names of branches and tags. Raises WorldError."""
        found = git.answer("for-each-ref", "--format=%(refname:short)", "refs/heads", "refs/remotes", "refs/tags")
        return found.decode("utf-8", "surrogateescape").splitlines()

    def commit(self, revision: str) -> str:
        """Return the id of a revision's commit. Raises WorldError."""
        try:
            found = git.answer("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
        except errors.WorldError as error:
            message = f"git knows no revision {wording.quoted(revision)}."
            raise errors.WorldError(message, hint=_hint(revision)) from error
        return found.decode("ascii").strip()

    def tree(self, commit: str, names: Sequence[str]) -> Tree:
        """Return the files of a commit below these folders and files of the project, and what links there lead to.

        Raises WorldError for a name outside of the repository.
        """
        paths = [_path(self._prefix, name) for name in names]
        for name, path in zip(names, paths, strict=True):
            if path.startswith(("../", "/")) or path == "..":
                raise _not_in_git(name)
        entries = _listed(commit, paths if all(paths) else ())
        if any(entry.is_link for entry in entries.values()):
            entries = _listed(commit, ())
        return Tree(self._prefix, entries, self.read, self._top())

    def read(self, blob: str) -> bytes:
        """Return the content of a blob. Raises WorldError where git does not have it."""
        content = self.content(blob)
        if content is None:
            raise errors.WorldError(f"git does not have its object {blob}.", hint="`git fsck` shows what is missing.")
        return content

    def _top(self) -> str:
        return posixpath.normpath(posixpath.join(str(Path.cwd()), *[".." for step in self._prefix.split("/") if step]))


def output(revision: str) -> str:
    """Return the folder of outputs that a revision's project file names, whatever else is wrong. Raises WorldError."""
    with Repository() as repository:
        found = repository.tree(repository.commit(revision), [names.PROJECT_FILE]).project_file()
        read, wrong = decode.decode(names.PROJECT_FILE, found.read()) if found else ([], [])
    data = read[0].data if read else {}
    folder = data.get("output", Settings().output) if isinstance(data, dict) else None
    if not isinstance(folder, str) or not folder or diagnostics.has_errors(wrong):
        raise errors.WorldError(
            f"{names.PROJECT_FILE} of {wording.quoted(revision)} cannot be read, and may name a folder of outputs.",
            hint="Name a revision whose settings `kae compile` takes.",
        )
    return folder


def _hint(revision: str) -> str:
    """Return what to do about a revision that git does not know."""
    if ".." in revision:
        before, dots, after = (part or "HEAD" for part in revision.partition("..." if "..." in revision else ".."))
        since = before if dots == ".." else f"$(git merge-base {before} {after})"
        return f"Write `kae diff {since} --to {after}`."
    if not git.answer("rev-list", "--max-count=1", "--all"):
        return "The repository has no commit yet: make one first."
    return "Name a commit, a branch or a tag; a shallow clone has to fetch it first."


def _listed(commit: str, paths: Sequence[str]) -> dict[str, _Entry]:
    """Return the entries of a commit below these paths, or all of them, by their paths in the repository."""
    answer = git.answer("--literal-pathspecs", "ls-tree", "-r", "-z", "--full-tree", commit, "--", *paths)
    found = {}
    for line in answer.split(b"\0")[:-1]:
        facts, _, path = line.partition(b"\t")
        mode, _, blob = facts.decode("ascii").split(" ")
        found[path.decode("utf-8", "surrogateescape")] = _Entry(mode, blob)
    return found


def _is_inside(place: Place, allowed: Iterable[str]) -> bool:
    """Return whether a place is in one of the `allowed` folders of the repository, and not in the folder of git."""
    if place.is_outside or links.GIT in place.path.split("/"):
        return False
    return any(_is_below(place.path, folder) for folder in allowed)


def _not_in_git(name: str) -> errors.WorldError:
    """Return the error on a folder of documents outside of the repository."""
    message = f"'{wording.file_name(name)}' is outside of the git repository, which so has no older version of it."
    return errors.WorldError(message, hint="Move it into the repository.")


def _is_below(path: str, folder: str) -> bool:
    return not folder or path == folder or path.startswith(f"{folder}/")


def _path(prefix: str, name: str) -> str:
    """Return the path in the repository of a name in the project; empty for the repository itself."""
    path = posixpath.normpath(posixpath.join(prefix, name))
    return "" if path == "." else path


def _steps(path: str) -> list[str]:
    """Return the parts of a path, the last one first."""
    return [part for part in reversed(path.split("/")) if part not in ("", ".")]
