"""Programs of another release than this compiler, as the tags or the digests of their images tell.

The API server knows no more of a program. The tag and the digest of a driver's image are the driver's.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from compiler import release
from compiler.planning import images

_PROGRAMS = release.DIGESTS.keys() - {"kae-driver-installer"}

_RELEASE = re.compile(r"v?([0-9]+\.[0-9]+\.[0-9]+)(?![0-9.])")


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Skew:
    """A workload whose program is of another release."""

    name: str
    image: str
    release: str
    """Empty where its image has a digest, and is another one than this release's."""


def of_images(
    running: Iterable[tuple[str, str]], compiler: str, digests: Mapping[str, str] = release.DIGESTS
) -> tuple[Skew, ...]:
    """Return the workloads, each a name and an image, that are not of the release of this version of the compiler."""
    own = _release(compiler)
    skews = set()
    for name, image in running:
        program = images.unqualified(images.name(image))
        if program not in _PROGRAMS:
            continue
        digest, release_there = image.partition("@")[2], _release(images.tag(image) or "")
        if (digest and digests[program] and digest != digests[program]) or (own and release_there not in ("", own)):
            skews.add(Skew(name=name, image=image, release=release_there))
    return tuple(sorted(skews))


def _release(version: str) -> str:
    """Return the release in a version or a tag; empty for one of a checkout without any release behind it."""
    match = _RELEASE.match(version)
    return match[1] if match else ""
