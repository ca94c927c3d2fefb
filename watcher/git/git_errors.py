"""The errors of a repository, told apart by the words of git.

git has nearly no exit codes of its own, so its messages are read: those of git since 2.39, curl, OpenSSH, and the large
git hosts. An unknown message is a plain `Failed`, after which the clone counts as damaged: that costs one fetch.
"""

import errno
import re
from collections.abc import Iterable
from pathlib import Path

from runtime import errors

_LONGEST = 400
"""The most characters of another program's words in a sentence."""


class Failed(errors.Failure):
    """An error of git without a class of its own."""


class Unreachable(Failed):
    """The network, DNS, TLS or the server prevents access to the repository."""


class Denied(Failed):
    """The server refuses the credentials, or they may not write."""


class NotFound(Failed):
    """The server has no such repository, or hides it from these credentials."""


class LostRace(Failed):
    """Somebody else changed the branch meanwhile: begin again from the fetch."""


class Refused(Failed):
    """The server refuses this push, by a hook or a protected branch."""


class Obstructed(Failed):
    """The path of the inventory in the repository is no plain file."""


class Unusable(Failed):
    """A Secret lacks a key, or holds a wrong one."""


class DiskFull(Failed):
    """The disk of the scratch folder is full."""


class Broken(Failed):
    """The clone in the scratch folder is damaged and must be recreated."""


_OURS: tuple[tuple[type[Failed], str], ...] = (
    (DiskFull, r"No space left on device|Disk quota exceeded"),
    # The commit or branch vanished between the server's list and the fetch.
    (LostRace, r"not our ref|couldn't find remote ref|remote ref does not exist"),
    (NotFound, r"does not appear to be a git repository|repository '.*' not found|not exported"),
    (NotFound, r"(Repository|Project) not found|returned error: (404|410)|no such repository"),
    (Denied, r"Authentication failed|Permission denied|returned error: 40[137]"),
    # A server that asks for a client certificate says so in TLS's own words.
    (Denied, r"certificate (is )?required|alert (bad certificate|handshake failure|unknown ca)"),
    (Denied, r"service not enabled|marked as read only|Access denied|Permission to .* denied|not allowed to"),
    (Broken, r"not a git repository|(is|file) corrupt|corrupt (loose|object)|[Bb]ad (object|tree|config)|File exists"),
    (Broken, r"[Ll]oose object|object file .* is empty|inflate:|shallow file|unable to read (tree|[0-9a-f]{40})"),
    (Broken, r"[Mm]issing (blob|tree|commit)|[Nn]ot a valid object|unknown repository ext|[Pp]ackfile .* cannot be"),
    (Unreachable, r"Could not resolve|[Nn]ame or service not known|[Nn]ame resolution|No route|Network is unreachable"),
    (Unreachable, r"unable to (access|connect|look up)|[Cc]onnection (refused|reset|closed|timed out)|SSL|TLS|kex_"),
    (Unreachable, r"certificate|Host key verification failed|No .* host key is known|hung up|unexpected disconnect"),
    (Unreachable, r"Empty reply|RPC failed|transfer closed|timed out|returned error: \d|expected flush|early EOF"),
    (Unreachable, r"[Ii]nvalid server response|protocol error|Could not read from remote|could not fetch|remote end"),
    (Unreachable, r"bad line length"),
)
"""The first match in the words of git itself, or of ssh, holds."""

_THEIRS: tuple[tuple[type[Failed], str], ...] = (
    (NotFound, r"not found|could not be found|does not exist"),
    (Denied, r"[Dd]enied|not allowed|[Rr]ead.only|not granted|[Aa]uthenticat|[Uu]nauthorized|[Cc]redential|token"),
)
"""The first match in the words of the server holds, when git itself only says that the server refused."""

_PREFIXES = re.compile(r"^\s*((fatal|error|ERROR|remote):\s*)*(unable to access '[^']*': )?")

# Names of repositories and files, which may be any words.
_QUOTED = re.compile(r"'[^']*'")

# git's words when the server asks for credentials (401) although the request had some.
_UNKNOWN_USER = re.compile(r"could not read (Username|Password) for")

_RACES = re.compile(
    r"fetch first|non-fast-forward|stale info|remote ref updated|cannot lock ref|incorrect old value"
    r"|reference already exists|failed to (update|lock)|unable to (lock|resolve)|missing necessary objects"
)
# No race: a branch whose name is a folder in the name of another one blocks it for good.
_NO_RACE = re.compile(r"cannot create")
_READ_ONLY = re.compile(r"insufficient permission|unable to create temporary|[Rr]ead-only file system")

_SENTENCES: dict[type[Failed], str] = {
    Unreachable: "The repository '{url}' cannot be reached: {words}.",
    Denied: "The repository '{url}' denies what we ask: {words}.",
    NotFound: "The repository '{url}' is not there, or not for these credentials: {words}.",
    LostRace: "The repository '{url}' was changed by somebody else at the same moment: {words}.",
    Refused: "The repository '{url}' refuses the push: {words}.",
    Unusable: "The commit cannot be signed: {words}.",
    DiskFull: "The disk of the scratch folder is full: {words}.",
    Broken: "The clone in the scratch folder is damaged: {words}.",
    Failed: "git failed on '{url}': {words}.",
}


def judged(url: str, said: str) -> Failed:
    """Return the error for the words of a git command that talked to the repository and failed."""
    lines = [line for line in said.splitlines() if line.strip()]
    theirs = [line.removeprefix("remote:") for line in lines if line.startswith("remote:")]
    ours = [line for line in lines if not line.startswith("remote:")]
    if any(_UNKNOWN_USER.search(line) for line in ours):
        ours = ["the Secret's user, password or token is refused (Authentication failed), or it has none"]
    kind, line = _match(_OURS, ours) or (Failed, (ours or theirs or ["it said nothing"])[-1])
    if kind in (Failed, Unreachable):
        # A closed connection has many causes; the server's words before it name the cause.
        kind, line = _match(_THEIRS, theirs) or (kind, line)
    return worded(kind, url, [line, *(theirs if kind in (Denied, NotFound) else ())])


def judged_local(url: str, said: str, unknown: type[Failed]) -> Failed:
    """Return the error for the words of a failed local git command: DiskFull, or else one of class `unknown`."""
    lines = [line for line in said.splitlines() if line.strip()]
    found = _match([row for row in _OURS if row[0] is DiskFull], lines)
    return worded(found[0], url, [found[1]]) if found else worded(unknown, url, lines or ["it said nothing"])


def rejection(url: str, reason: str, said: str) -> Failed:
    """Return why one ref was not pushed: the reason from git's table, and the words around it."""
    theirs = [line.removeprefix("remote:") for line in said.splitlines() if line.startswith("remote:")]
    unpacking = [line for line in said.splitlines() if "unpack failed" in line]
    everything = "\n".join((reason, *unpacking))
    if _RACES.search(everything) and not any(map(_NO_RACE.search, theirs)):
        return worded(LostRace, url, [reason])
    if "remote failed to report" in reason:
        return worded(Unreachable, url, [reason])
    if _READ_ONLY.search("\n".join((everything, *theirs))):
        return worded(Denied, url, [reason, *unpacking, *theirs])
    return worded(Refused, url, [reason, *unpacking, *theirs])


def worded(kind: type[Failed], url: str, words: Iterable[str]) -> Failed:
    """Return an error of this class, in a sentence."""
    return kind(_SENTENCES[kind].format(url=url, words=cleaned(words)))


def of_disk(path: Path, error: OSError) -> Failed:
    """Return the error for a failed write to the scratch folder."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return DiskFull(f"The disk of the scratch folder '{path}' is full.")
    return Failed(f"The scratch folder '{path}' cannot be written: {error.strerror}.")


def cleaned(lines: Iterable[str]) -> str:
    """Return another program's lines as a part of a sentence: without prefixes, control characters and full stop."""
    parts = []
    for line in lines:
        printable = "".join(character if character.isprintable() else " " for character in line)
        part = " ".join(_PREFIXES.sub("", printable).split())
        if part.strip("=-*. ") and part not in parts:
            parts.append(part)
    text = "; ".join(part.rstrip(".:;") for part in parts)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} …"


def _match(table: Iterable[tuple[type[Failed], str]], lines: Iterable[str]) -> tuple[type[Failed], str] | None:
    matches = ((kind, line) for kind, pattern in table for line in lines if re.search(pattern, _QUOTED.sub("''", line)))
    return next(matches, None)
