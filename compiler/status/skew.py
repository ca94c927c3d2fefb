"""Programs of another release than this compiler, as the tags of their images tell.

The API server knows no more of a program. A digest tells no version, and the tag of a driver's image is the driver's.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from compiler.planning import images

_PROGRAMS = frozenset({"kae-device-plugin", "kae-watcher"})
"""The images whose tag is a release of this project (`make images`)."""

_RELEASE = re.compile(r"v?([0-9]+\.[0-9]+\.[0-9]+)(?![0-9.])")


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Skew:
    """A workload whose program is of another release."""

    name: str
    image: str
    release: str


def found(running: Iterable[tuple[str, str]], compiler: str) -> tuple[Skew, ...]:
    """Return the workloads, each a name and an image, whose release is not that of this version of the compiler."""
    own = _release(compiler)
    skews = set()
    for name, image in running:
        release = _release(images.tag(image) or "")
        if own and release and release != own and images.unqualified(images.name(image)) in _PROGRAMS:
            skews.add(Skew(name=name, image=image, release=release))
    return tuple(sorted(skews))


def _release(version: str) -> str:
    """Return the release in a version or a tag; empty for one of a checkout without any release behind it."""
    match = _RELEASE.match(version)
    return match[1] if match else ""
