"""Pools: the parts of a policy that may have different drivers, by group of nodes and by kernel.

Each compile assigns nodes to groups by name; NFD finds their kernels at any time. A policy without mappings, waves and
frozen groups in a cluster has one pool there, which has the name of the policy.
"""

import functools
import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import product
from typing import Literal, NamedTuple

import msgspec

from compiler import names
from compiler.fleet import assignment, clusters, definitions, selectors, taints
from compiler.inventory import snapshot
from compiler.planning import images, kernels, overrides

ARCHITECTURE = "kubernetes.io/arch"
"""The label with a node's architecture, which its kubelet sets."""

REST = "rest"
"""The group of all nodes that no wave and no frozen group takes."""

BUCKETS = 10_000
"""The number of buckets for waves by percent: a bucket is a hundredth of a per cent."""

DIGITS = 8
"""Digits of the hash in the names of pools of one kernel: kernel versions are too long for names."""


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """A frozen group, a wave, or the rest of the nodes."""

    name: str
    nodes: tuple[str, ...]
    """The names of its nodes, sorted; empty for the rest, which takes all others."""
    declared: definitions.NodeGroup | None
    """None for the rest, which is not declared."""

    @property
    def is_reserved(self) -> bool:
        """True for a wave whose document says that it has no node yet: it has no pool."""
        return self.declared is not None and self.declared.nodes == ()

    @property
    def sort(self) -> Literal["frozen", "wave", "rest"]:
        """What it is."""
        return self.declared.sort if self.declared else "rest"


class KernelClass(msgspec.Struct, frozen=True, kw_only=True):
    """The kernels that a mapping takes, or one of them if images are named after kernels."""

    name: str
    mapping: definitions.KernelMapping
    kernel: str | None
    """The one kernel, as NFD reports it; None for all kernels of the mapping."""
    pattern: str
    """An unanchored RE2 pattern for the kernel's full version."""
    unless: tuple[str, ...]
    """The patterns of earlier mappings."""


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """The nodes of a policy that may have another driver and other programs than the rest: those of one pool."""

    name: str
    group: Group | None
    kernels: KernelClass | None

    @property
    def is_whole(self) -> bool:
        """True when it holds all nodes of its policy."""
        return self.group is None and self.kernels is None


class Pool(Part, frozen=True, kw_only=True):
    """The nodes of a policy that one DaemonSet of driver installers serves."""

    stated: definitions.Driver
    """The policy's driver with the overrides of the pool; its images may be named after kernels."""
    driver: definitions.Driver
    """The same with the images of the pool's kernel."""
    image: str
    """The image whose version is the driver's, at the mirror of the cluster."""
    images: tuple[tuple[str, str], ...]
    """The images of its pods by their names in the recipe: the installer's first, then those whose files it takes."""
    terms: tuple[selectors.Term, ...]
    """The node affinity of its DaemonSet."""


class Deployment(msgspec.Struct, frozen=True, kw_only=True):
    """A program of a policy on all of its nodes, or on those of one pool: one DaemonSet."""

    program: definitions.Program
    """With the values and images of the pool, filled for its kernel."""
    part: Part | None
    """The pool; None where the policy has the program once."""
    image: str
    """The image of its first container, at the mirror of the cluster."""
    images: tuple[tuple[str, str], ...]
    """The images of its containers by their names in the recipe."""
    named: frozenset[str]
    """The names of those that are named after the kernel."""
    terms: tuple[selectors.Term, ...]
    """The node affinity of its DaemonSet."""


class Division(assignment.Assigned, frozen=True, kw_only=True, dict=True):
    """A policy of a cluster with its nodes, and the pools that they are divided into."""

    nodes: tuple[snapshot.Node, ...]

    groups: tuple[Group, ...]
    """In the order in which they take nodes; empty if the policy has none in this cluster."""
    classes: tuple[KernelClass, ...]
    parts: tuple[Part, ...]
    """All pools of the policy, also those without a driver."""
    pools: tuple[Pool, ...]
    """Those with driver installers: all or none."""
    deployments: tuple[Deployment, ...] = ()
    """The programs that run, by program and pool."""

    driver_terms: tuple[selectors.Term, ...]
    """The node affinity of the driver installers of all pools together; none if the driver is pre-installed."""
    device_plugin_terms: tuple[selectors.Term, ...]
    """The node affinity of the device plugin; none if it is pre-installed."""
    device_plugin_image: str
    """The image of the device plugin, at the mirror of the cluster; empty where none runs."""

    @property
    def is_followed(self) -> bool:
        """True where a program comes after the driver, whose installers then take its pods away before an unload.

        With a driver that is Absent the program goes, too, but its pods stay until an engine prunes their DaemonSet.
        """
        is_removed = any(pool.driver.state == "Absent" for pool in self.pools)
        stated = (one for one in self.policy.programs if one.runs) if is_removed else ()
        programs = (*stated, *(one.program for one in self.deployments))
        return bool(self.pools) and any(one.data.get("after") == "driver" for one in programs)

    @property
    def label(self) -> str | None:
        """The key of the label that NFD gives a node for its pool; None for a policy with one pool or none."""
        if not self.parts or not (self.groups or self.policy.mappings):
            return None
        return _label(self.policy)

    def group(self, node: str) -> Group | None:
        """Return the group of a node of the policy; None if it has no groups."""
        return self._groups.get(node, self.groups[-1]) if self.groups else None

    @functools.cached_property
    def _groups(self) -> dict[str, Group]:
        return {name: group for group in self.groups for name in group.nodes}

    def kernel_class(self, machine: kernels.Machine) -> KernelClass | None:
        """Return the class of nodes of the policy by their kernel; None if it has no pool."""
        return _class_of(self.policy, self.classes, machine)

    def pool(self, node: snapshot.Node) -> Pool | None:
        """Return the pool of a node of the policy; None if no mapping takes its kernel, or no driver is installed."""
        part = self.part(node)
        return part if isinstance(part, Pool) else None

    def part(self, node: snapshot.Node) -> Part | None:
        """Return the pool of a node of the policy, also one without a driver; None if no mapping takes its kernel."""
        by_kernel = self.kernel_class(kernels.machine(node.profile))
        if by_kernel is None and self.policy.mappings:
            return None
        return self._parts.get((_name(self.group(node.name)), _name(by_kernel)))

    def deployment(self, program: str, node: snapshot.Node) -> Deployment | None:
        """Return the DaemonSet of a program that is for a node of the policy, by its pool."""
        part = self.part(node)
        own = (one for one in self.deployments if one.program.name == program)
        return next((one for one in own if one.part is None or (part and one.part.name == part.name)), None)

    def why_not(self, node: snapshot.Node) -> str:
        """Return why a node of the policy is in no pool."""
        machine = kernels.machine(node.profile)
        mapping = kernels.first(self.policy.mappings, machine)
        if mapping is None:
            return f"no mapping covers its kernel {kernels.said(self.policy.mappings, machine)}"
        return f"mapping '{mapping.name}' lists no image for its kernel {machine.kernel}"

    def reasons(self, node: snapshot.Node) -> Iterator[str]:
        """Yield why a node of the policy is in its group, and which mapping takes its kernel."""
        group = self.group(node.name)
        if group is not None:
            yield f"group '{group.name}': {group_reason(group, node)}"
        yield from self.kernel_reasons(node)

    def kernel_reasons(self, node: snapshot.Node) -> Iterator[str]:
        """Yield which mapping takes the kernel of a node of the policy, or why none does."""
        if self.policy.mappings:
            machine = kernels.machine(node.profile)
            by_kernel = self.kernel_class(machine)
            if by_kernel:
                system = f" on {machine.system} {machine.version}".rstrip() if by_kernel.mapping.os else ""
                yield f"mapping '{by_kernel.mapping.name}': its kernel '{machine.kernel}'{system} matches"
            else:
                yield self.why_not(node)

    def is_driven(self, node: snapshot.Node) -> bool:
        """Return whether a driver is installed on a node of the policy, or may be: NFD has not labelled it yet."""
        return self.policy.installed is not None and _is_driven(self.policy, self.classes, node)

    @functools.cached_property
    def _parts(self) -> dict[tuple[str | None, str | None], Part]:
        return {(_name(part.group), _name(part.kernels)): part for part in self.parts}


def _class_of(
    policy: definitions.Policy, classes: Iterable[KernelClass], machine: kernels.Machine
) -> KernelClass | None:
    mapping = kernels.first(policy.mappings, machine)
    return next((one for one in classes if one.mapping is mapping and one.kernel in (None, machine.kernel)), None)


def _name(part: Group | KernelClass | None) -> str | None:
    return None if part is None else part.name


def divided(assigned: assignment.Assigned, cluster: definitions.Cluster, nodes: Sequence[snapshot.Node]) -> Division:
    """Return the pools of a policy in a cluster with these nodes of the policy; none if nothing differs by pool."""
    policy, mirrors = assigned.policy, cluster.spec.images.mirrors
    installed, plugin = policy.installed, policy.offered
    classes: tuple[KernelClass, ...] = ()
    groups: tuple[Group, ...] = ()
    parts: tuple[Part, ...] = ()
    if policy.has_pools:
        classes = tuple(_classes(policy, nodes))
        groups = groups_of(policy, cluster.name, nodes, lambda node: _is_meant(policy, classes, node))
        pairs = product(with_pools(groups), classes if policy.mappings else (None,))
        parts = tuple(part_of(policy, pair) for pair in pairs)
    driven = tuple(pool_of(assigned, installed, part, mirrors) for part in parts) if installed else ()
    return Division(
        policy=policy,
        terms=assigned.terms,
        nodes=tuple(nodes),
        groups=groups,
        classes=classes,
        parts=driven or parts,
        pools=driven,
        deployments=tuple(_deployments(assigned, parts, mirrors)),
        driver_terms=_serving_terms(assigned, policy.recipe.opt_out_driver) if installed else (),
        device_plugin_terms=_serving_terms(assigned, policy.recipe.opt_out_device_plugin) if plugin else (),
        device_plugin_image=images.of(plugin.parts, mirrors) if plugin else "",
    )


def _deployments(
    assigned: assignment.Assigned, parts: Sequence[Part], mirrors: Sequence[clusters.Mirror]
) -> Iterator[Deployment]:
    """Yield the programs of a policy; one whose condition does not hold with the values of a pool is not there."""
    for stated in assigned.policy.programs:
        for part in parts if stated.is_pooled else (None,):
            made = deployment_of(assigned, stated, part, mirrors)
            if made is not None:
                yield made


def deployment_of(
    assigned: assignment.Assigned,
    stated: definitions.Program,
    part: Part | None,
    mirrors: Sequence[clusters.Mirror],
) -> Deployment | None:
    """Return a program in a pool, or in the whole policy; None where it does not run."""
    by_kernel, group = (part.kernels, part.group) if part else (None, None)
    layers = (by_kernel.mapping if by_kernel else None, group.declared if group else None)
    program, driver = stated.overridden(*layers), assigned.policy.installed
    is_removed = driver is not None and driver.overridden(*layers).state == "Absent"
    if not program.runs or (is_removed and program.data.get("after") == "driver"):
        return None
    kernel = by_kernel.kernel if by_kernel else None
    if kernel is not None:
        program = msgspec.structs.replace(program, images=overrides.filled_images(program.images, kernel))
    policy = assigned.policy
    found = tuple((name, images.of(own, mirrors)) for name, own in program.images.items())
    architectures = program.architectures
    further = (
        *((selectors.Requirement(ARCHITECTURE, "In", architectures),) if architectures else ()),
        *(_labelled(policy, part) if part else ()),
    )
    return Deployment(
        program=program,
        part=part,
        image=dict(found)[program.data["pod"]["containers"][0]["image"]],
        images=found,
        named=frozenset(name for name, own in stated.overridden(*layers).images.items() if kernels.is_named(own)),
        terms=_serving_terms(assigned, policy.recipe.opt_out(program.name), further),
    )


def with_pools(groups: Iterable[Group]) -> tuple[Group | None, ...]:
    """Return the groups that have pools; None stands for all nodes of a policy without groups."""
    return tuple(group for group in groups if not group.is_reserved) or (None,)


def part_of(policy: definitions.Policy, part: tuple[Group | None, KernelClass | None]) -> Part:
    """Return the pool of a part of a policy's nodes: those of a group, if it has groups, with certain kernels."""
    group, by_kernel = part
    own = "--".join(one.name for one in part if one is not None)
    return Part(name=own or policy.name, group=group, kernels=by_kernel)


def pool_of(
    assigned: assignment.Assigned,
    installed: definitions.Driver,
    part: Part,
    mirrors: Sequence[clusters.Mirror],
) -> Pool:
    """Return the pool of a part of a policy's nodes with its driver."""
    policy, group, by_kernel = assigned.policy, part.group, part.kernels
    stated = installed.overridden(by_kernel.mapping if by_kernel else None, group.declared if group else None)
    driver = overrides.filled(stated, by_kernel.kernel if by_kernel else None)
    return Pool(
        name=part.name,
        group=group,
        kernels=by_kernel,
        stated=stated,
        driver=driver,
        image=images.of(driver.parts, mirrors),
        images=tuple((name, images.of(driver.images[name], mirrors)) for name in driver.pulled),
        terms=_serving_terms(assigned, policy.recipe.opt_out_driver, _labelled(policy, part)),
    )


def _labelled(policy: definitions.Policy, part: Part) -> selectors.Term:
    """Return the requirement on the label of a pool; none where the policy has one pool."""
    return () if part.is_whole else (selectors.Requirement(_label(policy), "In", (part.name,)),)


def _label(policy: definitions.Policy) -> str:
    """Return the key of the label that a policy with pools gives its nodes."""
    return f"{policy.recipe.pool_prefix}{policy.name}"


def _serving_terms(
    assigned: assignment.Assigned, opt_out: str, pool: selectors.Term = ()
) -> tuple[selectors.Term, ...]:
    """Return the node affinity of a component: the hardware of the policy, no opt-out, and the policy's own terms.

    `opt_out` is the label that keeps the component away; `pool` is the requirement on the label of a pool.
    """
    return tuple(
        (
            *present,
            selectors.Requirement(opt_out, "NotIn", ("false",)),
            *pool,
            *term,
        )
        for present in assignment.presence(assigned.policy)
        for term in assigned.terms
    )


def _is_driven(policy: definitions.Policy, classes: Sequence[KernelClass], node: snapshot.Node) -> bool:
    """Return whether a driver is installed on the node, or may be: NFD has not labelled it yet."""
    opted_out = policy.installed is not None and node.label(policy.recipe.opt_out_driver) == "false"
    return not opted_out and _is_meant(policy, classes, node)


def _is_meant(policy: definitions.Policy, classes: Sequence[KernelClass], node: snapshot.Node) -> bool:
    """Return whether a driver would be installed on the node, unless a person has opted it out."""
    if not assignment.is_served(policy, node):
        return False
    if taints.untolerated(policy.pods.tolerations, node.profile.taints):
        return False
    return not policy.mappings or bool(_class_of(policy, classes, kernels.machine(node.profile)))


def _classes(policy: definitions.Policy, nodes: Sequence[snapshot.Node]) -> Iterator[KernelClass]:
    mappings = policy.mappings
    for index, mapping in enumerate(mappings):
        if not overrides.is_per_kernel(policy, mapping):
            # A kernel of an earlier mapping may be of this one, too, where that one is for another system.
            covering = (earlier for earlier in mappings[:index] if kernels.holds(earlier.os, mapping.os))
            unless = tuple(map(kernels.pattern, covering))
            pattern = kernels.pattern(mapping)
            yield KernelClass(name=mapping.name, mapping=mapping, kernel=None, pattern=pattern, unless=unless)
            continue
        for kernel in sorted(listed(mapping) or _seen(policy, mapping, nodes)):
            if any(one is mapping for one in kernels.possible(mappings, kernel)):
                yield of_kernel(mapping, kernel)


def of_kernel(mapping: definitions.KernelMapping, kernel: str) -> KernelClass:
    """Return the class of one kernel, given as NFD reports it; a hash names it, as versions are too long for names."""
    digest = hashlib.sha256(kernel.encode()).hexdigest()[:DIGITS]
    pattern = kernels.exactly(kernel)
    return KernelClass(name=f"{mapping.name}--{digest}", mapping=mapping, kernel=kernel, pattern=pattern, unless=())


class OneKernel(NamedTuple):
    """The mapping and the hash of the kernel in the name of a pool of one kernel, which `of_kernel` makes."""

    mapping: str
    digest: str


def one_kernel(pool: str) -> OneKernel | None:
    """Return what a pool's name says of its kernel; None for a pool of any other kind."""
    *_, mapping, digest = ("", *pool.split("--"))  # Neither groups nor mappings have `--` in their names.
    return OneKernel(mapping, digest) if mapping and re.fullmatch(rf"[0-9a-f]{{{DIGITS}}}", digest) else None


def mapping_of(policy: definitions.Policy, pool: str) -> definitions.KernelMapping | None:
    """Return the mapping that a pool of one kernel is named after; None where the policy has none of that name."""
    said = one_kernel(pool)
    return next((mapping for mapping in policy.mappings if said and mapping.name == said.mapping), None)


def follows_inventory(policy: definitions.Policy, pool: str) -> bool:
    """Return whether a pool would be there again, perhaps in another group, if a known node ran its kernel."""
    mapping = mapping_of(policy, pool)
    return mapping is not None and overrides.is_per_kernel(policy, mapping) and not listed(mapping)


def listed(mapping: definitions.KernelMapping) -> frozenset[str]:
    """Return the kernels that a mapping lists, as NFD reports them."""
    known = mapping.kernels or ((mapping.literal,) if mapping.literal is not None else ())
    return frozenset(map(kernels.cleaned, known))


def _seen(
    policy: definitions.Policy, mapping: definitions.KernelMapping, nodes: Iterable[snapshot.Node]
) -> frozenset[str]:
    """Return the kernels, as NFD reports them, that those nodes of a policy run that a mapping takes."""
    machines = {kernels.machine(node.profile) for node in nodes if assignment.is_served(policy, node)}
    return frozenset(one.kernel for one in machines if one.kernel and kernels.first(policy.mappings, one) is mapping)


def bucket(node: str) -> int:
    """Return the bucket of a node, 0 to 9999; it depends on the name alone and never changes."""
    return int(hashlib.sha256(node.encode()).hexdigest()[:8], 16) % BUCKETS


def position(node: str) -> str:
    """Return the position of a node's name among all names, in per cent, as people read it."""
    return f"{bucket(node) * 100 / BUCKETS:g} %"


def groups_of(
    policy: definitions.Policy,
    cluster: snapshot.ClusterName,
    nodes: Sequence[snapshot.Node],
    is_driven: Callable[[snapshot.Node], bool],
) -> tuple[Group, ...]:
    """Return the groups of a policy in a cluster, in the order in which they take nodes; none if none is declared.

    `nodes` are those of the policy; `is_driven` returns whether a driver would be installed on one of them. One that is
    opted out keeps its place: the label stops a node in an emergency, and must not hand its driver to the next one.
    """
    groups: list[Group] = []
    taken: set[str] = set()
    frozen: set[str] = set()
    for declared in policy.groups:
        if not names.globs_match(declared.clusters, cluster):
            continue
        if declared.percent is not None:
            members = _below((node for node in nodes if node.name not in frozen), is_driven, declared.percent)
        else:
            members = _selected(declared, nodes)
        own = members - taken
        taken |= own
        if declared.is_frozen:
            frozen |= own
        groups.append(Group(name=declared.name, nodes=tuple(sorted(own)), declared=declared))
    return (*groups, Group(name=REST, nodes=(), declared=None)) if groups else ()


def _selected(group: definitions.NodeGroup, nodes: Iterable[snapshot.Node]) -> set[str]:
    """Return the members by name, known or not: a frozen node that is absent for a while stays frozen."""
    if group.nodes is not None:
        return set(group.nodes)
    term = selectors.of(group.selector)
    return {node.name for node in nodes if selectors.term_matches(term, node.label)}


def _below(nodes: Iterable[snapshot.Node], is_driven: Callable[[snapshot.Node], bool], percent: float) -> set[str]:
    """Return the nodes below a bound; if no driver is installed on any of them, the lowest node with a driver joins."""
    buckets = [(bucket(node.name), node) for node in nodes]
    below = [node for number, node in buckets if number < _bound(percent)]
    members = {node.name for node in below}
    if not any(map(is_driven, below)):
        lowest = min(((number, node.name) for number, node in buckets if is_driven(node)), default=None)
        members.update(() if lowest is None else (lowest[1],))
    return members


def _bound(percent: float) -> int:
    """Return the first bucket that a wave does not reach."""
    return round(percent * BUCKETS / 100)


def group_reason(group: Group, node: snapshot.Node) -> str:
    """Return why a node is in its group."""
    declared, percent = group.declared, position(node.name)
    if declared is None:
        return f"no frozen group and no wave takes it; its name puts it at {percent}"
    if declared.nodes is not None:
        return "the group names it"
    if declared.percent is not None:
        end = f"{declared.percent:g} %"
        if bucket(node.name) < _bound(declared.percent):
            return f"its name puts it at {percent}, and the wave ends at {end}"
        return f"no node below {end} gets a driver, so the lowest one that does is drafted: this one, at {percent}"
    return "the inventorySelector matches it"
