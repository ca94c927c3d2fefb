"""The components that nodes do not get, with the reasons; nodes with the same gaps and reasons are one entry."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from compiler import devices
from compiler.fleet import assignment
from compiler.planning import plan


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """A component, or a policy, that a node does not get."""

    component: str
    reason: str
    is_problem: bool
    """True when the policy promises the component to a node like this one, or no policy takes a node with devices."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gaps:
    """Nodes that lack the same components for the same reason."""

    components: tuple[str, ...]
    reason: str
    nodes: tuple[str, ...]
    """Sorted."""

    @property
    def text(self) -> str:
        """The components that nodes lack, and why."""
        if self.components == ("policy",):
            return self.reason
        return f"no {' and '.join(self.components)}: {self.reason}"


def of(decision: plan.Decision) -> Iterator[Gap]:
    """Yield the gaps of the nodes of a decision."""
    policy, node = decision.policy, decision.node
    if policy is None:
        yield Gap(component="policy", reason=decision.why, is_problem=has_devices(decision))
        return
    is_served = assignment.is_served(policy, node)
    for component, landing, is_enabled in (
        ("driver", decision.driver, policy.spec.driver.enabled),
        ("device plugin", decision.device_plugin, policy.spec.devicePlugin.enabled),
    ):
        if landing.image is None:
            yield Gap(component=component, reason=landing.reason, is_problem=is_enabled and is_served)


def has_devices(decision: plan.Decision) -> bool:
    """Return whether the nodes of a decision have a KAE device of any kind."""
    return any(decision.node.label(kind.present) == "true" for kind in devices.KINDS)


def has_problem(decision: plan.Decision) -> bool:
    """Return whether the nodes of a decision lack what their policy promises, or have devices but no policy."""
    return any(gap.is_problem for gap in of(decision))


def grouped(decisions: Iterable[plan.Decision], *, is_problem: bool) -> tuple[Gaps, ...]:
    """Return the gaps of all nodes that are problems, or those that are none; the most frequent first."""
    nodes: defaultdict[tuple[tuple[str, ...], str], list[str]] = defaultdict(list)
    for decision in decisions:
        components: defaultdict[str, list[str]] = defaultdict(list)
        for gap in of(decision):
            if gap.is_problem == is_problem:
                components[gap.reason].append(gap.component)
        for reason, lacking in components.items():
            nodes[tuple(lacking), reason].extend(decision.names)
    found = (
        Gaps(components=components, reason=reason, nodes=tuple(sorted(names)))
        for (components, reason), names in nodes.items()
    )
    return tuple(sorted(found, key=lambda gaps: (-len(gaps.nodes), gaps.reason, gaps.components)))
