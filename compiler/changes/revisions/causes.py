"""The line of a document that causes an effect: the changed field that is nearest to it."""

from collections.abc import Iterator, Sequence

from compiler.changes.revisions import intent, pods
from compiler.diagnostics import Span
from compiler.formats import documents
from compiler.planning import plan

_DRIVER: documents.Path = ("spec", "driver")
_PLUGIN: documents.Path = ("spec", "devicePlugin")
_WHOLE: documents.Path = ()
_SHARED: tuple[documents.Path, ...] = tuple(
    ("spec", field) for field in ("operator", "daemonSets", "images", "values", "rollout", "kernelMappings")
)


def of(
    before: plan.Decision | None,
    after: plan.Decision | None,
    side: pods.Side | None,
    changed: Sequence[intent.DocumentChange],
    *,
    is_driver: bool,
) -> Span:
    """Return the cause of what happens to nodes with these decisions.

    `side` is the side that has them, `is_driver` says that their driver is concerned.
    """
    own = [item for item in changed if _is_of(item, before) or _is_of(item, after)]
    paths: list[documents.Path] = [
        *_declarations(after),
        *_declarations(before),
        *((_DRIVER, _PLUGIN) if is_driver else (_PLUGIN, _DRIVER)),
    ]
    for path in (*paths, *_SHARED, _WHOLE):
        fields = (field for item in own for field in item.fields if field.path[: len(path)] == path)
        if (nearest := next(fields, None)) is not None:
            return nearest.span
    if own:
        return own[0].span
    if side is None:
        return Span(file="")
    cluster = side.planned.cluster.name
    shared = [item for item in changed if (item.kind, item.name) == ("KAECluster", cluster)]
    policies = [item for item in changed if item.kind in intent.POLICIES]
    is_known = before is not None and after is not None and before.node == after.node
    nearest_document = [*shared, *(policies if is_known else [])][:1]
    for item in nearest_document:
        return item.fields[0].span if item.fields else item.span
    return Span(file=side.planned.inventory.file)


def _is_of(change: intent.DocumentChange, decision: plan.Decision | None) -> bool:
    """Return whether a policy that changed is the one of a decision, or its recipe has."""
    policy = decision.policy if decision else None
    if policy is None:
        return False
    names = (change.name, change.old_name)
    if change.kind == "Recipe":
        return policy.recipe.name in names
    return change.kind in intent.POLICIES and policy.name in names


def _declarations(decision: plan.Decision | None) -> Iterator[documents.Path]:
    """Yield the paths of the group and of the mapping that nodes are in."""
    if decision is None or decision.division is None:
        return
    group = decision.division.group(decision.node.name)
    if group is not None and group.declared is not None:
        yield group.declared.path
    if decision.pool is not None and decision.pool.kernels is not None:
        yield decision.pool.kernels.mapping.path
