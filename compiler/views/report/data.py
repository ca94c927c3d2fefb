"""The data of the report's page: for each cluster its nodes, and the facts that nodes alike share.

A fact that thousands of nodes share is written once, so that the page of a large fleet stays small.
"""

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from compiler import recipes, repeats
from compiler.changes.effects import Effect, Placement
from compiler.fleet import assignment, definitions, taints
from compiler.inventory import snapshot
from compiler.planning import loaded, plan, pools
from compiler.views import gaps, plan_data, plan_text
from compiler.views.diff import sentences

STATES: Mapping[str, str] = {
    "problem": "problem",
    "complete": "driver and plugin",
    "plugin": "plugin only",
    "driver": "driver only",
    "removed": "driver removed",
    "optOut": "opted out",
    "unknown": "unknown, as NFD has not labelled it",
    "none": "nothing, as intended",
    "gone": "left the inventory",
}
"""The states of a node by their keys, in the order of the legend."""

UNUSUAL: Mapping[str, str] = {
    "problem": "with problems",
    "optOut": "opted out",
    "unknown": "not labelled by NFD yet",
}
"""The states that have a figure, with its words."""
LOADED: Mapping[str, str] = {"planned": "as planned", "differs": "another than planned", "unknown": "not told"}
"""Whether nodes have loaded the drivers that the plan has for them, by key: what their labels tell of any recipe."""

_GONE: Mapping[str, Any] = {
    **dict.fromkeys(("policy", "pool", "group", "driver", "plugin", "loaded")),
    "loads": "unknown",
    **dict.fromkeys(("kernel", "os", "architecture", "kubelet"), ""),
    **dict.fromkeys(("resources", "devices", "taints"), ()),
    "state": "gone",
    "why": (("node", "the inventory has it no more"),),
}
"""The facts of a node that is not there."""

_UNCHANGED: Mapping[Effect, Sequence[int]] = {}

_POSITION = "{position}"
"""Stands for the position of a node's name, in the reasons that nodes of a wave share."""


def of_cluster(
    name: str, view: plan.Plan | None, effects: Mapping[Effect, Sequence[int]] = _UNCHANGED
) -> dict[str, Any]:
    """Return the data of a cluster; its nodes are columns of equal length, sorted by name.

    With the effects of a change, each with the numbers of the sentences on it, they hold the nodes that leave, too; a
    cluster without a plan has only those.
    """
    shared = _Shared(is_awaited=bool(view and view.awaited))
    decisions = tuple(loaded.apart(view.builtin.decisions)) if view else ()
    stacks = _stacks(view) if view else {}
    rows = [shared.row(decision, node, stacks.get(node.name, ())) for decision in decisions for node in decision.nodes]
    every = [*effects]
    numbered = repeats.grouped((node, number) for number, effect in enumerate(every) for node in effect.nodes)
    of_node = {node: tuple(numbers) for node, numbers in numbered.items()}
    gone = {node for effect in every if effect.after is None for node in effect.nodes}
    rows.extend(map(shared.gone, gone))
    names, alike, labels, positions = zip(*sorted(rows), strict=True) if rows else ((), (), (), ())
    # 0 stands for no effect.
    kinds = {numbers: number for number, numbers in enumerate(dict.fromkeys(of_node.values()), start=1)}
    return {
        "name": name,
        "names": names,
        "alike": alike,
        "labels": labels,
        "positions": positions if any(positions) else [],
        "effectOf": [kinds[of_node[node]] if node in of_node else 0 for node in names] if kinds else [],
        "effects": [_effect({every[number]: effects[every[number]] for number in numbers}) for numbers in kinds],
        "facts": shared.facts,
        "labelTexts": list(shared.texts),
        "labelSets": list(shared.sets),
    }


def _effect(effects: Mapping[Effect, Sequence[int]]) -> dict[str, Any]:
    """Return the effects on nodes, one a recipe; what the page shows of a placement is of the built-in recipe."""
    worst = min(effects, key=sentences.rank)
    own = next((effect for effect in effects if effect.recipe.builtin), None)
    return {
        "change": sentences.change(worst),
        "sentences": sorted({number for numbers in effects.values() for number in numbers}),
        "before": _placement(own.before if own else None),
        "after": _placement(own.after if own else None),
        "cause": str(worst.cause),
    }


def _placement(placement: Placement | None) -> dict[str, Any] | None:
    if placement is None:
        return None
    return {
        "policy": placement.policy,
        "pool": placement.pool,
        "group": placement.group,
        "driver": placement.driver,
        "version": placement.version,
        "plugin": placement.device_plugin,
        "resources": _offered(placement.resources, placement.interface),
    }


def _stacks(view: plan.Plan) -> Mapping[str, Sequence[plan.Decision]]:
    """Return what the other recipes bring to nodes, or should, by the names of the nodes."""
    found: defaultdict[str, list[plan.Decision]] = defaultdict(list)
    for decision in (decision for stack in view.recipes[1:] for decision in loaded.apart(stack.decisions)):
        if decision.policy or gaps.has_problem(decision):
            for name in decision.names:
                found[name].append(decision)
    return found


def line(recipe: recipes.Recipe, text: str) -> str:
    """Return a line on what a recipe brings to nodes; that of the built-in one need not name it."""
    return text if recipe.builtin else f"{recipe.name}: {text}"


def of_policy(policy: definitions.Policy) -> str:
    """Return the line of nodes that a policy takes."""
    return line(policy.recipe, f"policy '{policy.name}'")


def _of_recipe(decision: plan.Decision) -> Iterator[str]:
    """Yield the lines on what a recipe brings to nodes."""
    recipe = decision.recipe
    if decision.policy:
        yield of_policy(decision.policy)
    if decision.pool:
        yield line(recipe, f"pool '{decision.pool.name}'")
    yield from (line(recipe, f"image {name} {image}") for name, image in plan_data.images(decision).items())
    if known := loaded.of(decision):
        yield line(recipe, known.sentence)
    for is_problem in (True, False):
        yield from (line(recipe, gap.text) for gap in gaps.grouped([decision], is_problem=is_problem))


class _Shared:
    """The facts and labels of the nodes of one cluster, each once, by number."""

    def __init__(self, *, is_awaited: bool) -> None:
        """Take whether the devices of a node are unknown until NFD labels it."""
        self._is_awaited = is_awaited
        self.facts: list[dict[str, Any]] = []
        self.texts: dict[Hashable, int] = {}
        self.sets: dict[Hashable, int] = {}
        self._alike: dict[Hashable, int] = {}

    def row(
        self, decision: plan.Decision, node: snapshot.Node, stacks: Sequence[plan.Decision]
    ) -> tuple[str, int, int, str]:
        """Return a node's name, the numbers of its facts and of its labels, and its position in its reason."""
        reason, position = _group_reason(decision, node)
        # The first node stands for its decision: no two decisions of a recipe share a node.
        alike = tuple((stack.recipe.name, stack.node.name) for stack in stacks)
        number = _number(self._alike, (decision.node.name, reason, alike))
        if number == len(self.facts):
            machine = self.labels(decision.node.profile.labels)
            why = [*_why(decision, reason), *(("recipe", line) for stack in stacks for line in _of_recipe(stack))]
            key = state((decision, *stacks), is_awaited=self._is_awaited)
            self.facts.append({**_facts(decision, stacks), "state": key, "machine": machine, "why": why})
        return node.name, number, self.labels(node.labels), position

    def gone(self, name: str) -> tuple[str, int, int, str]:
        """Return the row of a node that the inventory has no more."""
        number = _number(self._alike, None)
        if number == len(self.facts):
            self.facts.append({**_GONE, "machine": self.labels({})})
        return name, number, self.labels({}), ""

    def labels(self, labels: Mapping[str, str]) -> int:
        """Return the number of a set of labels."""
        texts = (f"{key}={value}" for key, value in sorted(labels.items()))
        return _number(self.sets, tuple(_number(self.texts, text) for text in texts))


def _offered(resources: plan.Resources, interface: definitions.Interface | None) -> list[str]:
    return [f"{plan_text.resource(amount)}{plan_text.by(interface)}" for amount in resources]


def _number(known: dict[Hashable, int], key: Hashable) -> int:
    return known.setdefault(key, len(known))


def _facts(decision: plan.Decision, stacks: Sequence[plan.Decision]) -> dict[str, Any]:
    profile, pool, known = decision.node.profile, decision.pool, loaded.of(decision)
    group = decision.division.group(decision.node.name) if decision.division else None
    return {
        "policy": decision.policy.name if decision.policy else None,
        "pool": pool.name if pool else None,
        "group": group.name if group else None,
        "driver": decision.driver.image,
        "plugin": decision.device_plugin.image,
        "loaded": known.sentence.removeprefix("loaded ") if known else None,
        "loads": loads((decision, *stacks)),
        "resources": [text for each in (decision, *stacks) for text in _offered(each.resources, each.interface)],
        "devices": device_counts(decision.recipe, decision.node),
        "kernel": profile.kernel_version,
        "os": profile.os_image,
        "architecture": profile.architecture,
        "kubelet": profile.kubelet_version,
        "taints": [taints.text(taint) for taint in profile.taints],
    }


def state(decisions: Sequence[plan.Decision], *, is_awaited: bool) -> str:
    """Return the key in STATES of nodes, by the decisions of all recipes.

    `is_awaited` says whether their devices are unknown until NFD labels them.
    """
    if any(map(gaps.has_problem, decisions)):
        return "problem"
    if any(map(gaps.has_opted_out, decisions)):
        return "optOut"
    drivers = [decision for decision in decisions if decision.driver.image is not None]
    if drivers and all(decision.pool and decision.pool.driver.state == "Absent" for decision in drivers):
        return "removed"
    has_plugin = any(
        landing.image is not None for decision in decisions for name, landing in decision.landings if name != "driver"
    )
    if drivers and has_plugin:
        return "complete"
    if drivers or has_plugin:
        return "driver" if drivers else "plugin"
    return "unknown" if is_awaited and not decisions[0].node.profile.discovered else "none"


def loads(decisions: Iterable[plan.Decision]) -> str:
    """Return the key in LOADED of nodes, by the decisions of all recipes, which `loaded.apart` has made."""
    known = [told for told in map(loaded.of, decisions) if told]
    if any(told.differs for told in known):
        return "differs"
    return "planned" if any(told.wanted is not None for told in known) else "unknown"


def states(views: Iterable[plan.Plan]) -> Counter[str]:
    """Return how many nodes are in each state, by its key in STATES."""
    found = Counter[str]()
    for view in views:
        stacks, is_awaited = _stacks(view), bool(view.awaited)
        known: dict[tuple[int, ...], str] = {}
        for decision in view.builtin.decisions:
            for name in decision.names:
                every = (decision, *stacks.get(name, ()))
                alike = tuple(map(id, every))
                if alike not in known:
                    known[alike] = state(every, is_awaited=is_awaited)
                found[known[alike]] += 1
    return found


def device_counts(recipe: recipes.Recipe, node: snapshot.Node) -> list[str]:
    """Return the numbers of the node's devices by kind."""
    if not node.profile.discovered:
        return ["unknown: NFD has not labelled the node yet"]
    counts = ((kind.name, *plan.functions(kind, node)) for kind in assignment.kinds(recipe.kinds, node))
    return [f"{name}: {physical} physical, {virtual} virtual" for name, physical, virtual in counts]


def _why(decision: plan.Decision, group: str) -> Iterator[tuple[str, str]]:
    """Yield what each reason is about, and the reason."""
    yield "policy", decision.why
    division = decision.division
    if division is None:
        return
    if division.label:
        yield from (("pool", reason) for reason in (group, *division.kernel_reasons(decision.node)) if reason)
    yield "driver", decision.driver.reason
    yield "device plugin", decision.device_plugin.reason
    yield from ((f"program '{name}'", landing.reason) for name, landing in decision.programs)


def _group_reason(decision: plan.Decision, node: snapshot.Node) -> tuple[str, str]:
    """Return why a node is in its group, and the position of its name where a mark in the reason stands for it."""
    group = decision.division.group(node.name) if decision.division else None
    if group is None:
        return "", ""
    position = pools.position(node.name)
    reason = f"group '{group.name}': {pools.group_reason(group, node).replace(position, _POSITION)}"
    return reason, position if _POSITION in reason else ""
