"""Rules for kernel mappings."""

from collections.abc import Iterable, Iterator, Sequence

from compiler import wording
from compiler.diagnostics import Diagnostic
from compiler.fleet import assignment, definitions
from compiler.formats import documents
from compiler.inventory import snapshot
from compiler.planning import kernels, overrides, pools

PATH: documents.Path = ("spec", "driver", "kernelMappings")


def findings(policy: definitions.Policy, variants: Sequence[overrides.Variant]) -> Iterator[Diagnostic]:
    """Yield the mistakes in the mappings of a policy, judged without any nodes."""
    yield from patterns(policy)
    yield from shadowed(policy)
    yield from unused_kernels(policy)
    yield from placeholders(policy, variants)
    yield from shared_images(policy, variants)


def patterns(policy: definitions.Policy) -> Iterator[Diagnostic]:
    """NFD can use a mapping's pattern: else it would skip the mapping, and take the next one."""
    for path, mapping in policy.mappings:
        fault = kernels.fault(mapping.regexp) if mapping.regexp is not None else None
        if fault:
            reason, _, part = fault.partition(": ")  # The part is the user's text and may hold anything.
            yield Diagnostic(
                code="kernel-pattern",
                span=policy.source.span(*path, "regexp"),
                message=f"{wording.quoted(mapping.regexp or '')} is not a pattern of RE2: {reason}"
                f"{f' in {wording.quoted(part)}' if part else ''}.",
                hint="See https://github.com/google/re2/wiki/Syntax; RE2 has no look-ahead.",
            )


def shadowed(policy: definitions.Policy) -> Iterator[Diagnostic]:
    """No earlier mapping takes every kernel that a mapping could take."""
    mappings = policy.spec.driver.kernelMappings
    for later, earlier in kernels.shadowed(mappings):
        field = "regexp" if mappings[later].regexp is not None else "literal"
        yield Diagnostic(
            code="mapping-never-wins",
            span=policy.source.span(*PATH, later, field),
            message=f"Mapping '{mappings[later].name}' takes no kernel: the earlier mapping "
            f"'{mappings[earlier].name}' takes them all.",
            notes=(f"The earlier mapping is at {policy.source.span(*PATH, earlier, 'name')}.",),
            hint="Put the narrower mapping first, or remove this one.",
        )


def unused_kernels(policy: definitions.Policy) -> Iterator[Diagnostic]:
    """A mapping takes every kernel that it lists; the image for another kernel would never be used."""
    mappings = policy.spec.driver.kernelMappings
    for index, mapping in enumerate(mappings):
        is_reported_elsewhere = not (mapping.regexp or mapping.literal) or kernels.fault(kernels.pattern(mapping))
        for position, version in enumerate(() if is_reported_elsewhere else mapping.kernels or ()):
            winner = kernels.first(mappings[: index + 1], kernels.cleaned(version))
            if winner is mapping:
                continue
            if winner:
                reason = f"The earlier mapping '{winner.name}' takes it."
            elif mapping.regexp:
                reason = "Its regexp does not match that kernel."
            else:
                reason = "Its literal is another kernel."
            yield Diagnostic(
                code="mapping-never-wins",
                span=policy.source.span(*PATH, index, "kernels", position),
                message=f"Mapping '{mapping.name}' lists the kernel '{version}', but never takes it.",
                notes=(reason,),
                hint="Remove the kernel from the list, or change the mapping so that it takes the kernel.",
            )


def placeholders(policy: definitions.Policy, variants: Iterable[overrides.Variant]) -> Iterator[Diagnostic]:
    """Images are named after kernels only in policies with mappings; only such mappings list kernels."""
    for variant in () if policy.mappings else variants:
        for field in ("image", "version"):
            part = getattr(variant.driver, field)
            if "$" in part:  # DriverImagePart allows it in placeholders only.
                yield Diagnostic(
                    code="kernel-placeholder",
                    span=policy.source.span(*variant.paths[field]),
                    message=f"'{part}' is named after a kernel, but the policy has no kernelMappings.",
                    hint="Add driver.kernelMappings; each kernel that they take gets a pool of its own.",
                )
    for path, mapping in policy.mappings:
        if mapping.kernels is not None and not overrides.is_per_kernel(policy, mapping):
            yield Diagnostic(
                code="kernel-placeholder",
                span=policy.source.key_span(*path, "kernels"),
                message=f"Mapping '{mapping.name}' lists kernels, but none of its images is named after them.",
                hint=f"Write {kernels.FULL_VERSION} or {kernels.XYZ} into its version or image, or remove the list.",
            )


def shared_images(policy: definitions.Policy, variants: Iterable[overrides.Variant]) -> Iterator[Diagnostic]:
    """If a mapping has images that are named after kernels, all of its images are."""
    per_kernel = [mapping for _, mapping in policy.mappings if overrides.is_per_kernel(policy, mapping)]
    for variant in variants if per_kernel else ():
        mapping = variant.mapping
        if mapping is None or variant.driver.state == "Absent" or not any(mapping is one for one in per_kernel):
            continue
        if not kernels.named_in(variant.driver):
            yield Diagnostic(
                code="kernel-not-in-image",
                span=policy.source.setting_span(*variant.paths["version"]),
                message=f"Mapping '{mapping.name}' has images named after kernels, but version "
                f"'{variant.driver.version}' is one image for all kernels.",
                notes=("Every kernel of the mapping gets that image, even if it holds no modules for the kernel.",),
                hint=f"Write {kernels.FULL_VERSION} into the version or the image.",
            )


def uncovered(division: pools.Division, inventory: snapshot.Inventory) -> Iterator[Diagnostic]:
    """A mapping has a driver for the kernel of every node with KAE devices."""
    if not division.policy.spec.driver.kernelMappings:
        return
    by_kernel: dict[str, list[str]] = {}
    for node in division.nodes:
        if node.profile.discovered and assignment.is_served(division.policy, node):
            by_kernel.setdefault(kernels.cleaned(node.profile.kernel_version), []).append(node.name)
    for kernel, nodes in sorted(by_kernel.items()):
        if division.kernel_class(kernel) is None:
            yield _uncovered(division.policy, kernel, f"{wording.nodes(nodes)} of cluster '{inventory.cluster}'")


def _uncovered(policy: definitions.Policy, kernel: str, where: str) -> Diagnostic:
    mappings = policy.spec.driver.kernelMappings
    mapping = kernels.first(mappings, kernel)
    what = f"the kernel {wording.quoted(kernel or '(unknown)')} of {where}"
    if mapping is None:
        message = f"No mapping of policy '{policy.name}' covers {what}."
        path, hint = PATH, "Add a mapping for the kernel once there is a driver for it."
    else:
        message = f"Mapping '{mapping.name}' of policy '{policy.name}' lists no image for {what}."
        path = (*PATH, mappings.index(mapping), "kernels")
        hint = "Add the kernel to the list once there is an image for it."
    return Diagnostic(
        code="kernel-not-covered",
        span=policy.source.setting_span(*path),
        message=message,
        notes=("Such a node is in no pool of the policy, and keeps its current driver.",),
        hint=hint,
    )
