"""The images of drivers: those that a policy needs for each kernel, and what the labels of one say is in it.

docs/driver-image.md documents the labels; installer/driver-image/Dockerfile writes them.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import product

import msgspec

from compiler.fleet import definitions
from compiler.planning import kernels, plan, pools
from runtime import driver_work

LABEL = "device.openfuyao.com/driver-"
"""The prefix of the labels."""


class Need(msgspec.Struct, frozen=True, kw_only=True):
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
            here = _by_kernel(counts[policy, pool.name], pool)
            for kernel, image in product(here, holding_modules(pool)):
                nodes.setdefault((kernel, image, policy), {})[pool.name] = here[kernel]
    return tuple(
        Need(kernel=kernel, image=image, policy=policy, pools=tuple(sorted(by_pool)), nodes=sum(by_pool.values()))
        for (kernel, image, policy), by_pool in sorted(nodes.items())
    )


def _by_kernel(counts: Mapping[str, int], pool: pools.Pool) -> dict[str, int]:
    """Return the number of nodes of a pool by kernel; one that its mapping lists may have none."""
    return {**({pool.kernels.kernel: 0} if pool.kernels and pool.kernels.kernel else {}), **counts}


def counted(decisions: Iterable[plan.Decision]) -> defaultdict[tuple[str, str], Counter[str]]:
    """Return the number of nodes by kernel, as NFD reports it, for each pool, by the names of its policy and pool."""
    counts: defaultdict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for decision in decisions:
        if decision.pool is not None and decision.policy is not None:
            kernel = kernels.cleaned(decision.node.profile.kernel_version)
            counts[decision.policy.name, decision.pool.name][kernel] += len(decision.nodes)
    return counts


def holding_modules(pool: pools.Pool) -> Sequence[str]:
    """Return the images of a pool that have to hold modules for its kernels, or are named after them."""
    if pool.driver.state == "Absent":
        return ()
    built = with_modules(pool.driver)
    return [image for name, image in pool.images if name in built or kernels.is_named(pool.stated.images[name])]


def with_modules(driver: definitions.Driver) -> Collection[str]:
    """Return the names of the images of a recipe whose modules are loaded; none where the source makes them."""
    if driver.source.prebuilt is None:
        return ()
    payloads = {name for name, paths in driver.payloads.items() if any(map(reaches_modules, paths))}
    return payloads or {driver.installer}


def reaches_modules(path: str) -> bool:
    """Return whether a path of a payload says that it holds modules, or is a part of those."""
    return "/lib/modules/" in f"{path}/" or driver_work.MODULES in driver_work.module_folders(path)


class Content(msgspec.Struct, frozen=True, kw_only=True):
    """The content of a driver image, as its labels say."""

    version: str
    kernels: frozenset[str]
    """The kernels whose modules it holds, as NFD reports them."""
    sources: frozenset[str]
    """The fields of `driver.source` that it serves, of those that take the driver from the image."""


class Use(msgspec.Struct, frozen=True, kw_only=True):
    """A pool that takes an image, and its nodes by kernel, as NFD reports it; a kernel that is listed may have none."""

    policy: definitions.Policy
    pool: pools.Pool
    nodes: Mapping[str, int]

    @property
    def source(self) -> str:
        """The name of the field of `driver.source` that is set."""
        return self.pool.driver.source.name

    @property
    def is_from_image(self) -> bool:
        """True when the source takes the driver from the image."""
        packages = self.pool.driver.source.packages
        if packages is not None:
            return packages.is_in_image
        return self.source in ("build", "prebuilt")


def content(labels: Mapping[str, str]) -> Content | None:
    """Return what labels say; None where they do not name a driver's version."""
    version = labels.get(f"{LABEL}version")
    if not version:
        return None
    return Content(
        version=version,
        kernels=frozenset(map(kernels.cleaned, labels.get(f"{LABEL}kernels", "").split())),
        sources=frozenset(labels.get(f"{LABEL}sources", "").split()),
    )


def uses(view: plan.Plan, image: str) -> Iterator[Use]:
    """Yield the pools of a cluster that take an image."""
    counts = counted(view.decisions)
    for division in view.divisions:
        for pool in division.pools:
            if image in dict(pool.images).values():
                nodes = _by_kernel(counts[division.policy.name, pool.name], pool)
                yield Use(policy=division.policy, pool=pool, nodes=dict(sorted(nodes.items())))
