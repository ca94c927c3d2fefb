"""References to images as other operators write them, and the parts that documents have."""

import re
from collections.abc import Mapping

_PLACEHOLDER = re.compile(r"\$\{(\w+)\}")
_KERNEL = ("KERNEL_FULL_VERSION", "KERNEL_XYZ")
"""The placeholders that images have here."""

_XYZ = "${KERNEL_X}.${KERNEL_Y}.${KERNEL_Z}"


def parts(reference: str) -> dict[str, str]:
    """Return repository, image and version of a reference, with the registry and the tag that a runtime takes.

    A reference without a registry is one of docker.io, and without a tag one of `latest`
    (https://github.com/distribution/reference, `ParseNormalizedNamed` and `TagNameOnly`). A digest decides over a tag.
    """
    name, _, digest = reference.partition("@")
    path, colon, tag = name.rpartition(":")
    if not colon or "/" in tag:
        path, tag = name, "latest"
    host, slash, _ = path.partition("/")
    if not slash or not (host == "localhost" or "." in host or ":" in host):
        path = f"docker.io/{path}" if slash else f"docker.io/library/{path}"
    repository, _, image = path.rpartition("/")
    return {"repository": repository, "image": image, "version": digest or tag}


def filled(reference: str, known: Mapping[str, str]) -> tuple[str, list[str]]:
    """Return a reference with the values of placeholders that are `known`, and the placeholders that none is for."""
    text = reference.replace(_XYZ, "${KERNEL_XYZ}")
    text = _PLACEHOLDER.sub(lambda found: known.get(found[1], found[0]), text)
    return text, sorted({name for name in _PLACEHOLDER.findall(text) if name not in _KERNEL})


def numbers(kernel: str) -> dict[str, str]:
    """Return the placeholders for the first three numbers of a kernel (internal/utils/replaceStrings.go of KMM)."""
    found = re.match(r"(\d+)\.(\d+)\.(\d+)", kernel)
    return dict(zip(("KERNEL_X", "KERNEL_Y", "KERNEL_Z"), found.groups(), strict=True)) if found else {}
