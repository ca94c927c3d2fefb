"""Image references: their composition, their mirrors and their tags."""

from collections.abc import Sequence

from compiler.model import base, cluster

DIGEST = "sha256:"


def reference(component: base.Component) -> str:
    """Return repository/image:version, with @ before a digest; `image` alone if the other two are empty."""
    if not component.repository and not component.version:
        return component.image
    separator = "@" if component.version.startswith(DIGEST) else ":"
    return f"{component.repository.rstrip('/')}/{component.image}{separator}{component.version}"


def mirrored(image: str, mirrors: Sequence[cluster.Mirror]) -> str:
    """Return the image at the mirror with the longest matching prefix; a prefix matches whole parts of the path."""
    for mirror in sorted(mirrors, key=lambda mirror: -len(mirror.from_)):
        prefix = mirror.from_.rstrip("/")
        rest = image.removeprefix(prefix)
        if rest != image and rest[:1] in ("/", ":", "@", ""):
            return mirror.to.rstrip("/") + rest
    return image


def of(component: base.Component, mirrors: Sequence[cluster.Mirror]) -> str:
    """Return the image that a cluster with these mirrors pulls for a component."""
    return mirrored(reference(component), mirrors)


def tag(image: str) -> str | None:
    """Return the tag of an image; None for a digest, `latest` without a tag."""
    if "@" in image:
        return None
    _, separator, version = image.rpartition("/")[2].rpartition(":")
    return version if separator else "latest"


def name(image: str) -> str:
    """Return an image without tag and digest."""
    folder, slash, last = image.partition("@")[0].rpartition("/")
    return folder + slash + last.partition(":")[0]
