"""The nodes that a compile takes a driver, a device plugin or a frozen version from.

Both outputs are judged on the nodes of the new inventory: a label that a node has lost since then has moved its pods
already, and no compile takes anything away by it. Only frozen groups list nodes by name, so only from them a node can
disappear with its inventory.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from compiler.changes import deployed, placement
from compiler.inventory import snapshot
from compiler.planning import plan

Component = Literal["driver", "device-plugin"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """What a policy's driver or device plugin loses in a cluster."""

    component: Component
    policy: str
    last: bool
    """True when the last DaemonSet of the component goes."""
    unlabelled: bool
    """True when the NodeFeatureRule goes that labels nodes with devices."""
    unknown: bool
    """True when the nodes that it serves are not known: the inventory is empty, or a DaemonSet cannot be read."""
    served: int
    """The number of known nodes that it serves in the earlier output."""
    nodes: tuple[str, ...]
    """The nodes that no DaemonSet of the component serves any more."""
    removed: tuple[str, ...]
    """The nodes whose driver a DaemonSet of state Absent removes from now on."""
    moved: Mapping[str, tuple[str, ...]]
    """The nodes that another policy's DaemonSet serves from now on, by policy."""


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
    unlabelled = before.rule("kae") is not None and after.rule("kae") is None
    components: tuple[Component, ...] = ("driver", "device-plugin")
    for component in components:
        serving = {} if unlabelled else _serving(planned, component)
        absent = _absent(planned) if component == "driver" else frozenset()
        kept = {item.policy for item in after.index.workloads if item.component == component}
        for policy in before.policies(component):
            is_same = _selections(before, component, policy) == _selections(after, component, policy)
            if policy in kept and is_same and not unlabelled:
                continue
            served = _served(before, component, policy, planned.inventory.nodes)
            gone = tuple(name for name in served if name not in serving)
            moved: dict[str, list[str]] = {}
            for name in served:
                if serving.get(name, policy) != policy:
                    moved.setdefault(serving[name], []).append(name)
            yield Loss(
                component=component,
                policy=policy,
                last=policy not in kept,
                unlabelled=unlabelled,
                unknown=not planned.inventory.nodes or not _is_readable(before, component, policy),
                served=len(served),
                nodes=gone,
                removed=tuple(name for name in served if name in absent),
                moved={name: tuple(nodes) for name, nodes in sorted(moved.items())},
            )


def thaws(before: deployed.Deployed, after: deployed.Deployed, planned: plan.Plan) -> Iterator[Thaw]:
    """Yield the nodes that leave a frozen group with the version of their driver, unless its entry was edited."""
    entries = {(frozen.policy, frozen.group): frozen.entry for frozen in after.index.frozen or ()}
    policies = {division.policy.name for division in planned.divisions}
    images = {
        name: decision.driver.image
        for decision in planned.decisions
        for name in decision.names
        if decision.driver.image is not None
    }
    known = {node.name: node for node in planned.inventory.nodes}
    # An index without the record was written before there was one: the entries count as unedited.
    recorded = after.index.frozen if before.index.frozen is None else before.index.frozen
    for frozen in recorded or ():
        rules = _pool_rules(before, frozen.policy)
        if rules is None or (frozen.policy in policies and entries.get((frozen.policy, frozen.group)) != frozen.entry):
            continue
        members = rules.members(frozen.policy, frozen.group)
        daemon_sets = before.daemon_sets("driver", frozen.policy)
        served = placement.served(daemon_sets, rules, (known[name] for name in members if name in known))
        own = _pool_rules(after, frozen.policy)
        listed = own.members(frozen.policy, frozen.group) if own else frozenset()
        judged = known if _is_readable(before, "driver", frozen.policy) else {}
        for name in sorted(members):
            image = images.get(name)
            # Without a readable DaemonSet only the lists of names are left to compare.
            is_lost = name not in listed if name not in judged else name in served and _moves(served[name].image, image)
            if is_lost:
                yield Thaw(policy=frozen.policy, group=frozen.group, node=name, known=name in known, image=image)


def unprotected(before: deployed.Deployed, after: deployed.Deployed, engine: str) -> tuple[str, ...]:
    """Return the paths of the objects that lose their protection from pruning.

    The rights of the driver are protected for the policies with enabledCleanup. While the `engine` stays, they lose it
    with the last of these, and that policy is asked for by itself.
    """
    return tuple(
        path
        for path, data in sorted(after.objects.items())
        if (earlier := before.objects.get(path))
        and deployed.protector(earlier) is not None
        and deployed.protector(data) is None
        and not (path.startswith(("driver/", "guard/")) and deployed.protector(earlier) == engine)
    )


def _moves(before: str, after: str | None) -> bool:
    """Return whether a driver changes its version: a mirror or another registry changes none."""
    return after is None or _version(before) != _version(after)


def _version(image: str) -> str:
    return image.rpartition("/")[2].partition(":")[2]


def _serving(planned: plan.Plan, component: Component) -> dict[str, str]:
    """Return the policy whose DaemonSet serves each node, by the plan."""
    return {
        name: decision.policy.name
        for decision in planned.decisions
        if decision.policy is not None
        and (decision.driver if component == "driver" else decision.device_plugin).image is not None
        for name in decision.names
    }


def _absent(planned: plan.Plan) -> frozenset[str]:
    """Return the nodes on which the driver's installer removes the driver."""
    return frozenset(
        name
        for decision in planned.decisions
        if decision.pool is not None and decision.pool.driver.state == "Absent"
        for name in decision.names
    )


def _selections(output: deployed.Deployed, component: Component, policy: str) -> tuple[object, ...]:
    """Return everything that decides over the nodes of a policy's component; None stands for what cannot be read."""
    recorded = [item for item in output.index.workloads if (item.component, item.policy) == (component, policy)]
    readable = sorted(output.daemon_sets(component, policy), key=lambda item: item.workload.file)
    rule = output.rule(f"kae-pool-{policy}") if component == "driver" else None
    return len(recorded), [item.selection for item in readable], rule and rule.get("spec")


def _is_readable(output: deployed.Deployed, component: Component, policy: str) -> bool:
    recorded = [item for item in output.index.workloads if (item.component, item.policy) == (component, policy)]
    present = [item for item in recorded if item.state != "Absent"]
    return len(output.daemon_sets(component, policy)) == len(present)


def _served(
    output: deployed.Deployed, component: Component, policy: str, nodes: Iterable[snapshot.Node]
) -> dict[str, deployed.DaemonSet]:
    rules = _pool_rules(output, policy) if component == "driver" else None
    return placement.served(output.daemon_sets(component, policy), rules, nodes)


def _pool_rules(output: deployed.Deployed, policy: str) -> placement.PoolRules | None:
    rule = output.rule(f"kae-pool-{policy}")
    return None if rule is None else placement.PoolRules(rule)
