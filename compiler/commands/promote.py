"""`kae promote`: what a wave has instead becomes the policy's, in place; the wave stays as it is."""

import argparse
import json
from collections.abc import Iterable, Iterator

from compiler import errors, wording
from compiler.commands import policy_edit
from compiler.fleet import definitions
from compiler.formats import edits


def run(arguments: argparse.Namespace) -> int:
    arguments.policy, _, name = arguments.chosen_wave.partition("/")
    target = policy_edit.chosen(arguments)
    policy = target.policy
    wave = policy_edit.entry(policy, "wave", name)
    leaves = policy_edit.overrides(policy, wave)
    if not leaves:
        place = policy.source.span(*wave.path, "name")
        message = f"wave '{name}' of policy '{policy.name}' has nothing of its own: {place.file}:{place.line}."
        raise errors.RefusedError(message, hint="Give it a version first, by `kae bump`.")
    _require_reach(policy, wave, leaves)
    source, changed = target.source, {}
    for path, value in leaves.items():
        full = (*policy.written.rollout, *path)
        if not _is_same(policy_edit.value(policy.source, *full), value):
            source = edits.written(source, target.at, full, value)
            changed[path] = value
    if not changed:
        said = f"{target.line(source, *wave.path, 'name')}: {policy.name}: the policy has what wave {name} has already"
        return policy_edit.unchanged(arguments, target, said)
    line = target.line(source, *policy.written.rollout, *next(iter(changed)))
    said = f"{line}: {policy.name}: the policy has what wave {name} has: {policy_edit.text_of(changed)}"
    kept = [*_kept(policy, wave, leaves)]
    keep = "keeps" if len(kept) == 1 else "keep"
    said += f"; {wording.listed(kept)} {keep} other values" if kept else ""
    untried = _untried(policy_edit.placed(arguments, target), wave)
    where = f"{wording.inflected('cluster', len(untried))} {wording.listed(untried)}"
    said += f"; wave {name} has no node with a driver in {where}" if untried else ""
    then = "`kae compile` and a commit; the wave stays for the next change."
    return policy_edit.finish(arguments, target, source, said, then, wave=name, keeping=kept, untried=untried)


def _untried(placed: Iterable[policy_edit.Placed], wave: definitions.Declared) -> list[str]:
    """Return the clusters of a policy that have no node with a driver in a wave."""
    clusters: dict[str, bool] = {}
    for cluster, decision, division in placed:
        group = division.group(decision.node.name)
        is_tried = decision.runs("driver") and group is not None and group.name == wave.name
        clusters[cluster.name] = clusters.get(cluster.name, False) or is_tried
    return sorted(name for name, is_tried in clusters.items() if not is_tried)


def _is_same(one: object, other: object) -> bool:
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def _require_reach(policy: definitions.Policy, wave: definitions.Declared, leaves: policy_edit.Leaves) -> None:
    """Raise RefusedError where a mapping has another value: it would hide that of the policy from its nodes."""
    for mapping in policy.mappings:
        own = policy_edit.overrides(policy, mapping)
        for path, value in leaves.items():
            if path in own and not _is_same(own[path], value):
                place = policy.source.span(*mapping.path, *path)
                raise errors.RefusedError(
                    f"mapping '{mapping.name}' hides '{wording.dotted(path)}' of policy '{policy.name}' from its "
                    f"nodes: {place.file}:{place.line}.",
                    hint=f"Change or remove it in the mapping first; wave '{wave.name}' has it over both.",
                )


def _kept(policy: definitions.Policy, wave: definitions.Declared, leaves: policy_edit.Leaves) -> Iterator[str]:
    """Yield the other waves and the frozen groups that the promotion does not reach."""
    for group in policy.groups:
        own = policy_edit.overrides(policy, group)
        if group.name != wave.name and any(path in own and not _is_same(own[path], leaves[path]) for path in leaves):
            yield group.name
