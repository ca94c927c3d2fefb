"""Rules for image references: their form, and the pinning of their versions."""

import re
from collections.abc import Iterable, Iterator

from compiler import wording
from compiler.diagnostics import Diagnostic, Span, rule
from compiler.fleet import definitions
from compiler.formats import documents
from compiler.planning import images, kernels, overrides

_NAME = r"[a-z0-9]+([._-]+[a-z0-9]+)*(:[0-9]+)?(/[a-z0-9]+([._-]+[a-z0-9]+)*)*"
_IMAGE = re.compile(_NAME + r"(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(@sha256:[0-9a-f]{64})?")
"""The grammar of https://github.com/distribution/reference, shortened."""

_TAGGED = re.compile(r"([^:]+(?::[0-9]+/[^:]*)?):([A-Za-z0-9_][A-Za-z0-9_.-]*)/?")
"""A registry and a path, perhaps with a port, before a tag."""

_PLUGIN = "kae-device-plugin"
"""The name of the image of this project's device plugin."""

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")

_A_KERNEL = "5.10.0-1.oe2203.aarch64"
"""An example, to fill into images that are named after kernels."""


def of_driver(variants: Iterable[overrides.Variant]) -> Iterator[Diagnostic]:
    """In every pool, repository, image and version make a valid reference, and the image is pinned."""
    found: dict[tuple[str, Span], Diagnostic] = {}
    for variant in variants:
        for image in variant.images if variant.driver.enabled else ():
            for finding in _image(image):
                # A part that several pools share is wrong once, whatever version each of them adds to it.
                found.setdefault((finding.code, finding.span), finding)
    yield from found.values()


def of_programs(policy: definitions.Policy) -> Iterator[Diagnostic]:
    """In every pool, the images of vendors' programs are valid references, pinned, and of one kernel at most."""
    found: dict[tuple[str, Span], Diagnostic] = {}
    pooled = {name for one in policy.programs if one.is_pooled for name in one.images}
    for image in overrides.of_programs(policy):
        for finding in (
            *_image(image),
            *(() if image.name in pooled else _of_kernel(image, "its program", ", or per: pool in the recipe")),
        ):
            found.setdefault((finding.code, finding.span), finding)
    yield from found.values()


def _of_kernel(image: overrides.Image, program: str, way: str = "") -> Iterator[Diagnostic]:
    for part, text in image.parts.items():
        if "$" in text:
            source, path = image.place(part)
            message = f"'{text}' is named after a kernel, but {program} has one image for all kernels."
            hint = f"Write an image that runs under every kernel{way}."
            yield Diagnostic(code="kernel-placeholder", span=source.setting_span(*path), message=message, hint=hint)


def of_device_plugin(policy: definitions.Policy) -> Iterator[Diagnostic]:
    """Repository, image and version make a valid reference, the image is pinned, and is one for all kernels."""
    if policy.offered is None:
        return
    image = overrides.of_plugin(policy, policy.offered)
    yield from _image(image)
    yield from _other_program(image)
    yield from _of_kernel(image, "the device plugin")


@rule("device-plugin-image", "error")
def _other_program(image: overrides.Image) -> Iterator[Diagnostic]:
    """The device plugin of a recipe runs in an image named kae-device-plugin, in whatever registry and path.

    A vendor's own device plugin holds no such program. An installer may have any name: a driver's image is built on it.
    """
    reference = images.reference(image.parts)
    name = images.unqualified(images.name(reference))
    if image.policy.recipe.builtin or name == _PLUGIN or "$" in name or not _is_reference(reference):
        return
    source, path = image.place("image")
    yield Diagnostic(
        span=source.setting_span(*path),
        message=f"The device plugin's image {wording.quoted(name)} is not {_PLUGIN}.",
        notes=(
            "The manifests start `python -m device_plugin` in it, which a vendor's own device plugin does not hold.",
        ),
        hint=f"Name {_PLUGIN}, in any registry and path. Where a vendor's own is to run, deploy it apart, and set "
        "devicePlugin.enabled: false in the policy.",
    )


@rule("image-reference", "error")
def _image(image: overrides.Image) -> Iterator[Diagnostic]:
    """Repository, image and version together are an image reference."""
    parts = image.parts
    reference = images.reference(parts)
    noun = image.noun[:1].upper() + image.noun[1:]
    is_whole = not parts["repository"] and not parts["version"]
    if not is_whole and not (parts["repository"] and parts["version"]):
        given, absent = ("version", "repository") if parts["version"] else ("repository", "version")
        source, path = image.place(absent)
        message = f"{noun} has a {given} but no {absent}."
        hint = "Set both, or leave both empty and write the whole reference into image."
        yield Diagnostic(span=source.setting_span(*path), message=message, hint=hint)
    elif not _is_reference(reference):
        yield from of_setting(*image.place(_misspelt(parts)), reference, noun)
    else:
        if images.tag(reference) == "latest":
            source, path = image.place("image" if is_whole else "version")
            by_command = "" if source is image.policy.source else f"kae bump POLICY --image {image.name} --version V"
            yield mutable_tag(source, path, reference, image.noun, by_command)
        yield from _of_operator(image, "image" if is_whole else "repository", reference)


@rule("operator-image", "warning")
def _of_operator(image: overrides.Image, part: str, reference: str) -> Iterator[Diagnostic]:
    """A component has an image of this project, not one of the KAE Operator.

    The manifests cannot start the operator's. They have the default names of this project's: its guide, table 1. So
    only a document that writes the registry out, as `kae import` does, means the operator's.
    """
    name, known = images.name(reference), image.policy.recipe.operator_images
    source, path = image.place(part)
    if images.unqualified(name) in known or (name in known and source.has(path)):
        driver = image.policy.driver
        program = "installer" if driver is not None and image.name == driver.installer else "device_plugin"
        yield Diagnostic(
            span=source.setting_span(*path),
            message=f"'{reference}', {image.noun}, is the KAE Operator's own.",
            notes=(f"It does not hold `python -m {program}`, which the manifests start.",),
            hint=f"Build this project's images with `make images`, push them, and set {wording.dotted(path[1:])} to "
            "theirs.",
        )


def of_setting(source: documents.Document, path: documents.Path, reference: str, noun: str) -> Iterator[Diagnostic]:
    """An image that a KAECluster names, or the beginning of one, is a reference that container runtimes accept."""
    if _is_reference(reference):
        return
    scheme = _SCHEME.match(reference)
    if scheme:
        hint = f"Write it without '{scheme.group()}': an image reference has no scheme."
    elif path[-1] == "repository" and (tagged := _TAGGED.fullmatch(str(source.value(path)))):
        hint = f"Write {tagged[1]}, and '{tagged[2]}' as version: a repository has no tag."
    elif path[-1] in ("version", "tag"):
        hint = "Write a tag of letters, digits, '.', '_' and '-', or sha256: with 64 hexadecimal digits."
    else:
        hint = "Write registry and names in lower case, such as registry.example.com/openfuyao."
    message = f"{noun} '{wording.without_credentials(reference)}' is not an image reference."
    yield Diagnostic(code="image-reference", span=source.setting_span(*path), message=message, hint=hint)


def is_repository(name: str) -> bool:
    """Return whether an image reference can begin with this registry and path."""
    return re.fullmatch(_NAME, name) is not None


def _is_reference(reference: str) -> bool:
    return _IMAGE.fullmatch(kernels.filled(reference, _A_KERNEL)) is not None


def _misspelt(parts: definitions.ImageParts) -> str:
    """Return the part that makes an image reference invalid."""
    if parts["repository"] and not is_repository(parts["repository"].rstrip("/")):
        return "repository"
    return "version" if parts["version"] and re.fullmatch(_NAME, parts["image"]) else "image"


@rule("mutable-tag", "risk")
def mutable_tag(
    source: documents.Document, path: documents.Path, reference: str, noun: str, by_command: str = ""
) -> Diagnostic:
    """An image is pinned by a version or a digest.

    `path` is the field to pin it in, and `by_command` what pins it in a policy instead.
    """
    pinned = "a release or a digest (sha256:…)"
    if path[-1] != "version":
        pinned = "a reference with a release as its tag, or with a digest (@sha256:…)"
    elif by_command:
        pinned += f", here or in the policy by `{by_command}`"
    message = f"'{reference}', {noun}, can change without a commit."
    hint = f"Set {wording.dotted(path[1:])} to {pinned}."
    return Diagnostic(span=source.setting_span(*path), message=message, hint=hint)
