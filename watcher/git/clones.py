"""The clone in the scratch folder, which is worth nothing: it is thrown away whenever it is doubtful, old or large."""

import contextlib
import shutil
import tempfile
from pathlib import Path

from watcher.git import git, git_errors

_MOST = 50
"""Commits, after which a clone is made anew: it keeps each one's version of the file, and collects nothing."""

_PREFIX = "clone-"
PRIVATE_PREFIX = "key-"
"""Of the folders that hold copies of keys, each for the time of one command."""


class Clone:
    """A clone that need not be there: `path` is where it goes, `open` makes it.

    Even a sound clone of an earlier process is removed, as making one costs little and proving it sound costs more. Its
    name is new each time, so that a git which outlived its process spoils nothing.
    """

    def __init__(self, scratch: Path) -> None:
        """Touches nothing yet; of the scratch folder only what we name is ever removed."""
        self._scratch = scratch
        self._path: Path | None = None
        self._format = ""
        self._known: set[str] = set()

    @property
    def path(self) -> Path:
        """Where it is, or is to be; its folder exists and is nobody else's.

        Raises:
            git_errors.DiskFull, git_errors.Failed: The scratch folder cannot be written.
        """
        if self._path is not None and not self._path.parent.is_dir():
            self.discard()
        if self._path is None:
            try:
                self._scratch.mkdir(mode=0o700, parents=True, exist_ok=True)
                self._sweep((_PREFIX, PRIVATE_PREFIX))
                self._path = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=self._scratch)) / "git"
            except OSError as error:
                raise git_errors.of_disk(self._scratch, error) from error
        return self._path

    def renew(self, tip: str | None) -> None:
        """Empties it if it has grown old, or is not for a repository with such a tip; None: with any.

        What was fetched before is not in it then, so this is for the beginning of a piece of work.
        """
        if self._format and (len(self._known) >= _MOST or (tip is not None and self._format != _format(tip))):
            self._empty()
            self._sweep((_PREFIX,))

    def open(self, tool: git.Git, tip: str | None) -> None:
        """Makes it for a repository with such a tip, if it is not there; None: for an empty repository."""
        if not self._format:
            object_format = _format(tip or "")
            tool.create(object_format)
            self._format = object_format

    def fetch(self, tool: git.Git, branch: str, tip: str) -> str:
        """Has a branch's tip in it: this one, or a later one where the branch has moved."""
        if tip not in self._known:
            tip = tool.fetch(branch)
            self.add(tip)
        return tip

    def add(self, commit: str) -> None:
        """A commit was made in it."""
        self._known.add(commit)

    def discard(self) -> None:
        """Throws it away."""
        self._empty()
        self._path = None

    def _sweep(self, prefixes: tuple[str, ...]) -> None:
        """Removes what others left; a git that still writes there may keep something of it until the next time."""
        own = self._path.parent if self._path is not None else None
        with contextlib.suppress(OSError):
            for left in self._scratch.iterdir():
                if left != own and left.name.startswith(prefixes):
                    shutil.rmtree(left, ignore_errors=True)

    def _empty(self) -> None:
        if self._path is not None:
            shutil.rmtree(self._path, ignore_errors=True)
        self._format = ""
        self._known.clear()


def _format(commit: str) -> str:
    return "sha256" if len(commit) > git.SHA1_DIGITS else "sha1"
