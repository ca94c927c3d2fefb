"""The claims of policies: what a node can have only once, and the policies that would give it to one node twice.

Policies of different recipes share nodes unless their claims meet. Policies of one recipe always meet, as each claims
the recipe itself.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product

from compiler import names, repeats, wording
from compiler.fleet import assignment, definitions, overlap
from compiler.formats import globs, references
from runtime import device_plugin_config

Claim = definitions.Claim
"""Its sort is one of `_SENTENCES`."""

_SENTENCES: Mapping[str, str] = {
    "recipe": "Both run recipe {}, which a node can have once.",
    "load": "Both load module {}.",
    "module": "Both load or replace module {}.",
    "resource": "Both offer {}.",
    "node": "Both hand out the device node {}.",
    "path": "Both claim the path {}.",
    "socket": "Both claim the socket {}.",
}
"""In the order in which they are told: the first one that two policies have in common explains why they meet."""

_ORDER = tuple(_SENTENCES)

_SHARED = frozenset(
    (
        "/dev/fuse",
        "/dev/infiniband/rdma_cm",
        "/dev/kvm",
        "/dev/net/tun",
        "/dev/vfio/vfio",
        "/dev/vhost-net",
        "/dev/vhost-vsock",
    )
)
"""Device nodes that belong to the kernel and to no device: who opens one gets a context of its own."""

Meeting = tuple[definitions.Policy, definitions.Policy, Mapping[str, str], str]
"""Two policies, the fewest labels of a node that both match, and why it cannot have both: a sentence on the claim."""


def of(policy: definitions.Policy) -> frozenset[Claim]:
    """Return everything that a policy claims on its nodes, over all of its mappings, waves and frozen groups."""
    resources = policy.offered.resources if policy.offered else ()
    offered = (("resource", resource.name) for resource in resources)
    nodes = (("node", path) for resource in resources for path in _nodes(policy, resource) if path not in _SHARED)
    programs = (claim for one in policy.programs for claim in _of_program(policy, one))
    # NFD gives them to every node with the hardware, whatever else the policy does without.
    extended = (("resource", name) for name in policy.recipe.extended)
    own = (*_of_driver(policy), *offered, *extended, *nodes, *programs)
    return frozenset((("recipe", policy.recipe.name), *own, *policy.claims))


def _of_program(policy: definitions.Policy, stated: definitions.Program) -> Iterator[Claim]:
    """Yield what a program offers and claims in any pool of a policy."""
    layers = product(policy.mappings or (None,), (*policy.groups, None)) if stated.is_pooled else [(None, None)]
    for program in (stated.overridden(*each) for each in layers):
        if program.runs:
            yield from (("resource", name) for name in program.offers)
            yield from map(claim, references.listed(program.data["claims"], program.scope))


def claim(text: str) -> Claim:
    """Return a claim that a recipe states: `path:` or `socket:` and a path, or a resource."""
    sort, colon, name = text.partition(":")
    return (sort, name) if colon else ("resource", text)


def _nodes(policy: definitions.Policy, resource: device_plugin_config.AnyResource) -> Iterator[str]:
    """Yield the device nodes, and the globs of them, that containers get with a resource.

    Those of the class vfio are named after the host's IOMMU groups, and no two functions of it are one.
    """
    if isinstance(resource, device_plugin_config.Char):
        yield from (path.path for group in resource.groups for path in group.paths)
    if isinstance(resource, device_plugin_config.Uacce):
        # The kernel names them after the driver (`uacce_register` of drivers/misc/uacce).
        yield from (f"/dev/{kind.module}-*" for kind in policy.kinds if kind.name == resource.kind and kind.module)
    yield from (node.path for node in resource.inject.nodes)


def _of_driver(policy: definitions.Policy) -> Iterator[Claim]:
    if policy.installed is None:
        return
    layers = product(policy.mappings or (None,), (*policy.groups, None))
    drivers = [policy.installed.overridden(*each) for each in layers]
    for module in dict.fromkeys(module.name for driver in drivers for module in driver.modules):
        yield from (("load", module), ("module", module))
    for driver in drivers:
        yield from (("module", name) for module in driver.modules for name in module.replaces)
    # Every driver of KAE may bring its libraries, and no other recipe can.
    yield from (("path", file.to) for file in policy.installed.files)


def common(one: frozenset[Claim], other: frozenset[Claim]) -> str | None:
    """Return a sentence on the first claim that meets one of the other's; None if no node is refused either."""
    met = _around(one) & other | one & _around(other) | _one_of(one, other)
    first = min(met, key=lambda claim: (_ORDER.index(claim[0]), claim[1]), default=None)
    return None if first is None else _SENTENCES[first[0]].format(wording.quoted(first[1]))


def _around(claims: frozenset[Claim]) -> frozenset[Claim]:
    """Return claims with the folders that their paths lie in: who claims a folder claims all that is in it."""
    paths = (name.split("/") for sort, name in claims if sort == "path")
    return claims.union(("path", "/".join(path[:end])) for path in paths for end in range(2, len(path)))


_GLOBS = ("node", "resource")
"""The sorts of claims that may be globs: of device nodes, and of the resources of vendors' programs."""


def _one_of(one: frozenset[Claim], other: frozenset[Claim]) -> frozenset[Claim]:
    """Return the claims of device nodes and of resources that meet: of two, the one without a glob, or the first."""
    return frozenset(
        (sort, min(pair, key=lambda glob: (names.is_glob(glob), glob)))
        for sort in _GLOBS
        for pair in product(*([name for own, name in claims if own == sort] for claims in (one, other)))
        if globs.share_path(*pair)
    )


def overlaps(policies: Sequence[assignment.Assigned]) -> Iterator[Meeting]:
    """Yield every two policies of one cluster whose claims meet and that one node can match.

    A default policy leaves the nodes of its own recipe's policies alone, by its terms.
    """
    by_recipe = repeats.grouped((assigned.policy.recipe.name, assigned) for assigned in policies)
    for _, own in sorted(by_recipe.items()):
        yield from _within(tuple(assigned.policy for assigned in own if not assigned.policy.is_default))
    if len(by_recipe) > 1:
        yield from _between(by_recipe)


def _within(policies: Sequence[definitions.Policy]) -> Iterator[Meeting]:
    """Yield the policies of one recipe that overlap."""
    for left, right, labels in overlap.overlaps([policy.term for policy in policies]):
        why = _SENTENCES["recipe"].format(wording.quoted(policies[left].recipe.name))
        yield policies[left], policies[right], labels, why


def _between(by_recipe: Mapping[str, Iterable[assignment.Assigned]]) -> Iterator[Meeting]:
    """Yield the policies of different recipes whose claims meet and that overlap, each pair once."""
    claims = {id(assigned): of(assigned.policy) for own in by_recipe.values() for assigned in own}
    for one, other, labels in sharing([assigned for own in _meeting(by_recipe, claims) for assigned in own]):
        why = common(claims[id(one)], claims[id(other)])
        if why is not None:
            yield one.policy, other.policy, labels, why


def sharing(
    policies: Iterable[assignment.Assigned],
) -> Iterator[tuple[assignment.Assigned, assignment.Assigned, Mapping[str, str]]]:
    """Yield every two policies of different recipes that one node can match, with the fewest labels of such a node."""
    terms = [(assigned, term) for assigned in policies for term in assigned.terms]
    seen: set[tuple[int, int]] = set()
    for left, right, labels in overlap.overlaps([term for _, term in terms]):
        one, other = terms[left][0], terms[right][0]
        if one.policy.recipe.name != other.policy.recipe.name and (id(one), id(other)) not in seen:
            seen.add((id(one), id(other)))
            yield one, other, labels


def _meeting(
    by_recipe: Mapping[str, Iterable[assignment.Assigned]], claims: Mapping[int, frozenset[Claim]]
) -> Iterator[list[assignment.Assigned]]:
    """Yield the policies of each recipe that may meet one of another: most claim what no other recipe does."""
    holders: defaultdict[Claim, set[str]] = defaultdict(set)
    for recipe, own in by_recipe.items():
        for assigned in own:
            for claim in _around(claims[id(assigned)]):
                holders[claim].add(recipe)
    met = {claim for claim, own in holders.items() if len(own) > 1}
    for sort in _GLOBS:
        every = [claim for claim in holders if claim[0] == sort]
        globbed = [claim for claim in every if names.is_glob(claim[1])]
        # Two names without a glob meet where they are one, which is known.
        pairs = ((one, other) for one, other in product(globbed, every) if holders[one] != holders[other])
        met |= {claim for pair in pairs if globs.share_path(pair[0][1], pair[1][1]) for claim in pair}
    for own in by_recipe.values():
        yield [one for one in own if not met.isdisjoint(_around(claims[id(one)]))]
