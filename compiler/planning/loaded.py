"""The drivers that nodes have loaded, by their labels in the inventory, beside those that the plan has for them.

The labels are late, and only answers for people and their risks depend on them, no manifest (decision 0035). A risk
counts all nodes of a change: labels of an old inventory take none out of it.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from msgspec import structs

from compiler import recipes
from compiler.inventory import snapshot
from compiler.planning import images, plan
from runtime import driver_labels


class Loaded(NamedTuple):
    """What the labels of nodes say of the driver of a recipe, and what the plan has for them."""

    version: str
    """Empty where none is loaded."""
    state: str
    wanted: str | None
    """The version of the plan; empty where it removes the driver, None where it has no driver for them."""

    @property
    def is_wanted(self) -> bool:
        """Return whether the nodes have the driver that the plan has for them."""
        if not self.wanted:
            return False
        return self.version == driver_labels.value(self.wanted) and self.state in ("", "Ready")

    @property
    def differs(self) -> bool:
        """Return whether the nodes have not what the plan has; a driver of others that may stay is no difference."""
        return self.wanted is not None and self.state != "Foreign" and not self.is_wanted

    @property
    def text(self) -> str:
        """Return what is loaded, and the state where it says more: '2.2.0 (Pending)'."""
        return f"{self.version or 'none'}{f' ({self.state})' if self.state not in ('', 'Ready') else ''}"

    @property
    def sentence(self) -> str:
        """Return what is loaded beside what is wanted: 'loaded 2.2.0 (Pending), wants 2.3.0'."""
        wants = "" if self.wanted is None else f", wants {self.wanted or 'none'}"
        return f"loaded {self.text}{wants}"


class Group(NamedTuple):
    """Nodes of a recipe that have the same loaded."""

    recipe: recipes.Recipe
    loaded: Loaded
    nodes: tuple[str, ...]
    """Sorted."""


def of(decision: plan.Decision) -> Loaded | None:
    """Return what is loaded on the nodes of a decision that `apart` has made; None where no label says so."""
    version, state = map(decision.node.label, _keys(decision.recipe))
    return None if version is None and state is None else Loaded(version or "", state or "", _wanted(decision))


def having(decision: plan.Decision) -> frozenset[str]:
    """Return the nodes of a decision whose labels show the driver that it has for them."""
    known = ((one, of(one)) for one in apart([decision]))
    return frozenset(name for one, loaded in known if loaded is not None and loaded.is_wanted for name in one.names)


def _wanted(decision: plan.Decision) -> str | None:
    if decision.pool is None:
        return None
    driver = decision.pool.driver
    return images.version(driver.parts) if driver.state == "Present" else ""


def _keys(recipe: recipes.Recipe) -> tuple[str, str]:
    return recipe.driver_version, recipe.driver_state


def apart(decisions: Iterable[plan.Decision]) -> Iterator[plan.Decision]:
    """Yield decisions of which each has nodes with one driver loaded, or none of which anything is known."""
    for decision in decisions:
        version, state = _keys(decision.recipe)
        found: dict[tuple[str | None, str | None], list[snapshot.Node]] = {}
        for node in decision.nodes:  # They have one profile, so their own labels tell them apart.
            own = node.labels
            found.setdefault((own.get(version), own.get(state)), []).append(node)
        if len(found) < 2:
            yield decision
        else:
            yield from (structs.replace(decision, nodes=tuple(nodes)) for nodes in found.values())


def differing(view: plan.RecipePlan) -> tuple[Group, ...]:
    """Return the nodes that have not what the plan of a recipe has, those with the same together; the most first."""
    found: dict[Loaded, list[str]] = {}
    for decision in apart(view.decisions):
        known = of(decision)
        if known is not None and known.differs:
            found.setdefault(known, []).extend(decision.names)
    groups = (Group(view.recipe, known, tuple(sorted(names))) for known, names in found.items())
    return tuple(sorted(groups, key=lambda group: (-len(group.nodes), group.loaded.sentence)))
