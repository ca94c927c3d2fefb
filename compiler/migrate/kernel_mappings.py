"""Kernel mappings of other operators, and an image for each of them."""

import itertools
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from compiler.formats import documents
from compiler.migrate import drafts, image_references, reading


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
    known = {**fields.known, **(image_references.numbers(literal) if literal else {})}
    text, unknown = image_references.filled(reference, known)
    if unknown:
        source.drop(
            f"No image is named after ${{{unknown[0]}}} here, only after ${{KERNEL_FULL_VERSION}} and ${{KERNEL_XYZ}}: "
            "nodes with these kernels keep what they have.",
            *at,
        )
        return None
    return _Served(index, literal, regexp, image_references.parts(text))


def _names(texts: Iterable[str]) -> list[str]:
    """Return a name for each kernel or pattern, of its words: fc37-x86-64."""
    found: list[str] = []
    for text in texts:
        plain = re.sub(r"\\[A-Za-z]|\[[^]]*\]|\{[^}]*\}", " ", text.lower())
        name = "-".join(re.findall("[a-z0-9]+", plain))[:15].strip("-") or "kernels"
        others = (f"{name}-{number}" for number in itertools.count(2))
        found.append(name if name not in found else next(other for other in others if other not in found))
    return found
