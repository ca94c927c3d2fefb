"""`kae freeze`: a new frozen group in a policy's file, in place, whose nodes keep what they have."""

import argparse
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from compiler import errors, names, wording
from compiler.commands import policy_edit
from compiler.fleet import definitions, selectors
from compiler.formats import edits
from compiler.inventory import snapshot
from compiler.planning import kernels, pools


def run(arguments: argparse.Namespace) -> int:
    target = policy_edit.chosen(arguments)
    policy, name = target.policy, arguments.new
    policy_edit.require_new(policy, name)
    policy_edit.require_pools(policy)
    given = policy_edit.version_of(arguments, policy)
    if not given:
        _require_committed(target)
    placed = policy_edit.placed(arguments, target)
    chosen = [*_nodes(arguments, policy, placed)]
    nodes, frozen = _unfrozen(arguments, policy, chosen)
    if not given:
        _require_settled(policy, placed, nodes)
    leaves = _leaves(policy, nodes, given)
    made = {"name": name, **policy_edit.members(arguments, target), **policy_edit.nested(leaves)}
    path = (*policy.written.rollout, "rollout", "frozen")
    at = sum(group.is_frozen for group in policy.groups)
    source = edits.inserted(target.source, target.at, path, at, made)
    line, number = target.line(source, *path, at, "name"), wording.counted(len(nodes), "node")
    own = f" at {policy_edit.text_of(leaves)}" if leaves else ""
    said = f"{line}: {policy.name}: frozen group {name} keeps {number}{own}"
    if frozen:
        those = wording.counted(sum(frozen.values()), "node")
        said += f"; {those} of frozen group{'s' * (len(frozen) > 1)} {wording.listed(frozen)} stay there"
    then = f"`kae compile` and a commit; `kae thaw {policy.name} {name}` gives the nodes back."
    kept = [f"{cluster}/{node.name}" for cluster, _, node in nodes]
    return policy_edit.finish(arguments, target, source, said, then, frozen=name, nodes=kept)


def _require_committed(target: policy_edit.Chosen) -> None:
    """Raise RefusedError where the policy is not as in the last commit, so that its nodes have something else."""
    _, before = target.head
    if before is not None and _without_frozen(target.policy, before) != _without_frozen(
        target.policy, target.policy.source.data
    ):
        message = f"policy '{target.policy.name}' has edits that are in no commit: its nodes would keep what these say."
        raise errors.RefusedError(message, hint="Commit or undo them first, or name what the nodes keep by --version.")


def _without_frozen(policy: definitions.Policy, data: Any) -> Any:
    """Return the data of a policy without its frozen groups."""
    data = json.loads(json.dumps(data))
    inside = data
    for step in (*policy.written.rollout, "rollout"):
        inside = inside.get(step) or {}
    inside.pop("frozen", None)
    return data


_Found = tuple[snapshot.ClusterName, pools.Division, snapshot.Node]


def _require_settled(policy: definitions.Policy, placed: Iterable[policy_edit.Placed], nodes: Iterable[_Found]) -> None:
    """Raise RefusedError where labels show that nodes have not got yet what the last commit orders."""
    chosen = {(cluster, node.name) for cluster, _, node in nodes}
    known = [
        (f"{cluster}/{name}", found.sentence)
        for cluster, name, found in policy_edit.known_drivers(placed)
        if found is not None and found.differs and (cluster, name) in chosen
    ]
    if known:
        first, sentence = known[0]
        are = wording.counted(len(known), "node")
        message = f"{are} of policy '{policy.name}' have not what the last commit orders: {first} {sentence}."
        hint = "Name what all of them keep by --version; or revert the commit, and freeze then."
        raise errors.RefusedError(message, hint=hint)


def _nodes(
    arguments: argparse.Namespace, policy: definitions.Policy, placed: Iterable[policy_edit.Placed]
) -> Iterator[_Found]:
    """Yield the nodes of a policy that the call chooses. Raises RefusedError for one that it does not have."""
    every: list[_Found] = [
        (cluster.name, division, node)
        for cluster, decision, division in placed
        if names.globs_match(arguments.clusters or None, cluster.name)
        for node in decision.nodes
    ]
    for name in arguments.nodes:
        known = [node.name for _, _, node in every]
        if name not in known:
            hint = wording.did_you_mean(name, known, f"`kae plan --policy {policy.name}` shows its nodes.")
            raise errors.RefusedError(f"policy '{policy.name}' has no node '{name}'.", hint=hint)
    term = selectors.parse(arguments.selector or "")
    chosen = [
        one
        for one in every
        if (one[2].name in arguments.nodes if arguments.nodes else selectors.term_matches(term, one[2].label))
    ]
    if not chosen:
        message = f"policy '{policy.name}' has no node with these labels."
        raise errors.RefusedError(message, hint=f"`kae plan --policy {policy.name}` shows its nodes.")
    yield from sorted(chosen, key=lambda one: (one[0], one[2].name))


def _unfrozen(
    arguments: argparse.Namespace, policy: definitions.Policy, nodes: Iterable[_Found]
) -> tuple[list[_Found], dict[str, int]]:
    """Return the nodes that no frozen group has yet, and how many each has of those that labels choose, which stay.

    Raises RefusedError for one by name, and where no other is left.
    """
    found: list[_Found] = []
    frozen = Counter[str]()
    for cluster, division, node in nodes:
        group = division.group(node.name)
        if group is None or group.sort != "frozen":
            found.append((cluster, division, node))
            continue
        frozen[group.name] += 1
        if arguments.nodes:
            message = f"node '{node.name}' is in frozen group '{group.name}' already, and keeps what that says."
            hint = f"Leave it out; `kae thaw {policy.name} {group.name}` would give it another driver."
            raise errors.RefusedError(message, hint=hint)
    if not found:
        message = f"all nodes of policy '{policy.name}' with these labels are frozen already: {wording.listed(frozen)}."
        raise errors.RefusedError(message, hint=f"`kae plan --policy {policy.name}` shows their groups.")
    return found, dict(frozen)


def _leaves(policy: definitions.Policy, nodes: Iterable[_Found], given: policy_edit.Leaves) -> policy_edit.Leaves:
    """Return what the nodes have, and the given version. Raises RefusedError where they differ."""
    first: tuple[str, policy_edit.Leaves] | None = None
    for cluster, division, node in nodes:
        group = division.group(node.name)
        declared = group.declared if group else None
        mapping = kernels.first(policy.mappings, kernels.machine(node.profile))
        own = {**_kept(policy, mapping, declared), **given}
        if first is None:
            first = f"{cluster}/{node.name}", own
        elif own != first[1]:
            differing = {path for path in {**own, **first[1]} if own.get(path) != first[1].get(path)}
            one, other = ({path: each[path] for path in each if path in differing} for each in (first[1], own))
            raise errors.RefusedError(
                f"the nodes differ: {first[0]} has {policy_edit.text_of(one) or 'what the policy has'}, "
                f"{cluster}/{node.name} {policy_edit.text_of(other) or 'what the policy has'}.",
                hint="Freeze them in groups of their own, or give all one --version.",
            )
    return first[1] if first else {}


def _kept(
    policy: definitions.Policy, mapping: definitions.KernelMapping | None, wave: definitions.NodeGroup | None
) -> policy_edit.Leaves:
    """Return what nodes of a mapping and a wave have to be given, so that they stay as they are.

    That are all overrides of the wave, which they leave, and the version of each image that pools may have another of.
    """
    found = dict(policy_edit.overrides(policy, wave))
    images: dict[str, definitions.ImageParts] = {}
    if policy.driver is not None and policy.driver.enabled:
        made = policy.driver.overridden(mapping, wave)
        images = {name: made.images[name] for name in (made.counting, *made.payloads)}
    for program in policy.programs:
        if program.enabled and program.is_pooled:
            images |= program.overridden(mapping, wave).images
    for name, parts in images.items():
        if name in policy.written.overrides:
            below = policy.written.overrides[name]
            version = parts.get("version", "")
            # Without a version, the image is the whole reference.
            own = {"version": version} if version else {"image": parts.get("image", ""), "version": version}
            found |= {(*below, part): value for part, value in own.items()}
    return found
