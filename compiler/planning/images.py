"""Image references: their composition, their mirrors and their tags."""

import re
from collections.abc import Sequence

from compiler.fleet import clusters, definitions

DIGEST = "sha256:"

_RELEASE = re.compile(r"v?([0-9]+(?:\.[0-9]+)*)")


def reference(parts: definitions.ImageParts) -> str:
    """Return repository/image:version, with @ before a digest; `image` alone if the other two are empty."""
    repository, image, version = parts["repository"], parts["image"], parts["version"]
    if not repository and not version:
        return image
    return f"{repository.rstrip('/')}/{image}{'@' if version.startswith(DIGEST) else ':'}{version}"


def of(parts: definitions.ImageParts, mirrors: Sequence[clusters.Mirror]) -> str:
    """Return the image that a cluster with these mirrors pulls for the parts of a reference."""
    return mirrored(reference(parts), mirrors)


def of_nfd(image: clusters.NfdImage) -> str:
    """Return repository:tag, with the digest where one is given: the kubelet then pulls that, and ignores the tag."""
    return f"{image.repository}:{image.tag}{f'@{image.digest}' if image.digest else ''}"


def mirrored(image: str, mirrors: Sequence[clusters.Mirror]) -> str:
    """Return the image at the mirror with the longest matching prefix; a prefix matches whole parts of the path."""
    for mirror in sorted(mirrors, key=lambda mirror: -len(mirror.from_)):
        prefix = mirror.from_.rstrip("/")
        rest = image.removeprefix(prefix)
        if rest != image and rest[:1] in ("/", ":", "@", ""):
            return mirror.to.rstrip("/") + rest
    return image


def unqualified(image: str) -> str:
    """Return an image without its registry and path, which a mirror changes."""
    return image.rpartition("/")[2]


def short(image: str | None) -> str:
    """Return an image without its registry and path, and with the first digits of a digest; '-' without one."""
    name, _, digest = unqualified(image or "-").partition(f"@{DIGEST}")
    return f"{name}@{digest[:12]}" if digest else name


def registry(image: str) -> str:
    """Return the registry that an image is pulled from, as container runtimes tell it from a path.

    See `splitDockerDomain` of github.com/distribution/reference.
    """
    first, slash, _ = image.partition("/")
    return first if slash and (first == "localhost" or "." in first or ":" in first) else "docker.io"


def tag(image: str) -> str | None:
    """Return the tag of an image; None for a digest, `latest` without a tag."""
    if "@" in image:
        return None
    _, separator, version = unqualified(image).rpartition(":")
    return version if separator else "latest"


def version(parts: definitions.ImageParts) -> str:
    """Return the version of a driver whose image has these parts: their own, or else the image's tag or digest."""
    image = reference(parts)
    return parts["version"] or tag(image) or image.rpartition("@")[2]


def release(version: str) -> tuple[int, ...] | None:
    """Return the numbers of a release such as 2.3.0 or v2.3; None for any other version, whose order is unknown."""
    match = _RELEASE.fullmatch(version)
    return tuple(map(int, match[1].split("."))) if match else None


def name(image: str) -> str:
    """Return an image without tag and digest."""
    folder, slash, last = image.partition("@")[0].rpartition("/")
    return folder + slash + last.partition(":")[0]
