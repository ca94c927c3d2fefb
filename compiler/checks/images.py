"""Rules for image references: their form, and the pinning of their versions."""

import re
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType

from compiler import wording
from compiler.diagnostics import Diagnostic
from compiler.fleet import definitions
from compiler.formats import documents
from compiler.model import base
from compiler.planning import images, kernels, overrides

_NAME = r"[a-z0-9]+([._-]+[a-z0-9]+)*(:[0-9]+)?(/[a-z0-9]+([._-]+[a-z0-9]+)*)*"
_IMAGE = re.compile(_NAME + r"(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(@sha256:[0-9a-f]{64})?")
"""The grammar of https://github.com/distribution/reference, shortened."""

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")

_A_KERNEL = "5.10.0-1.oe2203.aarch64"
"""An example, to fill into images that are named after kernels."""

_NOUNS: Mapping[str, str] = MappingProxyType({"driver": "driver", "devicePlugin": "device plugin"})

_MODULES: Mapping[str, str] = MappingProxyType({"driver": "installer", "device plugin": "device_plugin"})
"""The program of each component."""

_OPERATOR = "kae-operator"
_OPERATORS = frozenset(f"{base.OPERATOR_REPOSITORY}/{name}" for name in ("kae-driver-installer", "kae-device-plugin"))
"""The images of the KAE Operator, and where it publishes those of its components."""

Paths = Mapping[str, documents.Path]
"""The path of each part of an image reference."""


def of_component(policy: definitions.Policy, name: str, variants: Iterable[overrides.Variant]) -> Iterator[Diagnostic]:
    """In every pool, repository, image and version make a valid reference, and the image is pinned."""
    if name == "driver":
        if policy.spec.driver.enabled:
            for variant in variants:
                yield from _image(policy.source, variant.driver, variant.paths, _NOUNS[name])
    elif policy.spec.devicePlugin.enabled:
        paths = {field: ("spec", name, field) for field in ("repository", "image", "version")}
        yield from _image(policy.source, policy.spec.devicePlugin, paths, _NOUNS[name])


def _image(source: documents.Document, component: base.Component, paths: Paths, noun: str) -> Iterator[Diagnostic]:
    reference = images.reference(component)
    is_whole = not component.repository and not component.version
    if not is_whole and not (component.repository and component.version):
        given, absent = ("version", "repository") if component.version else ("repository", "version")
        yield Diagnostic(
            code="image-reference",
            span=source.setting_span(*paths[absent]),
            message=f"The {noun}'s image has a {given} but no {absent}.",
            hint="Set both, or leave both empty and write the whole reference into image.",
        )
    elif not _is_reference(reference):
        yield _malformed(source, paths[_misspelt(component)], reference, f"The {noun}'s image")
    else:
        if images.tag(reference) == "latest":
            yield mutable_tag(source, paths["image" if is_whole else "version"], reference, f"the {noun}'s image")
        yield from _of_operator(source, paths["image" if is_whole else "repository"], reference, noun)


def _of_operator(source: documents.Document, path: documents.Path, reference: str, noun: str) -> Iterator[Diagnostic]:
    """No component has an image of the KAE Operator, which the manifests cannot start.

    The operator's images have the default names of this project's: its guide, table 1. So only a document that writes
    the registry out, as `kae import` does, means the operator's.
    """
    name = images.name(reference)
    if images.unqualified(name) == _OPERATOR or (name in _OPERATORS and source.has(path)):
        yield Diagnostic(
            code="operator-image",
            span=source.setting_span(*path),
            message=f"'{reference}', the {noun}'s image, is the KAE Operator's own.",
            notes=(f"It does not hold `python -m {_MODULES[noun]}`, which the manifests start.",),
            hint=f"Build this project's images with `make images`, push them, and set {wording.dotted(path[1:])} to "
            "theirs.",
        )


def of_setting(source: documents.Document, path: documents.Path, reference: str, noun: str) -> Iterator[Diagnostic]:
    """An image that a KAECluster names, or the beginning of one, is a valid reference."""
    if not _is_reference(reference):
        yield _malformed(source, path, reference, noun)


def is_repository(name: str) -> bool:
    """Return whether an image reference can begin with this registry and path."""
    return re.fullmatch(_NAME, name) is not None


def _is_reference(reference: str) -> bool:
    return _IMAGE.fullmatch(kernels.filled(reference, _A_KERNEL)) is not None


def _malformed(source: documents.Document, path: documents.Path, reference: str, noun: str) -> Diagnostic:
    """Return the finding on an image reference that no container runtime accepts; `path` is the field at fault."""
    scheme = _SCHEME.match(reference)
    if scheme:
        hint = f"Write it without '{scheme.group()}': an image reference has no scheme."
    elif path[-1] in ("version", "tag"):
        hint = "Write a tag of letters, digits, '.', '_' and '-', or sha256: with 64 hexadecimal digits."
    else:
        hint = "Write registry and names in lower case, such as registry.example.com/openfuyao."
    return Diagnostic(
        code="image-reference",
        span=source.setting_span(*path),
        message=f"{noun} '{wording.without_credentials(reference)}' is not an image reference.",
        hint=hint,
    )


def _misspelt(component: base.Component) -> str:
    """Return the field that makes an image reference invalid."""
    if component.repository and not is_repository(component.repository.rstrip("/")):
        return "repository"
    return "version" if component.version and re.fullmatch(_NAME, component.image) else "image"


def mutable_tag(source: documents.Document, path: documents.Path, reference: str, noun: str) -> Diagnostic:
    """Return the finding on an image that no version or digest pins; `path` is the field to pin it in."""
    pinned = "a release or a digest (sha256:…)"
    if path[-1] != "version":
        pinned = "a reference with a release as its tag, or with a digest (@sha256:…)"
    return Diagnostic(
        code="mutable-tag",
        span=source.setting_span(*path),
        message=f"'{reference}', {noun}, can change without a commit.",
        hint=f"Set {wording.dotted(path[1:])} to {pinned}.",
    )
