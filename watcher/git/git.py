"""The git command line behind named verbs, on one bare repository that is a shallow, partial clone of another one.

There is no index and no work tree. The caller's git variables and the machine's configuration are ignored. All settings
are passed in git's own environment, because every process of a machine can read arguments. git has nearly no exit
codes of its own: its words are read to tell a lost race, a refused push, and what is too large or not sent, and quoted
in all other cases.
"""

import errno
import functools
import os
import re
import shutil
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from runtime import errors, process

MOST = 64 << 20
"""The largest file that is read, in bytes; an inventory of 10,000 nodes has some 2 MiB."""

MOST_FETCHED = 256 << 20
"""The most bytes that a fetch may bring: several lie in the scratch folder at a time."""

_MESSAGES = 16 << 20
"""The most bytes of commits whose messages are read; a message that names 1,000 lost nodes has some 60 KiB."""

_DEPTHS = (1_000, 20_000)
"""So many commits are fetched to find those of the last day, and so many where these are not enough."""

_OLDEST = 10
"""So many of the oldest commits are asked for their dates, of which single ones may be wrong."""

_REMOTE, _FETCHED = "origin", "refs/fetched/tip"
_NETWORK_S, _LOCAL_S = 120, 60
_SHA1_DIGITS = 40
_LONGEST = 400
"""The most characters of another program's words in a sentence."""

_KEPT = (
    "PATH",
    *(name for word in ("http_proxy", "https_proxy", "no_proxy", "all_proxy") for name in (word, word.upper())),
)
"""The variables of this process that git inherits."""

_SETTINGS = {
    "core.hooksPath": "/dev/null",
    "core.askPass": "",
    "credential.helper": "",
    # A larger file is streamed, also while it is fetched, and not held in memory (git-config(1)).
    "core.bigFileThreshold": "16m",
    # Maintenance would outlive its command, in a session of its own.
    "gc.auto": "0",
    # A pack is one file, whose size can be limited.
    "fetch.unpackLimit": "1",
    "maintenance.auto": "false",
    # A redirect would carry the header of the credentials to another host; nor are a dumb server's alternates followed
    # then (http_follow_config in git's http.c).
    "http.followRedirects": "false",
    "protocol.version": "2",
    "submodule.recurse": "false",
}

_ENVIRONMENT = {
    "LC_ALL": "C",
    "TZ": "UTC",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_LITERAL_PATHSPECS": "1",
    "GIT_SSH_VARIANT": "ssh",
}

_BOUND = {"GIT_ALLOC_LIMIT": str(MOST)}
"""No commit or tree of others takes more memory: git fails instead (memory_limit_check in git's wrapper.c)."""

_REJECTED = re.compile(r"^!\t[^\t]*\t\[(remote )?rejected\] \((.*)\)$", re.MULTILINE)
_RACES = re.compile(r"cannot lock ref|incorrect old value|reference already exists|failed to (update|lock)")
# No race: a branch whose name is a folder in the name of another one blocks it for good.
_NO_RACE = re.compile(r"cannot create|No such file|Permission denied|[Rr]ead-only")
_UNADVERTISED = "unadvertised object"
_TOO_LARGE = os.strerror(errno.EFBIG)
_PREFIXES = re.compile(r"^\s*((fatal|error|ERROR|remote):\s*)*(unable to access '[^']*': )?")


class Failed(errors.Failure):
    """Git failed; the sentence quotes it."""


class Unreadable(Failed):
    """What the repository has is larger than what is read, or no plain file."""


class LostRace(Failed):
    """Somebody else changed the branch meanwhile: begin again from the look."""


class Refused(Failed):
    """The server refuses this push, by a hook or a protected branch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """The settings of git for one piece of work: the repository's credentials and the signing key."""

    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    settings: Mapping[str, str] = field(default_factory=dict, repr=False)
    """git's configuration; it travels in the environment too. With user.signingKey commits are signed."""
    hidden: tuple[str, ...] = field(default=(), repr=False)
    """Secrets, which messages mask."""


class Git:
    """Git commands on the clone of a repository. They raise `Failed`, and what `process.run` raises."""

    def __init__(self, clone: Path, url: str, author: str, access: Access, stop: threading.Event) -> None:
        """Run nothing yet; `author` is as in `name <address>`, and `stop` ends every command early."""
        self._clone, self._url, self._author, self._access, self._stop = clone, url, author, access, stop
        self.branch: str | None = None
        """What a new commit begins from; None in a repository without it and without a default branch."""
        self.tip: str | None = None
        self._filter = "--filter=blob:none"

    def look(self, branch: str) -> None:
        """Find the tip of this branch of the repository; where it does not exist, of the default branch."""
        ref, tips, default = f"refs/heads/{branch}", {}, None
        for line in self._text("ls-remote", "--symref", _REMOTE, "HEAD", ref, network=True).splitlines():
            left, _, name = line.partition("\t")
            if left.startswith("ref: "):
                default = left.removeprefix("ref: refs/heads/")
            else:
                tips[name] = left  # A pattern also matches the end of a longer name.
        self.branch = branch if ref in tips else default if "HEAD" in tips else None
        self.tip = tips.get(ref, tips.get("HEAD")) if self.branch else None

    def clone(self) -> str | None:
        """Clone the tip without its files, once; return it, which is a later one where the branch has moved."""
        if not self._clone.exists():
            form = "sha256" if len(self.tip or "") > _SHA1_DIGITS else "sha1"
            self._run("init", "--quiet", "--bare", "--template=", f"--object-format={form}", str(self._clone))
            if self.branch is not None:
                self._fetch("--depth=1")
        return self.tip

    def messages(self, since_s: float, path: str) -> list[str]:
        """Return the messages of the commits since then that change this path, the newest first.

        They are fetched by a number, which all servers know, and judged by their own dates. One with a wrong date
        hides no other. More than 16 MiB, or behind more than 20,000 commits, they are `Unreadable`.
        """
        if self.clone() is None:
            return []
        for depth in _DEPTHS:
            self._fetch(f"--depth={depth}")
            dates = [int(line) for line in self._text("log", "--topo-order", "--format=%ct", _FETCHED).splitlines()]
            if len(dates) < depth or max(dates[-_OLDEST:]) < since_s:
                break
        else:
            raise Unreadable(f"The branch has more than {depth} commits of the last day, and no more are read.")
        dated = self._text("log", "--topo-order", "--format=%ct %H", _FETCHED, "--", path).splitlines()
        commits = "\n".join(line.partition(" ")[2] for line in dated if int(line.partition(" ")[0]) >= since_s).encode()
        size = sum(map(int, self._text("cat-file", "--batch-check=%(objectsize)", stdin=commits).split()))
        if size > _MESSAGES:
            raise Unreadable(
                f"The commits of the last day that change '{path}' have {size >> 20} MiB of messages, and "
                f"{_MESSAGES >> 20} MiB are read."
            )
        words = ("log", "--no-walk=unsorted", "--stdin", "--format=%B%x00")
        return self._text(*words, stdin=commits).split("\0") if commits else []

    def file(self, commit: str, path: str, most: int) -> bytes | None:
        """Return the bytes of a plain file, None if there is none; `Unreadable` if it is larger, or no such file."""
        folders = [str(folder) for folder in PurePosixPath(path).parents][:-1]
        for entry in self._text("ls-tree", "-t", "--full-tree", commit, path, *folders).splitlines():
            facts, _, name = entry.partition("\t")
            mode, _, identity = facts.split()
            if name in folders and mode != "040000":
                raise Unreadable(f"'{name}' in the repository is no folder (mode {mode}).")
            if name == path and mode not in ("100644", "100755"):
                raise Unreadable(f"'{name}' in the repository is no plain file (mode {mode}).")
            if name == path:
                size = self._size(identity)
                if size > most:
                    raise Unreadable(f"'{path}' in the repository has {size:,} bytes; {most:,} are read at most.")
                return self._run("cat-file", "blob", identity)
        return None

    def _size(self, identity: str) -> int:
        try:
            return int(self._text("cat-file", "-s", identity, network=True))
        except Failed as failure:
            if _UNADVERTISED not in str(failure):
                raise
        # By protocol v0, where a server drops GIT_PROTOCOL, single objects cannot be asked for: fetch all of the tip.
        shutil.rmtree(self._clone)
        self._filter = "--no-filter"
        self.clone()
        return int(self._text("cat-file", "-s", identity))

    def commit(self, parent: str | None, files: Mapping[str, bytes | None], message: str) -> str:
        """Write a commit with these files on top of another one; None deletes a file. Everything else is kept."""
        # A commit of fast-import is never signed, so only its tree is used (git-fast-import(1)).
        head = "commit refs/new/tree\ncommitter <> now\ndata 0\n" + (f"from {parent}\n" if parent else "")
        stdin = head.encode()
        for path, content in files.items():
            if content is None:
                stdin += f"D {path}\n".encode()
            else:
                stdin += f"M 100644 inline {path}\ndata {len(content)}\n".encode() + content + b"\n"
        self._run("fast-import", "--quiet", "--force", "--date-format=now", stdin=stdin)
        signed = ["-S"] if "user.signingKey" in self._access.settings else []
        words = [*signed, *(["-p", parent] if parent else []), "-F", "-"]
        # git refuses a message with this byte.
        text = f"{message.replace(chr(0), ' ').rstrip()}\n".encode(errors="replace")
        return self._text("commit-tree", "refs/new/tree^{tree}", *words, stdin=text)

    def push(self, branch: str, old: str | None, new: str, options: Iterable[str] = ()) -> None:
        """Make a commit the tip of a branch if its tip is still `old`; None: if it does not exist.

        git compares the server's tip with `old`, and the server compares it again. Without that, even a push without
        force succeeds on a branch that was reset to an ancestor, and restores the removed commits.
        """
        ref = f"refs/heads/{branch}"
        given = (f"--push-option={option}" for option in options)
        # A thin pack would be made with the old file, which is then fetched.
        words = ("--porcelain", "--no-thin", *given, f"--force-with-lease={ref}:{old or ''}", _REMOTE, f"{new}:{ref}")
        self._run("push", *words, network=True)

    def _fetch(self, depth: str) -> None:
        words = ("--quiet", depth, self._filter, "--no-tags", "--no-write-fetch-head", "--force")
        self._run("fetch", *words, _REMOTE, f"+refs/heads/{self.branch}:{_FETCHED}", network=True)
        self.tip = self._text("rev-parse", "--verify", _FETCHED)

    def _text(self, verb: str, *words: str, stdin: bytes = b"", network: bool = False) -> str:
        return self._run(verb, *words, stdin=stdin, network=network).decode(errors="replace").strip()

    def _run(self, verb: str, *words: str, stdin: bytes = b"", network: bool = False) -> bytes:
        if self._stop.is_set():
            raise process.Cancelled(f"'git {verb}' was not started, because the program is ending.")
        command = process.Command(
            arguments=("git", verb, *words),
            environment=self._environment(verb, network=network),
            shown=f"git {verb}",
            stdin=stdin,
            most_file=MOST_FETCHED if network else None,
            umask=0o022,  # Others may read a repository at file://; private files lie in private folders.
        )
        ended = process.run(command, process.Limits(timeout_s=_NETWORK_S if network else _LOCAL_S, stop=self._stop))
        if ended.code:
            raise self._failure(verb, ended)
        return ended.output

    def _environment(self, verb: str, *, network: bool) -> dict[str, str]:
        inherited = {name: os.environ[name] for name in _KEPT if name in os.environ}
        scheme, separator, _ = self._url.partition("://")
        name, _, email = self._author.rstrip(">").rpartition(" <")
        settings = _SETTINGS | {f"remote.{_REMOTE}.url": self._url, "user.name": name, "user.email": email}
        settings |= self._access.settings
        return {
            "PATH": process.PATH,
            **inherited,
            **_ENVIRONMENT,
            "HOME": str(self._clone.parent),
            # No protocol is called none: git would fetch a missing object in the middle of a local verb.
            "GIT_ALLOW_PROTOCOL": (scheme if separator else "ssh") if network else "none",
            **({} if verb in ("init", "ls-remote") else {"GIT_DIR": str(self._clone)}),
            # At file:// the server would inherit it, which reads whole files.
            **({} if network and scheme == "file" else _BOUND),
            **self._access.environment,
            "GIT_CONFIG_COUNT": str(len(settings)),
            **{f"GIT_CONFIG_KEY_{number}": key for number, key in enumerate(settings)},
            **{f"GIT_CONFIG_VALUE_{number}": value for number, value in enumerate(settings.values())},
        }

    def _failure(self, verb: str, ended: process.Ended) -> Failed:
        hidden = sorted(filter(None, self._access.hidden), key=len, reverse=True)
        output, said = (
            functools.reduce(lambda masked, word: masked.replace(word, "***"), hidden, text.decode(errors="replace"))
            for text in (ended.output, ended.stderr)
        )
        words = cleaned(said.splitlines()) or f"it ended with code {ended.code} and said nothing"
        url = shown_url(self._url)
        if _TOO_LARGE in said:
            most = f"{MOST_FETCHED >> 20} MiB"
            return Unreadable(
                f"What the server of '{url}' sends is larger than {most}: the branch has large files, and the server "
                "ignores --filter=blob:none."
            )
        if verb == "push" and (rejected := _REJECTED.search(output)):
            reason = rejected[2]
            if not rejected[1] or (_RACES.search(reason) and not _NO_RACE.search(said)):
                return LostRace(f"The repository '{url}' was changed by somebody else at the same moment: {reason}.")
            return Refused(f"The repository '{url}' refuses the push ({reason}): {words}.")
        return Failed(f"'git {verb}' failed on '{url}': {words}.")


def shown_url(url: str) -> str:
    """Return a repository's URL for messages: without user and password."""
    scheme, separator, rest = url.partition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme}{separator}{host.rpartition('@')[2]}{slash}{path}" if separator else url


def cleaned(lines: Iterable[str]) -> str:
    """Return another program's lines as a part of a sentence: without prefixes, control characters and full stop."""
    parts: list[str] = []
    for line in lines:
        printable = "".join(character if character.isprintable() else " " for character in line[: 2 * _LONGEST])
        part = " ".join(_PREFIXES.sub("", printable).split()).rstrip(".:;")
        if part.strip("=-*. ") and part not in parts:
            parts.append(part)
        if sum(map(len, parts)) > _LONGEST:
            break
    text = "; ".join(parts)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} …"
