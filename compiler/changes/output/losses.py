"""The nodes that a compile takes a driver, a device plugin or a frozen version from.

Both outputs are judged on the nodes of the new inventory: a label that a node has lost since then has moved its pods
already, and no compile takes anything away by it. Frozen groups and waves list nodes by name, and pools of one kernel
follow the kernels of the inventory, so only these change when a node disappears from it.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import get_args

from compiler.changes.output import deployed, placement
from compiler.output import index_file
from compiler.output.index_file import Owner
from compiler.planning import images, plan, pools

NOUNS = {"driver": "driver", "device-plugin": "device plugin"}
"""The names of the components in messages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """The nodes and pools that a policy's driver or device plugin loses in a cluster."""

    component: index_file.Component
    recipe: str
    policy: str
    last: bool
    """True when the last DaemonSet of the component goes."""
    unlabelled: bool
    """True when the NodeFeatureRule goes that labels nodes with devices."""
    pools: tuple[str, ...]
    """The pools of one kernel whose DaemonSets go: they follow from the inventory."""
    unknown: bool
    """True when the inventory had nodes and has none, so the nodes that it serves are not known."""
    served: int
    """The number of known nodes that it serves in the earlier output."""
    nodes: tuple[str, ...]
    """The nodes that no DaemonSet of the component serves any more."""
    removed: tuple[str, ...]
    """The nodes whose driver a DaemonSet of state Absent removes from now on."""
    moved: Mapping[str, tuple[str, ...]]
    """The nodes that another policy's DaemonSet serves from now on, by policy."""

    def is_removal(self, percent: float) -> bool:
        """Return whether a person has to accept it; a component may leave `percent` of its nodes, or one node."""
        if self.last or self.unlabelled:
            return bool(self.nodes) or not self.served
        if self.pools and self.unknown:
            return True
        return len(self.nodes) > 1 and len(self.nodes) * 100 > percent * self.served


@dataclass(frozen=True, slots=True, kw_only=True)
class Thaw:
    """A node that leaves a frozen group whose entry nobody has edited."""

    policy: str
    group: str
    node: str
    known: bool
    """True when the inventory has the node."""
    image: str | None
    """The image of its driver from now on; None if it gets none, or if the inventory does not have it."""


def losses(before: deployed.Deployed, after: deployed.Deployed, planned: plan.Plan) -> Iterator[Loss]:
    """Yield the losses of each policy that has DaemonSets in the earlier output."""
    plans = {one.recipe.name: one for one in planned.recipes}
    for component in get_args(index_file.Component):
        kept = set(after.owners(component, absent=True))
        for owner in before.owners(component):
            policy, own = owner.policy, plans.get(owner.recipe)
            unlabelled = before.rule(owner.recipe) is not None and after.rule(owner.recipe) is None
            is_same = _selections(before, component, owner) == _selections(after, component, owner)
            if owner in kept and is_same and not unlabelled:
                continue
            serving = _serving(own, component) if own and not unlabelled else {}
            groups = placement.alike_in(planned, before.daemon_sets(component, owner))
            served = sorted(placement.of_owner(before, component, owner, groups))
            later = {name: serving.get(name) for name in served}
            moved: dict[str, list[str]] = {}
            for name, now in later.items():
                if now is not None and now.policy != policy:
                    moved.setdefault(now.policy, []).append(name)
            yield Loss(
                component=component,
                recipe=owner.recipe,
                policy=policy,
                last=owner not in kept,
                unlabelled=unlabelled,
                pools=tuple(sorted(_pools(before, component, owner) - _pools(after, component, owner))),
                unknown=before.index.has_nodes and not planned.inventory.nodes,
                served=len(served),
                nodes=tuple(n for n, now in later.items() if now is None or (now.is_absent and now.policy != policy)),
                removed=tuple(n for n, now in later.items() if now and now.is_absent and now.policy == policy),
                moved={name: tuple(nodes) for name, nodes in sorted(moved.items())},
            )


def thaws(before: deployed.Deployed, after: deployed.Deployed, planned: plan.Plan) -> Iterator[Thaw]:
    """Yield the nodes that leave a frozen group with the version of their driver, unless its entry was edited."""
    policies = {division.policy.name for division in planned.divisions}
    drivers = {one.recipe.name: _serving(one, "driver") for one in planned.recipes}
    known = {node.name: node for node in planned.inventory.nodes}
    now = after.index.frozen or ()
    # An index without the record was written before there was one: the entries count as unedited.
    for (policy, group), entries in _entries(now if before.index.frozen is None else before.index.frozen).items():
        owner = _owner(before, policy)
        rules = before.pool_rules(owner) if owner else None
        heirs = {item.policy for item in now if item.group == group and {item.entry} == entries}
        if owner is None or rules is None or (policy in policies and policy not in heirs):
            continue
        members = rules.members(owner, group)
        daemon_sets = before.daemon_sets("driver", owner)
        present = (known[name] for name in members if name in known)
        served = placement.of_owner(before, "driver", owner, placement.alike(present, daemon_sets))
        listed = frozenset(name for heir in heirs for name in _listed(after, heir, group))
        for name in sorted(members):
            serving = drivers.get(owner.recipe, {}).get(name)
            pool = serving.pool if serving and not serving.is_absent else None
            # Whether NFD's first labels keep a node in its group is not known yet.
            is_seen = name in known and known[name].profile.discovered
            is_kept = name in listed and (not is_seen or pool is not None)
            is_lost = name in served and _moves(served[name], pool) if name in known else True
            if is_lost and not is_kept:
                image = pool.image if pool else None
                yield Thaw(policy=policy, group=group, node=name, known=name in known, image=image)


def wave_losses(
    before: deployed.Deployed, after: deployed.Deployed, planned: plan.Plan
) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Yield policy, wave and nodes where nodes leave a wave because the inventory does not have them any more."""
    known = {node.name for node in planned.inventory.nodes}
    for division in planned.divisions:
        policy = division.policy.name
        for group in division.groups:
            if group.sort == "wave":
                gone = _listed(before, policy, group.name) - _listed(after, policy, group.name) - known
                if gone:
                    yield policy, group.name, tuple(sorted(gone))


def lost_kinds(before: deployed.Deployed, after: deployed.Deployed) -> Iterator[tuple[Owner, tuple[str, ...]]]:
    """Yield each policy whose device plugin stays, with the kinds of devices that it serves no longer."""
    for owner in before.owners("device-plugin"):
        now = after.daemon_sets("device-plugin", owner)
        gone = _kinds(before.daemon_sets("device-plugin", owner)) - _kinds(now)
        if now and gone:
            yield owner, tuple(sorted(gone))


def _kinds(daemon_sets: Iterable[deployed.DaemonSet]) -> frozenset[str]:
    return frozenset(kind for item in daemon_sets for kind in item.kinds)


def _entries(recorded: Iterable[index_file.Frozen]) -> dict[tuple[str, str], set[str]]:
    """Return the recorded entries of each group: two if the compile of an edited entry was interrupted."""
    found: dict[tuple[str, str], set[str]] = {}
    for item in recorded:
        found.setdefault((item.policy, item.group), set()).add(item.entry)
    return found


def _listed(output: deployed.Deployed, policy: str, group: str) -> frozenset[str]:
    """Return the nodes of a group, by the rule of its policy's pools."""
    owner = _owner(output, policy)
    rules = output.pool_rules(owner) if owner else None
    return rules.members(owner, group) if owner and rules else frozenset()


def unprotected(before: deployed.Deployed, after: deployed.Deployed, engine: str) -> tuple[str, ...]:
    """Return the paths of the objects that lose their protection from pruning.

    The rights of the driver are protected for the policies with enabledCleanup. While the `engine` stays, they lose it
    with the last of these, and that policy is asked for by itself.
    """
    return tuple(
        path
        for path, data in sorted(after.objects.items())
        if (earlier := before.objects.get(path))
        and deployed.protector(earlier) not in (None, deployed.protector(data))
        and not (path.startswith(("driver/", "guard/")) and deployed.protector(earlier) == engine)
    )


def loses_guard(before: deployed.Deployed, after: deployed.Deployed) -> bool:
    """Return whether drivers keep the right to evict, and lose the guard that confines it to their own node."""
    names = (path.partition("/")[2] for path in _paths(after))
    evicts = any(name.startswith("clusterrole-") and name.endswith("-driver.yaml") for name in names)
    return _has_guard(before) and not _has_guard(after) and evicts


def _has_guard(output: deployed.Deployed) -> bool:
    return any(path.startswith("guard/") for path in _paths(output))


def _paths(output: deployed.Deployed) -> Iterable[str]:
    """Return the recorded paths; after an interrupted compile, those that are there."""
    return output.index.files if output.index.complete else output.objects


def _moves(before: deployed.DaemonSet, pool: pools.Pool | None) -> bool:
    """Return whether a driver changes its version: a mirror or another registry changes none."""
    return pool is None or _versions(before.images) != _versions(image for _, image in pool.images)


def _versions(used: Iterable[str]) -> frozenset[str]:
    return frozenset(images.unqualified(image).partition(":")[2] for image in used)


@dataclass(frozen=True, slots=True)
class _Serving:
    """The policy whose DaemonSet serves a node from now on, with the pool of the driver."""

    policy: str
    pool: pools.Pool | None

    @property
    def is_absent(self) -> bool:
        """True where the installer removes the driver."""
        return self.pool is not None and self.pool.driver.state == "Absent"


def _serving(planned: plan.RecipePlan, component: index_file.Component) -> dict[str, _Serving]:
    """Return what serves each node, by the plan."""
    pairs = (
        (_Serving(decision.policy.name, decision.pool if component == "driver" else None), decision.names)
        for decision in planned.decisions
        if decision.policy is not None and decision.runs(component)
    )
    return {name: serving for serving, names in pairs for name in names}


def _selections(output: deployed.Deployed, component: index_file.Component, owner: Owner) -> tuple[object, ...]:
    """Return everything that decides over the nodes of a policy's component."""
    recorded = [item for item in output.index.workloads if (item.component, item.owner) == (component, owner)]
    present = sorted(output.daemon_sets(component, owner), key=lambda item: item.workload.file)
    rule = output.rule(f"{owner.recipe}-pool-{owner.policy}") if component == "driver" else None
    return len(recorded), [item.selection for item in present], rule and rule.get("spec")


def _pools(output: deployed.Deployed, component: index_file.Component, owner: Owner) -> set[str]:
    own = (item for item in output.index.workloads if (item.component, item.owner) == (component, owner))
    return {item.pool for item in own if item.pool is not None and pools.is_of_one_kernel(item.pool)}


def _owner(output: deployed.Deployed, policy: str) -> Owner | None:
    """Return a policy with the recipe of its drivers; None where it has none."""
    return next((owner for owner in output.owners("driver", absent=True) if owner.policy == policy), None)
