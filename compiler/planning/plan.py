"""The plan of a cluster: for each node its policy, its pool, the components that run on it, and the reasons.

The decisions use the same terms and tolerations that the DaemonSets carry, so the plan equals the placement by the
DaemonSet controller. Nodes that no selector distinguishes share one decision.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

import msgspec
from msgspec import structs

from compiler import diagnostics, names, recipes, wording
from compiler.fleet import assignment, definitions, selectors, taints
from compiler.formats import documents
from compiler.inventory import snapshot
from compiler.output import index_file
from compiler.planning import kernels, pools
from compiler.read import fleet as reader
from runtime import device_plugin_config

Resources = tuple[tuple[str, int | None], ...]
"""Extended resources that the kubelet of a node will advertise, each with its amount; None where only the node itself
knows it."""


Obstacle = Literal["policy", "disabled", "hardware", "opt-out", "taints", "labels", "kernel", "architecture"]
"""What keeps a component from a node: of several, the first."""


class Landing(msgspec.Struct, frozen=True, kw_only=True):
    """The image of a component's pod on a node, None where no pod runs, and the reason for either."""

    image: str | None
    reason: str
    obstacle: Obstacle | None = None
    """None where a pod runs."""


def _without(obstacle: Obstacle, reason: str) -> Landing:
    return Landing(image=None, reason=reason, obstacle=obstacle)


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """The decision for nodes that are alike in every label that a policy selects by."""

    nodes: tuple[snapshot.Node, ...]
    recipe: recipes.Recipe
    division: pools.Division | None = None
    """Their policy with its pools; None where no policy matches."""
    why: str
    pool: pools.Pool | None = None
    """The pool whose driver installer runs there."""
    driver: Landing
    device_plugin: Landing
    programs: tuple[tuple[str, Landing], ...] = ()
    """Vendors' programs by name, in the order of the recipe."""
    resources: Resources = ()

    @property
    def node(self) -> snapshot.Node:
        """The first of the nodes, as an example."""
        return self.nodes[0]

    @property
    def policy(self) -> definitions.Policy | None:
        """The policy that the nodes are assigned to."""
        return self.division.policy if self.division else None

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the nodes."""
        return tuple(node.name for node in self.nodes)

    @property
    def interface(self) -> definitions.Interface | None:
        """The interface by which the device plugin offers the resources; None where none runs."""
        plugin = self.policy.offered if self.policy else None
        return plugin.interface if plugin and self.device_plugin.image else None

    def landing(self, component: index_file.Component) -> Landing:
        """Return the pod of a component on the nodes, or why there is none."""
        return dict(self.landings).get(component) or _without("disabled", "its recipe has no such program")

    @property
    def landings(self) -> tuple[tuple[index_file.Component, Landing], ...]:
        """Each component with its pod, or why there is none."""
        return ("driver", self.driver), ("device-plugin", self.device_plugin), *self.programs

    @property
    def part(self) -> pools.Part | None:
        """The pool of the nodes where a driver or a program of a pool runs there."""
        is_pooled = self.division is not None and any(
            landing.image and (made := self.division.deployment(name, self.node)) and made.part
            for name, landing in self.programs
        )
        return self.pool or (self.division.part(self.node) if self.division and is_pooled else None)

    def runs(self, component: index_file.Component) -> bool:
        """Return whether a pod of a component runs on the nodes."""
        return self.landing(component).image is not None

    def keeping(self) -> "Decision":
        """Return the decision for nodes whose pods were there before their taints, where these evict none.

        `nodeShouldRunDaemonPod` of pkg/controller/daemon: a NoSchedule taint lets no pod come, and those stay that run.
        """
        if self.division is None or all(landing.obstacle != "taints" for _, landing in self.landings):
            return self
        node, tolerations = self.node, self.division.policy.pods.tolerations
        if any(taint.effect == "NoExecute" for taint in taints.untolerated(tolerations, node.profile.taints)):
            return self
        bare = node._replace(profile=structs.replace(node.profile, taints=()))
        return structs.replace(_decision(self.division, (bare,)), nodes=self.nodes)


class RecipePlan(msgspec.Struct, frozen=True, kw_only=True):
    """The policies of a recipe in a cluster, and the decision for each node."""

    cluster: definitions.Cluster
    inventory: snapshot.Inventory
    recipe: recipes.Recipe
    divisions: tuple[pools.Division, ...]
    decisions: tuple[Decision, ...]
    """Sorted by the name of the first node."""

    @property
    def compared(self) -> frozenset[str]:
        """The labels of which the nodes of a decision have equal values."""
        selected = (one.key for division in self.divisions for term in division.terms for one in term)
        # Nodes that are alike have one profile, which has their architecture and their system.
        return frozenset((*self.recipe.deciding, *selected, pools.ARCHITECTURE, kernels.SYSTEM, kernels.VERSION))


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """A cluster with its nodes, and the plan of each recipe."""

    cluster: definitions.Cluster
    inventory: snapshot.Inventory
    recipes: tuple[RecipePlan, ...]
    """The built-in recipe's first, then those of the other recipes that it has policies of, by name."""

    @property
    def builtin(self) -> RecipePlan:
        """The plan of the built-in recipe, which has a decision for each node as that of every other."""
        return self.recipes[0]

    @property
    def awaited(self) -> tuple[RecipePlan, ...]:
        """The recipes whose devices are unknown on a node until NFD labels it: those with policies, or the only one."""
        is_alone = len(self.recipes) == 1
        return tuple(one for one in self.recipes if one.recipe.has_rules and (one.divisions or is_alone))

    @property
    def divisions(self) -> tuple[pools.Division, ...]:
        """The policies of all recipes."""
        return tuple(division for one in self.recipes for division in one.divisions)

    @property
    def decisions(self) -> tuple[Decision, ...]:
        """The decisions under all recipes."""
        return tuple(decision for one in self.recipes for decision in one.decisions)


def of_cluster(
    cluster: definitions.Cluster, policies: Sequence[assignment.Assigned], inventory: snapshot.Inventory
) -> Plan:
    """Return the plan of a cluster for its policies and the nodes of its inventory."""
    planned = reader.recipes_of(assigned.policy for assigned in policies)
    return Plan(
        cluster=cluster,
        inventory=inventory,
        recipes=tuple(_of_recipe(one, cluster, policies, inventory) for one in planned),
    )


def of_recipe(planned: Plan, recipe: recipes.Recipe) -> RecipePlan:
    """Return the plan of a recipe; one without policies where the cluster has none of it."""
    found = (one for one in planned.recipes if one.recipe.name == recipe.name)
    return next(found, None) or _of_recipe(recipe, planned.cluster, (), planned.inventory)


def _of_recipe(
    one: recipes.Recipe,
    cluster: definitions.Cluster,
    every: Sequence[assignment.Assigned],
    inventory: snapshot.Inventory,
) -> RecipePlan:
    policies = [assigned for assigned in every if assigned.policy.recipe.name == one.name]
    shares = assignment.shares(policies, inventory.nodes, one.deciding)
    nothing = _without("policy", "the node is assigned to no policy")
    made = [
        Decision(
            nodes=alike,
            recipe=one,
            why="no policy matches its labels",
            driver=nothing,
            device_plugin=nothing,
            programs=tuple((name, nothing) for name in one.programs),
        )
        for alike in shares.unassigned
    ]
    divisions = []
    for assigned, share in zip(policies, shares.by_policy, strict=True):
        division = pools.divided(assigned, cluster, tuple(node for alike in share for node in alike))
        divisions.append(division)
        made.extend(_decision(division, nodes) for alike in share for nodes in _by_group(division, alike))
    return RecipePlan(
        cluster=cluster,
        inventory=inventory,
        recipe=one,
        divisions=tuple(divisions),
        decisions=tuple(sorted(made, key=lambda decision: decision.node.name)),
    )


def _by_group(division: pools.Division, nodes: assignment.Alike) -> Iterator[assignment.Alike]:
    if not division.groups:
        yield nodes
        return
    by_group: dict[str, list[snapshot.Node]] = {}
    for node in nodes:
        group = division.group(node.name)
        by_group.setdefault(group.name if group else "", []).append(node)
    yield from map(tuple, by_group.values())


def _decision(division: pools.Division, nodes: assignment.Alike) -> Decision:
    node = nodes[0]
    pool = division.pool(node)
    driver, plugin = _driver_landing(division, node, pool), _device_plugin_landing(division, node)
    driven = pool.driver if pool and driver.image is not None else None
    programs = tuple((one.name, _program_landing(division, one, node)) for one in division.policy.programs)
    running = tuple(found for name, landing in programs if landing.image and (found := division.deployment(name, node)))
    return Decision(
        nodes=nodes,
        recipe=division.policy.recipe,
        division=division,
        why=_why(division, node),
        pool=pool if driver.image is not None else None,
        driver=driver,
        device_plugin=plugin,
        programs=programs,
        resources=(
            *(_resources(division.policy, node, driven) if plugin.image else ()),
            # How many of them a vendor's program finds, it alone knows.
            *((name, None) for one in running for name in one.program.offers),
        ),
    )


def _why(assigned: assignment.Assigned, node: snapshot.Node) -> str:
    name = assigned.policy.name
    if assigned.policy.is_default:
        return f"policy '{name}' is the default, and no other policy matches"
    term = next(term for term in assigned.terms if selectors.term_matches(term, node.label))
    requirements = ", ".join(selectors.text(requirement) for requirement in term)
    return f"policy '{name}' matches: {requirements or 'every node'}"


def _driver_landing(division: pools.Division, node: snapshot.Node, pool: pools.Pool | None) -> Landing:
    policy = division.policy
    if policy.installed is None:
        return _disabled(policy, "driver")
    obstacle = _obstacle(policy, node, division.driver_terms, policy.recipe.opt_out_driver)
    if obstacle is None and division.label is not None and not node.profile.discovered:
        obstacle = _without("labels", "NFD has not labelled the node yet: its pool is unknown")
    if obstacle is not None or pool is None:
        return obstacle or _without("kernel", division.why_not(node))
    return Landing(image=pool.image, reason=_hardware(policy, node))


def _device_plugin_landing(division: pools.Division, node: snapshot.Node) -> Landing:
    policy = division.policy
    if policy.offered is None:
        return _disabled(policy, "devicePlugin")
    obstacle = _obstacle(policy, node, division.device_plugin_terms, policy.recipe.opt_out_device_plugin)
    interface = ", and offers resources by DRA" if policy.offered.is_dra else ""
    return obstacle or Landing(image=division.device_plugin_image, reason=f"{_hardware(policy, node)}{interface}")


def _program_landing(division: pools.Division, stated: definitions.Program, node: snapshot.Node) -> Landing:
    policy = division.policy
    if not stated.enabled:
        return _without("disabled", f"programs.{stated.name}.enabled is false: it is pre-installed")
    made = division.deployment(stated.name, node)
    # NFD sets the label of a pool, and the kubelet that of the architecture.
    own = (division.label, pools.ARCHITECTURE)
    terms = [tuple(one for one in term if one.key not in own) for term in (made.terms if made else division.terms)]
    obstacle = _obstacle(policy, node, terms, policy.recipe.opt_out(stated.name))
    if obstacle is not None:
        return obstacle
    if stated.is_pooled and division.label is not None and not node.profile.discovered:
        return _without("labels", "NFD has not labelled the node yet: its pool is unknown")
    if stated.is_pooled and division.part(node) is None:
        return _without("kernel", division.why_not(node))
    pool = division.pool(node) if stated.data.get("after") == "driver" else None
    if made is None and pool is not None and pool.driver.state == "Absent":
        return _without("disabled", "it comes after the driver, whose state is Absent")
    if made is None:
        return _without("disabled", "its condition does not hold with the values of the policy")
    machines, machine = made.program.architectures, node.label(pools.ARCHITECTURE)
    if machines and machine not in machines:
        known = f"the node is {machine}" if machine else f"the node has no label {pools.ARCHITECTURE}"
        reason = f"it is for {wording.listed(machines)}, and {known}"
        # Every kubelet sets the label, so without it nobody knows.
        return _without("architecture" if machine else "labels", reason)
    return Landing(image=made.image, reason=_hardware(policy, node))


def _disabled(policy: definitions.Policy, field: definitions.Component) -> Landing:
    none, pre_installed = f"recipe '{policy.recipe.name}' has none", f"{field}.enabled is false: it is pre-installed"
    return _without("disabled", none if policy.has_none(field) else pre_installed)


def _hardware(policy: definitions.Policy, node: snapshot.Node) -> str:
    """Return how a node is known to have the hardware of a policy."""
    if policy.recipe.kinds:
        present = ", ".join(kind.name for kind in assignment.kinds(policy.kinds, node))
        return f"it has devices of {present}"
    labels = ", ".join(f"{key}={node.label(key)}" for key, _ in policy.recipe.labels)
    return f"it has {labels}" if labels else f"recipe '{policy.recipe.name}' is for every node"


def _lack(policy: definitions.Policy, node: snapshot.Node) -> str:
    """Return which hardware of a policy a node does not have."""
    if policy.recipe.kinds:
        return f"it has no device of {', '.join(kind.name for kind in policy.kinds)}"
    lacking = (f"{key} is not {' or '.join(values)}" for key, values in policy.recipe.labels)
    return f"it is no node of recipe '{policy.recipe.name}': {', '.join(lacking)}"


def _obstacle(
    policy: definitions.Policy, node: snapshot.Node, terms: Iterable[selectors.Term], opt_out: str
) -> Landing | None:
    """Return the first reason why a DaemonSet with these terms has no pod on the node; None if it has one."""
    if not assignment.is_served(policy, node):
        return _without("hardware", _lack(policy, node))
    if node.label(opt_out) == "false":
        return _without("opt-out", f"it has opted out: {opt_out}=false")
    barred = taints.untolerated(policy.pods.tolerations, node.profile.taints)
    if barred:
        listed = ", ".join(map(taints.text, barred))
        return _without(
            "taints", f"the policy does not tolerate the {wording.inflected('taint', len(barred))} {listed}"
        )
    if not any(selectors.term_matches(term, node.label) for term in terms):
        return _without("labels", "NFD has not labelled the node yet: its devices are unknown")
    return None


def _resources(policy: definitions.Policy, node: snapshot.Node, driven: definitions.Driver | None) -> Resources:
    """Return the resources of a node of a policy: devices times the containers that may share one.

    `driven` is the driver that is installed on the node, None if there is none. A driver of state Absent leaves no
    devices.
    """
    if driven is not None and driven.state == "Absent":
        return ()
    return tuple((name, amount) for name, amount in _offered(policy, node, driven) if amount != 0)


def _offered(
    policy: definitions.Policy, node: snapshot.Node, driven: definitions.Driver | None
) -> Iterator[tuple[str, int | None]]:
    kinds = {kind.name: kind for kind in policy.kinds}
    for resource in policy.offered.resources if policy.offered else ():
        match resource:
            case device_plugin_config.Token():
                yield resource.name, resource.count * resource.shares
            case device_plugin_config.Uacce() | device_plugin_config.Vfio() if resource.kind in kinds:
                wanted = driven.sriov.get(resource.kind) if driven is not None else None
                yield resource.name, _usable(kinds[resource.kind], node, wanted) * resource.shares
            case _:
                yield resource.name, None  # Its paths are on the node alone, or NFD counts no such devices.


def _usable(kind: recipes.Kind, node: snapshot.Node, wanted: int | None) -> int:
    """Return the number of functions of a kind that containers can have.

    A physical function with virtual functions is not advertised, its virtual functions are. Their number is `wanted`
    for each where the policy sets it; else the number that NFD counted, with every physical function taken as split.
    """
    pf, vf = functions(kind, node)
    return pf * (wanted or 1) if pf and wanted is not None else vf or pf


def functions(kind: recipes.Kind, node: snapshot.Node) -> tuple[int, int]:
    """Return the numbers of physical and of virtual functions of a kind that NFD counted on the node."""
    return _count(node.label(kind.pf_count)), _count(node.label(kind.vf_count))


def _count(value: str | None) -> int:
    return int(value) if value and value.isascii() and value.isdigit() else 0


class Deciding(msgspec.Struct, frozen=True, kw_only=True):
    """A label that decides over nodes."""

    key: str
    span: diagnostics.Span | None = None
    """The position of the key in a selector; None where every policy decides by the label."""


def deciding_labels(policies: Iterable[definitions.Policy], cluster: str) -> Iterator[Deciding]:
    """Yield every label that decides over the nodes of a cluster, each place of a selector by itself.

    An inventory without one of them makes another plan, and other groups of nodes in output/, than the cluster has. So
    a setting that leaves labels out of inventories, or lets few in, is judged by this list.

    Kernels and architectures are no labels here: the inventory has them from the kubelet. Neither is the name of the
    host, which no setting leaves out.
    """
    here = assignment.in_cluster(policies, cluster)
    for policy in here:
        if policy.selector is not None:
            yield from _of_selector(policy, ("spec", "nodeSelector"), policy.selector)
        for mapping in policy.mappings:
            if mapping.os is not None:
                span = policy.source.key_span(*mapping.path, "os")
                yield from (Deciding(key=key, span=span) for key in (kernels.SYSTEM, kernels.VERSION))
        for group in policy.groups:
            if group.selector is not None and names.globs_match(group.clusters, cluster):
                yield from _of_selector(policy, (*group.path, "inventorySelector"), group.selector)
    deciding = {key for recipe in reader.recipes_of(here) for key in recipe.deciding}
    yield from (Deciding(key=key) for key in sorted(deciding))


def _of_selector(policy: definitions.Policy, path: documents.Path, selector: selectors.Selector) -> Iterator[Deciding]:
    for key in selector.matchLabels:
        yield Deciding(key=key, span=policy.source.key_span(*path, "matchLabels", key))
    for index, expression in enumerate(selector.matchExpressions):
        yield Deciding(key=expression.key, span=policy.source.span(*path, "matchExpressions", index, "key"))
