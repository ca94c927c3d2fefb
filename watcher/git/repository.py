"""One file of a git repository: read it and replace it, and change nothing else.

A commit is a function of the fetched tip and the new bytes: the tip is its only parent, and one file is all that
differs. The push succeeds only if the branch still has that tip. So a lost race begins again from the fetch, and no
commit of others is lost or restored.
"""

import contextlib
import itertools
import random
import re
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeVar
from urllib import parse

from runtime import errors, process
from watcher.git import clones, credentials, git, git_errors, trees

T = TypeVar("T")

_SOUND_AFTER = (
    *(git_errors.Unreachable, git_errors.Denied, git_errors.NotFound, git_errors.LostRace, git_errors.Refused),
    *(git_errors.Obstructed, git_errors.Unusable),
)
"""Errors after which the clone is intact; any other error discards it."""

_HELD = "kae/held-"

_BROKEN = 2
"""How often in a row a damaged clone is recreated; after that the repository itself is damaged."""

# git-check-ref-format(1), where it is stricter than the document's own rule for paths.
_BAD_BRANCH = re.compile(r"^[/-]|//|\.\.|/\.|^\.|\.lock(/|$)|[/.]$|[^A-Za-z0-9._/-]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The file, and its branches."""

    url: str
    branch: str
    path: str
    """The path of the file from the root of the repository."""
    cluster: str
    author: git.Author

    @property
    def held(self) -> str:
        """Return the branch of held snapshots, which only the watcher writes."""
        return f"{_HELD}{self.cluster}"

    def __post_init__(self) -> None:
        """Raise `errors.ConfigError` for a name that git refuses."""
        for branch in (self.branch, self.held):
            if not branch or _BAD_BRANCH.search(branch):
                raise errors.ConfigError(f"'{branch}' is no name for a branch.")
        if any(part.lower() in ("", ".", "..", ".git") for part in self.path.split("/")):
            raise errors.ConfigError(f"'{self.path}' is no path in a repository.")
        try:
            parse.urlsplit(self.url)
        except ValueError as error:
            raise errors.ConfigError(f"The repository's URL is none: {error}.") from error
        if not self.url.isprintable() or self.url.startswith("-"):
            raise errors.ConfigError("The repository's URL is none: it begins with '-', or holds a control character.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Timeouts and retries of a `Repository`; times in seconds."""

    timeout_s: float = 120
    """For each command that talks to the repository."""
    tries: int = 12
    """The number of attempts when races are lost."""
    pause_s: float = 0.2
    """The longest pause after the first lost race; it doubles with each further one."""
    longest_pause_s: float = 5
    """The limit of the doubled pauses. Pauses are random, so that two watchers do not collide again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """The state of the repository."""

    base: Literal["branch", "default", "nothing"]
    """The parent of a new commit: the branch; the default branch, if the branch does not exist; or nothing, in a
    repository with neither."""
    commit: str | None
    """The base's tip."""
    content: bytes | None
    """The file's bytes in that commit; None: there is no such file."""
    held: str | None
    """The tip of the branch of held snapshots; None: there is no such branch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """The desired file."""

    content: bytes
    message: str
    """The commit message; unused when the file has these bytes already."""


class Repository:
    """A remote repository, through a clone that may be lost at any time. For one thread.

    Methods raise the errors of `git_errors`; `LostRace` and `Broken` only after several attempts, except for `commit`
    and `push`, after which the caller begins again with `fetch`.
    """

    def __init__(
        self, target: Target, scratch: Path, secrets: credentials.Secrets, stop: threading.Event, timing: Timing
    ) -> None:
        """Touch nothing yet. Between two calls, `scratch` may be deleted."""
        self._target = target
        self._clone = clones.Clone(scratch)
        self._keys = credentials.Keys(secrets, scratch, stop)
        self._stop = stop
        self._limits = process.Limits(timeout_s=timing.timeout_s, stop=stop)
        self._timing = timing
        self._chance = random.Random()  # noqa: S311 - it spreads pauses
        self.races = 0
        """The number of lost races, in all methods."""

    def fetch(self) -> Fetched:
        """Return the branch's tip and the file in it."""
        return self._again(self._fetch)

    def commit(self, fetched: Fetched, content: bytes, message: str) -> str | None:
        """Commit these bytes on top of the fetched tip; return None when the file has them already."""
        if content == fetched.content:
            return None
        with self._git() as tool, self._keys.signing() as key:
            tree = trees.replaced(tool, fetched.commit, self._target.path, tool.write_blob(content))
            commit = tool.write_commit(tree, fetched.commit, message, self._target.author, key)
        self._clone.add(commit)
        return commit

    def push(self, fetched: Fetched, commit: str) -> None:
        """Make a commit the branch's tip, if the branch still has the fetched tip."""
        old = fetched.commit if fetched.base == "branch" else None
        with self._git() as tool:
            tool.push(git.Push(branch=self._target.branch, old=old, new=commit))

    def publish(self, decide: Callable[[Fetched], Change | None]) -> str | None:
        """Change the file while others may write to the branch too.

        `decide` gets the state that would be replaced, again after each lost race, and returns None to keep it. Return
        the pushed commit; None when the file stays, or has these bytes already.
        """

        def attempt() -> str | None:
            fetched = self._fetch()
            change = decide(fetched)
            if change is None:
                return None
            commit = self.commit(fetched, change.content, change.message)
            # If somebody deleted the branch, but the default one has its bytes, the branch returns at that commit.
            tip = commit or (fetched.commit if fetched.base == "default" else None)
            if tip is not None:
                self.push(fetched, tip)
            return commit

        return self._again(attempt)

    def hold(self, content: bytes, message: str) -> str | None:
        """Commit these bytes to the branch of held snapshots, on top of the fetched tip.

        Return the commit; None when that branch, or the target branch, has these bytes already.
        """

        def attempt() -> str | None:
            fetched = self._fetch()
            if content == fetched.content or self._holds(fetched, content):
                return None
            commit = self.commit(fetched, content, message)
            with self._git() as tool:
                tool.push(git.Push(branch=self._target.held, old=fetched.held, new=commit))
            return commit

        return self._again(attempt)

    def unhold(self) -> bool:
        """Delete the branch of held snapshots; return whether there was one."""

        def attempt() -> bool:
            with self._git() as tool:
                tip = tool.heads((self._target.held,)).tips.get(self._target.held)
                if tip is not None:
                    self._clone.open(tool, tip)
                    tool.push(git.Push(branch=self._target.held, old=tip, new=None))
                return tip is not None

        return self._again(attempt)

    def _fetch(self) -> Fetched:
        with self._git() as tool:
            heads = tool.heads((self._target.branch, self._target.held))
            held = heads.tips.get(self._target.held)
            base: Literal["branch", "default", "nothing"] = "branch"
            branch, tip = self._target.branch, heads.tips.get(self._target.branch)
            # A host may make the first branch that it gets the default one: a held snapshot is no base.
            if tip is None and heads.default is not None and not heads.default.startswith(_HELD):
                base, branch, tip = "default", heads.default, heads.default_tip
            self._clone.renew(tip)
            self._clone.open(tool, tip)
            if tip is None:
                return Fetched(base="nothing", commit=None, content=None, held=held)
            tip = self._clone.fetch(tool, branch, tip)
            return Fetched(base=base, commit=tip, content=self._content(tool, tip), held=held)

    def _content(self, tool: git.Git, commit: str) -> bytes | None:
        entry = tool.find(commit, self._target.path)
        if entry is None:
            return None
        trees.check(entry, self._target.path)
        return tool.blob(entry)

    def _holds(self, fetched: Fetched, content: bytes) -> bool:
        if fetched.held is None:
            return False
        with self._git() as tool:
            tip = self._clone.fetch(tool, self._target.held, fetched.held)
            parents = () if fetched.commit is None else (fetched.commit,)
            return tool.parents(tip) == parents and self._content(tool, tip) == content

    @contextlib.contextmanager
    def _git(self) -> Iterator[git.Git]:
        """Yield git with fresh credentials; discard the clone after an error that makes it doubtful."""
        try:
            path = self._clone.path
            with self._keys.repository(self._target.url) as access:
                yield git.Git(path, self._target.url, access, self._limits)
        except errors.Failure as failure:
            if not isinstance(failure, _SOUND_AFTER):
                self._clone.discard()
            raise

    def _again(self, attempt: Callable[[], T]) -> T:
        broken = 0
        for number in itertools.count(1):
            try:
                return attempt()
            except git_errors.LostRace:
                self.races += 1
                broken = 0
                if number == self._timing.tries:
                    raise
            except git_errors.Broken:
                broken += 1
                if broken > _BROKEN:
                    raise
            longest_s = min(self._timing.longest_pause_s, self._timing.pause_s * 2 ** (number - 1))
            if self._stop.wait(self._chance.uniform(0, longest_s)):
                break
        raise process.Cancelled("The work on the repository was stopped, because the program is ending.")
