"""The plan for people: a table of the clusters, summaries, then details; nodes that are alike share a line."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from itertools import zip_longest
from typing import NamedTuple

from msgspec import structs

from compiler import recipes, wording
from compiler.fleet import definitions
from compiler.planning import image_matrix, images, loaded, plan, pools
from compiler.views import gaps

_IMAGES = 3
"""Images of a component that the summary shows for a policy."""

_REASONS = 5
"""Problems that the summary shows; the details show all."""

_POLICIES = 8
"""Policies without nodes that the summary names."""

_NAMES = 3
"""Nodes that a row of the table of nodes names."""

_OTHERS = "(other recipes)"
"""Stands for the policies of nodes that other recipes alone have."""

_LOADED = "drivers not loaded as planned"

_TITLES = {True: "problems", False: "without a component, and no problem"}


class Counts(NamedTuple):
    """The numbers of a cluster in the table of all clusters."""

    nodes: int
    with_devices: int
    with_problems: int
    policies: int


def counts(view: plan.Plan) -> Mapping[str, Counts]:
    """Return the numbers of a cluster for the table of all clusters, by the heading of each recipe."""
    return {
        each.recipe.words.heading: Counts(
            nodes=count(each.decisions),
            with_devices=count(each.decisions, gaps.has_devices),
            with_problems=count(each.decisions, gaps.has_problem),
            policies=len(each.divisions),
        )
        for each in shown(view)
    }


def shown(view: plan.Plan) -> Sequence[plan.RecipePlan]:
    """Return the plans that say something: the built-in recipe's only where a policy, or a node, needs it."""
    first, *others = view.recipes
    is_needed = first.divisions or count(first.decisions, gaps.has_devices) or not others
    return view.recipes if is_needed else others


def _own(view: plan.Plan) -> Iterator[plan.RecipePlan]:
    """Yield the plans that say something, without the nodes that policies of other recipes take, and none of theirs.

    They lack nothing of the recipe, and what they have is in the part of the other one.
    """
    taken = {
        each.recipe.name: {name for decision in each.decisions if decision.policy for name in decision.names}
        for each in view.recipes
    }
    for each in shown(view):
        others = frozenset().union(*(names for recipe, names in taken.items() if recipe != each.recipe.name))
        own = (_without_nodes(decision, others) for decision in each.decisions)
        yield structs.replace(each, decisions=tuple(decision for decision in own if decision.nodes))


def _without_nodes(decision: plan.Decision, others: Set[str]) -> plan.Decision:
    if decision.policy or gaps.has_problem(decision) or others.isdisjoint(decision.names):
        return decision
    return structs.replace(decision, nodes=tuple(node for node in decision.nodes if node.name not in others))


def clusters(rows: Sequence[tuple[str, Mapping[str, Counts]]]) -> Iterator[str]:
    """Yield a table of the clusters for each recipe, given by their names and numbers, if there are several."""
    headings = {heading for _, by_recipe in rows for heading in by_recipe} if len(rows) > 1 else set()
    for heading in sorted(headings):
        own = [(cluster, by_recipe[heading]) for cluster, by_recipe in rows if heading in by_recipe]
        columns = list(zip(*(counts for _, counts in own), strict=True))[:3]
        total = ("(all)", *(str(sum(column)) for column in columns), "")
        cells = [*((cluster, *map(str, counts)) for cluster, counts in own), total]
        yield from (f"{heading}:",) if heading else ()
        yield from wording.table(("CLUSTER", "NODES", "WITH DEVICES", "PROBLEMS", "POLICIES"), cells)
        yield ""


def summary(view: plan.Plan, restriction: str = "") -> Iterator[str]:
    """Yield the summary of a cluster, recipe by recipe.

    `restriction` says what the plan is restricted to; it is empty for a whole plan.
    """
    for each, own in zip(shown(view), _own(view), strict=True):
        yield _head(each, restriction)
        yield from _policies(own, count(each.decisions) - count(own.decisions))
        yield from _groups(own)
        yield from _problems(own)
        yield from _differing(own)
        yield ""


def details(view: plan.Plan) -> Iterator[str]:
    """Yield the details of a cluster: its nodes, pools and images to build, and every gap with its nodes."""
    for each in _own(view):
        whole = title(view.cluster.name, each.recipe)
        for part, lines in (
            ("nodes", _nodes(each)),
            (_LOADED, list(map(_group, loaded.differing(each)))),
            ("pools", _pools(each)),
            ("images to build", _images(each)),
        ):
            if lines:
                yield from (f"{whole}, {part}:", *(f"  {line}" for line in lines), "")
        for is_problem in _TITLES:
            yield from _without(each, is_problem=is_problem)


def problems(view: plan.Plan) -> Iterator[str]:
    """Yield the nodes of a cluster that lack what is promised to them, by reason."""
    for each in _own(view):
        yield from _without(each, is_problem=True)


def _without(view: plan.RecipePlan, *, is_problem: bool) -> Iterator[str]:
    found = gaps.grouped(view.decisions, is_problem=is_problem)
    if found:
        yield f"{title(view.cluster.name, view.recipe)}, {_TITLES[is_problem]}:"
        yield from (f"  {wording.nodes(one.nodes)}: {one.text}" for one in found)
        yield ""


def title(cluster: str, recipe: recipes.Recipe) -> str:
    """Return the title of a recipe's part of a cluster."""
    return f"cluster {cluster}, {recipe.words.heading}".removesuffix(", ")


def count(decisions: Iterable[plan.Decision], holds: Callable[[plan.Decision], bool] = lambda _: True) -> int:
    """Return the number of nodes whose decision meets a condition."""
    return sum(len(decision.nodes) for decision in decisions if holds(decision))


def _head(view: plan.RecipePlan, restriction: str) -> str:
    number, whole = count(view.decisions), wording.counted(len(view.inventory.nodes), "node")
    facts = [f"{number} of {whole} ({restriction})" if restriction else whole]
    if number and not view.recipe.is_everywhere:
        facts.append(f"{count(view.decisions, gaps.has_devices)} with {view.recipe.words.devices}")
    if unknown := count(view.decisions, lambda decision: not decision.node.profile.discovered):
        facts.append(f"{unknown} not labelled by NFD yet")
    if opted_out := count(view.decisions, gaps.has_opted_out):
        facts.append(f"{opted_out} opted out")
    if number:
        facts.append(f"{count(view.decisions, gaps.has_problem)} with problems")
    return f"{title(view.cluster.name, view.recipe)}: {', '.join(facts)}"


def _policies(view: plan.RecipePlan, others: int) -> Iterator[str]:
    """Yield a table of the policies that have nodes, and the names of the others; recipes may take `others` nodes."""
    rows: list[tuple[str, ...]] = []
    idle: list[str] = []
    for division in view.divisions:
        own = [decision for decision in view.decisions if decision.division is division]
        rows.extend(_policy(division, own) if own else ())
        idle.extend(() if own else (division.policy.name,))
    unassigned = count(view.decisions, lambda decision: decision.policy is None)
    rows.extend(
        (name, str(nodes), "-", "-", *(["-"] if view.recipe.programs else ()))
        for name, nodes in ((_OTHERS, others), ("(none)", unassigned))
        if nodes
    )
    more = ("PROGRAMS",) if view.recipe.programs else ()
    yield from wording.table(("POLICY", "NODES", "DRIVER", "DEVICE PLUGIN", *more), rows) if rows else ()
    if idle:
        yield f"policies without nodes: {wording.listed(idle, most=_POLICIES)}"


def _policy(division: pools.Division, decisions: Sequence[plan.Decision]) -> Iterator[tuple[str, ...]]:
    """Return the rows of a policy: the first has its name, each an image of either component with its nodes."""
    policy = division.policy
    installed, plugins, programs = Counter[str](), Counter[str](), Counter[str]()
    for decision in decisions:
        installed[driver(decision)] += len(decision.nodes)
        plugins[device_plugin(decision)] += len(decision.nodes)
        for _, landing in decision.programs:
            programs[images.short(landing.image)] += len(decision.nodes)
    columns = (
        [policy.name],
        [str(installed.total())],
        _images_of(installed) if policy.installed else [disabled(policy, "driver")],
        _images_of(plugins) if policy.offered else [disabled(policy, "devicePlugin")],
        *([_images_of(programs)] if policy.recipe.programs else ()),
    )
    return zip_longest(*columns, fillvalue="")


def disabled(policy: definitions.Policy, component: definitions.Component) -> str:
    """Return the words in the place of the image of a component that a policy does not enable."""
    return "none" if policy.has_none(component) else "pre-installed"


def _images_of(counts: Counter[str]) -> list[str]:
    """Return the most frequent images with their nodes, and the number of other images."""
    ranked = [(image, count) for image, count in counts.most_common() if image != "-"]
    more = len(ranked) - _IMAGES
    lines = [f"{image} ({count})" for image, count in ranked[:_IMAGES]]
    return [*lines, *([f"and {wording.counted(more, 'more image')}"] if more > 0 else [])] or ["-"]


def _groups(view: plan.RecipePlan) -> Iterator[str]:
    """Yield a table of the policies with waves and frozen groups, and the number of nodes in each group."""
    rows = []
    for division in view.divisions:
        sizes = Counter[str]()
        for decision in view.decisions:
            group = division.group(decision.node.name) if decision.division is division else None
            sizes[group.name if group else ""] += len(decision.nodes)
        texts: dict[str, list[str]] = {"frozen": [], "wave": [], "rest": []}
        for group in division.groups:
            text = f"{group.name} {sizes[group.name]}" if group.declared else str(sizes[group.name])
            texts[group.sort].append(text)
        if division.groups:
            rows.append((division.policy.name, *(", ".join(each) or "-" for each in texts.values())))
    if rows:
        yield from ("", *wording.table(("POLICY", "FROZEN", "WAVES", pools.REST.upper()), rows))


def _problems(view: plan.RecipePlan) -> Iterator[str]:
    """Yield the most frequent problems, and the numbers of nodes with other gaps."""
    found = gaps.grouped(view.decisions, is_problem=True)
    shown, more = found[:_REASONS], found[_REASONS:]
    if found:
        yield from ("", f"{_TITLES[True]}:")
    yield from (f"  {wording.counted(len(one.nodes), 'node')}: {one.text}" for one in shown)
    if more:
        yield f"  {_number_of_nodes(more)}: {wording.counted(len(more), 'more reason')}, listed below"
    intended = gaps.grouped(view.decisions, is_problem=False)
    if intended:
        yield f"{_TITLES[False]}: {_number_of_nodes(intended)}"


def _differing(view: plan.RecipePlan) -> Iterator[str]:
    """Yield the most frequent drivers that are loaded in the place of planned ones, and the numbers of their nodes."""
    found = loaded.differing(view)
    if found:
        yield from ("", f"{_LOADED}:")
    yield from (f"  {wording.counted(len(one.nodes), 'node')}: {one.loaded.sentence}" for one in found[:_REASONS])
    if more := sum(len(one.nodes) for one in found[_REASONS:]):
        yield f"  {wording.counted(more, 'more node')}, listed below"


def _group(group: loaded.Group) -> str:
    return f"{wording.nodes(group.nodes)}: {group.loaded.sentence}"


def _number_of_nodes(found: Iterable[gaps.Gaps]) -> str:
    return wording.counted(len({name for one in found for name in one.nodes}), "node")


def _nodes(view: plan.RecipePlan) -> list[str]:
    """Return a table of the nodes, nodes with the same components and resources in one row.

    It has the loaded drivers where labels of any node tell them.
    """
    names: defaultdict[tuple[str, ...], list[str]] = defaultdict(list)
    parts = [(decision, loaded.of(decision)) for decision in loaded.apart(view.decisions)]
    is_told, more = any(known for _, known in parts), ("PROGRAMS",) if view.recipe.programs else ()
    for decision, known in parts:
        offered = ", ".join(map(resource, decision.resources))
        row = (
            decision.policy.name if decision.policy else "-",
            decision.part.name if decision.part else "-",
            driver(decision),
            *((known.text if known else "-",) if is_told else ()),
            device_plugin(decision),
            *([", ".join(images.short(one.image) for _, one in decision.programs if one.image) or "-"] if more else ()),
            offered or "-",
        )
        names[row].extend(decision.names)
    rows = [(*row, str(len(own)), wording.listed(sorted(own), most=_NAMES)) for row, own in sorted(names.items())]
    told = ("LOADED",) if is_told else ()
    head = ("POLICY", "POOL", "DRIVER", *told, "DEVICE PLUGIN", *more, "RESOURCES", "NODES", "NAMES")
    return wording.table(head, rows) if rows else []


def _pools(view: plan.RecipePlan) -> list[str]:
    """Return a table of pools and their nodes, with a line for policies whose new nodes wait for the next compile."""
    counts = Counter[tuple[str, str]]()
    for decision in view.decisions:
        if decision.part is not None and decision.policy is not None:
            counts[decision.policy.name, decision.part.name] += len(decision.nodes)
    more = ("PROGRAMS",) if view.recipe.programs else ()
    rows: list[tuple[str, ...]] = []
    notes: list[str] = []
    for division in view.divisions:
        if division.label is None:
            continue
        name = division.policy.name
        for part in division.parts:
            own = [made.image for made in division.deployments if made.part and made.part.name == part.name]
            programs = [", ".join(map(images.short, own)) or "-"] if more else []
            installer = of_pool(part) if isinstance(part, pools.Pool) else "-"
            rows.append((name, part.name, str(counts[name, part.name]), installer, *programs))
        if division.groups:
            notes.append(f"A node that joins '{name}' is in its group '{pools.REST}' until the next compile.")
    return [*wording.table(("POLICY", "POOL", "NODES", "DRIVER", *more), rows), *notes] if rows else notes


def _images(view: plan.RecipePlan) -> list[str]:
    """Return a table of the images that have to hold modules, kernel by kernel."""
    found = image_matrix.needs(view.divisions, view.decisions)
    rows = [(need.kernel, need.image, need.policy, str(need.nodes)) for need in found]
    return wording.table(("KERNEL", "IMAGE", "POLICY", "NODES"), rows) if rows else []


def driver(decision: plan.Decision) -> str:
    """Return the image of the driver installer of a decision; '-' without one."""
    return of_pool(decision.pool) if decision.pool else "-"


def device_plugin(decision: plan.Decision) -> str:
    """Return the image of the device plugin of a decision, and its interface where that is DRA; '-' without one."""
    return f"{images.short(decision.device_plugin.image)}{by(decision.interface)}"


def by(interface: definitions.Interface | None) -> str:
    """Return the words for an interface behind what it offers; device plugins go without."""
    return " by DRA" if interface == "DRA" else ""


def resource(amount: tuple[str, int | None]) -> str:
    """Return a resource with its amount; `?` where only the node knows it."""
    name, count = amount
    return f"{name.removeprefix(f'{recipes.DOMAIN}/')}={'?' if count is None else count}"


def of_pool(pool: pools.Pool) -> str:
    """Return the image of a pool, which may remove the driver."""
    image = images.short(pool.image)
    return image if pool.driver.state == "Present" else f"removed by {image}"
