"""Rules for the parts of a policy: waves, frozen groups, and the names that they and mappings give to pools."""

import itertools
from collections.abc import Iterable, Iterator, Sequence

from compiler import repeats, wording
from compiler.checks import mappings
from compiler.diagnostics import Diagnostic
from compiler.fleet import definitions
from compiler.formats import documents
from compiler.inventory import snapshot
from compiler.model import driver as drivers
from compiler.planning import overrides, pools, rollout_groups

_ROLLOUT: documents.Path = ("spec", "driver", "rollout")
_NODES = ("percent", "nodes", "inventorySelector")
_KERNELS = ("regexp", "literal")
_LONGEST = 63
"""Of a DaemonSet's name, as its pods' label controller-revision-hash and others' labels hold it."""
_LARGEST = 1_400_000
"""Bytes of node names in one object; etcd takes 1.5 MB of it (--max-request-bytes)."""


def findings(item: definitions.Policy) -> Iterator[Diagnostic]:
    """Everything that is wrong with the division of a policy, whichever nodes there are."""
    yield from choices(item)
    yield from group_names(item)
    yield from frozen_fields(item)
    yield from bounds(item, ((path, group) for path, group in item.groups if group.clusters is None))
    yield from mappings.findings(item)
    yield from long_names(item)


def choices(item: definitions.Policy) -> Iterator[Diagnostic]:
    """A group says in one way which nodes it takes, and a mapping in one way which kernels."""
    for path, group in item.groups:
        fields = _NODES if isinstance(group, drivers.Wave) else _NODES[1:]
        yield from _choice(item, path, group, _noun(group), ("nodes", fields))
    for path, mapping in item.mappings:
        yield from _choice(item, path, mapping, "Mapping", ("kernels", _KERNELS))


def _choice(
    item: definitions.Policy, path: documents.Path, one: drivers.Named, noun: str, choice: tuple[str, tuple[str, ...]]
) -> Iterator[Diagnostic]:
    what, fields = choice
    given = [field for field in fields if getattr(one, field) is not None]
    if len(given) != 1:
        said = f"chooses its {what} by {wording.listed(given)}" if given else f"does not say which {what} it takes"
        yield Diagnostic(
            code="choose-one",
            span=item.source.key_span(*path, given[1]) if given else item.source.span(*path, "name"),
            message=f"{noun} '{one.name}' {said}.",
            hint=f"Give exactly one of {wording.listed(fields)}.",
        )


def _noun(group: drivers.Frozen | drivers.Wave) -> str:
    return "Wave" if isinstance(group, drivers.Wave) else "Frozen group"


def group_names(item: definitions.Policy) -> Iterator[Diagnostic]:
    """Frozen groups and waves have names of their own, and so have mappings; none is called `rest`."""
    groups_by_line = sorted(item.groups, key=lambda pair: item.source.span(*pair[0], "name"))
    declared: tuple[Sequence[tuple[documents.Path, drivers.Named]], ...] = (groups_by_line, item.mappings)
    for found in declared:
        for (earlier, _), (path, second) in repeats.of(found, key=lambda pair: pair[1].name):
            yield Diagnostic(
                code="duplicate-name",
                span=item.source.span(*path, "name"),
                message=f"The name '{second.name}' is given twice.",
                notes=(f"It was first given at {item.source.span(*earlier, 'name')}.",),
                hint="Rename one of the two: pools are called after them.",
            )
        for path, one in found:
            if one.name == rollout_groups.REST:
                yield Diagnostic(
                    code="reserved-name",
                    span=item.source.span(*path, "name"),
                    message=f"The name '{one.name}' is that of all nodes that no wave and no frozen group takes.",
                    hint="Choose another name.",
                )


def frozen_fields(item: definitions.Policy) -> Iterator[Diagnostic]:
    """A frozen group has a version of its own: with that of the policy it would move."""
    for path, group in item.groups:
        is_whole = group.version == "" and group.image is not None
        if isinstance(group, drivers.Frozen) and group.state != "Absent" and not group.version and not is_whole:
            part, more = ("version", "") if item.spec.driver.version else ("image", ', and `version: ""` beside it')
            yield Diagnostic(
                code="frozen-unpinned",
                span=item.source.span(*path, "name"),
                message=f"Frozen group '{group.name}' has no version of its own, and would move with the policy.",
                hint=f"Write the {part} that these nodes stay on{more}.",
            )


def bounds(
    item: definitions.Policy, declared: Iterable[tuple[documents.Path, drivers.Frozen | drivers.Wave | None]]
) -> Iterator[Diagnostic]:
    """The percentages of waves that hold in one cluster rise: each is an upper bound."""
    waves = ((path, group) for path, group in declared if isinstance(group, drivers.Wave))
    shares = [(path, wave, wave.percent) for path, wave in waves if wave.percent is not None]
    for path, wave, percent in shares:
        if round(percent, 2) != percent:
            yield Diagnostic(
                code="wave-bounds",
                span=item.source.span(*path, "percent"),
                message=f"Wave '{wave.name}' ends at {percent} %, and nodes stand at hundredths of a per cent.",
                hint="Give at most two decimals.",
            )
    for (_, earlier, bound), (path, wave, percent) in itertools.pairwise(shares):
        if percent <= bound:
            yield Diagnostic(
                code="wave-bounds",
                span=item.source.span(*path, "percent"),
                message=f"Wave '{wave.name}' ends at {percent:g} %, but '{earlier.name}' before it at {bound:g} %.",
                notes=("Percentages are upper bounds: 5, 50 and 100 are shares of 5 %, 45 % and 50 %.",),
                hint="Let the percentages rise from wave to wave, or say in `clusters` where each wave holds.",
            )


def long_names(item: definitions.Policy) -> Iterator[Diagnostic]:
    """The name of each pool's DaemonSet fits into 63 characters."""
    if not item.spec.driver.enabled:
        return
    declared = [group.name for _, group in item.groups]
    parts: list[list[str]] = [[*declared, rollout_groups.REST]] if declared else []
    if item.spec.driver.kernelMappings:
        parts.append(
            [
                f"{mapping.name}--{'0' * pools.DIGITS}" if overrides.is_per_kernel(item, mapping) else mapping.name
                for mapping in item.spec.driver.kernelMappings
            ]
        )
    longest = "--".join([f"kae-driver-{item.name}", *(max(names, key=len) for names in parts)])
    if parts and len(longest) > _LONGEST:
        yield Diagnostic(
            code="name-too-long",
            span=item.source.span("metadata", "name"),
            message=f"A DaemonSet would be called '{longest}', which has {len(longest)} characters.",
            notes=(f"Labels of its pods hold that name, and at most {_LONGEST} characters.",),
            hint=f"Shorten the names of the policy, its groups or its mappings by {len(longest) - _LONGEST} together.",
        )


def in_cluster(division: pools.Division, inventory: snapshot.Inventory) -> Iterator[Diagnostic]:
    """Everything that is to be said of a division in one cluster, where `own` are the policy's nodes."""
    if not division.policy.spec.driver.enabled:
        return
    yield from bounds(division.policy, ((group.path, group.declared) for group in division.groups))
    yield from size(division, inventory.cluster)
    yield from strangers(division, inventory)
    yield from empty_groups(division, inventory)
    yield from mappings.uncovered(division, inventory)


def size(division: pools.Division, cluster: str) -> Iterator[Diagnostic]:
    """The names that groups take fit into one object."""
    amount = sum(len(name) + 3 for group in division.groups for name in group.nodes)
    if amount > _LARGEST:
        count = sum(len(group.nodes) for group in division.groups)
        yield Diagnostic(
            code="pool-rules-too-large",
            span=division.policy.source.setting_span(*_ROLLOUT),
            message=f"The waves and frozen groups of policy '{division.policy.name}' list {count} nodes of cluster "
            f"'{cluster}' by name, {amount / 1e6:.1f} MB.",
            notes=("They stand in one NodeFeatureRule, and the API server takes objects of at most 1.5 MB.",),
            hint="Split the policy by nodeSelector, or make the widest group the rest, which lists no names.",
        )


def strangers(division: pools.Division, inventory: snapshot.Inventory) -> Iterator[Diagnostic]:
    """Every node that a group names is one of the cluster, and of the policy."""
    declared = [(group.path, group.declared) for group in division.groups if group.declared is not None]
    named = [(path, group, group.nodes) for path, group in declared if group.nodes]
    if not named or not inventory.nodes:
        return
    known, own = {node.name for node in inventory.nodes}, {node.name for node in division.nodes}
    where = f"cluster '{inventory.cluster}'"
    for place, group, names in named:
        path, noun = (*place, "nodes"), f"{_noun(group)} '{group.name}'"
        if len(names) > 1 and own.isdisjoint(names):
            yield Diagnostic(
                code="group-stranger",
                span=division.policy.source.setting_span(*path),
                message=f"{noun} names no node that the policy governs in {where}.",
                hint="Say in `clusters` where it holds, or correct the names.",
            )
            continue
        for index, name in enumerate(names):
            if name in own:
                continue
            said = f"{where} has no such node"
            hint = "Correct the name, remove it, or say in `clusters` where the group holds."
            if name in known:
                said = f"the policy does not govern it in {where}"
                hint = "Remove it, or let the policy's nodeSelector match it."
            yield Diagnostic(
                code="group-stranger",
                span=division.policy.source.span(*path, index),
                message=f"{noun} names the node '{name}', but {said}.",
                hint=hint,
            )


def empty_groups(division: pools.Division, inventory: snapshot.Inventory) -> Iterator[Diagnostic]:
    """A wave or a frozen group takes some node of the cluster."""
    own = {node.name for node in division.nodes}
    for group in division.groups if own else ():
        declared = group.declared
        if declared is None or not own.isdisjoint(group.nodes):
            continue
        named = [name for name in declared.nodes or () if name in own]
        if named or declared.nodes is None:  # Of names that are no nodes of the policy, more is said elsewhere.
            yield Diagnostic(
                code="group-empty",
                span=division.policy.source.span(*group.path, "name"),
                message=f"{_noun(declared)} '{group.name}' takes no node of cluster '{inventory.cluster}' today.",
                notes=("The nodes that it names are taken by groups before it.",) if named else (),
                hint="Widen it, or leave it for nodes to come.",
            )
