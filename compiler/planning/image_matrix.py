"""Which images have to hold a driver for which kernels: what a CI builds before a policy can do its work."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from compiler.model import cluster
from compiler.planning import images, kernels, plan, pools


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
    divisions: Iterable[pools.Division], decisions: Sequence[plan.Decision], spec: cluster.KAEClusterSpec
) -> tuple[Need, ...]:
    """Every image that brings its modules along, for every kernel that is listed or seen, sorted."""
    counts = counted(decisions)
    found: dict[tuple[str, str, str], dict[str, int]] = {}
    for division in divisions:
        policy = division.policy.name
        for pool in filter(_holds_modules, division.pools):
            here, image = counts[policy, pool.name], images.of(pool.driver, spec.images.mirrors)
            for kernel in here.keys() | ({pool.kernels.kernel} if pool.kernels and pool.kernels.kernel else set()):
                found.setdefault((kernel, image, policy), {})[pool.name] = here[kernel]
    return tuple(
        Need(kernel=kernel, image=image, policy=policy, pools=tuple(sorted(by_pool)), nodes=sum(by_pool.values()))
        for (kernel, image, policy), by_pool in sorted(found.items())
    )


def counted(decisions: Iterable[plan.Decision]) -> defaultdict[tuple[str, str], Counter[str]]:
    """How many nodes run which kernel, as NFD reports it, in each pool, by the names of its policy and its own."""
    found: defaultdict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for decision in decisions:
        if decision.pool is not None and decision.policy is not None:
            kernel = kernels.cleaned(decision.node.profile.kernel_version)
            found[decision.policy.name, decision.pool.name][kernel] += len(decision.nodes)
    return found


def _holds_modules(pool: pools.Pool) -> bool:
    """Whether the image has to hold modules for the kernels of a pool, or is named after them."""
    if pool.driver.state == "Absent":
        return False
    return pool.driver.source.prebuilt is not None or (pool.kernels is not None and pool.kernels.kernel is not None)
