"""Rules for kernel mappings."""

import re
from collections.abc import Iterable, Iterator, Sequence

from compiler import repeats, wording
from compiler.diagnostics import Diagnostic, Span, rule, shared_rule
from compiler.fleet import assignment, definitions
from compiler.formats import documents, references
from compiler.inventory import snapshot
from compiler.planning import images, kernels, overrides, pools

shared_rule("kernel-placeholder", "error", "Only policies with kernelMappings name images after kernels.")


def path_of(policy: definitions.Policy) -> documents.Path:
    """Return the path of the mappings of a policy."""
    return (*policy.written.rollout, "kernelMappings")


def findings(policy: definitions.Policy, variants: Sequence[overrides.Variant]) -> Iterator[Diagnostic]:
    """Yield the mistakes in the mappings of a policy, judged without any nodes."""
    yield from patterns(policy)
    yield from shadowed(policy)
    yield from unused_kernels(policy)
    yield from placeholders(policy, variants)
    yield from shared_images(policy, variants)
    yield from lost_placeholders(policy, variants)


@rule("kernel-pattern", "error")
def patterns(policy: definitions.Policy) -> Iterator[Diagnostic]:
    """A mapping's pattern is a pattern of RE2 that NFD can use."""
    for mapping in policy.mappings:
        fault = kernels.fault(mapping.regexp) if mapping.regexp is not None else None
        if fault:
            # NFD would skip the mapping, and take the next one.
            reason, _, part = fault.partition(": ")  # The part is the user's text and may hold anything.
            yield Diagnostic(
                span=policy.source.span(*mapping.path, "regexp"),
                message=f"{wording.quoted(mapping.regexp or '')} is not a pattern of RE2: {reason}"
                f"{f' in {wording.quoted(part)}' if part else ''}.",
                hint="See https://github.com/google/re2/wiki/Syntax; RE2 has no look-ahead.",
            )


@rule("mapping-never-wins", "error")
def shadowed(policy: definitions.Policy) -> Iterator[Diagnostic]:
    """Every mapping takes a kernel that no earlier mapping takes."""
    mappings = policy.mappings
    for later, earlier in kernels.shadowed(mappings):
        field = "regexp" if mappings[later].regexp is not None else "literal"
        yield Diagnostic(
            span=policy.source.span(*mappings[later].path, field),
            message=f"Mapping '{mappings[later].name}' takes no kernel: the earlier mapping "
            f"'{mappings[earlier].name}' takes them all.",
            notes=(f"The earlier mapping is at {policy.source.span(*mappings[earlier].path, 'name')}.",),
            hint="Put the narrower mapping first, or remove this one.",
        )


def unused_kernels(policy: definitions.Policy) -> Iterator[Diagnostic]:
    """A mapping takes every kernel that it lists; the image for another kernel would never be used."""
    mappings = policy.mappings
    for index, mapping in enumerate(mappings):
        is_reported_elsewhere = not (mapping.regexp or mapping.literal) or kernels.fault(kernels.pattern(mapping))
        for position, version in enumerate(() if is_reported_elsewhere else mapping.kernels or ()):
            takers = tuple(kernels.possible(mappings[: index + 1], kernels.cleaned(version)))
            if any(taker is mapping for taker in takers):
                continue
            winner = next(iter(takers), None)
            if winner:
                reason = f"The earlier mapping '{winner.name}' takes it."
            elif mapping.regexp:
                reason = "Its regexp does not match that kernel."
            else:
                reason = "Its literal is another kernel."
            yield Diagnostic(
                code="mapping-never-wins",
                span=policy.source.span(*mapping.path, "kernels", position),
                message=f"Mapping '{mapping.name}' lists the kernel '{version}', but never takes it.",
                notes=(reason,),
                hint="Remove the kernel from the list, or change the mapping so that it takes the kernel.",
            )


def placeholders(policy: definitions.Policy, variants: Iterable[overrides.Variant]) -> Iterator[Diagnostic]:
    """Images are named after kernels only in policies with mappings; only such mappings list kernels."""
    field = wording.dotted(path_of(policy)[1:])
    for image in (image for variant in variants for image in variant.images if not policy.mappings):
        for part, text in image.parts.items():
            if "$" not in text:  # DriverImagePart allows it in placeholders only.
                continue
            source, path = image.place(part)
            span, is_own = source.setting_span(*path), source is policy.source
            # The recipe, which has mappings in mind, is not at fault, and may name an image that no driver needs.
            if is_own or policy.installed is not None:
                yield Diagnostic(
                    code="kernel-placeholder",
                    span=span if is_own else policy.source.span("spec", "recipe"),
                    message=f"'{text}' is named after a kernel, but the policy has no kernelMappings.",
                    notes=() if is_own else (f"The recipe names its image so at {span}.",),
                    hint=f"Add {field}; each kernel that they take gets a pool of its own.",
                )
    for mapping in policy.mappings:
        if mapping.kernels is not None and not overrides.is_per_kernel(policy, mapping):
            yield Diagnostic(
                code="kernel-placeholder",
                span=policy.source.key_span(*mapping.path, "kernels"),
                message=f"Mapping '{mapping.name}' lists kernels, but none of its images is named after them.",
                hint=f"Write {kernels.FULL_VERSION} or {kernels.XYZ} into its version or image, or remove the list.",
            )


@rule("kernel-not-in-image", "warning")
def shared_images(policy: definitions.Policy, variants: Sequence[overrides.Variant]) -> Iterator[Diagnostic]:
    """If a mapping has images that are named after kernels, all of its images are."""
    per_kernel = _per_kernel(variants)
    for variant, image in ((one, image) for one in variants for image in one.images):
        is_shared = (id(variant.mapping), image.name) in per_kernel and not _is_named(image)
        if variant.mapping is None or not is_shared or variant.driver.state == "Absent":
            continue
        source, path = image.place("version")
        whose = f" of {image.noun}" if policy.written.names_images else ""
        yield Diagnostic(
            span=source.setting_span(*path),
            message=f"Mapping '{variant.mapping.name}' has images named after kernels, but version "
            f"'{image.parts['version']}'{whose} is one image for all kernels.",
            notes=("Every kernel of the mapping gets that image, even if it holds no modules for the kernel.",),
            hint=f"Write {kernels.FULL_VERSION} into the version or the image.",
        )


@rule("kernel-placeholder-lost", "warning")
def lost_placeholders(policy: definitions.Policy, variants: Sequence[overrides.Variant]) -> Iterator[Diagnostic]:
    """A policy names an image after kernels where its recipe does."""
    told = _per_kernel(variants)  # `shared_images` tells of their single groups.
    for variant in variants:
        for image in variant.images if variant.driver.state != "Absent" else ():
            own = variant.driver.defaults.get(image.name)
            if own is None or _is_named(image) or (id(variant.mapping), image.name) in told:
                continue
            for part in overrides.PARTS:
                source, path = image.place(part)
                if "$" in own[part] and not _is_of_one_kernel(policy, path):
                    yield _lost(source.setting_span(*path), image, part, own[part])


def _per_kernel(variants: Iterable[overrides.Variant]) -> set[tuple[int, str]]:
    """Return the mappings and the names of the images that a variant of the mapping names after kernels."""
    found = ((variant.mapping, image) for variant in variants if variant.mapping for image in variant.images)
    return {(id(mapping), image.name) for mapping, image in found if _is_named(image)}


def _is_of_one_kernel(policy: definitions.Policy, place: documents.Path) -> bool:
    """Return whether a place belongs to a mapping of one kernel, whose image may be written in full."""
    return any(
        mapping.literal is not None and place[: len(mapping.path)] == mapping.path for mapping in policy.mappings
    )


def _lost(span: Span, image: overrides.Image, part: str, default: str) -> Diagnostic:
    text, tail = image.parts[part], re.search(r"[-._]\$\{.*", default)
    better = f'"{text}{tail[0]}"' if tail else f"a {part} with {kernels.FULL_VERSION}"
    if images.DIGEST in text:  # Nothing follows a digest, and a tag before it names no other image.
        better = "a mapping for each kernel (`literal`), each with its own digest"
    return Diagnostic(
        span=span,
        message=f"{part.capitalize()} '{text}' of {image.noun} is one image for all kernels.",
        notes=(f"The recipe names it after the kernel: '{default}'.",),
        hint=f"Write {better}, unless the image serves every kernel.",
    )


def _is_named(image: overrides.Image) -> bool:
    """Return whether an image is named after the kernel."""
    return any("$" in text for text in image.parts.values())


def _asked(policy: definitions.Policy, node: snapshot.Node) -> kernels.Machine:
    """Return what the mappings of a policy ask of a node."""
    machine = kernels.machine(node.profile)
    return machine if any(mapping.os for mapping in policy.mappings) else kernels.Machine(machine.kernel)


@rule("kernel-not-covered", "warning")
def uncovered(division: pools.Division, inventory: snapshot.Inventory) -> Iterator[Diagnostic]:
    """A mapping has a driver for the kernel of every node."""
    if not division.policy.mappings:
        return
    policy = division.policy
    known = (node for node in division.nodes if node.profile.discovered and assignment.is_served(policy, node))
    by_machine = repeats.grouped((_asked(policy, node), node.name) for node in known)
    for machine, nodes in sorted(by_machine.items()):
        if division.kernel_class(machine) is not None:
            continue
        mapping = kernels.first(policy.mappings, machine)
        where = f"{wording.nodes(nodes)} of cluster '{inventory.cluster}'"
        what = f"the kernel {wording.quoted(kernels.said(policy.mappings, machine))} of {where}"
        if mapping is None:
            message = f"No mapping of policy '{policy.name}' covers {what}."
            path, hint = path_of(policy), "Add a mapping for the kernel once there is a driver for it."
        else:
            message = f"Mapping '{mapping.name}' of policy '{policy.name}' lists no image for {what}."
            path, hint = (*mapping.path, "kernels"), "Add the kernel to the list once there is an image for it."
        note = "No installer runs on such a node, and a driver that one left there for another kernel is not loaded."
        if policy.installed is None:
            note, hint = "No program of a pool runs on such a node.", "Add a mapping for it, or the kernel to its list."
        if not machine.system and any(one.os for one in policy.mappings):
            hint = f"Take a new inventory where NFD labels the nodes with their system ({kernels.SYSTEM})."
        yield Diagnostic(span=policy.source.setting_span(*path), message=message, notes=(note,), hint=hint)


def unread(division: pools.Division) -> Iterator[Diagnostic]:
    """Yield the kernels without numbers whose numbers a program names: there is nothing to put for `${kernel.x}`."""
    done = set[tuple[str, str]]()
    for made in division.deployments:
        by_kernel = made.part.kernels if made.part else None
        kernel = by_kernel.kernel if by_kernel else None
        if by_kernel is None or kernel is None or kernels.numbers(kernel) or (made.program.name, kernel) in done:
            continue
        done.add((made.program.name, kernel))
        texts = (place.text for place in references.places(made.program.data, made.program.path))
        named = (name for text in texts for name in references.names(text))
        name = next((name for name in named if name in ("kernel.x", "kernel.y", "kernel.z")), None)
        if name is not None:
            yield Diagnostic(
                code="reference-absent",
                span=division.policy.source.setting_span(*by_kernel.mapping.path),
                message=f"Program '{made.program.name}' names '${{{name}}}', and the kernel {wording.quoted(kernel)} "
                f"of mapping '{by_kernel.mapping.name}' begins with no number.",
                hint="Name ${kernel.full} in the recipe, or leave the kernel out of the mapping.",
            )
