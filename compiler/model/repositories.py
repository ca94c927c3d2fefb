"""Fields that name a repository: its URL, which holds no credentials, and paths and branches in git."""

from typing import Annotated, Any

from pydantic import Field

from compiler import keywords
from compiler.formats import urls
from compiler.model import base


def url(patterns: str, words: str, credentials: str) -> Any:
    """Return the field of a URL: its patterns, its meaning in words, and the place of credentials in a sentence."""
    more = base.form(words) | {keywords.CREDENTIALS: credentials}
    return Field(pattern=f"^({patterns})$", max_length=500, json_schema_extra=more)


def git_url(credentials: str) -> Any:
    """Return the field of the URL of a git repository."""
    words = "the URL of a git repository, such as https://git.example.com/fleet.git"
    return url(f"{urls.HTTP}|{urls.FILE}|{urls.GIT}", words, credentials)


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


_REFERENCE = rf"[^{urls.BLANK}~^:?*\[\\/.{{"
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
