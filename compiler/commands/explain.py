"""`kae explain`: why each component runs, or does not run, on one node, down to the label that decides."""

import argparse
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from msgspec import structs

from compiler import errors, recipes, wording
from compiler.cli import findings
from compiler.fleet import assignment, selectors, taints
from compiler.inventory import snapshot
from compiler.planning import loaded, plan, pools
from compiler.project import load, project_file
from compiler.project.by_cluster import planned
from compiler.views import plan_data, plan_text, selection
from runtime import dra


def run(arguments: argparse.Namespace) -> int:
    project = load.project(project_file.of(arguments))
    chosen = load.clusters_with(project, arguments.node, arguments.cluster)
    run = planned.of_project(project, chosen, lambda view, _: view)
    findings.require_fine(arguments, run.findings)
    view, node = _found(run.answers, arguments.node)
    selection.require("recipe", "Recipes", arguments.recipes, [each.recipe.name for each in view.recipes])
    body = (f"{line}\n" for line in lines(view, node, arguments.recipes))
    return findings.show(arguments, run.findings, body, **data(view, node, arguments.recipes))


def _found(views: Sequence[plan.Plan], wanted: str) -> tuple[plan.Plan, snapshot.Node]:
    """Return the node that `wanted` names, with the plan of its cluster. Raises WorldError without just one."""
    name = wanted.rpartition("/")[2]
    matches = [(view, node) for view in views for node in view.inventory.nodes if node.name == name]
    if not matches:
        load.require_node(views[0], wanted)
    if len(matches) > 1:
        clusters = wording.listed(view.cluster.name for view, _ in matches)
        raise errors.WorldError(f"clusters {clusters} have a node '{name}'.", hint="Write CLUSTER/NODE.")
    return matches[0]


def _decision(view: plan.RecipePlan, node: snapshot.Node) -> plan.Decision:
    found = next(decision for decision in view.decisions if node in decision.nodes)
    return structs.replace(found, nodes=(node,))


def lines(view: plan.Plan, node: snapshot.Node, named: Collection[str] = ()) -> Iterator[str]:
    """Yield the explanation for people; that of all recipes where none is named."""
    shown = [each for each in view.recipes if each.recipe.name in named] or plan_text.shown(view)
    profile = node.profile
    yield f"node {view.cluster.name}/{node.name}"
    yield f"  {profile.architecture}, {profile.os_image}, kernel {profile.kernel_version}"
    yield f"  taints: {', '.join(taints.text(taint) for taint in profile.taints) or 'none'}"
    for each in shown:
        if each.recipe.words.heading:
            yield from ("", each.recipe.words.heading)
        if each.recipe.kinds:
            yield f"  devices: {_devices(each.recipe.kinds, node)}"
        yield from _of_recipe(each, _decision(each, node), node)


def _of_recipe(view: plan.RecipePlan, decision: plan.Decision, node: snapshot.Node) -> Iterator[str]:
    yield ""
    yield "policies"
    for entry in view.divisions:
        yield f"  {'assigned' if decision.division is entry else 'not':8}  {entry.policy.name}"
        for term in entry.terms:
            yield from (f"      {line}" for line in _term(term, node))
    division = decision.division
    if division and division.label:
        pool = division.part(node)
        yield ""
        yield f"pool: {pool.name if pool else 'none'}"
        yield from (f"  {reason}" for reason in division.reasons(node))
        if pool:
            yield f"  label: {division.label}={pool.name}, which NFD gives it"
    components = (
        ("driver", decision.driver, _driver_terms(division, node) if division else ()),
        ("device plugin", decision.device_plugin, division.device_plugin_terms if division else ()),
        *(
            (f"program '{name}'", landing, _program_terms(division, name, node) if division else ())
            for name, landing in decision.programs
        ),
    )
    for title, landing, terms in components:
        yield ""
        yield f"{title}: {landing.image or 'not here'}"
        yield f"  because {landing.reason}"
        if title == "driver" and decision.pool and decision.policy and decision.policy.written.names_images:
            yield from (f"  image {name}: {image}" for name, image in decision.pool.images)
        if title == "driver" and (known := loaded.of(decision)):
            yield f"  {known.sentence}, as labels of the node tell"
        # A pre-installed component has no DaemonSet, and so no affinity.
        for term in terms:
            yield "  a term of its node affinity:"
            yield from (f"      {line}" for line in _term(term, node, division))
    yield ""
    offered = ", ".join(f"{name}: {'?' if count is None else count}" for name, count in decision.resources)
    yield f"resources: {offered or 'none'}"
    if decision.interface == "DRA" and decision.policy and decision.policy.offered:
        classes = ", ".join(dra.device_class(resource.name) for resource in decision.policy.offered.resources)
        yield f"  by Dynamic Resource Allocation, as devices of {classes}"


def _driver_terms(division: pools.Division, node: snapshot.Node) -> tuple[selectors.Term, ...]:
    """Return the affinity of the DaemonSet of the node's pool; without a pool, what those of all pools have in common.

    They also require the label of a pool, which the node then lacks.
    """
    pool = division.pool(node)
    if pool is not None:
        return pool.terms
    if division.label is None:
        return division.driver_terms
    label = selectors.Requirement(division.label, "In", tuple(pool.name for pool in division.pools))
    return tuple((*term, label) for term in division.driver_terms)


def _program_terms(division: pools.Division, name: str, node: snapshot.Node) -> tuple[selectors.Term, ...]:
    made = division.deployment(name, node)
    return made.terms if made else ()


def _term(term: selectors.Term, node: snapshot.Node, division: pools.Division | None = None) -> Iterator[str]:
    """Yield each requirement with the node's label; that of the division's pool is the one that NFD will give."""
    if not term:
        yield "yes  every node"
    for requirement in term:
        value = node.label(requirement.key)
        have = f"the node has {requirement.key}={value}" if value is not None else "the node has no such label"
        if division is not None and requirement.key == division.label:
            pool = division.part(node)
            value = pool.name if pool else None
            have = f"NFD gives it {requirement.key}={value}" if value is not None else "NFD gives it no such label"
        holds = selectors.requirement_matches(requirement, value)
        yield f"{'yes' if holds else 'NO '}  {selectors.text(requirement)}   ({have})"


def _devices(kinds: Sequence[recipes.Kind], node: snapshot.Node) -> str:
    if not node.profile.discovered:
        return "unknown, NFD has not labelled the node yet"
    counts = ((kind.name, *plan.functions(kind, node)) for kind in assignment.kinds(kinds, node))
    return ", ".join(f"{name} ({physical} physical, {virtual} virtual)" for name, physical, virtual in counts) or "none"


def data(view: plan.Plan, node: snapshot.Node, named: Collection[str] = ()) -> dict[str, Any]:
    """Return the explanation for programs: that of the built-in recipe, and of all others where none is named."""
    first, *others = view.recipes
    stacks = [
        {"recipe": other.recipe.name, **_data(other, node), "images": plan_data.images(_decision(other, node))}
        for other in others
        if other.recipe.name in named or not named
    ]
    head = {"cluster": view.cluster.name, "node": node.name}
    return {**head, **_data(first, node), **({"stacks": stacks} if others else {})}


def _data(view: plan.RecipePlan, node: snapshot.Node) -> dict[str, Any]:
    decision = _decision(view, node)
    return {
        "policy": decision.policy.name if decision.policy else None,
        "policies": [_policy(entry, node) for entry in view.divisions],
        "pool": _pool(decision.division, node),
        "driver": {"image": decision.driver.image, "reason": decision.driver.reason},
        "devicePlugin": {"image": decision.device_plugin.image, "reason": decision.device_plugin.reason},
        **(
            {"programs": {name: {"image": one.image, "reason": one.reason} for name, one in decision.programs}}
            if decision.programs
            else {}
        ),
        "loaded": plan_data.of_loaded(loaded.of(decision)),
        "resources": dict(decision.resources),
        **plan_data.of_interface(decision.interface),
        "reasons": plan_data.reasons(decision),
    }


def _pool(division: pools.Division | None, node: snapshot.Node) -> dict[str, Any] | None:
    if division is None or not division.parts:
        return None
    found = division.part(node)
    return {"name": found.name if found else None, "label": division.label, "reasons": list(division.reasons(node))}


def _policy(entry: assignment.Assigned, node: snapshot.Node) -> dict[str, Any]:
    failing = [selectors.failing(term, node.label) for term in entry.terms]
    return {
        "name": entry.policy.name,
        "governs": entry.takes(node.label),
        "failing": sorted({selectors.text(requirement) for term in failing for requirement in term}),
    }
