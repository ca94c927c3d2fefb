"""`kae retire`: the end of a policy by two commits: the first removes its driver, the second deletes it."""

import argparse
from collections.abc import Mapping, Sequence

from compiler import errors, wording
from compiler.commands import policy_edit
from compiler.fleet import definitions
from compiler.formats import edits
from compiler.output import index_file

_STATE = ("spec", "driver", "state")


def run(arguments: argparse.Namespace) -> int:
    target = policy_edit.chosen(arguments)
    policy = target.policy
    _require_absent_everywhere(policy)
    if policy.installed is not None and policy.installed.state != "Absent":
        source = edits.written(target.source, target.at, _STATE, "Absent")
        line = target.line(source, *_STATE)
        said = f"{line}: {policy.name}: state Absent removes the driver from its nodes"
        placed = policy_edit.placed(arguments, target)
        said += _unserved_text(placed)
        again = f"`kae retire {policy.name}` again deletes the policy"
        then = (
            f"{_compile(target, placed)} and a commit; when no node has the driver and the inventory says so, {again}."
        )
        return policy_edit.finish(arguments, target, source, said, then, step="absent")
    if policy.installed is not None:
        _require_committed(target)
    placed = policy_edit.placed(arguments, target)
    if policy.installed is not None:
        _require_applied(target, placed)
    told = _require_gone(policy, placed) + (_unserved_text(placed) if policy.installed is not None else "")
    line = target.line(target.source, "metadata", "name")
    left = edits.without(target.source, target.at)
    _require_kept(target, is_whole=left is None)
    which = "the policy and its file are" if left is None else "the policy is"
    said = f"{line}: {policy.name}: {which} deleted; {told}"
    then = "`kae compile`, which asks to accept what goes, and a commit."
    return policy_edit.finish(arguments, target, left, said, then, step="deleted")


def _require_absent_everywhere(policy: definitions.Policy) -> None:
    """Raise RefusedError where a mapping, a wave or a frozen group keeps the driver on its nodes."""
    declared: tuple[definitions.Declared, ...] = (*policy.mappings, *policy.groups)
    for one in declared:
        if one.overrides.state == "Present":
            place = policy.source.span(*one.path, *policy.written.below, "state")
            message = f"'{one.name}' of policy '{policy.name}' has `state: Present`: {place.file}:{place.line}."
            raise errors.RefusedError(message, hint="Remove it there first: its nodes would keep the driver.")


def _require_committed(target: policy_edit.Chosen) -> None:
    """Raise RefusedError unless the last commit has the first step. Raises WorldError without git."""
    policy, spec = target.policy, (target.head[1] or {}).get("spec") or {}
    if (spec.get("driver") or {}).get("state") != "Absent":
        place = policy.source.span(*_STATE)
        message = f"`state: Absent` of policy '{policy.name}' is in no commit yet: {place.file}:{place.line}."
        hint = "Compile and commit it; the hosts have to get it before the policy goes."
        raise errors.RefusedError(message, hint=hint)


def _require_kept(target: policy_edit.Chosen, *, is_whole: bool) -> None:
    """Raise RefusedError where the last commit lacks what is to be deleted: nothing would bring it back."""
    policy, source = target.policy, target.source
    place = policy.source.span("metadata", "name")
    content, head = target.head
    if head is None:
        message = f"policy '{policy.name}' is in no commit: {place.file}:{place.line}."
        raise errors.RefusedError(message, hint="Commit it first, or delete it yourself.")
    if head != policy.source.data or (is_whole and content != source.text.encode()):
        message = f"{source.name} has edits that are in no commit."
        raise errors.RefusedError(message, hint="Commit them first, or take them back: they would be lost.")


def _require_applied(target: policy_edit.Chosen, placed: Sequence[policy_edit.Placed]) -> None:
    """Raise RefusedError where the output of the last commit does not remove the driver: hosts go by that alone."""
    policy = target.policy
    owner = index_file.Owner(policy.recipe.name, policy.name)
    for cluster in sorted({cluster.name for cluster, _, _ in placed}):
        folder = f"{target.settings.output}/{cluster}"
        content = policy_edit.content_at_head(f"{folder}/{index_file.NAME}")
        index = (content and index_file.parse(content)) or index_file.Index()
        drivers = index.of_owner("driver", owner)
        staying = [one.file for one in drivers if one.state != "Absent"]
        # Where no node gets an installer, as no image fits, there is none that would remove it.
        served = any(own.name == cluster and decision.driver.image is not None for own, decision, _ in placed)
        if staying or (served and not drivers):
            path = f"{folder}/{(staying or [index_file.NAME])[0]}"
            message = f"the output of the last commit does not remove the driver of policy '{policy.name}': {path}."
            hint = "Run `kae compile`, commit, and wait until the hosts have applied it."
            raise errors.RefusedError(message, hint=hint)


def _require_gone(policy: definitions.Policy, placed: Sequence[policy_edit.Placed]) -> str:
    """Return what the labels of nodes tell. Raises RefusedError while any shows the driver, or where none is known."""
    known = [(f"{cluster}/{name}", found) for cluster, name, found in policy_edit.known_drivers(placed)]
    shown = [f"{name} ({found.text})" for name, found in known if found is not None and found.state != "Foreign"]
    if shown:
        are = wording.counted(len(shown), "node")
        message = f"labels show the driver of policy '{policy.name}' on {are}: {wording.listed(sorted(shown), 5)}."
        hint = "Wait until it is removed, and take the inventory again; `kae status` tells how far it is."
        unserved = _unserved(placed)
        if staying := [name for name, found in known if found is not None and name in unserved]:
            hint = f"No installer runs on {wording.listed(staying, 5)}: {unserved[staying[0]]}. End that first. {hint}"
        raise errors.RefusedError(message, hint=hint)
    nodes = wording.counted(len(known), "node")
    if policy.installed is None:
        return f"it has {nodes}"
    if not known:
        message = f"the inventory has no node of policy '{policy.name}', so nothing tells that its driver is gone."
        raise errors.RefusedError(message, hint="Restore the inventory; or delete the policy yourself.")
    return f"no label shows its driver on its {nodes}; nobody has asked the hosts, which `kae status` does"


def _compile(target: policy_edit.Chosen, placed: Sequence[policy_edit.Placed]) -> str:
    """Return the compile that removes the driver, with what it asks to accept for frozen nodes."""
    policy, frozen = target.policy, dict[str, list[str]]()
    for cluster, decision, division in placed:
        group = division.group(decision.node.name)
        if group is not None and group.sort == "frozen" and decision.driver.image is not None:
            frozen.setdefault(cluster.name, []).extend(decision.names)
    if not frozen:
        return "`kae compile`"
    scopes = "".join(f" --accept thaws-nodes:{cluster}/{policy.name}" for cluster in sorted(frozen))
    number = sum(map(len, frozen.values()))
    loses = "loses" if number == 1 else "lose"
    return f"`kae compile{scopes}`, as {wording.counted(number, 'frozen node')} {loses} the driver too,"


def _unserved(placed: Sequence[policy_edit.Placed]) -> Mapping[str, str]:
    """Return the nodes on which no installer runs, so that a driver that is there stays, with the reasons."""
    return {
        f"{cluster.name}/{name}": decision.driver.reason
        for cluster, decision, _ in placed
        if decision.driver.obstacle in ("opt-out", "taints", "kernel", "labels")
        for name in decision.names
    }


def _unserved_text(placed: Sequence[policy_edit.Placed]) -> str:
    """Return the end of an answer on these nodes; empty without any."""
    unserved = _unserved(placed)
    if not unserved:
        return ""
    those = [f"{name} ({reason})" for name, reason in sorted(unserved.items())]
    on = f"{wording.counted(len(those), 'node')}: {wording.listed(those, 3)}"
    return f"; no installer runs on {on}, so a driver that is there stays"
