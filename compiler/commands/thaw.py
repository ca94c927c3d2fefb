"""`kae thaw`: a frozen group leaves a policy's file, in place, and its nodes return to their waves."""

import argparse

from compiler.commands import policy_edit
from compiler.formats import edits


def run(arguments: argparse.Namespace) -> int:
    target = policy_edit.chosen(arguments)
    policy = target.policy
    group = policy_edit.entry(policy, "frozen", arguments.frozen)
    line = target.line(target.source, *group.path, "name")
    source = edits.removed(target.source, target.at, group.path)
    said = f"{line}: {policy.name}: frozen group {group.name} is removed"
    then = "`kae compile` and a commit; the nodes return to their waves or to the rest."
    return policy_edit.finish(arguments, target, source, said, then, frozen=group.name)
