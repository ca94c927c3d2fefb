"""Image references: how they are composed, mirrored and judged."""

from collections.abc import Sequence

from compiler.model import base, cluster

DIGEST = "sha256:"


def reference(component: base.Component) -> str:
    """A component's image: repository/image:version, @ before a digest; `image` alone where both are empty."""
    if not component.repository and not component.version:
        return component.image
    separator = "@" if component.version.startswith(DIGEST) else ":"
    return f"{component.repository.rstrip('/')}/{component.image}{separator}{component.version}"


def mirrored(image: str, mirrors: Sequence[cluster.Mirror]) -> str:
    """The image behind the longest mirror prefix that fits; prefixes end where a part of the path ends."""
    for mirror in sorted(mirrors, key=lambda mirror: -len(mirror.from_)):
        prefix = mirror.from_.rstrip("/")
        rest = image.removeprefix(prefix)
        if rest != image and rest[:1] in ("/", ":", "@", ""):
            return mirror.to.rstrip("/") + rest
    return image


def of(component: base.Component, mirrors: Sequence[cluster.Mirror]) -> str:
    """The image that a cluster with these mirrors pulls for a component."""
    return mirrored(reference(component), mirrors)


def tag(image: str) -> str | None:
    """The image's tag; None for a digest, `latest` where nothing is said."""
    if "@" in image:
        return None
    _, separator, version = image.rpartition("/")[2].rpartition(":")
    return version if separator else "latest"
