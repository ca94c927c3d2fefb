"""What a GitOps engine is to a test: it follows a repository, and says how far it has come."""

import subprocess
from pathlib import Path
from typing import Protocol

_GIT = ("git", "-c", "user.name=test", "-c", "user.email=test@localhost", "-c", "commit.gpgSign=false")


class Application(Protocol):
    """A folder of a repository, as the engine applies it."""

    def notice(self) -> None:
        """Tells the engine that there is a new commit, as a webhook would."""

    def is_synced(self, commit: str) -> bool:
        """Whether the engine says that what this commit holds is applied, and that nothing differs."""

    def is_healthy(self) -> bool:
        """Whether the engine says that all is well."""

    def resync(self) -> None:
        """Has the engine compare everything anew, and waits until it has.

        Raises:
            TimedOut: It does not.
        """

    def explain(self) -> str:
        """What the engine says of it."""

    def end(self) -> None:
        """Has the engine forget it."""


class Repository:
    """A git repository with a work tree and one branch, main."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True)
        self._git("init", "--quiet", "--initial-branch=main")

    @property
    def url(self) -> str:
        """Where it is fetched from."""
        return f"file://{self.folder}"

    def commit(self, subject: str) -> str:
        """Commits the whole work tree, and returns the commit."""
        self._git("add", "--all")
        self._git("commit", "--quiet", f"--message={subject}")
        return self.head()

    def head(self) -> str:
        """The last commit."""
        return self._git("rev-parse", "HEAD").decode().strip()

    def archive(self, commit: str) -> bytes:
        """The files of a commit, as a gzipped tar."""
        return self._git("archive", "--format=tar.gz", commit)

    def _git(self, *arguments: str) -> bytes:
        command = (*_GIT, *arguments)
        return subprocess.run(command, cwd=self.folder, check=True, stdout=subprocess.PIPE, timeout=60).stdout
