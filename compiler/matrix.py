"""Which images have to hold a driver for which kernels: what a CI builds before a policy can do its work."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from compiler import images, kernels, plan, pools
from compiler.model import cluster


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """An image that is asked for a kernel's modules."""

    kernel: str
    """As NFD reports it."""
    image: str
    policy: str
    pools: tuple[str, ...]
    """Of the policy, sorted."""
    nodes: int
    """Nodes of the inventory that take it."""


def needs(
    divisions: Iterable[pools.Division], verdicts: Sequence[plan.Verdict], spec: cluster.KAEClusterSpec
) -> tuple[Need, ...]:
    """Every image that brings its modules along, for every kernel that is listed or seen, sorted."""
    counts: dict[tuple[str, str, str], int] = {}
    for verdict in verdicts:
        if verdict.pool is not None and verdict.policy is not None:
            key = (verdict.policy.name, verdict.pool.name, kernels.cleaned(verdict.node.profile.kernel_version))
            counts[key] = counts.get(key, 0) + len(verdict.nodes)
    found: dict[tuple[str, str, str], dict[str, int]] = {}
    for division in divisions:
        for pool in division.pools if division.policy.spec.driver.enabled else ():
            if not holds_modules(pool):
                continue
            policy, image = division.policy.name, images.mirrored(images.reference(pool.driver), spec.images.mirrors)
            seen = {kernel for owner, name, kernel in counts if (owner, name) == (policy, pool.name)}
            for kernel in seen | ({pool.kernels.kernel} if pool.kernels and pool.kernels.kernel else set()):
                here = counts.get((policy, pool.name, kernel), 0)
                found.setdefault((kernel, image, policy), {})[pool.name] = here
    return tuple(
        Need(kernel=kernel, image=image, policy=policy, pools=tuple(sorted(by_pool)), nodes=sum(by_pool.values()))
        for (kernel, image, policy), by_pool in sorted(found.items())
    )


def holds_modules(pool: pools.Pool) -> bool:
    """Whether the image has to hold modules for the kernels of a pool, or is named after them."""
    if pool.driver.state == "Absent":
        return False
    return pool.driver.source.prebuilt is not None or (pool.kernels is not None and pool.kernels.kernel is not None)
