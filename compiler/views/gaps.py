"""The components that nodes do not get, with the reasons; nodes with the same gaps and reasons are one entry."""

from collections import defaultdict
from collections.abc import Iterable, Iterator

import msgspec

from compiler.fleet import assignment, definitions
from compiler.planning import plan


class Gap(msgspec.Struct, frozen=True):
    """A component, or a policy, that a node does not get."""

    component: str
    reason: str
    is_problem: bool
    """True when the policy promises the component to a node like this one, or no policy takes a node with devices.

    A recipe for every node promises nothing to those that no policy takes, and an opt-out is what somebody asked for.
    """
    is_opt_out: bool = False
    """True when a label of the node alone keeps away what the policy promises."""


class Gaps(msgspec.Struct, frozen=True, kw_only=True):
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
    policy = decision.policy
    if policy is None:
        yield Gap("policy", decision.why, has_devices(decision) and not decision.recipe.is_everywhere)
        return
    components: tuple[tuple[str, definitions.Component, plan.Landing], ...] = (
        ("driver", "driver", decision.driver),
        ("device plugin", "devicePlugin", decision.device_plugin),
    )
    for noun, field, landing in components:
        if landing.image is None and not policy.has_none(field):
            is_problem = landing.obstacle not in ("disabled", "hardware", "opt-out")
            yield Gap(noun, landing.reason, is_problem, landing.obstacle == "opt-out")
    for name, landing in decision.programs:
        if landing.image is None:
            # A vendor's program is for some machines alone, as its images are.
            is_problem = landing.obstacle not in ("disabled", "hardware", "opt-out", "architecture")
            yield Gap(f"program '{name}'", landing.reason, is_problem, landing.obstacle == "opt-out")


def has_devices(decision: plan.Decision) -> bool:
    """Return whether the nodes of a decision are known to have the hardware of its recipe."""
    return assignment.has_hardware(decision.recipe, decision.node)


def has_problem(decision: plan.Decision) -> bool:
    """Return whether the nodes of a decision lack what their policy promises, or have devices but no policy."""
    return any(gap.is_problem for gap in of(decision))


def has_opted_out(decision: plan.Decision) -> bool:
    """Return whether a label keeps away from the nodes of a decision what their policy promises."""
    return any(gap.is_opt_out for gap in of(decision))


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
