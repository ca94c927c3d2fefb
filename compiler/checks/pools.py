"""Rules for waves and frozen groups, and for the names and the sizes of the objects of pools."""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence

from compiler import repeats, wording
from compiler.checks import mappings
from compiler.diagnostics import Diagnostic, rule, shared_rule
from compiler.fleet import assignment, definitions, selectors
from compiler.inventory import snapshot
from compiler.planning import overrides, plan, pools

shared_rule("reserved-name", "error", "No group and no mapping is named `rest`.")

_LONGEST = 63
"""Characters of a DaemonSet's name, as labels of its pods hold the name."""
_LARGEST = 1_400_000
"""Bytes of node names in one object; etcd takes objects of 1.5 MB (--max-request-bytes)."""
_REST = 32 << 10
"""Bytes left for everything in a DaemonSet but its node affinity; one with default settings needs 7 KB."""
_STORED = 1536 << 10
"""Bytes of an object: etcd's --max-request-bytes, 1.5 MiB."""
_ANNOTATED = 256 << 10
"""Bytes of all annotations of an object: TotalAnnotationSizeLimitB in k8s.io/apimachinery/pkg/api/validation."""
_WHY_STORED = (
    "etcd takes objects of at most 1.5 MiB (--max-request-bytes).",
    "A larger DaemonSet may still fit, but not the copy of its pod template, a ControllerRevision: then no pod starts.",
)
_WHY_ANNOTATED = (
    "Argo CD keeps a copy of the DaemonSet in an annotation (client-side apply), and the API server takes annotations "
    "of at most 256 KiB.",
)


def findings(policy: definitions.Policy, variants: Sequence[overrides.Variant]) -> Iterator[Diagnostic]:
    """Yield the mistakes in the groups and mappings of a policy, judged without any nodes."""
    yield from choices(policy)
    yield from group_names(policy)
    yield from pinned(policy)
    yield from bounds(policy, (group for group in policy.groups if group.clusters is None))
    yield from mappings.findings(policy, variants)
    yield from long_names(policy)


@rule("choose-one", "error")
def choices(policy: definitions.Policy) -> Iterator[Diagnostic]:
    """A group selects its nodes in one way, and a mapping its kernels."""
    for group in policy.groups:
        share = {} if group.is_frozen else {"percent": group.percent}
        ways = {**share, "nodes": group.nodes, "inventorySelector": group.selector}
        yield from _choice(policy, group, _noun(group), "nodes", ways)
    for mapping in policy.mappings:
        patterns = {"regexp": mapping.regexp, "literal": mapping.literal}
        yield from _choice(policy, mapping, "Mapping", "kernels", patterns)


def _choice(
    policy: definitions.Policy, one: overrides.Declared, noun: str, what: str, ways: Mapping[str, object]
) -> Iterator[Diagnostic]:
    given = [field for field, value in ways.items() if value is not None]
    if len(given) != 1:
        predicate = f"selects its {what} by {wording.listed(given)}" if given else f"does not select any {what}"
        yield Diagnostic(
            span=policy.source.key_span(*one.path, given[1]) if given else policy.source.span(*one.path, "name"),
            message=f"{noun} '{one.name}' {predicate}.",
            hint=f"Set exactly one of {wording.listed(ways)}.",
        )


def _noun(group: definitions.NodeGroup) -> str:
    return "Frozen group" if group.is_frozen else "Wave"


def group_names(policy: definitions.Policy) -> Iterator[Diagnostic]:
    """Frozen groups and waves have unique names, mappings have unique names, and none is `rest`."""
    groups_by_line = sorted(policy.groups, key=lambda group: policy.source.span(*group.path, "name"))
    declared: tuple[Sequence[overrides.Declared], ...] = (groups_by_line, policy.mappings)
    for named in declared:
        for earlier, second in repeats.of(named, key=lambda one: one.name):
            yield Diagnostic(
                code="duplicate-name",
                span=policy.source.span(*second.path, "name"),
                message=f"The name '{second.name}' is used twice.",
                notes=(f"Its first use is at {policy.source.span(*earlier.path, 'name')}.",),
                hint="Rename one of the two: pools are named after them.",
            )
        for one in named:
            if one.name == pools.REST:
                message = f"The name '{one.name}' is reserved for the nodes that no wave and no frozen group takes."
                span = policy.source.span(*one.path, "name")
                yield Diagnostic(code="reserved-name", span=span, message=message, hint="Choose another name.")


@rule("frozen-unpinned", "error")
def pinned(policy: definitions.Policy) -> Iterator[Diagnostic]:
    """A frozen group has a version of its own.

    It has one for every image that the driver is taken from: otherwise a new version of the policy would reach it.
    """
    if policy.driver is None:
        return
    needed = dict.fromkeys((policy.driver.counting, *policy.driver.payloads))
    for group in policy.groups:
        given = group.overrides.images
        absent = [name for name in needed if not _is_pinned(policy, given.get(name, {}))]
        if not group.is_frozen or group.overrides.state == "Absent" or not absent:
            continue
        lacks = f"Frozen group '{group.name}' has no version of its own"
        if policy.written.names_images:
            message = f"{lacks} for {wording.listed(absent)}."
            notes: tuple[str, ...] = ("With those of the policy, its nodes would move at the next change of these.",)
            hint = f"Set images.{absent[0]}.version there to what its nodes run now."
        else:
            part, more = ("version", "") if policy.driver.parts["version"] else ("image", ' and `version: ""`')
            message, notes = f"{lacks}, so it would follow the policy.", ()
            hint = f"Write the {part} that these nodes stay on{more}."
        span = policy.source.span(*group.path, "name")
        yield Diagnostic(span=span, message=message, notes=notes, hint=hint)


def _is_pinned(policy: definitions.Policy, given: definitions.ImageParts) -> bool:
    """Return whether a group names a version; where a component has one image, it may be a whole reference."""
    is_whole = given.get("version") == "" and "image" in given and not policy.written.names_images
    return bool(given.get("version")) or is_whole


@rule("wave-bounds", "error")
def bounds(policy: definitions.Policy, groups: Iterable[definitions.NodeGroup | None]) -> Iterator[Diagnostic]:
    """The percentages of waves rise, and have at most two decimals."""
    waves = (group for group in groups if group is not None and not group.is_frozen)
    shares = [(wave, wave.percent) for wave in waves if wave.percent is not None]
    for wave, percent in shares:
        if round(percent, 2) != percent:
            message = f"Wave '{wave.name}' ends at {percent} %, which is finer than a hundredth of a per cent."
            hint = "Write at most two decimals."
            yield Diagnostic(span=policy.source.span(*wave.path, "percent"), message=message, hint=hint)
    for (earlier, bound), (wave, percent) in itertools.pairwise(shares):
        if percent <= bound:
            yield Diagnostic(
                span=policy.source.span(*wave.path, "percent"),
                message=f"Wave '{wave.name}' ends at {percent:g} %, but the earlier '{earlier.name}' at {bound:g} %.",
                notes=("Percentages are upper bounds: waves of 5, 50 and 100 take 5 %, 45 % and 50 % of the nodes.",),
                hint="Raise the percentage, or limit each wave to its `clusters`.",
            )


@rule("name-too-long", "error")
def long_names(policy: definitions.Policy) -> Iterator[Diagnostic]:
    """The names of DaemonSets have at most 63 characters."""
    longest = max(_longest_names(policy), key=len, default="")
    if len(longest) > _LONGEST:
        yield Diagnostic(
            span=policy.source.span("metadata", "name"),
            message=f"The name '{longest}' of a DaemonSet has {len(longest)} characters.",
            notes=(f"Labels of its pods hold the name, and a label has at most {_LONGEST} characters.",),
            hint=f"Shorten the names of the policy, its groups and its mappings "
            f"by {wording.counted(len(longest) - _LONGEST, 'character')} in total.",
        )


def _longest_names(policy: definitions.Policy) -> Iterator[str]:
    """Yield the longest name of each component's DaemonSets."""
    if policy.offered is not None:
        yield f"{policy.recipe.device_plugin}-{policy.name}"
    pooled = [one for one in policy.programs if one.enabled and one.is_pooled]
    yield from (f"{policy.recipe.app(one.name)}-{policy.name}" for one in policy.programs if one.enabled)
    if policy.has_pools:
        declared = [group.name for group in policy.groups]
        by_kernel = [
            f"{mapping.name}--{'0' * pools.DIGITS}" if overrides.is_per_kernel(policy, mapping) else mapping.name
            for mapping in policy.mappings
        ]
        parts = [[*declared, pools.REST] if declared else [], by_kernel]
        longest = [max(part, key=len) for part in parts if part]
        stems = [policy.recipe.driver] if policy.installed else []
        for stem in [*stems, *(policy.recipe.app(one.name) for one in pooled)]:
            yield "--".join([f"{stem}-{policy.name}", *longest])


def in_cluster(
    division: pools.Division, inventory: snapshot.Inventory, decisions: Iterable[plan.Decision]
) -> Iterator[Diagnostic]:
    """Yield the findings on the groups and mappings of a policy in one cluster; `decisions` are those of its nodes."""
    if not division.parts:
        return
    yield from bounds(division.policy, (group.declared for group in division.groups))
    yield from size(division, inventory.cluster)
    yield from strangers(division, inventory)
    yield from empty_groups(division, inventory)
    yield from undriven_waves(division, inventory.cluster, decisions)
    yield from mappings.uncovered(division, inventory)
    yield from mappings.unread(division)


@rule("pool-rules-too-large", "error")
def size(division: pools.Division, cluster: str) -> Iterator[Diagnostic]:
    """The node names of a policy's groups fit into one object."""
    amount = sum(len(name) + 3 for group in division.groups for name in group.nodes)
    if amount > _LARGEST:
        count = sum(len(group.nodes) for group in division.groups)
        yield Diagnostic(
            span=division.policy.source.setting_span(*division.policy.written.rollout, "rollout"),
            message=f"The waves and frozen groups of policy '{division.policy.name}' list {count} nodes of cluster "
            f"'{cluster}' by name, {amount / 1e6:.1f} MB.",
            notes=("One NodeFeatureRule holds them, and the API server takes objects of at most 1.5 MB.",),
            hint="Split the policy by nodeSelector, or leave the widest group to the rest, which lists no names.",
        )


@rule("group-stranger", "warning")
def strangers(division: pools.Division, inventory: snapshot.Inventory) -> Iterator[Diagnostic]:
    """Every node that a group names is assigned to the policy."""
    declared = [group.declared for group in division.groups if group.declared is not None]
    named = [(group, group.nodes) for group in declared if group.nodes]
    if not named or not inventory.nodes:
        return
    known, own = {node.name for node in inventory.nodes}, {node.name for node in division.nodes}
    where = f"cluster '{inventory.cluster}'"
    alike: Mapping[tuple[str, ...], Sequence[str]] = {}
    for group, listed in named:
        path, noun = (*group.path, "nodes"), f"{_noun(group)} '{group.name}'"
        if len(listed) > 1 and own.isdisjoint(listed):
            yield Diagnostic(
                span=division.policy.source.setting_span(*path),
                message=f"{noun} names no node of the policy in {where}.",
                hint="Limit the group to its `clusters`, or correct the names.",
            )
            continue
        for index, name in enumerate(listed):
            if name in own:
                continue
            reason = f"{where} has no such node"
            alike = alike or repeats.grouped((wording.numbers(other), other) for other in own)
            hint = "Correct the name, remove it, or limit the group to its `clusters`."
            hint = wording.did_you_mean(name, alike.get(wording.numbers(name), ()), hint)
            if name in known:
                reason = f"the node is not assigned to the policy in {where}"
                hint = "Remove the name, or widen the policy's nodeSelector."
            message = f"{noun} names the node '{name}', but {reason}."
            yield Diagnostic(span=division.policy.source.span(*path, index), message=message, hint=hint)


@rule("group-empty", "warning")
def empty_groups(division: pools.Division, inventory: snapshot.Inventory) -> Iterator[Diagnostic]:
    """A wave or a frozen group takes at least one node."""
    own = {node.name for node in division.nodes}
    for group in division.groups if own else ():
        declared = group.declared
        if declared is None or not own.isdisjoint(group.nodes):
            continue
        named = [name for name in declared.nodes or () if name in own]
        if named or declared.nodes is None:  # `strangers` reports names that are not nodes of the policy.
            yield Diagnostic(
                span=division.policy.source.span(*declared.path, "name"),
                message=f"{_noun(declared)} '{group.name}' takes no node of cluster '{inventory.cluster}' today.",
                notes=("Earlier groups take the nodes that it names.",) if named else (),
                hint="Widen it, or keep it for nodes that join later.",
            )


@rule("wave-without-driver", "warning")
def undriven_waves(division: pools.Division, cluster: str, decisions: Iterable[plan.Decision]) -> Iterator[Diagnostic]:
    """The driver runs on a node of every wave.

    It may also run there when NFD labels the node. If no node of the policy has a device, there is no driver to
    try.
    """
    waves = [
        (group.declared.path, group)
        for group in division.groups
        if group.declared is not None and not group.declared.is_frozen
    ]
    decisions = tuple(decisions) if waves and division.pools else ()
    if not any(assignment.is_served(division.policy, decision.node) for decision in decisions):
        return
    driven = {name for decision in decisions if division.is_driven(decision.node) for name in decision.names}
    reasons = {name: decision.driver.reason for decision in decisions for name in decision.names}
    for path, group in waves:
        own = [name for name in group.nodes if name in reasons]
        if not own or not driven.isdisjoint(own):
            continue
        by_reason = repeats.grouped((reasons[name], name) for name in own)
        yield Diagnostic(
            span=division.policy.source.span(*path, "name"),
            message=f"Wave '{group.name}' has no node in cluster '{cluster}' on which the driver runs.",
            notes=tuple(f"{wording.nodes(names)}: {reason}." for reason, names in sorted(by_reason.items())),
            hint="Add a node with a driver to the wave, or let the driver run on its nodes.",
        )


@rule("object-too-large", "error")
def daemonsets(cluster: definitions.Cluster, division: pools.Division) -> Iterator[Diagnostic]:
    """The values that a DaemonSet selects its nodes by fit into one object."""
    policy, by_argo = division.policy, cluster.spec.gitops.engine == "argocd"
    limit = (_ANNOTATED if by_argo else _STORED) - _REST
    size, name, terms = max((_bytes(terms), name, terms) for name, terms in (("", ()), *_affinities(division)))
    if size > limit:
        values = sum(len(requirement.values) for term in terms for requirement in term)
        is_default, kinds = policy.is_default, len(assignment.presence(policy))
        yield Diagnostic(
            span=policy.source.key_span("spec", "default" if is_default else "nodeSelector"),
            message=f"DaemonSet '{name}' of policy '{policy.name}' in cluster '{cluster.name}' selects its nodes by "
            f"{values:,} values, {size:,} bytes; {limit:,} fit beside the rest of it.",
            notes=(
                *(_WHY_ANNOTATED if by_argo else _WHY_STORED),
                *(["The default policy excludes every value that another policy lists."] if is_default else ()),
                *([f"They stand there once for each of its {kinds} device kinds."] if kinds > 1 else ()),
            ),
            hint="Let the other policies select by one shared label, such as `pool`, instead of by many values."
            if is_default
            else "Give the nodes one label, such as `pool`, and select by it, or split the policy.",
        )


def _affinities(division: pools.Division) -> Iterator[tuple[str, tuple[selectors.Term, ...]]]:
    """Yield the DaemonSets of a policy that may be the largest, by name: pools differ by their names alone."""
    policy, recipe = division.policy.name, division.policy.recipe
    if division.pools:
        pool = max(division.pools, key=lambda pool: len(pool.name))
        yield "--".join((f"{recipe.driver}-{policy}", *(() if pool.is_whole else (pool.name,)))), pool.terms
    yield f"{recipe.device_plugin}-{policy}", division.device_plugin_terms
    yield from ((f"{recipe.app(made.program.name)}-{policy}", made.terms) for made in division.deployments)


def _bytes(terms: Iterable[selectors.Term]) -> int:
    """Return the size of a node affinity as JSON, to a few bytes a requirement; keys and values are ASCII."""
    frame = len('{"key":"","operator":"DoesNotExist","values":[]},')
    return sum(
        frame + len(requirement.key) + sum(map(len, requirement.values)) + len('"",') * len(requirement.values)
        for term in terms
        for requirement in term
    )
