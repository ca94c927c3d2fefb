"""Pools: the parts of a policy that may have drivers of their own, by group of nodes and by kernel.

A node's group is found by its name, which each compile fixes; its kernel is found by NFD at any time. A policy whose
mappings, waves and frozen groups say nothing in a cluster has one pool there, of its own name.
"""

import functools
import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from compiler import devices, documents, governance, kernels, overrides
from compiler import groups as grouping
from compiler.model import driver as drivers

DIGITS = 8
"""Of the hash by which pools of single kernels are told apart: kernels' versions are too long for names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelClass:
    """The kernels that a mapping takes, or one of them where images are named after kernels."""

    name: str
    mapping: drivers.KernelMapping
    kernel: str | None
    """The one kernel, as NFD reports it; None for all that the mapping takes."""
    pattern: str
    """RE2, unanchored, against the kernel's full version."""
    unless: tuple[str, ...]
    """Patterns that come first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """What one DaemonSet of driver installers serves."""

    name: str
    group: grouping.Group | None
    kernels: KernelClass | None
    driver: drivers.Driver
    """The policy's driver with every override that holds in the pool."""

    @property
    def is_whole(self) -> bool:
        """Whether it is all of its policy."""
        return self.group is None and self.kernels is None


@dataclass(frozen=True, kw_only=True)
class Division(governance.Governed):
    """A policy in a cluster, with the pools that it falls into there."""

    groups: tuple[grouping.Group, ...]
    """In the order in which they take nodes; empty where the policy has none in this cluster."""
    classes: tuple[KernelClass, ...]
    pools: tuple[Pool, ...]

    @property
    def label(self) -> str | None:
        """The label by which a node's pool is known; None where the policy has but one."""
        return pool_label(self.policy.name) if self.groups or self.policy.spec.driver.kernelMappings else None

    def group(self, node: str) -> grouping.Group | None:
        """The group of a node of the policy."""
        return self._groups.get(node, self.groups[-1]) if self.groups else None

    @functools.cached_property
    def _groups(self) -> dict[str, grouping.Group]:
        return {name: group for group in self.groups for name in group.nodes}

    def kernel_class(self, version: str) -> KernelClass | None:
        """The class of a kernel, given as the node tells it; None where there is no pool for it."""
        return _class_of(self.policy, self.classes, version)

    def pool(self, node: documents.Node) -> Pool | None:
        """The pool of a node of the policy; None where no mapping has one for its kernel."""
        group, found = self.group(node.name), None
        if self.policy.spec.driver.kernelMappings:
            found = self.kernel_class(node.profile.kernel_version)
            if found is None:
                return None
        return self._pools[_name(group), _name(found)]

    def why_not(self, node: documents.Node) -> str:
        """Why a node of the policy is in no pool."""
        kernel = kernels.cleaned(node.profile.kernel_version)
        mapping = kernels.first(self.policy.spec.driver.kernelMappings, kernel)
        if mapping is None:
            return f"no mapping covers its kernel {kernel or '(unknown)'}"
        return f"mapping '{mapping.name}' lists no image for its kernel {kernel}"

    def reasons(self, node: documents.Node) -> Iterator[str]:
        """Why a node of the policy is in its group, and which mapping takes its kernel."""
        group = self.group(node.name)
        if group is not None:
            yield f"group '{group.name}': {grouping.reason(group, node)}"
        if self.policy.spec.driver.kernelMappings:
            found = self.kernel_class(node.profile.kernel_version)
            said = f"'{kernels.cleaned(node.profile.kernel_version)}'"
            yield f"mapping '{found.mapping.name}': its kernel {said} matches" if found else self.why_not(node)

    @functools.cached_property
    def _pools(self) -> dict[tuple[str | None, str | None], Pool]:
        return {(_name(pool.group), _name(pool.kernels)): pool for pool in self.pools}


def _class_of(policy: documents.Policy, classes: Iterable[KernelClass], version: str) -> KernelClass | None:
    kernel = kernels.cleaned(version)
    mapping = kernels.first(policy.spec.driver.kernelMappings, kernel)
    return next((found for found in classes if found.mapping is mapping and found.kernel in (None, kernel)), None)


def _name(part: grouping.Group | KernelClass | None) -> str | None:
    return None if part is None else part.name


def pool_label(policy: str) -> str:
    """The label that NFD gives to the nodes of a policy with pools; its value is the pool's name."""
    return f"{devices.DOMAIN}/kae.pool.{policy}"


def divided(entry: governance.Governed, cluster: documents.ClusterName, nodes: Sequence[documents.Node]) -> Division:
    """A policy's pools in a cluster, where these are the nodes that it governs."""
    policy = entry.policy
    classes = tuple(_classes(policy, nodes))
    driven = frozenset(node.name for node in nodes if _is_driven(policy, classes, node))
    own = tuple(grouping.of(policy, cluster, nodes, driven))
    by_group: tuple[grouping.Group | None, ...] = own or (None,)
    by_kernel: tuple[KernelClass | None, ...] = classes if policy.spec.driver.kernelMappings else (None,)
    pools = tuple(_pool(policy, group, found) for group, found in product(by_group, by_kernel))
    return Division(policy=policy, terms=entry.terms, groups=own, classes=classes, pools=pools)


def _pool(policy: documents.Policy, group: grouping.Group | None, found: KernelClass | None) -> Pool:
    parts = [part.name for part in (group, found) if part is not None]
    return Pool(
        name="--".join(parts) or policy.name,
        group=group,
        kernels=found,
        driver=overrides.effective(
            policy.spec.driver,
            found.mapping if found else None,
            group.overrides if group else None,
            kernel=found.kernel if found else None,
        ),
    )


def _is_driven(policy: documents.Policy, classes: Sequence[KernelClass], node: documents.Node) -> bool:
    """Whether a driver would come to the node: a canary that none comes to would show nothing."""
    if not governance.is_served(policy, node):
        return False
    return not policy.spec.driver.kernelMappings or bool(_class_of(policy, classes, node.profile.kernel_version))


def _classes(policy: documents.Policy, nodes: Sequence[documents.Node]) -> Iterator[KernelClass]:
    mappings = policy.spec.driver.kernelMappings
    seen = _kernels(policy, nodes) if any(overrides.is_per_kernel(policy, mapping) for mapping in mappings) else {}
    for index, mapping in enumerate(mappings):
        pattern = kernels.pattern(mapping)
        if not overrides.is_per_kernel(policy, mapping):
            unless = tuple(kernels.pattern(earlier) for earlier in mappings[:index])
            yield KernelClass(name=mapping.name, mapping=mapping, kernel=None, pattern=pattern, unless=unless)
            continue
        for kernel in _listed(mapping) or sorted(seen):
            if kernels.first(mappings, kernel) is mapping:
                yield KernelClass(
                    name=class_name(mapping, kernel),
                    mapping=mapping,
                    kernel=kernel,
                    pattern=kernels.exactly(kernel),
                    unless=(),
                )


def class_name(mapping: drivers.KernelMapping, kernel: str | None) -> str:
    """The mapping's name, and of a pool of one kernel a hash, as versions of kernels are too long for names."""
    return mapping.name if kernel is None else f"{mapping.name}--{hashlib.sha256(kernel.encode()).hexdigest()[:DIGITS]}"


def _kernels(policy: documents.Policy, nodes: Iterable[documents.Node]) -> set[str]:
    """The kernels that the policy's nodes run, as NFD reports them."""
    versions = {node.profile.kernel_version for node in nodes if governance.is_served(policy, node)}
    return {kernels.cleaned(version) for version in versions if version}


def _listed(mapping: drivers.KernelMapping) -> tuple[str, ...]:
    known = mapping.kernels or ((mapping.literal,) if mapping.literal is not None else ())
    return tuple(sorted({kernels.cleaned(kernel) for kernel in known}))
