"""The image matrix: the driver images that a policy needs for each kernel, for a CI to build."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from compiler.planning import kernels, plan, pools


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """An image that has to hold the modules for a kernel."""

    kernel: str
    """As NFD reports it."""
    image: str
    policy: str
    pools: tuple[str, ...]
    """The pools of the policy that use the image, sorted."""
    nodes: int
    """The number of nodes in the inventory that use it."""


def needs(divisions: Iterable[pools.Division], decisions: Iterable[plan.Decision]) -> tuple[Need, ...]:
    """Return every image that holds modules, for every kernel that mappings list or nodes run, sorted."""
    counts = counted(decisions)
    nodes: dict[tuple[str, str, str], dict[str, int]] = {}
    for division in divisions:
        policy = division.policy.name
        for pool in filter(_holds_modules, division.pools):
            here = counts[policy, pool.name]
            for kernel in here.keys() | ({pool.kernels.kernel} if pool.kernels and pool.kernels.kernel else set()):
                nodes.setdefault((kernel, pool.image, policy), {})[pool.name] = here[kernel]
    return tuple(
        Need(kernel=kernel, image=image, policy=policy, pools=tuple(sorted(by_pool)), nodes=sum(by_pool.values()))
        for (kernel, image, policy), by_pool in sorted(nodes.items())
    )


def counted(decisions: Iterable[plan.Decision]) -> defaultdict[tuple[str, str], Counter[str]]:
    """Return the number of nodes by kernel, as NFD reports it, for each pool, by the names of its policy and pool."""
    counts: defaultdict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for decision in decisions:
        if decision.pool is not None and decision.policy is not None:
            kernel = kernels.cleaned(decision.node.profile.kernel_version)
            counts[decision.policy.name, decision.pool.name][kernel] += len(decision.nodes)
    return counts


def _holds_modules(pool: pools.Pool) -> bool:
    """Return whether the image of a pool has to hold modules for its kernels, or is named after them."""
    if pool.driver.state == "Absent":
        return False
    return pool.driver.source.prebuilt is not None or (pool.kernels is not None and pool.kernels.kernel is not None)
