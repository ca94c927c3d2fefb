"""Preflight: the policies and images that would serve a kernel that no node runs yet."""

import functools

import msgspec

from compiler.fleet import clusters, definitions, selectors
from compiler.planning import image_matrix, kernels, overrides, pools

_LABELS = "feature.node.kubernetes.io/kernel-version"
"""The prefix of NFD's kernel labels: https://nfd.sigs.k8s.io/usage/features#kernel"""


class Offer(msgspec.Struct, frozen=True, kw_only=True):
    """The driver that a pool would install on a node with the kernel."""

    pool: str
    image: str
    """The image whose version is the driver's."""
    images: tuple[tuple[str, str], ...]
    """The images of the driver's pods by their names in the recipe; none where people do not know these."""
    modules: tuple[str, ...]
    """The images that have to hold modules for the kernel."""
    named: tuple[str, ...]
    """Other images that are built for the kernel."""
    source: str
    """The name of the field of `driver.source` that is set, or the program that the images are of."""
    state: str


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """The drivers that a policy would install on nodes with the kernel, and the reason."""

    policy: str
    mapping: str | None = None
    offers: tuple[Offer, ...] = ()
    """One for each pool; empty if the policy has no driver for the kernel."""
    reason: str

    @property
    def is_served(self) -> bool:
        """True when such a node would get a driver in some pool."""
        return any(offer.state == "Present" for offer in self.offers)


def answers(division: pools.Division, version: str, spec: clusters.Spec) -> tuple[Answer, ...]:
    """Return the drivers of a policy for a node that runs `version`, given as `uname -r` prints it.

    There are several where mappings ask for the operating system, too.
    """
    policy, kernel = division.policy, kernels.cleaned(version)
    mappings = tuple(kernels.possible(policy.mappings, kernel)) or (None,)
    return tuple(_answer(division, kernel, mapping, spec) for mapping in mappings)


def _answer(
    division: pools.Division, kernel: str, mapping: definitions.KernelMapping | None, spec: clusters.Spec
) -> Answer:
    policy = division.policy
    told = functools.partial(Answer, policy=policy.name)
    if not policy.has_pools and policy.driver is None:
        return told(reason=f"recipe '{policy.recipe.name}' has no driver")
    if not policy.has_pools:
        return told(reason="driver.enabled is false: the driver is pre-installed")
    if not any(selectors.witness((*term, *_known(kernel))) is not None for term in division.terms):
        return told(reason="its nodeSelector matches no node with this kernel")
    classes = (one for one in division.classes if one.mapping is mapping and one.kernel in (None, kernel))
    by_kernel = next(classes, None)
    if mapping is None and policy.mappings:
        return told(reason="no mapping covers it")
    reason = (
        f"mapping '{mapping.name}' takes it{kernels.system(mapping.os)}"
        if mapping
        else f"it has no kernelMappings: one {'driver' if policy.installed else 'program'} for every kernel"
    )
    if mapping is not None and overrides.is_per_kernel(policy, mapping):
        if mapping.kernels is not None and kernel not in pools.listed(mapping):
            return told(reason=f"{reason}, but does not list it among its kernels")
        reason += ", with an image of its own"
        if by_kernel is None:
            reason += ", once a compile finds it in the inventory"
            by_kernel = pools.of_kernel(mapping, kernel)
    parts = [pools.part_of(policy, (group, by_kernel)) for group in pools.with_pools(division.groups)]
    made = [pools.pool_of(division, policy.installed, part, spec.images.mirrors) for part in parts if policy.installed]
    offers = (
        *(_offer(policy, pool) for pool in made),
        *(
            _of_program(program)
            for stated in policy.programs
            if stated.is_pooled
            for part in parts
            if (program := pools.deployment_of(division, stated, part, spec.images.mirrors))
        ),
    )
    return told(mapping=mapping.name if mapping else None, offers=offers, reason=reason)


def _offer(policy: definitions.Policy, pool: pools.Pool) -> Offer:
    built = image_matrix.holding_modules(pool)
    holding = {image for name, image in pool.images if name in image_matrix.with_modules(pool.driver)}
    return Offer(
        pool=pool.name,
        image=pool.image,
        images=pool.images if policy.written.names_images else (),
        modules=tuple(image for image in built if image in holding),
        named=tuple(image for image in built if image not in holding),
        source=pool.driver.source.name,
        state=pool.driver.state,
    )


def _of_program(made: pools.Deployment) -> Offer:
    return Offer(
        pool=made.part.name if made.part else "",
        image=made.image,
        images=made.images,
        modules=(),
        named=tuple(image for name, image in made.images if name in made.named),
        source=f"program {made.program.name}",
        state="Present",
    )


def _known(kernel: str) -> selectors.Term:
    """Return the known labels of a node with this kernel."""
    numbers = [number for number in kernel.partition("-")[0].split(".") if number.isdecimal()]
    parts = (("full", kernel), *zip(("major", "minor", "revision"), numbers, strict=False))
    return tuple(selectors.Requirement(f"{_LABELS}.{part}", "In", (value,)) for part, value in parts)
