"""The image matrix: the driver images that a policy needs for each kernel, for a CI to build."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from compiler.fleet import definitions
from compiler.planning import kernels, overrides, plan, pools

_MODULES = "/opt/lib/modules"
"""The folder of an image with a folder of modules for each kernel, as images of the Kernel Module Management operator
have it: https://kmm.sigs.k8s.io/documentation/module_loader_image/"""


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
        for pool in division.pools:
            here = counts[policy, pool.name]
            known = here.keys() | ({pool.kernels.kernel} if pool.kernels and pool.kernels.kernel else set())
            for kernel, image in product(known, holding_modules(division.policy, pool)):
                nodes.setdefault((kernel, image, policy), {})[pool.name] = here[kernel]
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


def holding_modules(policy: definitions.Policy, pool: pools.Pool) -> Sequence[str]:
    """Return the images of a pool that have to hold modules for its kernels, or are named after them."""
    if pool.driver.state == "Absent":
        return ()
    built = {*with_modules(pool.driver), *_named(policy, pool)}
    return [image for name, image in pool.images if name in built]


def _named(policy: definitions.Policy, pool: pools.Pool) -> Iterator[str]:
    """Yield the names of the images of a recipe that are named after kernels in the documents."""
    if policy.driver is not None:
        mapping = pool.kernels.mapping if pool.kernels else None
        unfilled = overrides.effective(policy.driver, mapping, pool.group.declared if pool.group else None)
        yield from (name for name, _ in pool.images if kernels.is_named(unfilled.images[name]))


def with_modules(driver: definitions.Driver) -> Collection[str]:
    """Return the names of the images of a recipe whose modules are loaded; none where the source makes them."""
    if driver.source.prebuilt is None:
        return ()
    payloads = {name for name, paths in driver.payloads.items() if any(map(_reaches_modules, paths))}
    return payloads or {driver.installer}


def _reaches_modules(path: str) -> bool:
    """Return whether a path of a payload holds modules, or is a part of those."""
    return f"{path}/".startswith(f"{_MODULES}/") or _MODULES.startswith(f"{path}/")
