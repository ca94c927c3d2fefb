"""The tables of the report's page: what a fleet consists of, with links that filter the nodes."""

import functools
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from urllib import parse

from compiler import wording
from compiler.planning import image_matrix, images, plan
from compiler.views import gaps, plan_text
from compiler.views.report import data as report_data

_NAMES = 4
"""Names that a cell lists."""

Holds = Callable[[plan.Decision], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """A cell of a table: its text, and the link that filters the nodes that it stands for."""

    text: str
    link: str = ""
    is_number: bool = False
    title: str = ""
    """The whole text where the cell has a part of it."""


Row = tuple[Cell, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table of the page."""

    key: str
    title: str
    empty: str
    """The sentence that stands for a table without rows."""
    rows: Sequence[Row]
    head: tuple[str, ...]


def of(views: Sequence[plan.Plan]) -> tuple[Table, ...]:
    """Return the tables of a fleet."""
    own = [view.builtin for view in views]
    return (
        Table(
            key="clusters",
            title="Clusters",
            head=("Cluster", "Nodes", "With KAE devices", "With a driver", "With a device plugin", "With problems"),
            rows=[_cluster(view) for view in own],
            empty="No document names a cluster.",
        ),
        Table(
            key="policies",
            title="Policies",
            head=("Policy", "Nodes", "Driver", "Device plugin", "Clusters", "File"),
            rows=[*_policies(own, lambda name: link(policy=name)), *_unassigned(own)],
            empty="No policy holds in these clusters.",
        ),
        *_of_recipes(views),
        Table(
            key="pools",
            title="Pools",
            head=("Cluster", "Policy", "Pool", "Nodes", "Driver"),
            rows=[row for view in own for row in _pools(view)],
            empty="No policy installs a driver.",
        ),
        Table(
            key="kernels",
            title="Kernels",
            head=("Kernel", "Nodes", "With a driver", "Operating system", "Clusters"),
            rows=[*_kernels(own)],
            empty="No inventory holds a node.",
        ),
        Table(
            key="images",
            title="Images",
            head=("Image", "Component", "Nodes", "Policies", "Holds modules for"),
            rows=[*_images(own)],
            empty="No node runs an image of KAE.",
        ),
    )


def _of_recipes(views: Sequence[plan.Plan]) -> Iterator[Table]:
    """Yield the tables of recipes and of their policies, if the fleet has any."""
    by_recipe = of_others(views)
    if not by_recipe:
        return
    yield Table(
        key="recipes",
        title="Recipes",
        head=("Recipe", "With a policy", "With a driver", "With a device plugin", "With problems", "Clusters"),
        rows=[_recipe(name, plans) for name, plans in by_recipe.items()],
        empty="",
    )
    yield Table(
        key="stacks",
        title="Policies of recipes",
        head=("Recipe", "Policy", "Nodes", "Driver", "Device plugin", "Clusters", "File"),
        rows=[
            (Cell(text=name), *row)
            for name, plans in by_recipe.items()
            for row in _policies(plans, functools.partial(_policy_link, name))
        ],
        empty="",
    )


def of_others(views: Iterable[plan.Plan]) -> Mapping[str, Sequence[plan.RecipePlan]]:
    """Return the plans of each recipe but the built-in one, sorted by its name."""
    found: defaultdict[str, list[plan.RecipePlan]] = defaultdict(list)
    for other in (other for view in views for other in view.others):
        found[other.recipe.name].append(other)
    return dict(sorted(found.items()))


def _recipe(name: str, plans: Sequence[plan.RecipePlan]) -> Row:
    conditions: tuple[Holds, ...] = (is_assigned, has_driver, has_plugin, gaps.has_problem)
    numbers = (_number(count(plans, holds)) for holds in conditions)
    return (Cell(text=name), *numbers, _names(one.cluster.name for one in plans))


def _policy_link(recipe: str, policy: str) -> str:
    return link(why=report_data.of_policy(recipe, policy))


def link(**terms: str | None) -> str:
    """Return the link that shows only the nodes with these facts."""
    return "#" + parse.urlencode({key: value for key, value in terms.items() if value is not None})


def count(views: Iterable[plan.RecipePlan], holds: Holds = lambda _: True) -> int:
    """Return the number of nodes whose decision meets a condition."""
    return sum(len(decision.nodes) for view in views for decision in view.decisions if holds(decision))


def is_assigned(decision: plan.Decision) -> bool:
    """Return whether a policy takes the nodes of a decision."""
    return decision.policy is not None


def has_driver(decision: plan.Decision) -> bool:
    """Return whether a driver installer runs on the nodes of a decision."""
    return decision.driver.image is not None


def has_plugin(decision: plan.Decision) -> bool:
    """Return whether a device plugin runs on the nodes of a decision."""
    return decision.device_plugin.image is not None


def _number(number: int, target: str = "") -> Cell:
    return Cell(text=f"{number:,}", link=target if number else "", is_number=True)


def _names(names: Iterable[str]) -> Cell:
    every = sorted(set(names))
    shown = wording.listed(every, most=_NAMES) if every else "-"
    return Cell(text=shown, title=", ".join(every) if len(every) > _NAMES else "")


def _image(image: str | None) -> Cell:
    short = images.short(image)
    return Cell(text=short, title=image if image and image != short else "")


def _cluster(view: plan.RecipePlan) -> Row:
    name = view.cluster.name
    conditions: tuple[Holds, ...] = (lambda _: True, gaps.has_devices, has_driver, has_plugin)
    numbers = (_number(count([view], holds)) for holds in conditions)
    problems = _number(count([view], gaps.has_problem), link(cluster=name, state="problem"))
    return (Cell(text=name, link=link(cluster=name)), *numbers, problems)


def _policies(views: Sequence[plan.RecipePlan], linked: Callable[[str], str]) -> Iterator[Row]:
    """Yield a row for each policy, whatever clusters it holds in; `linked` returns the link of its nodes."""
    nodes, drivers, plugins = Counter[str](), defaultdict[str, set[str]](set), defaultdict[str, set[str]](set)
    for decision in (decision for view in views for decision in view.decisions if decision.policy):
        name = decision.policy.name if decision.policy else ""
        nodes[name] += len(decision.nodes)
        drivers[name].update([plan_text.driver(decision)] if decision.pool else [])
        plugins[name].update([images.short(decision.device_plugin.image)] if decision.device_plugin.image else [])
    clusters: defaultdict[str, list[str]] = defaultdict(list)
    known = {}
    for view in views:
        for division in view.divisions:
            clusters[division.policy.name].append(view.cluster.name)
            known[division.policy.name] = division.policy
    for name, policy in sorted(known.items()):
        yield (
            Cell(text=name, link=linked(name)),
            _number(nodes[name]),
            _names(drivers[name]) if policy.installed else Cell(text=plan_text.disabled(policy, "driver")),
            _names(plugins[name]) if policy.offered else Cell(text=plan_text.disabled(policy, "devicePlugin")),
            _names(clusters[name]),
            Cell(text=wording.file_name(policy.source.file)),
        )


def _unassigned(views: Sequence[plan.RecipePlan]) -> Iterator[Row]:
    unassigned = count(views, lambda decision: decision.policy is None)
    if unassigned:
        nothing = Cell(text="-")
        yield (Cell(text="(none)", link=link(policy="")), _number(unassigned), *[nothing] * 4)


def _pools(view: plan.RecipePlan) -> Iterator[Row]:
    counts = image_matrix.counted(view.decisions)
    cluster = view.cluster.name
    for division in view.divisions:
        policy = division.policy.name
        for pool in division.pools:
            yield (
                Cell(text=cluster, link=link(cluster=cluster)),
                Cell(text=policy, link=link(cluster=cluster, policy=policy)),
                Cell(text=pool.name, link=link(cluster=cluster, policy=policy, pool=pool.name)),
                _number(counts[policy, pool.name].total()),
                Cell(text=plan_text.of_pool(pool), title=pool.image),
            )


def _kernels(views: Sequence[plan.RecipePlan]) -> Iterator[Row]:
    """Yield a row for each kernel, that of the most nodes first."""
    nodes, driven = Counter[str](), Counter[str]()
    systems, clusters = defaultdict[str, set[str]](set), defaultdict[str, set[str]](set)
    for view in views:
        for decision in view.decisions:
            profile = decision.node.profile
            nodes[profile.kernel_version] += len(decision.nodes)
            driven[profile.kernel_version] += len(decision.nodes) if has_driver(decision) else 0
            systems[profile.kernel_version].add(profile.os_image)
            clusters[profile.kernel_version].add(view.cluster.name)
    for kernel, number in sorted(nodes.items(), key=lambda item: (-item[1], item[0])):
        yield (
            Cell(text=kernel or "(unknown)", link=link(kernel=kernel)),
            _number(number),
            _number(driven[kernel]),
            _names(systems[kernel]),
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
            Cell(text=image, link=link(**{component: image}) if number else ""),
            Cell(text=titles[component]),
            _number(number),
            _names(policies[component, image]),
            _names(modules[image] if component == "driver" else ()),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Nodes of the fleet that lack the same components for the same reason."""

    text: str
    nodes: int
    clusters: str
    link: str


def problems(views: Sequence[plan.Plan]) -> tuple[Problem, ...]:
    """Return the problems of a fleet, that of the most nodes first."""
    found: defaultdict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for view in views:
        for gap in gaps.grouped(view.builtin.decisions, is_problem=True):
            found[gap.text, link(state="problem", why=gap.reason)][view.cluster.name] += len(gap.nodes)
        for other in view.others:
            for gap in gaps.grouped(other.decisions, is_problem=True):
                text = report_data.of_gap(other.recipe.name, gap)
                found[text, link(why=text)][view.cluster.name] += len(gap.nodes)
    ranked = sorted(found.items(), key=lambda item: (-item[1].total(), item[0]))
    return tuple(
        Problem(
            text=text,
            nodes=counts.total(),
            clusters=wording.listed(sorted(counts), most=_NAMES),
            link=target,
        )
        for (text, target), counts in ranked
    )
