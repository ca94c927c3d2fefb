"""Risks of a change for objects: their privileges, their images, and those that a GitOps engine deletes."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from compiler import names, repeats, wording
from compiler.changes import difference
from compiler.changes import objects as changed_objects
from compiler.changes.acceptance import Acceptable, Place
from compiler.checks import cluster as cluster_checks
from compiler.checks import policy as policy_checks
from compiler.checks.risks.change import SETTINGS, RevisionChange, divisions
from compiler.diagnostics import Diagnostic, rule
from compiler.fleet import expressions
from compiler.planning import plan, supported
from compiler.rendering import layout, network_policies, node_programs, privileges

_MOST = 12
"""Privileges that a finding lists."""


@rule("privilege-gained", "risk")
def privilege_gained(change: RevisionChange) -> Iterator[Acceptable]:
    """A change gives no object a privilege that its component did not have, and takes away nothing that confines it."""
    if change.before is None:  # A new cluster has nothing to compare.
        return
    held, accounts = _held(change), _accounts(change)
    gained: dict[str, list[str]] = {}
    for item in change.difference.privileges:
        # A right to one more object is one that the component has: the names follow pools and Leases.
        own = held.get(_owner(item.pair), set())
        new = [each for each in item.gained if own.isdisjoint(_covering(each, accounts))]
        facts = privileges.texts(each for each in new if each.sort not in ("registry", "confinement"))
        notes = gained.setdefault(item.pair.component, [])
        notes.extend(f"{item.pair.ref.kind} {item.pair.ref.name}: {text}." for text in facts)
        notes.extend(f"{item.pair.ref.kind} {item.pair.ref.name}: no longer: {each.text}." for each in _freed(item))
    for pair in change.difference.objects:
        if pair.ref.kind == "NetworkPolicy" and (text := _reachable(change, pair)):
            gained.setdefault(pair.component, []).append(f"NetworkPolicy {pair.ref.name}: {text}.")
    for component, notes in gained.items():
        if notes:
            yield change.acceptable(
                change.span(None, SETTINGS.get(component, ())),
                f"The objects of {component} in ",
                Place.CLUSTER,
                " gain privileges.",
                notes=(*notes[:_MOST], *([f"And {len(notes) - _MOST} more."] if len(notes) > _MOST else [])),
                hint="Undo the change, unless they are meant.",
            )


@rule("admission-withdrawn", "risk")
def admission_withdrawn(change: RevisionChange) -> Iterator[Acceptable]:
    """The API server adds to pods what it has added for a recipe, while the cluster keeps the recipe."""
    for one, later in change.kept_recipes:
        had, has = _added(one), _added(later)
        lost = repeats.grouped((resource, given) for resource, given in sorted(had - has))
        for resource, given in lost.items():
            what = wording.listed([" ".join(filter(None, (one.field, one.what))) for one in given], most=_MOST)
            yield change.acceptable(
                change.span(None, ("spec", "admission"), ("spec", "kubernetesVersion")),
                f"Recipe '{one.recipe.name}' no longer has the API server of ",
                Place.CLUSTER,
                f" add {what} to pods that ask for {resource}.",
                notes=("Pods that run keep it; those that start from now on lack it.",),
                hint="Undo it, unless pods bring it themselves.",
            )


def _added(one: plan.RecipePlan) -> set[tuple[str, expressions.Set]]:
    """Return what the API server adds to pods for a recipe, by the resource that they ask for."""
    if not supported.can_mutate(one.cluster.spec):
        return set()
    return {
        (resource, given)
        for stated in one.recipe.admission
        for mutation in stated["mutations"]
        for given in expressions.read(mutation["applyConfiguration"])
        if isinstance(given, expressions.Set)
        for resource in stated["resources"]
    }


def _freed(item: difference.PrivilegeChange) -> Iterator[privileges.Privilege]:
    """Yield what confined an object that stays; of a guard that goes, `guard-off` tells."""
    if item.pair.before is not None and item.pair.after is not None:
        tighter = {each.text.removesuffix(privileges.ALL) for each in item.gained if each.sort == "confinement"}
        lost = (each for each in item.lost if each.sort == "confinement")
        # Who drops all capabilities drops each.
        yield from (each for each in lost if not each.text.startswith(tuple(tighter)))


def _reachable(change: RevisionChange, pair: changed_objects.Pair) -> str:
    """Return what the pods of a NetworkPolicy reach from now on; empty for no more than before, and without pods."""
    if pair.before is None or change.after is None:
        return ""
    if pair.after is None:
        running = {item.value.name for item in network_policies.of_plan(change.after.planned)}
        is_left = pair.ref.name in running
        return "its pods are reached, and reach others, by any connection" if is_left else ""
    more = sorted(_ports(pair.after) - _ports(pair.before))
    return f"its pods also reach {wording.listed(f'{protocol} {port}' for port, protocol in more)}" if more else ""


def _ports(data: Mapping[str, Any]) -> set[tuple[int, str]]:
    rules = data["spec"].get("egress") or ()
    return {(port["port"], port["protocol"]) for one in rules for port in one["ports"]}


_Key = tuple[str, str, bool]
"""The verb and the text of a privilege, and whether it is restricted to one object."""


_Owner = tuple[str, str]
"""A component, and the folder of its objects: a recipe has one of its own."""


def _held(change: RevisionChange) -> Mapping[_Owner, set[_Key]]:
    """Return the privileges that the components of a cluster had, where one gains some, whatever objects differ."""
    found: dict[_Owner, set[_Key]] = {}
    accounts = _accounts(change)
    gaining = {_owner(item.pair) for item in change.difference.privileges if item.gained}
    for pair in change.difference.objects:
        found.setdefault(_owner(pair), set()).update(_key(each, accounts) for each in privileges.of_object(pair.before))
    if change.before is not None and gaining:
        made = change.before.manifests
        components = {component for component, _ in gaining}
        own = tuple(item for item in made.manifests if item.component in components)
        bootstrap = made.bootstrap if names.BOOTSTRAP in components else ()
        made = msgspec.structs.replace(made, manifests=own, bootstrap=bootstrap)
        for item in layout.objects(made, change.basis.render):
            found.setdefault(_owner(item), set()).update(
                _key(each, accounts) for each in privileges.of_object(item.data)
            )
    return found


def _accounts(change: RevisionChange) -> Mapping[str, str]:
    """Return the accounts and Roles of policies, each with that of its recipe: one more is no other privilege."""
    every = (*divisions(change.before).values(), *divisions(change.after).values())
    return {node_programs.driver_name(each.policy): each.policy.recipe.driver for each in every}


def _owner(item: changed_objects.Pair | layout.Object) -> _Owner:
    folder, _, name = item.path.partition("/")
    # Of a recipe's programs, one is not another: a name is KIND-RECIPE-PROGRAM, perhaps with a policy behind it.
    own = name.removesuffix(".yaml").partition(f"-{folder}-")[2].partition("-")[0]
    return item.component, f"{folder}-{own}" if item.component == "program" else folder


def _key(privilege: privileges.Privilege, accounts: Mapping[str, str]) -> _Key:
    text = re.sub(r"[a-z0-9][a-z0-9.-]*", lambda word: accounts.get(word[0], word[0]), privilege.text)
    return privilege.verb, text, bool(privilege.name)


def _covering(privilege: privileges.Privilege, accounts: Mapping[str, str]) -> set[_Key]:
    """Return the privileges of which each is at least this one."""
    verb, text, _ = key = _key(privilege, accounts)
    return {key, (verb, text, False)}


def mutable_tag(change: RevisionChange) -> Iterator[Acceptable]:
    """An image that was pinned, or was not there, is pinned by a version or a digest."""
    changed = {item.name for item in change.basis.changed if item.kind in names.POLICY_KINDS}
    recipes = {item.name for item in change.basis.changed if item.kind == "Recipe"}
    earlier, later = divisions(change.before), divisions(change.after)
    for name, division in later.items():
        if name in changed or division.policy.recipe.name in recipes:
            former = earlier.get(change.renamed.get(name, name))
            was = policy_checks.findings(former.policy) if former else ()
            yield from _unpinned(change, name, was, policy_checks.findings(division.policy))
    if change.after is not None and any(item.name == change.cluster for item in change.basis.changed):
        before = cluster_checks.findings(change.before.planned.cluster) if change.before else ()
        yield from _unpinned(change, None, before, cluster_checks.findings(change.after.planned.cluster))


def _unpinned(
    change: RevisionChange, policy: str | None, before: Iterable[Diagnostic], after: Iterable[Diagnostic]
) -> Iterator[Acceptable]:
    known = {finding.message for finding in before}
    for finding in after:
        if finding.code == "mutable-tag" and finding.message not in known:
            yield change.acceptable(
                finding.span, finding.message, notes=finding.notes, hint=finding.hint, code=finding.code, policy=policy
            )


@rule("crd-pruned", "risk")
def crd_pruned(change: RevisionChange) -> Iterator[Acceptable]:
    """A CustomResourceDefinition stays, and with it the objects of its kind."""
    for data in _pruned(change, "CustomResourceDefinition"):
        kind = data["spec"]["names"]["kind"]
        yield change.acceptable(
            change.span(None, ("spec", "nfd")),
            f"CustomResourceDefinition {data['metadata']['name']} leaves the output of ",
            Place.CLUSTER,
            f", and every {kind} there goes with it.",
            hint="Keep it, or name the engine in gitops.engine: then it is marked to stay.",
        )


@rule("namespace-pruned", "risk")
def namespace_pruned(change: RevisionChange) -> Iterator[Acceptable]:
    """A Namespace stays, and with it all that is in it."""
    for data in _pruned(change, "Namespace"):
        yield change.acceptable(
            change.span(None, ("spec", "namespace")),
            f"Namespace {data['metadata']['name']} leaves the output of ",
            Place.CLUSTER,
            ", and everything in it goes with it, objects of others too.",
            hint="Keep it, or name the engine in gitops.engine: then it is marked to stay.",
        )


def _pruned(change: RevisionChange, kind: str) -> Iterator[Mapping[str, Any]]:
    """Yield the objects of a kind that go, and that no engine leaves in the cluster."""
    for pair in () if change.difference.deletion.stays and change.after else change.difference.objects:
        if pair.before is not None and pair.after is None and pair.ref.kind == kind and pair.protector is None:
            yield pair.before


@rule("guard-off", "risk")
def guard_off(change: RevisionChange) -> Iterator[Acceptable]:
    """Drivers that evict pods are confined to their own node."""
    before, after = change.before, change.after
    if after is not None and after.is_unguarded and not (before is not None and before.is_unguarded):
        was_evicting = before is not None and before.evicts
        goes = "lose the" if was_evicting else "evict pods from now on, and have no"
        yield change.acceptable(
            change.span(None, ("spec", "kubernetesVersion"), ("spec", "driver", "drain")),
            "The drivers of ",
            Place.CLUSTER,
            f" {goes} guard that confines their evictions to their own node.",
            notes=("Whoever has the token of a driver may evict any pod of the cluster.",),
            hint=f"Set spec.kubernetesVersion to the release of the API server; the guard needs "
            f"1.{supported.GUARD_KUBERNETES}.",
        )
