"""The wheel of kae that the CI jobs of a repository install: its place, and the SHA-256 by which pip judges it."""

import hashlib
import re
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import NamedTuple

from compiler import __version__, errors, wording

NAME = f"kae_compiler-{__version__}-py3-none-any.whl"
"""The requirements beside the wheel are those of this release, so it is the only one that fits."""

_SECONDS = 30


class Wheel(NamedTuple):
    """A wheel that jobs install."""

    requirement: str
    """The line of a requirements file."""
    name: str = ""
    """The path of the copy in the repository; empty where none is needed."""
    content: bytes = b""


def of(place: str, folder: Path) -> Wheel:
    """Return the wheel at a URL or a path, for a repository in `folder`. Raises WorldError."""
    if "://" in place:
        return _at_url(place)
    path = Path(place)
    _require_name(path.name, place)
    try:
        content = path.read_bytes()
    except OSError as error:
        raise errors.WorldError(
            f"'{wording.file_name(place)}' cannot be read: {error.strerror or error}.",
            hint="Build it with `make wheel`, or name the URL of a published one.",
        ) from error
    name = f"ci/{NAME}"
    if path.resolve().is_relative_to(folder.resolve()):
        return Wheel(_requirement(f"./{path.resolve().relative_to(folder.resolve()).as_posix()}", _digest(content)))
    return Wheel(_requirement(f"./{name}", _digest(content)), name, content)


def _at_url(place: str) -> Wheel:
    """Return the wheel at a URL, which is downloaded once unless the URL ends with its digest."""
    url, _, fragment = place.partition("#")
    parts = urllib.parse.urlsplit(url)
    if parts.scheme not in ("https", "http") or "@" in parts.netloc or re.search(r"\s", url):
        raise errors.WorldError(
            f"'{wording.escaped(place)}' is not the URL of a wheel.",
            hint="Write https://HOST/PATH without a password, as the URL is committed.",
        )
    _require_name(urllib.parse.unquote(parts.path.rpartition("/")[2]), place)
    if fragment and not re.fullmatch("sha256=[0-9a-f]{64}", fragment):
        raise errors.WorldError(
            f"'#{wording.escaped(fragment)}' is not a digest.", hint="Write #sha256= and 64 hexadecimal digits."
        )
    digest = fragment.removeprefix("sha256=") or _digest(_downloaded(url))
    return Wheel(_requirement(f"kae-compiler @ {url}", digest))


def _downloaded(url: str) -> bytes:
    try:
        with urllib.request.urlopen(url, timeout=_SECONDS) as answer:  # noqa: S310 - the scheme is judged before
            content: bytes = answer.read()
            return content
    except (urllib.error.URLError, OSError) as error:
        raise errors.WorldError(
            f"'{wording.escaped(url)}' cannot be downloaded: {getattr(error, 'reason', error)}.",
            hint=f"Name the URL with its digest, {wording.escaped(url)}#sha256=HEX, or the path of the wheel.",
        ) from error


def _require_name(name: str, place: str) -> None:
    if name != NAME:
        raise errors.WorldError(
            f"'{wording.escaped(place)}' is not the wheel of kae {__version__}.", hint=f"Its name is {NAME}."
        )


def _requirement(source: str, digest: str) -> str:
    return f"{source} --hash=sha256:{digest}\n"


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
