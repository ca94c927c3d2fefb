"""The git command line behind named verbs, on one bare repository that is a shallow, partial clone of another one.

Objects are read and written by id; there is no index and no work tree. Nothing of the caller's environment or of the
machine's configuration has a say. Everything that tells git what to do travels in its environment: arguments can be
read by every process of a machine. Verbs raise what `git_errors` lists.
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
"""Where the tip that was fetched last is kept."""

_NO_NETWORK = "none"
"""No protocol has this name: git would fetch a missing object in the middle of a local verb."""

_NETWORK = "file:git:http:https:ssh"

_LOCAL_S = 60
"""For a verb that needs no network, also on a slow disk."""

_SETTINGS = (
    ("core.hooksPath", "/dev/null"),
    ("core.askPass", ""),
    ("credential.helper", ""),
    # Such work would go on after its command, in a session of its own. Clones are thrown away instead.
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
"""Of an object's id; one of the other format has more."""

_ROLES = ("AUTHOR", "COMMITTER")


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """What git is given for one piece of work: credentials, or a key to sign with."""

    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    settings: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """git's configuration; it travels in the environment too."""
    hidden: tuple[str, ...] = field(default=(), repr=False)
    """What must not stand in a sentence, whoever says it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Author:
    """Who a commit is by."""

    name: str
    email: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Heads:
    """What a repository has of the branches that were asked for."""

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
    """A branch that is to change from one commit to another; None: it is not there."""

    branch: str
    old: str | None
    new: str | None


class Git:
    """Verbs on the clone of a repository with these credentials, each within these limits.

    A verb that talks to the repository has `limits.timeout_s`; the others have a minute at most.
    """

    def __init__(self, clone: Path, url: str, access: Access, limits: process.Limits) -> None:
        """Runs nothing yet; the clone need not be there before `create`."""
        self._clone = clone
        self._access = access
        self._limits = limits
        self._local = process.Limits(timeout_s=min(_LOCAL_S, limits.timeout_s), stop=limits.stop)
        self._url = url
        self._shown = shown_url(url)

    def create(self, object_format: str) -> None:
        """Makes the clone, without anything in it yet; object_format is sha1 or sha256."""
        self._run("init", "--quiet", "--bare", "--template=", f"--object-format={object_format}", str(self._clone))

    def heads(self, branches: Iterable[str]) -> Heads:
        """Which of these branches the repository has, and its default branch. It needs no clone."""
        refs = [f"refs/heads/{branch}" for branch in branches]
        found: dict[str, str] = {}
        default = None
        for line in self._text("ls-remote", "--symref", _REMOTE, "HEAD", *refs, network=True).splitlines():
            left, _, name = line.partition("\t")
            if name == "HEAD" and left.startswith("ref: "):
                default = left.removeprefix("ref: ").removeprefix("refs/heads/")
            else:
                # A pattern also fits the end of a longer name.
                found[name] = left
        tips = {ref.removeprefix("refs/heads/"): found[ref] for ref in refs if ref in found}
        tip = found.get("HEAD")
        return Heads(default=default if tip else None, default_tip=tip, tips=tips)

    def fetch(self, branch: str) -> str:
        """The commit at a branch's tip, which is in the clone from now on, with its trees but no blobs."""
        words = ("--quiet", "--depth=1", "--filter=blob:none", "--no-tags", "--no-write-fetch-head", "--force")
        self._run("fetch", *words, _REMOTE, f"+refs/heads/{branch}:{_FETCHED}", network=True)
        return self._text("rev-parse", "--verify", _FETCHED)

    def parents(self, commit: str) -> tuple[str, ...]:
        """A commit's parents, whether they are in the clone or not."""
        header, _, _ = self._text("cat-file", "commit", commit).partition("\n\n")
        return tuple(line.removeprefix("parent ") for line in header.splitlines() if line.startswith("parent "))

    def find(self, commit: str, path: str) -> Entry | None:
        """What stands at a path in a commit."""
        return next(iter(self._listed(commit, path)), None)

    def entries(self, tree: str) -> tuple[Entry, ...]:
        """What stands in a tree, or in the root of a commit's."""
        return self._listed(tree)

    def blob(self, entry: Entry) -> bytes:
        """A file's bytes, fetched if they are not in the clone yet."""
        return self._run("cat-file", "blob", entry.object, network=True)

    def write_blob(self, content: bytes) -> str:
        """Puts a file's bytes into the clone."""
        return self._run("hash-object", "-w", "--stdin", stdin=content).decode().strip()

    def write_tree(self, entries: Iterable[Entry]) -> str:
        """Puts a tree into the clone, whose entries need not be there."""
        lines = (f"{entry.mode} {entry.type} {entry.object}\t{entry.name}\0" for entry in entries)
        stdin = "".join(lines).encode(errors="surrogateescape")
        return self._run("mktree", "--missing", "-z", stdin=stdin).decode().strip()

    def write_commit(self, tree: str, parent: str | None, message: str, author: Author, key: Access | None) -> str:
        """Puts a commit into the clone, signed if there is a key, of this moment."""
        given = key or Access()
        whom = {f"GIT_{role}_NAME": author.name for role in _ROLES} | {
            f"GIT_{role}_EMAIL": author.email for role in _ROLES
        }
        more = Access(environment={**whom, **given.environment}, settings=given.settings, hidden=given.hidden)
        words = [*(["-S"] if key else []), tree, *(["-p", parent] if parent else []), "-F", "-"]
        # git takes no message with this byte in it.
        stdin = f"{message.replace(chr(0), ' ').rstrip()}\n".encode(errors="replace")
        return self._run("commit-tree", *words, stdin=stdin, more=more).decode().strip()

    def push(self, push: Push) -> None:
        """Changes a branch if it is still what it was.

        git compares what the server has with `old`, and the server what it has with what it told. Without that, a push
        that is no force still succeeds on a branch that went back to an ancestor, and brings back what was taken away.
        """
        ref = f"refs/heads/{push.branch}"
        words = ("--porcelain", f"--force-with-lease={ref}:{push.old or ''}", _REMOTE, f"{push.new or ''}:{ref}")
        self._run("push", *words, network=True)

    def _listed(self, tree: str, *path: str) -> tuple[Entry, ...]:
        found = self._run("ls-tree", "-z", "--full-tree", tree, *path).decode(errors="surrogateescape")
        return tuple(_entry(line) for line in found.split("\0") if line)

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
        if verb == "push" and (found := _REJECTED.search(ended.output.decode(errors="replace"))):
            raise git_errors.rejection(self._shown, self._masked(found[1], more), said)
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
    """A repository's URL for people: without a user, or a password."""
    scheme, separator, rest = url.partition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme}{separator}{host.rpartition('@')[2]}{slash}{path}" if separator else url


def _entry(line: str) -> Entry:
    facts, _, name = line.partition("\t")
    mode, kind, identity = facts.split()
    return Entry(mode=mode, type=kind, object=identity, name=name)
