"""The git command line behind named verbs, on one bare repository that is a shallow, partial clone of another one.

Objects are read and written by id; there is no index and no work tree. The caller's git variables and
the machine's configuration are ignored. All settings are passed in git's own environment, because every process of a
machine can read arguments. Commands raise the errors of `git_errors`.
"""

import functools
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from runtime import process
from watcher.git import commands, git_errors

_REMOTE = "origin"

_FETCHED = "refs/fetched/tip"
"""The ref of the tip that was fetched last."""

_NO_NETWORK = "none"
"""No protocol has this name: git would fetch a missing object in the middle of a local verb."""

_NETWORK = "file:git:http:https:ssh"

_LOCAL_S = 60
"""For a verb that needs no network, also on a slow disk."""

_SETTINGS = (
    ("core.hooksPath", "/dev/null"),
    ("core.askPass", ""),
    ("credential.helper", ""),
    # Maintenance would outlive its command, in a session of its own. Clones are discarded instead.
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
    ("protocol.version", "2"),
    ("submodule.recurse", "false"),
)

_ENVIRONMENT = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_LITERAL_PATHSPECS": "1",
    "GIT_SSH_VARIANT": "ssh",
}

_REJECTED = re.compile(r"^!\t[^\t]*\t\[[a-z ]+\] \((.*)\)$", re.MULTILINE)

TREE, FILE, LINK = "040000", "100644", "120000"
"""Modes of entries."""

SHA1_DIGITS = 40
"""Digits of an object's SHA-1 id; a SHA-256 id has more."""

_ROLES = ("AUTHOR", "COMMITTER")


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """The settings of git for one piece of work: credentials, or a signing key."""

    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    settings: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """git's configuration; it travels in the environment too."""
    hidden: tuple[str, ...] = field(default=(), repr=False)
    """Secrets, which messages mask."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Author:
    """The author of a commit."""

    name: str
    email: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Heads:
    """The requested branches that a repository has."""

    default: str | None
    """The default branch's name; None where it does not exist, as in an empty repository."""
    default_tip: str | None
    tips: Mapping[str, str]
    """The commit of each branch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One name in a tree."""

    mode: str
    type: str
    object: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Push:
    """The change of a branch from one commit to another; None: the branch does not exist."""

    branch: str
    old: str | None
    new: str | None


class Git:
    """Git commands on the clone of a repository, each within these limits.

    A command that talks to the repository has `limits.timeout_s`; the others have a minute at most.
    """

    def __init__(self, clone: Path, url: str, access: Access, limits: process.Limits) -> None:
        """Run nothing yet; the clone need not exist before `create`."""
        self._clone = clone
        self._access = access
        self._limits = limits
        self._local = process.Limits(timeout_s=min(_LOCAL_S, limits.timeout_s), stop=limits.stop)
        self._url = url
        self._shown = shown_url(url)

    def create(self, object_format: str) -> None:
        """Create an empty clone; object_format is sha1 or sha256."""
        self._run("init", "--quiet", "--bare", "--template=", f"--object-format={object_format}", str(self._clone))

    def heads(self, branches: Iterable[str]) -> Heads:
        """Return the tips of these branches in the repository, and its default branch. It needs no clone."""
        refs = [f"refs/heads/{branch}" for branch in branches]
        objects: dict[str, str] = {}
        default = None
        for line in self._text("ls-remote", "--symref", _REMOTE, "HEAD", *refs, network=True).splitlines():
            left, _, name = line.partition("\t")
            if name == "HEAD" and left.startswith("ref: "):
                default = left.removeprefix("ref: ").removeprefix("refs/heads/")
            else:
                # A pattern also matches the end of a longer name.
                objects[name] = left
        tips = {ref.removeprefix("refs/heads/"): objects[ref] for ref in refs if ref in objects}
        tip = objects.get("HEAD")
        return Heads(default=default if tip else None, default_tip=tip, tips=tips)

    def fetch(self, branch: str) -> str:
        """Fetch a branch's tip into the clone, with its trees but no blobs; return the commit."""
        words = ("--quiet", "--depth=1", "--filter=blob:none", "--no-tags", "--no-write-fetch-head", "--force")
        self._run("fetch", *words, _REMOTE, f"+refs/heads/{branch}:{_FETCHED}", network=True)
        return self._text("rev-parse", "--verify", _FETCHED)

    def parents(self, commit: str) -> tuple[str, ...]:
        """Return a commit's parents, which need not be in the clone."""
        header, _, _ = self._text("cat-file", "commit", commit).partition("\n\n")
        return tuple(line.removeprefix("parent ") for line in header.splitlines() if line.startswith("parent "))

    def find(self, commit: str, path: str) -> Entry | None:
        """Return the entry at a path of a commit; None when there is none."""
        return next(iter(self._listed(commit, path)), None)

    def entries(self, tree: str) -> tuple[Entry, ...]:
        """Return the entries of a tree, or of a commit's root."""
        return self._listed(tree)

    def blob(self, entry: Entry) -> bytes:
        """Return a file's bytes, fetched if the clone lacks them."""
        return self._run("cat-file", "blob", entry.object, network=True)

    def write_blob(self, content: bytes) -> str:
        """Write a file's bytes to the clone; return the blob."""
        return self._run("hash-object", "-w", "--stdin", stdin=content).decode().strip()

    def write_tree(self, entries: Iterable[Entry]) -> str:
        """Write a tree to the clone, which need not hold its entries; return the tree."""
        lines = (f"{entry.mode} {entry.type} {entry.object}\t{entry.name}\0" for entry in entries)
        stdin = "".join(lines).encode(errors="surrogateescape")
        return self._run("mktree", "--missing", "-z", stdin=stdin).decode().strip()

    def write_commit(self, tree: str, parent: str | None, message: str, author: Author, key: Access | None) -> str:
        """Write a commit to the clone, dated now, and signed if there is a key; return the commit."""
        given = key or Access()
        whom = {f"GIT_{role}_NAME": author.name for role in _ROLES} | {
            f"GIT_{role}_EMAIL": author.email for role in _ROLES
        }
        more = Access(environment={**whom, **given.environment}, settings=given.settings, hidden=given.hidden)
        words = [*(["-S"] if key else []), tree, *(["-p", parent] if parent else []), "-F", "-"]
        # git refuses a message with this byte.
        stdin = f"{message.replace(chr(0), ' ').rstrip()}\n".encode(errors="replace")
        return self._run("commit-tree", *words, stdin=stdin, more=more).decode().strip()

    def push(self, push: Push) -> None:
        """Change a branch if its tip is still `old`.

        git compares the server's tip with `old`, and the server compares it again. Without that, even a push without
        force succeeds on a branch that was reset to an ancestor, and restores the removed commits.
        """
        ref = f"refs/heads/{push.branch}"
        words = ("--porcelain", f"--force-with-lease={ref}:{push.old or ''}", _REMOTE, f"{push.new or ''}:{ref}")
        self._run("push", *words, network=True)

    def _listed(self, tree: str, *path: str) -> tuple[Entry, ...]:
        lines = self._run("ls-tree", "-z", "--full-tree", tree, *path).decode(errors="surrogateescape")
        return tuple(_entry(line) for line in lines.split("\0") if line)

    def _text(self, verb: str, *words: str, network: bool = False) -> str:
        return self._run(verb, *words, network=network).decode(errors="replace").strip()

    def _run(
        self,
        verb: str,
        *words: str,
        stdin: bytes = b"",
        network: bool = False,
        more: Access = Access(),
    ) -> bytes:
        environment = self._environment(more, network=network)
        if verb not in ("init", "ls-remote"):
            environment["GIT_DIR"] = str(self._clone)
        limits = self._limits if network else self._local
        ended = commands.run(("git", verb, *words), environment, limits, stdin, f"git {verb}")
        if ended.code == 0:
            return ended.output
        said = self._masked(ended.stderr.decode(errors="replace"), more)
        if verb == "push" and (rejected := _REJECTED.search(ended.output.decode(errors="replace"))):
            raise git_errors.rejection(self._shown, self._masked(rejected[1], more), said)
        if ended.code < 0:
            said += f"\nit was ended by signal {-ended.code}"
        if network:
            raise git_errors.judged(self._shown, said)
        raise git_errors.judged_local(self._shown, said, git_errors.Unusable if more.settings else git_errors.Broken)

    def _environment(self, more: Access, *, network: bool) -> dict[str, str]:
        settings = [*_SETTINGS, (f"remote.{_REMOTE}.url", self._url), *self._access.settings, *more.settings]
        return {
            **_ENVIRONMENT,
            "HOME": str(self._clone.parent),
            "GIT_ALLOW_PROTOCOL": _NETWORK if network else _NO_NETWORK,
            **self._access.environment,
            **more.environment,
            "GIT_CONFIG_COUNT": str(len(settings)),
            **{f"GIT_CONFIG_KEY_{number}": key for number, (key, _) in enumerate(settings)},
            **{f"GIT_CONFIG_VALUE_{number}": value for number, (_, value) in enumerate(settings)},
        }

    def _masked(self, text: str, more: Access) -> str:
        hidden = sorted((*self._access.hidden, *more.hidden), key=len, reverse=True)
        return functools.reduce(lambda masked, word: masked.replace(word, "***"), filter(None, hidden), text)


def shown_url(url: str) -> str:
    """Return a repository's URL for messages: without user and password."""
    scheme, separator, rest = url.partition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme}{separator}{host.rpartition('@')[2]}{slash}{path}" if separator else url


def _entry(line: str) -> Entry:
    facts, _, name = line.partition("\t")
    mode, kind, identity = facts.split()
    return Entry(mode=mode, type=kind, object=identity, name=name)
