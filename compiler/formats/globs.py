"""Shell globs, as of glob(7): whether one name or one path can match two of them."""

import fnmatch
import functools
import posixpath
from collections.abc import Iterator, Mapping
from types import MappingProxyType

LINKS: Mapping[str, str] = MappingProxyType(
    {
        **{f"/{name}": f"/usr/{name}" for name in ("bin", "lib", "lib64", "sbin")},
        **{"/var/run": "/run", "/var/roothome": "/root", "/var/home": "/home"},
    }
)
"""Links of usual systems, the last two of ostree's, and where they lead."""

_CHARACTERS = frozenset(map(chr, range(ord("!"), ord("~") + 1))) - {"/"}
"""The characters of names on hosts."""

_Token = frozenset[str] | None
"""The characters that a place of a glob takes; None for `*`."""


def normal(path: str) -> str:
    """Return an absolute path, or a glob of them, without what leads back or nowhere: /opt/../sys/ is /sys."""
    # POSIX leaves two slashes at the beginning to the system; Linux takes them for one.
    return posixpath.normpath(f"/{path.lstrip('/')}")


def behind_links(glob: str) -> Iterator[tuple[str, str]]:
    """Yield the links of usual systems that a path or a glob may go through, each with the path behind it."""
    parts = glob.split("/")
    for link, target in LINKS.items():
        length = link.count("/") + 1
        if len(parts) >= length and share_branch("/".join(parts[:length]), link):
            yield link, "/".join((target, *parts[length:]))


def share_path(one: str, other: str) -> bool:
    """Return whether two globs can match one path."""
    return one.count("/") == other.count("/") and share_branch(one, other)


def share_branch(one: str, other: str) -> bool:
    """Return whether two globs can match one path, or one of them a folder around what the other matches."""
    return all(map(share_name, one.split("/"), other.split("/")))


@functools.lru_cache(maxsize=10_000)
def share_name(one: str, other: str) -> bool:
    """Return whether two globs of one part of a path can match one name."""
    left, right = _tokens(one), _tokens(other)

    @functools.cache
    def meet(at: int, to: int) -> bool:
        if at == len(left) or to == len(right):
            return all(token is None for token in (*left[at:], *right[to:]))
        mine, theirs = left[at], right[to]
        if mine is None or theirs is None:
            return meet(at + 1, to) or meet(at, to + 1)
        return not mine.isdisjoint(theirs) and meet(at + 1, to + 1)

    return meet(0, 0)


@functools.lru_cache(maxsize=10_000)
def _tokens(glob: str) -> tuple[_Token, ...]:
    """Return the tokens of a glob; a bracket that nothing closes is a character."""
    found: list[_Token] = []
    rest = glob
    while rest:
        # The end of a set is not its first character (glob(7)).
        end = rest.find("]", 3 if rest[1:2] == "!" else 2) + 1 if rest[0] == "[" else 1
        part, rest = rest[: end or 1], rest[end or 1 :]
        if part == "*":
            found.append(None)
        elif part == "?" or len(part) > 1:
            found.append(frozenset(char for char in _CHARACTERS if fnmatch.fnmatchcase(char, part)))
        else:
            found.append(frozenset(part))
    return tuple(found)
