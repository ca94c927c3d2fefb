"""`kae wave`: a new wave in a policy's file, in place, or one that leaves it."""

import argparse
from typing import Any

from compiler.commands import policy_edit
from compiler.fleet import definitions
from compiler.formats import edits


def run(arguments: argparse.Namespace) -> int:
    return _remove(arguments) if arguments.verb == "remove" else _add(arguments)


def _remove(arguments: argparse.Namespace) -> int:
    arguments.policy, _, name = arguments.chosen_wave.partition("/")
    target = policy_edit.chosen(arguments)
    policy = target.policy
    wave = policy_edit.entry(policy, "wave", name)
    line = target.line(target.source, *wave.path, "name")
    source = edits.removed(target.source, target.at, wave.path)
    said = f"{line}: {policy.name}: wave {name} is removed"
    then = "`kae compile` and a commit; its nodes get what the waves behind it or the rest have."
    return policy_edit.finish(arguments, target, source, said, then, wave=name)


def _add(arguments: argparse.Namespace) -> int:
    target = policy_edit.chosen(arguments)
    policy, name = target.policy, arguments.new
    policy_edit.require_new(policy, name)
    policy_edit.require_pools(policy)
    waves = [group for group in policy.groups if not group.is_frozen]
    before = policy_edit.entry(policy, "wave", arguments.before).name if arguments.before else None
    at = next((number for number, wave in enumerate(waves) if wave.name == before), len(waves))
    leaves = policy_edit.version_of(arguments, policy)
    members: dict[str, Any] = {"percent": arguments.percent} if arguments.percent is not None else {}
    made = {"name": name, **members, **policy_edit.members(arguments, target), **policy_edit.nested(leaves)}
    path = (*policy.written.rollout, "rollout", "waves")
    source = edits.inserted(target.source, target.at, path, at, made)
    own = f" with {policy_edit.text_of(leaves)}" if leaves else ""
    where = f" before {before}" if before else ""
    said = f"{target.line(source, *path, at, 'name')}: {policy.name}: wave {name} is added{where}{own}"
    more = f"`kae promote {policy.name}/{name}` brings it to all nodes" if leaves else _bump(policy, name)
    return policy_edit.finish(arguments, target, source, said, f"`kae compile` and a commit; {more}.", wave=name)


def _bump(policy: definitions.Policy, name: str) -> str:
    image = " --image NAME" if policy.written.names_images else ""
    return f"`kae bump {policy.name} --wave {name}{image} --version V` gives it a version"
