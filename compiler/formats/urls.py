"""URLs of repositories and proxies: their patterns, and their ports."""

import re

BLANK = r"\x00-\x20\x7f"
_PORT = "6553[0-5]|655[0-2][0-9]|65[0-4][0-9]{2}|6[0-4][0-9]{3}|[1-5][0-9]{4}|[1-9][0-9]{0,3}"
_HOST = rf"([^-@/:{BLANK}][^@/:{BLANK}]*|\[[0-9A-Fa-f:.]+\])(:({_PORT}))?"
_REST = rf"(/[^{BLANK}]*)?"
HTTP = rf"https?://{_HOST}{_REST}"
"""A pattern of URLs without a user: git, dnf and Argo CD take what stands before an @ as a name and a password."""
FILE = rf"file:///[^{BLANK}]+"
GIT = rf"ssh://([^-@:/{BLANK}][^@:/{BLANK}]*@)?{_HOST}{_REST}|[a-z0-9_][a-z0-9._-]*@[^-{BLANK}][^{BLANK}]*"

_ANY_URL = rf"(?i)([a-z0-9.+-]+://)?([^@/]*@)?(\[[^]/]*\]|[^][@:/]+)(:(?P<port>{_PORT}))?(/.*)?"


def port(url: str, default: int) -> int | None:
    """Return the port of a URL, with or without a scheme; None for what is no URL, or has a port that cannot be."""
    match = re.fullmatch(_ANY_URL, url)
    return match and int(match["port"] or default)
