"""One file of a git repository: read it and replace it, and change nothing else but the file that accepts a loss.

A commit is a function of the tip and the new bytes: the tip is its only parent. The push succeeds only if the branch
still has that tip. So a lost race begins again from the look, and no commit of others is lost or restored. The clone
is made for each commit, in a folder that goes with it: it holds the tip's commit and trees, and only this file.
"""

import contextlib
import itertools
import math
import random
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from runtime import errors, process
from watcher.git import credentials, git

MEMORY_S = 24 * 3600
"""How far back losses are remembered."""

_MOST_ACCEPTANCE = 4 << 10
"""The largest file of acceptance that is read, in bytes: it holds a word."""

_SLOW_S = 900
"""After this time a tip is fetched again that took too long."""

_PREFIX = "clone-"

_PATIENCE_S = 120
"""Races are lost for so long at most, before the loss counts as a failure."""

_PAUSE_S = (0.2, 5.0)
"""The longest pause after the first lost race, which doubles with each further one, and the limit of these. Pauses are
random, so that two watchers do not collide again."""


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """The file, and its branch."""

    url: str
    branch: str
    path: str
    """The path of the file from the root of the repository."""
    author: str
    """As in `name <address>`."""
    push_options: tuple[str, ...] = ()

    @property
    def acceptance(self) -> str:
        """Return the path of the file by which people accept a loss."""
        return f"{self.path.removesuffix('.json')}.accept"


class Found(msgspec.Struct, frozen=True):
    """The state of the repository."""

    content: bytes | None
    """The file's bytes; None: there is no such file."""
    acceptance: bytes | None
    """The bytes of the file by which people accept a loss."""
    note: str
    """Why what stands in its place accepts nothing, a sentence."""
    messages: Callable[[], list[str]]
    """Asks for the messages of the last day's commits of the file, the newest first."""


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """The desired file, and the commit's message."""

    content: bytes
    message: str


class Repository:
    """A remote repository. For one thread."""

    def __init__(self, target: Target, scratch: Path, secrets: credentials.Secrets, stop: threading.Event) -> None:
        """Touch nothing yet. Between two calls, `scratch` may be deleted; it is the watcher's alone."""
        self.target, self._scratch, self._secrets, self._stop = target, scratch, secrets, stop
        self._known: tuple[str | None, tuple[bytes | None, bytes | None, str] | str] | None = None
        """The tip that was read last, and what `_read` returns, or why it is not fetched again."""
        self._until_s = math.inf
        self.races = 0

    def publish(self, decide: Callable[[Found], Change | None]) -> str | None:
        """Change the file while others may write to the branch too; return the pushed commit.

        `decide` gets the state that would be replaced, again after each lost race, and returns None to keep it. A
        commit also deletes the file of acceptance. Races that are lost for two minutes are a failure, too.
        """
        until_s = time.monotonic() + _PATIENCE_S
        for number in itertools.count():
            try:
                with self._git() as tool:
                    return self._attempt(tool, decide)
            except git.LostRace:
                self.races += 1
                if time.monotonic() > until_s:
                    raise
            longest_s = min(_PAUSE_S[0] * 2**number, _PAUSE_S[1])
            if self._stop.wait(random.uniform(0, longest_s)):  # noqa: S311 - it spreads watchers
                break
        raise process.Cancelled("The work on the repository was stopped, because the program is ending.")

    def _attempt(self, tool: git.Git, decide: Callable[[Found], Change | None]) -> str | None:
        target = self.target
        content, acceptance, note = self._read(tool)
        found = Found(content, acceptance, note, lambda: tool.messages(time.time() - MEMORY_S, target.path))
        change = decide(found)
        if change is None or change.content == content:
            return None
        parent = tool.clone()
        if self._known is None or self._known[0] != parent:
            raise git.LostRace(f"The repository '{git.shown_url(target.url)}' is changed by others all the time.")
        files = {target.path: change.content} | ({target.acceptance: None} if acceptance is not None else {})
        commit = tool.commit(parent, files, change.message)
        tool.push(target.branch, parent if tool.branch == target.branch else None, commit, target.push_options)
        self._known = (commit, (change.content, None, note))
        return commit

    def _read(self, tool: git.Git) -> tuple[bytes | None, bytes | None, str]:
        """Return both files, and why that of acceptance accepts nothing; fetch nothing while the tip stays."""
        if self._known is None or self._known[0] != tool.tip or time.monotonic() > self._until_s:
            self._until_s = math.inf
            try:
                tip = tool.clone()
                self._known = (tip, self._files(tool, tip) if tip else (None, None, ""))
            except git.Unreadable as failure:
                self._known = (tool.tip, str(failure))
            except process.TooSlow as failure:
                self._known, self._until_s = (tool.tip, str(failure)), time.monotonic() + _SLOW_S
        if isinstance(self._known[1], str):
            raise git.Unreadable(self._known[1])
        return self._known[1]

    def _files(self, tool: git.Git, tip: str) -> tuple[bytes | None, bytes | None, str]:
        content = tool.file(tip, self.target.path, git.MOST)
        try:
            return content, tool.file(tip, self.target.acceptance, _MOST_ACCEPTANCE), ""
        except git.Unreadable as failure:
            return content, None, str(failure)

    @contextlib.contextmanager
    def _git(self) -> Iterator[git.Git]:
        """Yield git with fresh credentials, in a folder of its own; remove the folders of killed processes."""
        try:
            self._scratch.mkdir(mode=0o700, parents=True, exist_ok=True)
            for left in self._scratch.glob(f"{_PREFIX}*"):
                shutil.rmtree(left, ignore_errors=True)
            folder = tempfile.TemporaryDirectory(dir=self._scratch, prefix=_PREFIX, ignore_cleanup_errors=True)
            with folder as path:
                access = credentials.access(self._secrets, self.target.url, Path(path))
                tool = git.Git(Path(path) / "git", self.target.url, self.target.author, access, self._stop)
                tool.look(self.target.branch)
                yield tool
        except OSError as error:
            sentence = f"The scratch folder '{self._scratch}' cannot be written: {error.strerror}."
            raise errors.Failure(sentence) from error
