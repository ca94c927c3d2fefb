"""Rules for the image of a driver, whose labels say what it holds."""

from collections.abc import Iterator

from compiler import wording
from compiler.diagnostics import Diagnostic, rule
from compiler.planning import image_matrix, images


def findings(image: str, content: image_matrix.Content, cluster: str, use: image_matrix.Use) -> Iterator[Diagnostic]:
    """Yield the findings on an image for the nodes of a pool."""
    yield from other_version(image, content, use)
    if use.is_from_image and use.source not in content.sources:
        yield _lacks_source(image, content, use)
    elif use.source == "prebuilt":
        yield from lacking_kernels(image, content, cluster, use)


@rule("image-driver-version", "error")
def other_version(image: str, content: image_matrix.Content, use: image_matrix.Use) -> Iterator[Diagnostic]:
    """The driver in an image is of the version that its policy names."""
    wanted = images.tag(image)
    if wanted is None or wanted == content.version or wanted.startswith(f"{content.version}-"):
        return  # A digest says nothing of versions, and a policy may add a suffix, as in 2.0.2-b.
    yield Diagnostic(
        span=use.policy.source.setting_span("spec", "driver", "version"),
        message=f"'{image}' holds driver {content.version}, and pool '{use.pool.name}' of policy '{use.policy.name}' "
        f"takes it as {wanted}.",
        hint="Tag an image with the version of the driver in it, or name that version in the policy.",
    )


@rule("image-driver-source", "error")
def _lacks_source(image: str, content: image_matrix.Content, use: image_matrix.Use) -> Diagnostic:
    """An image holds what the source of its policy takes from it."""
    held = " and ".join(sorted(content.sources)) or "none"
    return Diagnostic(
        span=use.policy.source.setting_span("spec", "driver", "source"),
        message=f"'{image}' holds nothing for source.{use.source}, which pool '{use.pool.name}' of policy "
        f"'{use.policy.name}' has.",
        notes=(f"Its labels name the sources: {held}.",),
        hint="Build the image for this source, as docs/driver-image.md says, or set another one.",
    )


@rule("image-driver-kernel", "error")
def lacking_kernels(
    image: str, content: image_matrix.Content, cluster: str, use: image_matrix.Use
) -> Iterator[Diagnostic]:
    """An image holds modules for the kernels of the nodes that it goes to."""
    for kernel, nodes in use.nodes.items():
        if kernel not in content.kernels:
            who = wording.counted(nodes, "node") if nodes else "a mapping"
            yield Diagnostic(
                span=use.policy.source.setting_span("spec", "driver", "version"),
                message=f"'{image}' has no modules for the kernel {kernel} of {who} of policy '{use.policy.name}' in "
                f"cluster '{cluster}'.",
                notes=(f"It has modules for: {', '.join(sorted(content.kernels)) or 'no kernel'}.",),
                hint="Build the image with this kernel in KERNELS, under a new tag.",
            )
