"""A trial: a change of a random fleet, the same change with one edit more, and the risks of both."""

import copy
import dataclasses
import random
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from compiler import pipeline
from compiler.changes import difference, effects, intent, sides
from compiler.checks import risks
from tests import builders
from tests.property import campaign
from tests.property.added_edits import edits
from tests.property.fleets import fleet as fleets
from tests.property.fleets import trial as plans
from tests.property.supply import trial as supply

_PARTS = ("policies", "recipes", "nodes")
_TRIES = 30
_MORE = 5
"""The edits that are added to a change, each for itself."""
_MOVING = (*effects.DISTURBING, "installs", "leaves")

_OF_NODES = frozenset(
    {"large-step", "waves-skipped", "driver-downgrade", "frozen-touched", "driver-removed", "pace-bypassed"}
)
_OF_SUPPLY = frozenset({"registry-changed", "repository-changed", "signatures-off", "network-forced"})

_PLACES = ("policy", "pool", "leases", "drain", "daemonSet", "daemon_set", "node_selector", "rollout")
"""What a config says of where it is rather than of the driver."""

_Content = Mapping[str, Mapping[str, Any]]
"""What each node gets, by its recipes."""


def trial(seed: int, _: Path | None = None) -> campaign.Result:
    """Compare the risks of a change with those of a change that has one edit more.

    Where nodes get the very same by both, whoever reads the second has to see what the first does to them.
    """
    draw = random.Random(f"added {seed}")  # noqa: S311 - a trial is drawn again from its seed
    if seed % plans.BATCH == 0:
        builders.renderer.cache_clear()
    for attempt in range(_TRIES):
        fleet = supply.sound(fleets.with_recipes(seed + 1000 * attempt))
        sort = draw.choice(sorted(edits.EDITS))
        first = _edited(draw, fleet, sort)
        told = _difference(fleet, first) if first else None
        if first is not None and told is not None and told.risks:
            return _judged(draw, seed, sort, (fleet, first), told)
    return campaign.Result(seed=seed, faults=["no edit compiles and has a risk"])


def _judged(
    draw: random.Random,
    seed: int,
    sort: str,
    fleet: tuple[fleets.Fleet, fleets.Fleet],
    told: difference.ClusterDifference,
) -> campaign.Result:
    """Add one edit after the other to a change with risks."""
    before, first = map(_side, fleet)
    counts: Counter[str] = Counter(**{"changes with a risk": 1})
    faults: list[str] = []
    for more in draw.sample(sorted(edits.EDITS), _MORE):
        second = _edited(draw, fleet[1], more)
        if second is not None:
            wanted = _wanted(told, before, first, _side(second))
            differs = _difference(fleet[0], second)
            found = {risk.finding.code for risk in differs.risks} if differs else set[str]()
            faults += [f"{code} is told no more beside '{more}'" for code in sorted(wanted - found)]
            counts.update({f"{code} expected": 1 for code in wanted})
    return campaign.Result(seed=seed, acts=(sort,), counts=counts, faults=faults)


def _edited(draw: random.Random, fleet: fleets.Fleet, sort: str) -> fleets.Fleet | None:
    """Return a fleet after an edit; None where nothing was there to edit, or the compile refuses it."""
    raw: edits.Raw = {"cluster": copy.deepcopy(fleet.cluster)}
    raw |= {key: list(copy.deepcopy(getattr(fleet, key))) for key in _PARTS}
    try:
        edits.EDITS[sort](draw, raw)
    except (IndexError, ValueError):
        return None
    parts: dict[str, Any] = {"cluster": raw["cluster"], **{key: tuple(raw[key]) for key in _PARTS}}
    edited = dataclasses.replace(fleet, **parts)
    return None if plans.viewed(edited)[1] else edited


def _side(fleet: fleets.Fleet) -> sides.Planned:
    view = plans.viewed(fleet)[0]
    return sides.of_plan(view, pipeline.manifests_of(view))


def _difference(before: fleets.Fleet, after: fleets.Fleet) -> difference.ClusterDifference | None:
    changed = intent.changes(*(supply.documents(each) for each in (before, after)))
    basis = difference.Basis(changed=changed, render=builders.renderer())
    return risks.compared(_side(before), _side(after), basis)


def _wanted(
    told: difference.ClusterDifference, before: sides.Planned, first: sides.Planned, second: sides.Planned
) -> set[str]:
    """Return the risks of a change whose nodes get the very same with the second edit."""
    had, one, both = _content(before), _content(first), _content(second)
    found: set[str] = set()
    for risk in told.risks:
        code, policy = risk.finding.code, risk.policy
        nodes = {
            (effect.recipe.name, name)
            for effect in told.effects
            if policy in (place.policy for place in (effect.before, effect.after) if place)
            and (code in _OF_SUPPLY or effect.work in _MOVING)
            for name in effect.nodes
            if name in had
        }
        if code in _OF_NODES | _OF_SUPPLY and nodes:
            same = (name in both and one[name].get(recipe) == both[name].get(recipe) for recipe, name in nodes)
            found |= {code} if all(same) and (code != "pace-bypassed" or _stay(nodes, first, second)) else set()
    return found


def _stay(nodes: set[tuple[str, str]], first: sides.Planned, second: sides.Planned) -> bool:
    """Return whether nodes come to the same DaemonSets by both changes, with the same nodes in them."""
    sets = [_sets(side) for side in (first, second)]
    came = [{each.get(key) for key in nodes} for each in sets]
    return came[0] == came[1] and all(
        [key for key, own in sets[0].items() if own == name] == [key for key, own in sets[1].items() if own == name]
        for name in came[0]
    )


def _sets(side: sides.Planned) -> dict[tuple[str, str], object]:
    found: dict[tuple[str, str], object] = {}
    for one in side.planned.recipes:
        for decision in one.decisions:
            own = effects.Half(side, decision).serving("driver")
            found |= {(one.recipe.name, name): own for name in decision.names if own is not None}
    return dict(sorted(found.items()))


def _content(side: sides.Planned) -> _Content:
    found: dict[str, dict[str, Any]] = {node.name: {} for node in side.planned.inventory.nodes}
    for one in side.planned.recipes:
        for decision in one.decisions:
            half = effects.Half(side, decision)
            config = msgspec.to_builtins(half.config) if half.config else {}
            driver = {key: value for key, value in config.items() if key not in _PLACES}
            images = decision.pool.images if decision.pool else ()
            for node in decision.nodes:
                kernel = node.profile.kernel_version
                found[node.name][one.recipe.name] = (driver, images, decision.device_plugin.image, kernel)
    return found
