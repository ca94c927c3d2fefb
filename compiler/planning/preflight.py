"""Preflight: the policies and images that would serve a kernel that no node runs yet."""

from dataclasses import dataclass

from compiler.fleet import clusters, definitions, selectors
from compiler.planning import image_matrix, kernels, overrides, pools

_LABELS = "feature.node.kubernetes.io/kernel-version"
"""The prefix of NFD's kernel labels: https://nfd.sigs.k8s.io/usage/features#kernel"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """The driver that a pool would install on a node with the kernel."""

    pool: str
    image: str
    """The image whose version is the driver's."""
    images: tuple[tuple[str, str], ...]
    """The images of the driver's pods by their names in the recipe; those of the built-in one need no names."""
    modules: tuple[str, ...]
    """The images that have to hold modules for the kernel."""
    named: tuple[str, ...]
    """Other images that are built for the kernel."""
    source: str
    """The name of the field of `driver.source` that is set."""
    state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The drivers that a policy would install on nodes with the kernel, and the reason."""

    policy: str
    mapping: str | None
    offers: tuple[Offer, ...]
    """One for each pool; empty if the policy has no driver for the kernel."""
    reason: str

    @property
    def is_served(self) -> bool:
        """True when such a node would get a driver in some pool."""
        return any(offer.state == "Present" for offer in self.offers)


def answer(division: pools.Division, version: str, spec: clusters.Spec) -> Answer:
    """Return the drivers of a policy for a node that runs `version`, given as `uname -r` prints it."""
    policy, kernel = division.policy, kernels.cleaned(version)
    if policy.driver is None:
        return _none(division, f"recipe '{policy.recipe.name}' has no driver")
    if not policy.driver.enabled:
        return _none(division, "driver.enabled is false: the driver is pre-installed")
    if not any(selectors.witness((*term, *_known(kernel))) is not None for term in division.terms):
        return _none(division, "its nodeSelector matches no node with this kernel")
    mapping = kernels.first(policy.mappings, kernel)
    if mapping is None:
        if policy.mappings:
            return _none(division, "no mapping covers it")
        return _served(division, policy.driver, None, spec, "it has no kernelMappings: one driver for every kernel")
    reason, by_kernel = f"mapping '{mapping.name}' takes it", division.kernel_class(version)
    if not overrides.is_per_kernel(policy, mapping):
        return _served(division, policy.driver, by_kernel, spec, reason)
    if mapping.kernels is not None and kernel not in pools.listed(mapping):
        return _none(division, f"{reason}, but does not list it among its kernels")
    reason += ", with an image of its own"
    if by_kernel is None:
        reason += ", once a compile finds it in the inventory"
    return _served(division, policy.driver, by_kernel or pools.of_kernel(mapping, kernel), spec, reason)


def _none(division: pools.Division, reason: str) -> Answer:
    return Answer(policy=division.policy.name, mapping=None, offers=(), reason=reason)


def _served(
    division: pools.Division,
    driver: definitions.Driver,
    by_kernel: pools.KernelClass | None,
    spec: clusters.Spec,
    reason: str,
) -> Answer:
    candidates = [
        pools.pool_of(division, driver, (group, by_kernel), spec.images.mirrors) for group in division.groups or (None,)
    ]
    return Answer(
        policy=division.policy.name,
        mapping=by_kernel.mapping.name if by_kernel else None,
        offers=tuple(_offer(division.policy, pool) for pool in candidates),
        reason=reason,
    )


def _offer(policy: definitions.Policy, pool: pools.Pool) -> Offer:
    built = image_matrix.holding_modules(policy, pool)
    holding = {image for name, image in pool.images if name in image_matrix.with_modules(pool.driver)}
    return Offer(
        pool=pool.name,
        image=pool.image,
        images=() if policy.recipe.builtin else pool.images,
        modules=tuple(image for image in built if image in holding),
        named=tuple(image for image in built if image not in holding),
        source=pool.driver.source.name,
        state=pool.driver.state,
    )


def _known(kernel: str) -> selectors.Term:
    """Return the known labels of a node with this kernel."""
    numbers = [number for number in kernel.partition("-")[0].split(".") if number.isdecimal()]
    parts = (("full", kernel), *zip(("major", "minor", "revision"), numbers, strict=False))
    return tuple(selectors.Requirement(f"{_LABELS}.{part}", "In", (value,)) for part, value in parts)
