"""The tables of the report's page: what a fleet consists of, with links that filter the nodes."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple
from urllib import parse

from compiler import recipes, repeats, wording
from compiler.fleet import definitions
from compiler.planning import image_matrix, images, loaded, plan
from compiler.read import fleet as reader
from compiler.views import gaps, plan_data, plan_text
from compiler.views.report import data as report_data

_NAMES = 4
"""Names that a cell lists."""


class Cell(NamedTuple):
    """A cell of a table: its text, and the link that filters the nodes that it stands for."""

    text: str
    link: str = ""
    is_number: bool = False
    title: str = ""
    """The whole text where the cell has a part of it."""
    is_kernel: bool = False
    """True for the releases of kernels, of which none breaks at the end of a line."""


Row = tuple[Cell, ...]


class Table(NamedTuple):
    """A table of the page."""

    key: str
    title: str
    head: tuple[str, ...]
    rows: Sequence[Row]
    empty: str = ""
    """The sentence that stands for a table without rows."""


def of(views: Sequence[plan.Plan]) -> tuple[Table, ...]:
    """Return the tables of a fleet; where it has recipes, one of them, and another column for those of policies."""
    words, every = reader.BUILTIN.words, every_recipe(views)
    others = {name: plans for name, plans in every.items() if name != reader.BUILTIN.name}
    of_recipes = Table(
        "recipes",
        "Recipes",
        ("Recipe", "With a policy", "With a driver", "With a device plugin", "With problems", "Clusters"),
        [_recipe(name, plans) for name, plans in every.items()],
    )
    policies = [(*((Cell(name),) if others else ()), *row) for name, plans in every.items() for row in _policies(plans)]
    return (
        Table(
            "clusters",
            "Clusters",
            ("Cluster", "Nodes", f"With {words.devices}", "With a driver", "With a device plugin", "With problems"),
            [_cluster(view) for view in views],
            "No document names a cluster.",
        ),
        *((of_recipes,) if others else ()),
        Table(
            "policies",
            "Policies",
            (*(("Recipe",) if others else ()), "Policy", "Nodes", "Driver", "Device plugin", "Clusters", "File"),
            [*policies, *_unassigned(views, has_others=bool(others))],
            "No policy holds in these clusters.",
        ),
        Table(
            "pools",
            "Pools",
            ("Cluster", "Policy", "Pool", "Nodes", "Driver"),
            [row for view in views for one in view.recipes for row in _pools(one)],
            "No policy installs a driver.",
        ),
        *(
            (
                Table(
                    "loaded",
                    "Loaded drivers",
                    ("Policy", "Loaded", "State", "Wanted", "Nodes", "Clusters"),
                    [*_loaded(views)],
                ),
            )
            if is_told(views)
            else ()
        ),
        Table(
            "kernels",
            "Kernels",
            ("Kernel", "Nodes", "With a driver", "Images of drivers", "Operating system", "Clusters"),
            [*_kernels(views)],
            "No inventory holds a node.",
        ),
        Table(
            "images",
            "Images",
            ("Image", "Component", "Nodes", "Policies", "Holds modules for"),
            [*_images(every.get(reader.BUILTIN.name, ())), *_images_of_recipes(others)],
            "No node runs an image of a policy.",
        ),
    )


def every_recipe(views: Sequence[plan.Plan]) -> Mapping[str, Sequence[plan.RecipePlan]]:
    """Return the plans of each recipe that has something to say, the built-in one first."""
    own = [view.builtin for view in views if plan_text.shown(view)[0] is view.builtin]
    return {**({reader.BUILTIN.name: own} if own else {}), **by_recipe(views)}


def by_recipe(views: Iterable[plan.Plan]) -> Mapping[str, Sequence[plan.RecipePlan]]:
    """Return the plans of each recipe but the built-in one, sorted by its name."""
    found: defaultdict[str, list[plan.RecipePlan]] = defaultdict(list)
    for one in (one for view in views for one in view.recipes if not one.recipe.builtin):
        found[one.recipe.name].append(one)
    return dict(sorted(found.items()))


def link(**terms: str | None) -> str:
    """Return the link that shows only the nodes with these facts."""
    return "#" + parse.urlencode({key: value for key, value in terms.items() if value is not None})


def _link_of(recipe: recipes.Recipe, line: str, **terms: str) -> str:
    """Return the link to nodes of a recipe: by the facts of the built-in one, by a line on what another brings."""
    return link(**terms) if recipe.builtin else link(why=line)


def is_assigned(decision: plan.Decision) -> bool:
    """Return whether a policy takes the nodes of a decision."""
    return decision.policy is not None


def has_driver(decision: plan.Decision) -> bool:
    """Return whether a driver installer runs on the nodes of a decision."""
    return decision.runs("driver")


def has_plugin(decision: plan.Decision) -> bool:
    """Return whether a device plugin, ours or a vendor's, or another program of one runs on the nodes of a decision."""
    return any(landing.image is not None for name, landing in decision.landings if name != "driver")


def count(views: Iterable[plan.Plan | plan.RecipePlan], holds: Callable[[plan.Decision], bool] = lambda _: True) -> int:
    """Return the number of nodes of which some recipe's decision meets a condition."""
    return sum(len({name for each in view.decisions if holds(each) for name in each.names}) for view in views)


def _number(number: int, target: str = "") -> Cell:
    return Cell(f"{number:,}", target if number else "", is_number=True)


def _numbers(decisions: Sequence[plan.Decision], *conditions: Callable[[plan.Decision], bool]) -> Iterator[Cell]:
    return (_number(plan_text.count(decisions, holds)) for holds in conditions)


def _names(names: Iterable[str]) -> Cell:
    every = sorted(set(names))
    shown = wording.listed(every, most=_NAMES) if every else "-"
    return Cell(shown, title=", ".join(every) if len(every) > _NAMES else "")


def _cluster(view: plan.Plan) -> Row:
    name, devices = view.cluster.name, plan_text.count(view.builtin.decisions, gaps.has_devices)
    counts = (len(view.inventory.nodes), devices, count([view], has_driver), count([view], has_plugin))
    numbers, problems = (
        map(_number, counts),
        _number(count([view], gaps.has_problem), link(cluster=name, state="problem")),
    )
    return (Cell(name, link(cluster=name)), *numbers, problems)


def _recipe(name: str, plans: Sequence[plan.RecipePlan]) -> Row:
    decisions = [decision for one in plans for decision in one.decisions]
    numbers = _numbers(decisions, is_assigned, has_driver, has_plugin, gaps.has_problem)
    return (Cell(name), *numbers, _names(one.cluster.name for one in plans))


class Assigned(NamedTuple):
    """A policy, the decisions for its nodes, and the clusters in which it holds."""

    policy: definitions.Policy
    decisions: Sequence[plan.Decision]
    clusters: Sequence[str]


def assigned(views: Sequence[plan.RecipePlan]) -> Iterator[Assigned]:
    """Yield each policy of a recipe, sorted by name, whatever clusters it holds in."""
    found: defaultdict[str, list[plan.Decision]] = defaultdict(list)
    clusters: defaultdict[str, list[str]] = defaultdict(list)
    known = {}
    for view in views:
        for decision in view.decisions:
            found[decision.policy.name if decision.policy else ""].append(decision)
        for division in view.divisions:
            clusters[division.policy.name].append(view.cluster.name)
            known[division.policy.name] = division.policy
    for name, policy in sorted(known.items()):
        yield Assigned(policy, found[name], sorted(clusters[name]))


def _policies(views: Sequence[plan.RecipePlan]) -> Iterator[Row]:
    """Yield a row for each policy of a recipe."""
    for each in assigned(views):
        policy = each.policy
        drivers = (plan_text.driver(decision) for decision in each.decisions if decision.pool)
        plugins = (
            plan_text.device_plugin(decision) if name == "device-plugin" else images.short(landing.image)
            for decision in each.decisions
            for name, landing in decision.landings
            if name != "driver" and landing.image
        )
        yield (
            Cell(policy.name, _link_of(policy.recipe, report_data.of_policy(policy), policy=policy.name)),
            _number(plan_text.count(each.decisions)),
            _names(drivers) if policy.installed else Cell(plan_text.disabled(policy, "driver")),
            _names(plugins) if policy.offered or policy.programs else Cell(plan_text.disabled(policy, "devicePlugin")),
            _names(each.clusters),
            Cell(wording.file_name(policy.source.file)),
        )


def _unassigned(views: Sequence[plan.Plan], *, has_others: bool) -> Iterator[Row]:
    """Yield a row for the nodes that no policy takes; the facts of nodes that a link filters know of KAE's alone."""
    unassigned = sum(len(view.inventory.nodes) for view in views) - count(views, is_assigned)
    if unassigned:
        name = Cell("(none)", "" if has_others else link(policy=""))
        yield (*((Cell("-"),) if has_others else ()), name, _number(unassigned), *[Cell("-")] * 4)


def _pools(view: plan.RecipePlan) -> Iterator[Row]:
    counts = image_matrix.counted(view.decisions)
    cluster = view.cluster.name
    for division in view.divisions:
        policy, recipe = division.policy.name, division.policy.recipe
        for pool in division.pools:
            line = report_data.line(recipe, f"pool '{pool.name}'")
            yield (
                Cell(cluster, link(cluster=cluster)),
                Cell(policy, _link_of(recipe, report_data.of_policy(division.policy), cluster=cluster, policy=policy)),
                Cell(pool.name, _link_of(recipe, line, cluster=cluster, policy=policy, pool=pool.name)),
                _number(counts[policy, pool.name].total()),
                Cell(plan_text.of_pool(pool), title=pool.image),
            )


def _told(views: Iterable[plan.Plan]) -> Iterator[tuple[plan.RecipePlan, plan.Decision, loaded.Loaded]]:
    """Yield the decisions on nodes of which labels tell what is loaded."""
    for one in (one for view in views for one in view.recipes):
        for decision in loaded.apart(one.decisions):
            if known := loaded.of(decision):
                yield one, decision, known


def is_told(views: Iterable[plan.Plan]) -> bool:
    """Return whether labels of any node tell what is loaded."""
    return any(True for _ in _told(views))


def differing(views: Iterable[plan.Plan]) -> int:
    """Return the number of nodes that have not loaded what the plan has for them, by any recipe."""
    return len({(one.cluster.name, name) for one, each, known in _told(views) if known.differs for name in each.names})


def _loaded(views: Iterable[plan.Plan]) -> Iterator[Row]:
    """Yield a row for each policy and what is loaded on its nodes, the nodes that differ first."""
    nodes, clusters = (
        Counter[tuple[bool, str, loaded.Loaded]](),
        defaultdict[tuple[bool, str, loaded.Loaded], set[str]](set),
    )
    for one, decision, known in _told(views):
        text = report_data.line(one.recipe, decision.policy.name if decision.policy else "(none)")
        nodes[not known.differs, text, known] += len(decision.nodes)
        clusters[not known.differs, text, known].add(one.cluster.name)
    for (is_planned, text, known), number in sorted(
        nodes.items(), key=lambda item: (item[0][0], -item[1], str(item[0]))
    ):
        yield (
            Cell(text),
            Cell(known.version or "none"),
            Cell(known.state or "-"),
            Cell("-" if known.wanted is None else known.wanted or "none"),
            _number(number, "" if is_planned else link(loads="differs")),
            _names(clusters[is_planned, text, known]),
        )


def _kernels(views: Sequence[plan.Plan]) -> Iterator[Row]:
    """Yield a row for each kernel, that of the most nodes first."""
    found: defaultdict[str, list[plan.Decision]] = defaultdict(list)
    clusters: defaultdict[str, set[str]] = defaultdict(set)
    for view in views:
        for decision in view.builtin.decisions:
            found[decision.node.profile.kernel_version].append(decision)
            clusters[decision.node.profile.kernel_version].add(view.cluster.name)
    drivers = defaultdict[str, set[str]](set)
    for each in (each for view in views for each in view.decisions if each.driver.image is not None):
        drivers[each.node.profile.kernel_version].add(images.short(each.driver.image or ""))
    driven = Counter(
        kernel
        for view in views
        for kernel in {
            name: each.node.profile.kernel_version for each in view.decisions if has_driver(each) for name in each.names
        }.values()
    )
    for kernel, own in sorted(found.items(), key=lambda item: (-plan_text.count(item[1]), item[0])):
        yield (
            Cell(kernel or "(unknown)", link(kernel=kernel), is_kernel=True),
            _number(plan_text.count(own)),
            _number(driven[kernel]),
            _names(drivers[kernel]),
            _names(decision.node.profile.os_image for decision in own),
            _names(clusters[kernel]),
        )


def _images(views: Sequence[plan.RecipePlan]) -> Iterator[Row]:
    """Yield a row for each image of each component, that of the most nodes first."""
    nodes = Counter[tuple[str, str]]()
    policies, modules = defaultdict[tuple[str, str], set[str]](set), defaultdict[str, set[str]](set)
    for view in views:
        for decision in view.decisions:
            for component, image in (("driver", decision.driver.image), ("plugin", decision.device_plugin.image)):
                if image is not None and decision.policy is not None:
                    nodes[component, image] += len(decision.nodes)
                    policies[component, image].add(decision.policy.name)
        for need in image_matrix.needs(view.divisions, view.decisions):
            modules[need.image].add(need.kernel)
            nodes["driver", need.image] += 0
            policies["driver", need.image].add(need.policy)
    titles = {"driver": "driver installer", "plugin": "device plugin"}
    for (component, image), number in sorted(nodes.items(), key=lambda item: (-item[1], item[0])):
        yield (
            Cell(image, link(**{component: image}) if number else ""),
            Cell(titles[component]),
            _number(number),
            _names(policies[component, image]),
            _names(modules[image] if component == "driver" else ())._replace(is_kernel=True),
        )


def _images_of_recipes(plans: Mapping[str, Sequence[plan.RecipePlan]]) -> Iterator[Row]:
    """Yield a row for each image of each recipe, that of the most nodes first."""
    for name, own in plans.items():
        nodes, policies = Counter[tuple[str, str]](), defaultdict[tuple[str, str], set[str]](set)
        modules = repeats.grouped(
            (need.image, need.kernel) for one in own for need in image_matrix.needs(one.divisions, one.decisions)
        )
        for decision in (decision for one in own for decision in one.decisions):
            for item in plan_data.images(decision).items() if decision.policy else ():
                nodes[item] += len(decision.nodes)
                policies[item].add(decision.policy.name if decision.policy else "")
        for (role, image), number in sorted(nodes.items(), key=lambda item: (-item[1], item[0])):
            yield (
                Cell(image, link(why=report_data.line(own[0].recipe, f"image {role} {image}"))),
                Cell(f"{name}: {role}"),
                _number(number),
                _names(policies[role, image]),
                _names(modules.get(image, ()))._replace(is_kernel=True),
            )


class Problem(NamedTuple):
    """Nodes of the fleet that lack the same components for the same reason."""

    text: str
    nodes: int
    every: Sequence[str]
    """The clusters, sorted."""
    link: str

    @property
    def clusters(self) -> str:
        """The clusters as a list."""
        return wording.listed(self.every, most=_NAMES)


def problems(views: Sequence[plan.Plan]) -> tuple[Problem, ...]:
    """Return the problems of a fleet, that of the most nodes first."""
    found: defaultdict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for one in (one for view in views for one in view.recipes):
        for gap in gaps.grouped(one.decisions, is_problem=True):
            text = report_data.line(one.recipe, gap.text)
            target = _link_of(one.recipe, text, state="problem", why=gap.reason)
            found[text, target][one.cluster.name] += len(gap.nodes)
    ranked = sorted(found.items(), key=lambda item: (-item[1].total(), item[0]))
    return tuple(Problem(text, counts.total(), sorted(counts), target) for (text, target), counts in ranked)
