"""A kernel that no node runs yet: which policies would serve it, and with which images."""

from dataclasses import dataclass

from compiler.fleet import overlap, selectors
from compiler.model import cluster
from compiler.planning import images, kernels, overrides, pools

_LABELS = "feature.node.kubernetes.io/kernel-version"
"""NFD's labels of a kernel: https://nfd.sigs.k8s.io/usage/features#kernel"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """What a pool would bring to a node with the kernel."""

    pool: str
    image: str
    source: str
    """The field of `driver.source` that is set."""
    state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a policy would do for nodes with the kernel."""

    policy: str
    mapping: str | None
    offers: tuple[Offer, ...]
    """One for each pool; none where the policy has no driver for the kernel."""
    reason: str

    @property
    def is_served(self) -> bool:
        """Whether such a node would get a driver, in some pool."""
        return any(offer.state == "Present" for offer in self.offers)


def answer(division: pools.Division, version: str, spec: cluster.KAEClusterSpec) -> Answer:
    """What a policy would do for a node that runs `version`, as `uname -r` prints it."""
    policy, driver, kernel = division.policy, division.policy.spec.driver, kernels.cleaned(version)
    if not driver.enabled:
        return _none(division, "driver.enabled is false: it is pre-installed")
    if not any(overlap.overlap(term, _known(kernel)) is not None for term in division.terms):
        return _none(division, "its nodeSelector matches no node with this kernel")
    mapping = kernels.first(driver.kernelMappings, kernel)
    if mapping is None:
        if driver.kernelMappings:
            return _none(division, "no mapping covers it")
        return _served(division, None, spec, "it has no kernelMappings: one driver for every kernel")
    takes, found = f"mapping '{mapping.name}' takes it", division.kernel_class(version)
    if not overrides.is_per_kernel(policy, mapping):
        return _served(division, found, spec, takes)
    if mapping.kernels is not None and kernel not in pools.listed(mapping):
        return _none(division, f"{takes}, and does not list it among its kernels")
    takes += ", with an image of its own" + ("" if found else ", from the compile on that finds it in the inventory")
    return _served(division, found or pools.of_kernel(mapping, kernel), spec, takes)


def _none(division: pools.Division, reason: str) -> Answer:
    return Answer(policy=division.policy.name, mapping=None, offers=(), reason=reason)


def _served(
    division: pools.Division, found: pools.KernelClass | None, spec: cluster.KAEClusterSpec, reason: str
) -> Answer:
    made = [pools.pool_of(division.policy, group, found) for group in division.groups or (None,)]
    return Answer(
        policy=division.policy.name,
        mapping=found.mapping.name if found else None,
        offers=tuple(
            Offer(
                pool=pool.name,
                image=images.of(pool.driver, spec.images.mirrors),
                source=next(iter(pool.driver.source.model_dump(exclude_none=True))),
                state=pool.driver.state,
            )
            for pool in made
        ),
        reason=reason,
    )


def _known(kernel: str) -> selectors.Term:
    """What is known of the labels of a node with this kernel."""
    numbers = [number for number in kernel.partition("-")[0].split(".") if number.isdecimal()]
    parts = (("full", kernel), *zip(("major", "minor", "revision"), numbers, strict=False))
    return tuple(selectors.Requirement(f"{_LABELS}.{part}", "In", (value,)) for part, value in parts)
