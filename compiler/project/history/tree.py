"""The files of a commit, as `git ls-tree` lists them, with links followed inside of the repository."""

import posixpath
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from compiler import diagnostics, wording
from compiler.project import document_files, links

_LINKS = 40
"""The most links on the way to a file, as in Linux."""


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


@dataclass(frozen=True, slots=True)
class File:
    """A document file of a revision: its name in findings, and the id of its content."""

    name: str
    blob: str


class Tree:
    """The files of a commit; names are relative to the project, whose folder in the repository is `prefix`."""

    def __init__(self, prefix: str, entries: Iterable[Entry], read: Callable[[str], bytes]) -> None:
        self._prefix = prefix
        self._read = read
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
        return self._folder(name) is not None

    def file(self, name: str) -> File | None:
        """Return a file by its name; None where there is none."""
        path = self._resolved(posixpath.join(self._prefix, name))
        entry = self._entries.get(path) if path else None
        return File(name, entry.blob) if entry is not None and entry.is_file else None

    def documents(self, folders: Sequence[str]) -> tuple[list[File], list[diagnostics.Diagnostic]]:
        """Return the document files below folders, sorted by name, and a finding for each that is no file.

        Hidden names are skipped, and each folder is read once, as in the working tree.
        """
        found: list[File | diagnostics.Diagnostic] = []
        allowed = [path for name in (".", *folders) if (path := self._folder(name)) is not None]
        seen: set[str] = set()
        pending = [("" if name == "." else name, self._folder(name)) for name in folders]
        links: list[tuple[str, str | None]] = []
        while pending or links:
            if not pending:  # Links come last, so that a document has the name of its real folder.
                links.sort(reverse=True)
                pending = [links.pop()]
            prefix, folder = pending.pop()
            if folder is None or folder in seen:
                continue
            seen.add(folder)
            for name, path in self._visible(prefix, folder):
                if name.endswith(document_files.ENDINGS):
                    found.append(self._document(name, path, allowed))
                elif path in self._children:
                    pending.append((name, path))
                elif self._entries[path].is_link:
                    links.append((name, self._folder_at(path)))
        files = [item for item in found if isinstance(item, File)]
        return sorted(files, key=lambda item: item.name), [item for item in found if not isinstance(item, File)]

    def _visible(self, prefix: str, folder: str) -> Iterator[tuple[str, str]]:
        """Yield the name and the path of each entry of a folder that is not hidden."""
        for child in sorted(self._children[folder]):
            if not child.startswith("."):
                yield posixpath.join(prefix, child), posixpath.join(folder, child)

    def _document(self, name: str, path: str, allowed: Iterable[str]) -> File | diagnostics.Diagnostic:
        """Return a file, or the finding for what is none or lies outside of the folders that links may lead to."""
        real = self._resolved(path)
        if real is None or not any(not folder or real.startswith(f"{folder}/") for folder in allowed):
            hint = "Put what it leads to into the project."
            return document_files.refused(name, links.message(name), hint, "link-outside")
        target = self._entries.get(real)
        if target is None or not target.is_file:
            what = "a folder" if real in self._children else "a link that leads to no file"
            return document_files.refused(name, f"'{wording.file_name(name)}' is {what}.", "Rename or remove it.")
        return File(name, target.blob)

    def _folder(self, name: str) -> str | None:
        return self._folder_at(posixpath.normpath(posixpath.join(self._prefix, name)))

    def _folder_at(self, path: str) -> str | None:
        real = self._resolved(path)
        return real if real in self._children else None

    def _resolved(self, path: str) -> str | None:
        """Return the path that a path leads to by links; None for one that leads nowhere, or out of the repository."""
        pending = [part for part in reversed(path.split("/")) if part not in ("", ".")]
        real: list[str] = []
        for _ in range(_LINKS * 64):
            if not pending:
                return "/".join(real)
            part = pending.pop()
            if part == "..":
                if not real:
                    return None
                real.pop()
                continue
            entry = self._entries.get("/".join((*real, part)))
            if entry is None or not entry.is_link:
                real.append(part)
                continue
            target = self._read(entry.blob).decode("utf-8", "surrogateescape")
            if target.startswith("/"):
                return None
            pending += [step for step in reversed(target.split("/")) if step not in ("", ".")]
        return None
