"""The answer of `kae preflight --kernels`: the images that kernels to come would have, and those to build for them."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from compiler import recipes, wording
from compiler.planning import image_matrix, kernels, plan, preflight

_HEADER = ("KERNEL", "CLUSTER", "POLICY", "POOL", "IMAGE", "")
_BUILD, _THERE = "to build", "a node has it with this kernel"
_FIXED = "fixed by its digest: `kae preflight --image` looks what it holds"


Answered = tuple[recipes.Recipe, preflight.Answer]


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """What a pool of a policy would have on a node with a kernel: an image, or none."""

    kernel: str
    """As `uname -r` prints it."""
    cluster: str
    recipe: str
    policy: str
    pool: str = ""
    image: str = ""
    """Empty where there is none."""
    note: str
    is_missing: bool = False
    """True for an image that is of this kernel, and that no node takes for it yet."""


def of_plan(view: plan.Plan, wanted: Sequence[str]) -> Iterator[tuple[str, list[Answered], list[Row]]]:
    """Yield each kernel with the answers of a cluster's policies, and their rows."""
    needs = {each.recipe.name: image_matrix.needs(each.divisions, each.decisions) for each in view.recipes}
    for kernel in wanted:
        found: list[Answered] = []
        rows: list[Row] = []
        for each in view.recipes:
            own, known = needs[each.recipe.name], kernels.cleaned(kernel)
            there = {need.image for need in own if need.nodes and need.kernel == known}
            for division in each.divisions:
                for answer in preflight.answers(division, kernel, view.cluster.spec):
                    found.append((each.recipe, answer))
                    head = Row(
                        kernel=kernel,
                        cluster=view.cluster.name,
                        recipe=each.recipe.name,
                        policy=answer.policy,
                        note=answer.reason,
                    )
                    rows += _rows(head, answer, there)
        yield kernel, found, rows


def _rows(head: Row, answer: preflight.Answer, there: Collection[str]) -> Iterator[Row]:
    if not answer.offers:
        yield head
    for offer in answer.offers:
        pool = msgspec.structs.replace(head, pool=offer.pool)
        own = dict.fromkeys((*offer.modules, *offer.named))
        if offer.state != "Present":
            yield msgspec.structs.replace(pool, note="the driver is removed")
        elif not own:
            yield msgspec.structs.replace(pool, image=offer.image, note="for every kernel")
        for image in own if offer.state == "Present" else ():
            # Nobody can build an image to a digest that is given.
            note = _THERE if image in there else _FIXED if "@" in image else _BUILD
            yield msgspec.structs.replace(pool, image=image, note=note, is_missing=note == _BUILD)


def settled(rows: Sequence[Row]) -> Sequence[Row]:
    """Return the rows of all clusters, of which one may have an image already that others lack."""
    there = {(row.kernel, row.image) for row in rows if row.note == _THERE}
    return [
        msgspec.structs.replace(row, note="a node of another cluster has it with this kernel", is_missing=False)
        if row.is_missing and (row.kernel, row.image) in there
        else row
        for row in rows
    ]


def lines(rows: Sequence[Row]) -> Iterator[str]:
    """Yield the answer for people."""
    shown = [(row.kernel, row.cluster, row.policy, row.pool or "-", row.image or "none", row.note) for row in rows]
    yield from wording.table(_HEADER, shown) if rows else ["no policy holds here"]
    missing = matrix(rows)["include"]
    yield f"{wording.counted(len(missing), 'image')} to build" if missing else "no image to build"


def matrix(rows: Sequence[Row]) -> dict[str, Any]:
    """Return the images to build, each once with its kernels, as a job's strategy.matrix of GitHub takes them."""
    found: dict[str, tuple[set[str], set[str]]] = {}
    for row in rows:
        if row.is_missing:
            held, policies = found.setdefault(row.image, (set(), set()))
            held.add(row.kernel)
            policies.add(f"{row.cluster}/{row.policy}")
    return {
        "include": [
            {"image": image, "kernels": " ".join(sorted(held)), "policies": sorted(policies)}
            for image, (held, policies) in sorted(found.items())
        ]
    }


def data(rows: Sequence[Row]) -> Sequence[Mapping[str, Any]]:
    """Return the rows for programs."""
    return [
        {
            "kernel": row.kernel,
            "cluster": row.cluster,
            "recipe": row.recipe,
            "policy": row.policy,
            "pool": row.pool or None,
            "image": row.image or None,
            "missing": row.is_missing,
            "reason": row.note,
        }
        for row in rows
    ]
