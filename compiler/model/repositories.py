"""Fields that name a repository: its URL, which holds no credentials, its port, and paths and branches in git."""

import re
from typing import Annotated, Any

from pydantic import Field

from compiler.model import base

CREDENTIALS = "x-kae-credentials"
"""The schema keyword of a URL with the way that credentials take instead."""

_BLANK = r"\x00-\x20\x7f"
_PORT = "6553[0-5]|655[0-2][0-9]|65[0-4][0-9]{2}|6[0-4][0-9]{3}|[1-5][0-9]{4}|[1-9][0-9]{0,3}"
_HOST = rf"([^-@/:{_BLANK}][^@/:{_BLANK}]*|\[[0-9A-Fa-f:.]+\])(:({_PORT}))?"
_REST = rf"(/[^{_BLANK}]*)?"
HTTP_URL = rf"https?://{_HOST}{_REST}"
"""A pattern of URLs without a user: git, dnf and Argo CD take what stands before an @ as a name and a password."""
FILE_URL = rf"file:///[^{_BLANK}]+"
_GIT_URL = rf"ssh://([^-@:/{_BLANK}][^@:/{_BLANK}]*@)?{_HOST}{_REST}|[a-z0-9_][a-z0-9._-]*@[^-{_BLANK}][^{_BLANK}]*"

_ANY_URL = re.compile(rf"([a-z0-9.+-]+://)?([^@/]*@)?(\[[^]/]*\]|[^][@:/]+)(:(?P<port>{_PORT}))?(/.*)?", re.IGNORECASE)


def port(url: str, default: int) -> int | None:
    """Return the port of a URL, with or without a scheme; None for what is no URL, or has a port that cannot be."""
    match = _ANY_URL.fullmatch(url)
    return match and int(match["port"] or default)


def url(patterns: str, words: str, credentials: str) -> Any:
    """Return the field of a URL: its patterns, its meaning in words, and the place of credentials in a sentence."""
    more = base.form(words) | {CREDENTIALS: credentials}
    return Field(pattern=f"^({patterns})$", max_length=500, json_schema_extra=more)


def git_url(credentials: str) -> Any:
    """Return the field of the URL of a git repository."""
    words = "the URL of a git repository, such as https://git.example.com/fleet.git"
    return url(f"{HTTP_URL}|{FILE_URL}|{_GIT_URL}", words, credentials)


_PATH_PART = r"\.{0,2}[A-Za-z0-9_][A-Za-z0-9._-]*"
GitPath = Annotated[
    str,
    Field(
        pattern=rf"^(\.|{_PATH_PART}(/{_PATH_PART})*)$",
        max_length=250,
        json_schema_extra=base.form(
            "the path of a folder in git (letters, digits, '.', '_', '-', and '/' between two names, but no '..')"
        ),
    ),
]


_REFERENCE = rf"[^{_BLANK}~^:?*\[\\/.{{"
"""The beginning of a class of characters: those of a reference's name but dot and slash."""
_DOTTED = rf"(\.{_REFERENCE}]+)*"
Branch = Annotated[
    str,
    Field(
        # The rules of https://git-scm.com/docs/git-check-ref-format, but for `.lock`: RE2 knows no lookahead.
        pattern=rf"^{_REFERENCE}@-]{_REFERENCE}]*{_DOTTED}(/{_REFERENCE}]+{_DOTTED})*$",
        max_length=250,
        json_schema_extra=base.form(
            "the name of a branch in git (see git check-ref-format), such as main or release/1.2"
        ),
    ),
]
