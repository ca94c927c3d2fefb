"""What the API server adds to pods that ask for resources of recipes: admission policies, without a server of ours."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from compiler import recipes
from compiler.planning import plan, supported
from compiler.rendering import ir, programs

_SYSTEM = "kube-system"


class Admission(msgspec.Struct, frozen=True, kw_only=True):
    """An admission policy and its binding."""

    name: str
    recipe: str
    left_out: tuple[str, ...]
    """The namespaces whose pods it leaves alone."""
    conditions: tuple[tuple[str, str], ...]
    """By name: first, that a pod asks for one of its resources."""
    variables: tuple[tuple[str, str], ...]
    mutations: tuple[str, ...]


def of_plan(planned: plan.Plan) -> Iterator[ir.Input]:
    """Yield the admission policies of the recipes that a cluster has policies of, where its API server knows them."""
    if not supported.can_mutate(planned.cluster.spec):
        return
    for one in planned.recipes:
        for stated in one.recipe.admission if one.divisions else ():
            value = _admission(one.recipe, planned.cluster.spec.namespace, stated)
            folder = one.recipe.folder
            yield ir.Input(("mutatingadmissionpolicy", "mutatingadmissionpolicybinding"), value, folder=folder)


def _admission(recipe: recipes.Recipe, namespace: str, stated: Mapping[str, Any]) -> Admission:
    listed = json.dumps(stated["resources"])
    asks = (
        "object.spec.containers.exists(c, has(c.resources) && has(c.resources.limits) && "
        f"{listed}.exists(r, r in c.resources.limits))"
    )
    return Admission(
        name=programs.admission(recipe, stated),
        recipe=recipe.name,
        left_out=(namespace, _SYSTEM),
        conditions=(
            ("asks", asks),
            *((f"condition-{number}", text) for number, text in enumerate(stated.get("conditions", ()), start=1)),
        ),
        variables=tuple((one["name"], one["expression"]) for one in stated.get("variables", ())),
        mutations=tuple(one["applyConfiguration"] for one in stated["mutations"]),
    )
