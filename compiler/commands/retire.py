"""`kae retire`: the end of a policy by two commits: the first removes its driver, the second deletes it."""

import argparse

from compiler import errors, wording
from compiler.commands import policy_edit
from compiler.fleet import definitions
from compiler.formats import edits
from compiler.planning import loaded

_STATE = ("spec", "driver", "state")


def run(arguments: argparse.Namespace) -> int:
    target = policy_edit.chosen(arguments)
    policy = target.policy
    _require_absent_everywhere(policy)
    if policy.installed is not None and policy.installed.state != "Absent":
        source = edits.written(target.source, target.at, _STATE, "Absent")
        line = target.line(source, *_STATE)
        said = f"{line}: {policy.name}: state Absent removes the driver from its nodes"
        again = f"`kae retire {policy.name}` again deletes the policy"
        then = f"`kae compile` and a commit; when no node has the driver and the inventory says so, {again}."
        return policy_edit.finish(arguments, target, source, said, then, step="absent")
    if policy.installed is not None:
        _require_committed(target)
    number = _require_gone(arguments, policy)
    line = target.line(target.source, "metadata", "name")
    left = edits.without(target.source, target.at)
    which = "the policy and its file are" if left is None else "the policy is"
    said = f"{line}: {policy.name}: {which} deleted; no label shows its driver on its {number}"
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
    policy, spec = target.policy, (policy_edit.at_head(target) or {}).get("spec", {})
    if spec.get("driver", {}).get("state") != "Absent":
        place = policy.source.span(*_STATE)
        message = f"`state: Absent` of policy '{policy.name}' is in no commit yet: {place.file}:{place.line}."
        hint = "Compile and commit it; the hosts have to get it before the policy goes."
        raise errors.RefusedError(message, hint=hint)


def _require_gone(arguments: argparse.Namespace, policy: definitions.Policy) -> str:
    """Return the number of nodes. Raises RefusedError while labels show the driver on any of them."""
    placed = policy_edit.placed(arguments, policy)
    shown = [
        f"{cluster.name}/{name} ({known.text})"
        for cluster, decision, _ in placed
        for own in loaded.apart([decision])
        if (known := loaded.of(own)) is not None and known.state != "Foreign"
        for name in own.names
    ]
    if shown:
        are = wording.counted(len(shown), "node")
        message = f"labels show the driver of policy '{policy.name}' on {are}: {wording.listed(sorted(shown), 5)}."
        hint = "Wait until it is removed, and take the inventory again; `kae status` tells how far it is."
        raise errors.RefusedError(message, hint=hint)
    return wording.counted(sum(len(decision.nodes) for _, decision, _ in placed), "node")
