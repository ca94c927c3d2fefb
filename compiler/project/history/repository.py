"""Revisions of a project, read from git's objects; nothing is checked out."""

import contextlib
import posixpath
import subprocess
from collections.abc import Sequence
from pathlib import Path

from compiler import errors, wording
from compiler.project import git
from compiler.project.history import tree


class Repository:
    """The git repository around the current folder; it keeps one `git cat-file` at work until it is closed."""

    def __init__(self) -> None:
        self._reader: subprocess.Popen[bytes] | None = None
        self._prefix = git.answer("rev-parse", "--show-prefix").decode("utf-8", "surrogateescape").rstrip("\n")

    def __enter__(self) -> "Repository":
        return self

    def __exit__(self, *_: object) -> None:
        if self._reader is not None:
            self._reader.communicate()

    def names(self) -> list[str]:
        """Return the names of branches and tags. Raises WorldError."""
        found = git.answer("for-each-ref", "--format=%(refname:short)", "refs/heads", "refs/remotes", "refs/tags")
        return found.decode("utf-8", "surrogateescape").splitlines()

    def commit(self, revision: str) -> str:
        """Return the id of a revision's commit. Raises WorldError."""
        try:
            found = git.answer("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
        except errors.WorldError as error:
            raise errors.WorldError(
                f"git knows no revision {wording.quoted(revision)}.", hint=_hint(revision)
            ) from error
        return found.decode("ascii").strip()

    def tree(self, commit: str, names: Sequence[str]) -> tree.Tree:
        """Return the files of a commit below these folders and files of the project, and what links there lead to.

        Raises WorldError for a name outside of the repository.
        """
        paths = [self._path(name) for name in names]
        entries = _listed(commit, paths if all(paths) else ())
        if any(entry.is_link for entry in entries):
            entries = _listed(commit, ())
        return tree.Tree(self._prefix, entries, self.read, self._top())

    def read(self, blob: str) -> bytes:
        """Return the content of a blob. Raises WorldError where git does not have it."""
        if self._reader is None:
            command = ("git", "cat-file", "--batch")
            self._reader = subprocess.Popen(  # noqa: S603 - the arguments are constant
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=git.environment()
            )
        source, sink = self._reader.stdout, self._reader.stdin
        head: list[bytes] = []
        with contextlib.suppress(BrokenPipeError):
            if source is not None and sink is not None:
                sink.write(f"{blob}\n".encode("ascii"))
                sink.flush()
                head = source.readline().split()
                if len(head) == 3:
                    return source.read(int(head[2]) + 1)[:-1]
        raise errors.WorldError(f"git does not have its object {blob}.", hint="`git fsck` shows what is missing.")

    def _top(self) -> str:
        """Return the folder of the repository on this host."""
        return posixpath.normpath(posixpath.join(str(Path.cwd()), *[".." for step in self._prefix.split("/") if step]))

    def _path(self, name: str) -> str:
        """Return the path in the repository of a name in the project; empty for the repository itself."""
        path = posixpath.normpath(posixpath.join(self._prefix, name))
        if path.startswith(("../", "/")) or path == "..":
            raise tree.not_in_git(name)
        return "" if path == "." else path


def _hint(revision: str) -> str:
    """Return what to do about a revision that git does not know."""
    if ".." in revision:
        before, dots, after = (part or "HEAD" for part in revision.partition("..." if "..." in revision else ".."))
        since = before if dots == ".." else f"$(git merge-base {before} {after})"
        return f"Write `kae diff {since} --to {after}`."
    if not git.answer("rev-list", "--max-count=1", "--all"):
        return "The repository has no commit yet: make one first."
    return "Name a commit, a branch or a tag; a shallow clone has to fetch it first."


def _listed(commit: str, paths: Sequence[str]) -> list[tree.Entry]:
    answer = git.answer("--literal-pathspecs", "ls-tree", "-r", "-z", "--full-tree", commit, "--", *paths)
    found = []
    for line in answer.split(b"\0")[:-1]:
        facts, _, path = line.partition(b"\t")
        mode, _, blob = facts.decode("ascii").split(" ")
        found.append(tree.Entry(path.decode("utf-8", "surrogateescape"), mode, blob))
    return found
