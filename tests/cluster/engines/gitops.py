"""Repositories that GitOps engines follow in tests."""

import subprocess
from pathlib import Path
from typing import Protocol

_GIT = ("git", "-c", "user.name=test", "-c", "user.email=test@localhost", "-c", "commit.gpgSign=false")


class Source(Protocol):
    """A repository, as an engine sees it."""

    def head(self) -> str:
        """Return the last commit of the branch main."""

    def archive(self, commit: str) -> bytes:
        """Return the files of a commit, as a gzipped tar."""


class Repository:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True)
        self._git("init", "--quiet", "--initial-branch=main")

    @property
    def url(self) -> str:
        return f"file://{self.folder}"

    def commit(self, subject: str) -> str:
        """Commit the whole work tree, and return the commit."""
        self._git("add", "--all")
        self._git("commit", "--quiet", f"--message={subject}")
        return self.head()

    def head(self) -> str:
        return self._git("rev-parse", "HEAD").decode().strip()

    def archive(self, commit: str) -> bytes:
        return self._git("archive", "--format=tar.gz", commit)

    def _git(self, *arguments: str) -> bytes:
        command = (*_GIT, *arguments)
        return subprocess.run(command, cwd=self.folder, check=True, stdout=subprocess.PIPE, timeout=60).stdout
