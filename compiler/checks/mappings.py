"""Rules for kernel mappings."""

from collections.abc import Iterator

from compiler import wording
from compiler.diagnostics import Diagnostic
from compiler.fleet import assignment, definitions
from compiler.formats import documents
from compiler.inventory import snapshot
from compiler.planning import kernels, overrides, pools

PATH: documents.Path = ("spec", "driver", "kernelMappings")


def findings(item: definitions.Policy) -> Iterator[Diagnostic]:
    """Everything that is wrong with the mappings of a policy, whichever nodes there are."""
    yield from patterns(item)
    yield from shadowed(item)
    yield from unused_kernels(item)
    yield from placeholders(item)
    yield from shared_images(item)


def patterns(item: definitions.Policy) -> Iterator[Diagnostic]:
    """A mapping's pattern is one that NFD can use: else it would pass the mapping over, and take the next one."""
    for path, mapping in item.mappings:
        fault = kernels.fault(mapping.regexp) if mapping.regexp is not None else None
        if fault:
            why, _, part = fault.partition(": ")  # Of the pattern, which may hold anything.
            yield Diagnostic(
                code="kernel-pattern",
                span=item.source.span(*path, "regexp"),
                message=f"{wording.quoted(mapping.regexp or '')} is no pattern of RE2: {why}"
                f"{f' in {wording.quoted(part)}' if part else ''}.",
                hint="Write it as https://github.com/google/re2/wiki/Syntax says; RE2 has no look-ahead.",
            )


def shadowed(item: definitions.Policy) -> Iterator[Diagnostic]:
    """A mapping can win: no earlier one takes every kernel that it could take."""
    mappings = item.spec.driver.kernelMappings
    for later, earlier in kernels.shadowed(mappings):
        field = "regexp" if mappings[later].regexp is not None else "literal"
        yield Diagnostic(
            code="mapping-never-wins",
            span=item.source.span(*PATH, later, field),
            message=f"Mapping '{mappings[later].name}' can never win: '{mappings[earlier].name}' comes first and takes "
            "its kernels too.",
            notes=(f"The earlier one stands at {item.source.span(*PATH, earlier, 'name')}.",),
            hint="Put the narrower mapping first, or remove this one.",
        )


def unused_kernels(item: definitions.Policy) -> Iterator[Diagnostic]:
    """A mapping takes every kernel that it lists: an image for another one would never be used."""
    mappings = item.spec.driver.kernelMappings
    for index, mapping in enumerate(mappings):
        is_told_elsewhere = not (mapping.regexp or mapping.literal) or kernels.fault(kernels.pattern(mapping))
        for place, version in enumerate(() if is_told_elsewhere else mapping.kernels or ()):
            winner = kernels.first(mappings[: index + 1], kernels.cleaned(version))
            if winner is mapping:
                continue
            if winner:
                why = f"Mapping '{winner.name}' comes first and takes it."
            else:
                why = "Its regexp is not found in that kernel." if mapping.regexp else "Its literal is another kernel."
            yield Diagnostic(
                code="mapping-never-wins",
                span=item.source.span(*PATH, index, "kernels", place),
                message=f"Mapping '{mapping.name}' lists the kernel '{version}', and never takes it.",
                notes=(why,),
                hint="Remove the kernel from the list, or let the mapping take it.",
            )


def placeholders(item: definitions.Policy) -> Iterator[Diagnostic]:
    """Images are named after kernels only where a mapping knows them, and kernels are listed for such images only."""
    for variant in () if item.mappings else overrides.variants(item):
        for field in ("image", "version"):
            part = getattr(variant.driver, field)
            if "$" in part:  # Nothing else has one: see DriverImagePart.
                yield Diagnostic(
                    code="kernel-placeholder",
                    span=item.source.span(*variant.paths[field]),
                    message=f"'{part}' is named after a kernel, and there are no kernelMappings.",
                    hint="Add driver.kernelMappings: each kernel that they take has a pool of its own.",
                )
    for path, mapping in item.mappings:
        if mapping.kernels is not None and not overrides.is_per_kernel(item, mapping):
            yield Diagnostic(
                code="kernel-placeholder",
                span=item.source.key_span(*path, "kernels"),
                message=f"Mapping '{mapping.name}' lists kernels, but none of its images is named after them.",
                hint=f"Write {kernels.FULL_VERSION} or {kernels.XYZ} into its version or image, or remove the list.",
            )


def shared_images(item: definitions.Policy) -> Iterator[Diagnostic]:
    """Where images are named after kernels, those of waves and frozen groups are too."""
    per_kernel = [mapping for _, mapping in item.mappings if overrides.is_per_kernel(item, mapping)]
    for variant in overrides.variants(item) if per_kernel else ():
        mapping = variant.mapping
        if mapping is None or variant.driver.state == "Absent" or not any(mapping is one for one in per_kernel):
            continue
        if not kernels.named_in(variant.driver):
            yield Diagnostic(
                code="kernel-not-in-image",
                span=item.source.setting_span(*variant.paths["version"]),
                message=f"All kernels of mapping '{mapping.name}' get one image of version "
                f"'{variant.driver.version}', while others of its images are named after kernels.",
                notes=("They take it whether it holds modules for them or not.",),
                hint=f"Write {kernels.FULL_VERSION} into the version, or into the image, which no version replaces.",
            )


def uncovered(division: pools.Division, inventory: snapshot.Inventory) -> Iterator[Diagnostic]:
    """A node with KAE devices runs a kernel that some mapping has a driver for."""
    if not division.policy.spec.driver.kernelMappings:
        return
    found: dict[str, list[str]] = {}
    for node in division.nodes:
        if node.profile.discovered and assignment.is_served(division.policy, node):
            found.setdefault(kernels.cleaned(node.profile.kernel_version), []).append(node.name)
    for kernel, nodes in sorted(found.items()):
        if division.kernel_class(kernel) is None:
            yield _uncovered(division.policy, kernel, f"{wording.nodes(nodes)} of cluster '{inventory.cluster}'")


def _uncovered(policy: definitions.Policy, kernel: str, where: str) -> Diagnostic:
    mappings = policy.spec.driver.kernelMappings
    mapping = kernels.first(mappings, kernel)
    said = f"the kernel {wording.quoted(kernel or '(unknown)')} of {where}"
    if mapping is None:
        message = f"No mapping of policy '{policy.name}' covers {said}."
        path, hint = PATH, "Add a mapping for the kernel once there is a driver for it."
    else:
        message = f"Mapping '{mapping.name}' of policy '{policy.name}' lists no image for {said}."
        path = (*PATH, mappings.index(mapping), "kernels")
        hint = "Add the kernel to the list once there is an image for it."
    return Diagnostic(
        code="kernel-not-covered",
        span=policy.source.setting_span(*path),
        message=message,
        notes=("Such a node is in no pool of the policy, and keeps the driver that it has.",),
        hint=hint,
    )
