"""The rule for what containers get that ask for resources of several policies."""

import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from compiler import wording
from compiler.diagnostics import Diagnostic, shared_rule
from compiler.fleet import assignment, claims, definitions, injections

shared_rule("inject-conflict", "error", "Resources of a node set no variable and no path of a container differently.")

_Settings = frozenset[injections.Setting]
_Pair = tuple[injections.Setting, injections.Setting]


def conflicts(policies: Sequence[assignment.Assigned]) -> Iterator[Diagnostic]:
    """The resources of a node set no variable and no path of a container differently.

    The kubelet keeps either, at random: `deviceRunContainerOptions` of pkg/kubelet/cm/devicemanager goes through a map.
    """
    if len({assigned.policy.recipe.name for assigned in policies}) == 1:
        return
    settings = {id(assigned): injections.of(assigned.policy) for assigned in policies}
    conflict = functools.cache(_conflict)
    suspects = _suspects(policies, settings, conflict)
    told: set[_Pair] = set()
    for one, other, labels in claims.sharing(suspects):
        pair = conflict(settings[id(one)], settings[id(other)])
        if pair is not None and pair not in told:
            told.add(pair)
            yield _finding((one.policy, other.policy), pair, labels)


def _suspects(
    policies: Iterable[assignment.Assigned],
    settings: Mapping[int, _Settings],
    conflict: Callable[[_Settings, _Settings], _Pair | None],
) -> list[assignment.Assigned]:
    """Return the policies that would contradict one of another recipe: nearly none, and most are alike in settings."""
    sorts = {(assigned.policy.recipe.name, settings[id(assigned)]) for assigned in policies}
    odd = {one for one in sorts if any(one[0] != other[0] and conflict(one[1], other[1]) for other in sorts)}
    return [assigned for assigned in policies if (assigned.policy.recipe.name, settings[id(assigned)]) in odd]


def _conflict(one: _Settings, other: _Settings) -> tuple[injections.Setting, injections.Setting] | None:
    """Return the first two settings that contradict each other."""
    pairs = itertools.product(sorted(one), sorted(other))
    return next((pair for pair in pairs if pair[0].differs(pair[1])), None)


def _finding(
    policies: tuple[definitions.Policy, definitions.Policy], pair: _Pair, labels: Mapping[str, str]
) -> Diagnostic:
    one, other = policies
    target = injections.in_sentence(pair[0].target)
    return Diagnostic(
        code="inject-conflict",
        span=other.source.span("metadata", "name"),
        message=f"Resources '{pair[0].resource}' and '{pair[1].resource}' set {target} differently.",
        notes=(
            "A container may ask for both, and gets either.",
            f"Policies '{one.name}' and '{other.name}' both match a node with {wording.labels(labels)}.",
            f"The other policy is at {one.source.span('metadata', 'name')}.",
            f"One sets {wording.quoted(pair[0].value)}, the other {wording.quoted(pair[1].value)}.",
        ),
        hint="Give it one value, or keep the two policies on different nodes.",
    )
