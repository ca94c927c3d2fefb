"""The clone in the scratch folder: a cache that is discarded whenever it is doubtful, old or large."""

import contextlib
import shutil
import tempfile
from pathlib import Path

from watcher.git import git, git_errors

_MOST = 50
"""The number of commits after which the clone is recreated: it keeps every version of the file, and never packs."""

_PREFIX = "clone-"
PRIVATE_PREFIX = "key-"
"""The prefix of folders that hold copies of keys, each during one command."""


class Clone:
    """A clone that need not exist: `path` is its folder, `open` creates it.

    Even an intact clone of an earlier process is removed: creating one costs less than verifying one. Its name is new
    each time, so that a git process of an earlier watcher damages nothing.
    """

    def __init__(self, scratch: Path) -> None:
        """Touch nothing yet; in the scratch folder only clones and copies of keys are ever removed."""
        self._scratch = scratch
        self._path: Path | None = None
        self._format = ""
        self._known: set[str] = set()

    @property
    def path(self) -> Path:
        """Return the path of the clone; its parent exists and belongs to this process.

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
        """Empty the clone if it is old, or has another object format than this tip; None fits any.

        It loses fetched commits, so call it before the first fetch of a piece of work.
        """
        if self._format and (len(self._known) >= _MOST or (tip is not None and self._format != _format(tip))):
            self._empty()
            self._sweep((_PREFIX,))

    def open(self, tool: git.Git, tip: str | None) -> None:
        """Create the clone, if it does not exist, in the object format of this tip; None: of an empty repository."""
        if not self._format:
            object_format = _format(tip or "")
            tool.create(object_format)
            self._format = object_format

    def fetch(self, tool: git.Git, branch: str, tip: str) -> str:
        """Fetch a branch; return its tip, which is a later one than `tip` if the branch has moved."""
        if tip not in self._known:
            tip = tool.fetch(branch)
            self.add(tip)
        return tip

    def add(self, commit: str) -> None:
        """Record a commit that the clone holds."""
        self._known.add(commit)

    def discard(self) -> None:
        """Remove the clone."""
        self._empty()
        self._path = None

    def _sweep(self, prefixes: tuple[str, ...]) -> None:
        """Remove the folders of earlier processes; a git that still writes there may keep some until the next time."""
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
