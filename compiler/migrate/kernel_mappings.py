"""Kernel mappings of other operators, an image for each of them, and the parts that a reference to one has."""

import itertools
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from compiler.formats import documents
from compiler.migrate import drafts, reading

_PLACEHOLDER = re.compile(r"\$\{(\w+)\}")
_KERNEL = ("KERNEL_FULL_VERSION", "KERNEL_XYZ")
"""The placeholders that images have here."""

_XYZ = "${KERNEL_X}.${KERNEL_Y}.${KERNEL_Z}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fields:
    """The fields of an object that hold its mappings and images."""

    mappings: documents.Path
    image: str
    """The field of a mapping with its image."""
    usual: documents.Path | None = None
    """The image of the mappings without one."""
    known: Mapping[str, str] = field(default_factory=dict)
    """The values of placeholders that are the same for all kernels."""


@dataclass(frozen=True, slots=True)
class _Served:
    """A mapping that has an image."""

    index: int
    literal: str | None
    regexp: str | None
    image: Mapping[str, str]


def put(source: reading.Reading, policy: drafts.Draft, fields: Fields) -> tuple[Mapping[str, str] | None, list[int]]:
    """Put the mappings; return the image that they have by default, and the indexes of those that are carried over."""
    every = range(len(source.get(list, *fields.mappings) or ()))
    served = [found for index in every if (found := _served(source, fields, index)) is not None]
    if not served:
        source.wrong(
            "No kernel has an image of modules that documents can name.",
            *fields.mappings,
            hint=f"Name one in '{fields.image}', after the kernel's full version or KERNEL_XYZ.",
            code="import-source",
        )
        return None, []
    names = _names(found.literal or found.regexp or "" for found in served)
    for place, (found, name) in enumerate(zip(served, names, strict=True)):
        here, there = ("spec", "kernelMappings", place), (*fields.mappings, found.index)
        policy.put(here, {"name": name}, source.origin(*there))
        policy.put((*here, "literal"), found.literal, source.origin(*there, "literal"))
        policy.put((*here, "regexp"), found.regexp, source.origin(*there, "regexp"))
        other = {part: value for part, value in found.image.items() if value != served[0].image[part]}
        if other:
            policy.put((*here, "images", "modules"), other, source.origin(*there, fields.image))
    return served[0].image, [found.index for found in served]


def _served(source: reading.Reading, fields: Fields, index: int) -> _Served | None:
    at = (*fields.mappings, index)
    literal, regexp = source.get(str, *at, "literal"), source.get(str, *at, "regexp")
    own = source.get(str, *at, fields.image)
    reference = own or (source.get(str, *fields.usual) if fields.usual else None)
    if reference is None:
        source.wrong("The mapping has no image.", *at, hint=f"Name one in '{fields.image}'.", code="import-source")
        return None
    known = {**fields.known, **(_numbers(literal) if literal else {})}
    text, unknown = _filled(reference, known)
    if unknown:
        source.drop(
            f"No image is named after ${{{unknown[0]}}} here, only after ${{KERNEL_FULL_VERSION}} and ${{KERNEL_XYZ}}: "
            "nodes with these kernels keep what they have.",
            *at,
        )
        return None
    return _Served(index, literal, regexp, parts(text))


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


def _filled(reference: str, known: Mapping[str, str]) -> tuple[str, list[str]]:
    """Return a reference with the values of placeholders that are `known`, and the placeholders that none is for."""
    text = reference.replace(_XYZ, "${KERNEL_XYZ}")
    text = _PLACEHOLDER.sub(lambda found: known.get(found[1], found[0]), text)
    return text, sorted({name for name in _PLACEHOLDER.findall(text) if name not in _KERNEL})


def _numbers(kernel: str) -> dict[str, str]:
    """Return the placeholders for the first three numbers of a kernel (internal/utils/replaceStrings.go of KMM)."""
    found = re.match(r"(\d+)\.(\d+)\.(\d+)", kernel)
    return dict(zip(("KERNEL_X", "KERNEL_Y", "KERNEL_Z"), found.groups(), strict=True)) if found else {}


def _names(texts: Iterable[str]) -> list[str]:
    """Return a name for each kernel or pattern, of its words: fc37-x86-64."""
    found: list[str] = []
    for text in texts:
        plain = re.sub(r"\\[A-Za-z]|\[[^]]*\]|\{[^}]*\}", " ", text.lower())
        name = "-".join(re.findall("[a-z0-9]+", plain))[:15].strip("-") or "kernels"
        others = (f"{name}-{number}" for number in itertools.count(2))
        found.append(name if name not in found else next(other for other in others if other not in found))
    return found
