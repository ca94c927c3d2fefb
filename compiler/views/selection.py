"""A plan restricted to a part of its nodes."""

from collections.abc import Collection, Iterable

import msgspec
from msgspec import structs

from compiler import errors, wording
from compiler.fleet import selectors
from compiler.inventory import snapshot
from compiler.planning import loaded, plan
from compiler.views import gaps


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """The nodes that a command is about: those that meet every restriction."""

    policies: frozenset[str] = frozenset()
    """The names of their policies; empty for any, and for none."""
    recipes: frozenset[str] = frozenset()
    """The recipes whose plans are shown; empty for all."""
    nodes: frozenset[tuple[str, str]] = frozenset()
    """The names of their clusters and their own; empty for all."""
    term: selectors.Term = ()
    has_problem: bool = False
    """Only nodes that lack what their policy promises."""
    differs: bool = False
    """Only nodes that have not loaded what the plan has for them, as far as their labels tell."""

    def __bool__(self) -> bool:
        return self != Selection()


def require(noun: str, plural: str, wanted: Iterable[str], known: Collection[str]) -> None:
    """Raise WorldError for the first wanted name that is not known; the nouns say of what."""
    for name in wanted:
        if name not in known:
            known_names = f"{plural} are {wording.listed(sorted(known))}." if known else f"No {noun} holds there."
            raise errors.WorldError(
                f"there is no {noun} '{name}'.", hint=f"{wording.did_you_mean(name, known)} {known_names}".lstrip()
            )


def restricted(view: plan.Plan, selection: Selection) -> plan.Plan:
    """Return the plans of a cluster with the selected nodes, and the policies that are selected or have one of them.

    Of the recipes but the built-in one those are left that have any of these.
    """
    if not selection:
        return view
    first, *others = (_restricted(one, selection) for one in view.recipes)
    left = (one for one in others if one.decisions or one.divisions)
    return structs.replace(view, recipes=(first, *left))


def _restricted(view: plan.RecipePlan, selection: Selection) -> plan.RecipePlan:
    if selection.recipes and view.recipe.name not in selection.recipes:
        return structs.replace(view, decisions=(), divisions=())
    if selection == Selection(recipes=selection.recipes):
        return view
    decisions = tuple(_selected(view, selection))
    policies = {decision.policy.name for decision in decisions if decision.policy} | selection.policies
    divisions = tuple(division for division in view.divisions if division.policy.name in policies)
    return structs.replace(view, decisions=decisions, divisions=divisions)


def _selected(view: plan.RecipePlan, selection: Selection) -> Iterable[plan.Decision]:
    for decision in loaded.apart(view.decisions) if selection.differs else view.decisions:
        policy = decision.policy.name if decision.policy else None
        if selection.policies and policy not in selection.policies:
            continue
        if selection.has_problem and not gaps.has_problem(decision):
            continue
        if selection.differs and not ((known := loaded.of(decision)) and known.differs):
            continue
        nodes = tuple(node for node in decision.nodes if _takes(selection, view.cluster.name, node))
        if nodes:
            yield structs.replace(decision, nodes=nodes)


def _takes(selection: Selection, cluster: str, node: snapshot.Node) -> bool:
    if selection.nodes and (cluster, node.name) not in selection.nodes:
        return False
    return selectors.term_matches(selection.term, node.label)
