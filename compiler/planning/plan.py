"""Node by node: which policy governs it, what lands on it, and why.

What lands is read off the very terms and tolerations that the DaemonSets carry, so the plan is what the
DaemonSet controller will do. Nodes that no selector can tell apart are judged once.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from compiler import devices
from compiler.fleet import assignment, definitions, selectors
from compiler.inventory import snapshot
from compiler.model import base, cluster
from compiler.model import driver as drivers
from compiler.planning import images, pools

Share = tuple[pools.Division | None, tuple[snapshot.Node, ...]]
"""A policy with its pools, or nobody, and nodes that it governs and that are alike."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Landing:
    """Whether a component's pod runs on a node: its image if so, and why or why not."""

    image: str | None
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What happens to nodes that are alike in everything that any policy asks."""

    nodes: tuple[snapshot.Node, ...]
    policy: definitions.Policy | None
    why: str
    pool: pools.Pool | None
    """Whose installer lands there."""
    driver: Landing
    device_plugin: Landing
    resources: tuple[tuple[str, int], ...]

    @property
    def node(self) -> snapshot.Node:
        """One of the nodes, to stand for all."""
        return self.nodes[0]

    @property
    def names(self) -> tuple[str, ...]:
        """The nodes' names."""
        return tuple(node.name for node in self.nodes)


def serving_terms(
    governed: assignment.Governed, opt_out: str, pool: tuple[str, str] | None = None
) -> tuple[selectors.Term, ...]:
    """The node affinity of a component: a device of an enabled kind, no opt-out, and the policy's own terms.

    `pool` is the label of a pool, key and value, that the node has to have beside.
    """
    more = (selectors.Requirement(pool[0], "In", (pool[1],)),) if pool else ()
    return tuple(
        (
            selectors.Requirement(kind.present, "In", ("true",)),
            selectors.Requirement(opt_out, "NotIn", ("false",)),
            *more,
            *term,
        )
        for kind in assignment.enabled_kinds(governed.policy)
        for term in governed.terms
    )


def tolerates(toleration: base.Toleration, taint: snapshot.Taint) -> bool:
    """Whether a pod with the toleration bears the taint (Kubernetes' Toleration.ToleratesTaint)."""
    if toleration.effect not in (None, taint.effect) or toleration.key not in (None, taint.key):
        return False
    return toleration.operator == "Exists" or (toleration.value or "") == taint.value


def untolerated(tolerations: Iterable[base.Toleration], taints: Iterable[snapshot.Taint]) -> tuple[snapshot.Taint, ...]:
    """The taints that keep a DaemonSet's pod away; PreferNoSchedule never does."""
    chosen = tuple(tolerations)
    return tuple(
        taint
        for taint in taints
        if taint.effect != "PreferNoSchedule" and not any(tolerates(item, taint) for item in chosen)
    )


def relevant_labels() -> tuple[str, ...]:
    """The labels, beside those that policies select by, that decide what happens to a node."""
    found = {devices.OPT_OUT_DRIVER, devices.OPT_OUT_DEVICE_PLUGIN}
    for kind in devices.KINDS:
        found.update((kind.present, *_count_labels(kind)))
    return tuple(sorted(found))


def verdicts(shares: Iterable[Share], spec: cluster.KAEClusterSpec) -> tuple[Verdict, ...]:
    """The verdict on every node, alike nodes together, in the order of the first node's name."""
    found = (_verdict(division, alike, spec) for division, nodes in shares for alike in _by_group(division, nodes))
    return tuple(sorted(found, key=lambda verdict: verdict.node.name))


def _by_group(division: pools.Division | None, nodes: tuple[snapshot.Node, ...]) -> Iterable[tuple[snapshot.Node, ...]]:
    if division is None or not division.groups:
        return (nodes,)
    found: dict[str, list[snapshot.Node]] = {}
    for node in nodes:
        group = division.group(node.name)
        found.setdefault(group.name if group else "", []).append(node)
    return map(tuple, found.values())


def _count_labels(kind: devices.Kind) -> tuple[str, str]:
    return f"{kind.resource}.pf", f"{kind.resource}.vf"


def _verdict(
    division: pools.Division | None, nodes: tuple[snapshot.Node, ...], spec: cluster.KAEClusterSpec
) -> Verdict:
    node = nodes[0]
    if division is None:
        why = "no policy matches its labels"
        nothing = Landing(image=None, reason="no policy governs the node")
        return Verdict(
            nodes=nodes, policy=None, why=why, pool=None, driver=nothing, device_plugin=nothing, resources=()
        )
    pool = division.pool(node)
    driver = _driver_landing(division, node, spec, pool)
    plugin = _landing(division, node, spec, division.policy.spec.devicePlugin, devices.OPT_OUT_DEVICE_PLUGIN)
    driven = pool.driver if pool and driver.image is not None else None
    return Verdict(
        nodes=nodes,
        policy=division.policy,
        why=_why(division, node),
        pool=pool if driver.image is not None else None,
        driver=driver,
        device_plugin=plugin,
        resources=resources(division.policy, node, driven) if plugin.image else (),
    )


def _why(found: assignment.Governed, node: snapshot.Node) -> str:
    if found.policy.spec.default:
        return f"policy '{found.policy.name}' is the default, and no other policy matches"
    term = next(term for term in found.terms if selectors.term_matches(term, node.label))
    said = ", ".join(selectors.text(requirement) for requirement in term) or "every node"
    return f"policy '{found.policy.name}' matches: {said}"


def _driver_landing(
    division: pools.Division, node: snapshot.Node, spec: cluster.KAEClusterSpec, pool: pools.Pool | None
) -> Landing:
    found = _landing(division, node, spec, pool.driver if pool else division.policy.spec.driver, devices.OPT_OUT_DRIVER)
    if found.image is not None and pool is None:
        return Landing(image=None, reason=division.why_not(node))
    return found


def _landing(
    governed: assignment.Governed,
    node: snapshot.Node,
    spec: cluster.KAEClusterSpec,
    component: base.Component,
    opt_out: str,
) -> Landing:
    """Whether the component's DaemonSet has a pod on the node; the first obstacle is the reason."""
    policy = governed.policy
    if not component.enabled:
        field = "driver" if opt_out == devices.OPT_OUT_DRIVER else "devicePlugin"
        return Landing(image=None, reason=f"{field}.enabled is false: it is pre-installed")
    if not any(selectors.term_matches(term, node.label) for term in serving_terms(governed, opt_out)):
        return Landing(image=None, reason=_obstacle(policy, node, opt_out))
    barred = untolerated(policy.spec.daemonSets.tolerations, node.profile.taints)
    if barred:
        said = ", ".join(taint_text(taint) for taint in barred)
        return Landing(image=None, reason=f"nothing tolerates the taint {said}")
    image = images.of(component, spec.images.mirrors)
    present = ", ".join(kind.name for kind in assignment.enabled_kinds(policy) if node.label(kind.present) == "true")
    return Landing(image=image, reason=f"it has devices of {present}")


def _obstacle(policy: definitions.Policy, node: snapshot.Node, opt_out: str) -> str:
    kinds = assignment.enabled_kinds(policy)
    if not node.profile.discovered:
        return "NFD has not labelled the node yet: its devices are unknown"
    if not any(node.label(kind.present) == "true" for kind in kinds):
        return f"it has no device of {', '.join(kind.name for kind in kinds)}"
    return f"it has opted out: {opt_out}=false"


def taint_text(taint: snapshot.Taint) -> str:
    """A taint as kubectl writes it: key=value:effect."""
    value = f"={taint.value}" if taint.value else ""
    return f"{taint.key}{value}:{taint.effect}"


def functions(kind: devices.Kind, node: snapshot.Node) -> tuple[int, int]:
    """How many physical and virtual functions of a kind NFD counted on the node."""
    pf, vf = (_count(node.label(key)) for key in _count_labels(kind))
    return pf, vf


def _count(value: str | None) -> int:
    return int(value) if value and value.isascii() and value.isdigit() else 0


def resources(
    policy: definitions.Policy, node: snapshot.Node, driven: drivers.Driver | None
) -> tuple[tuple[str, int], ...]:
    """Resource and amount that the kubelet will offer: devices times replicas; `driven`: our driver that lands there.

    A physical function with virtual functions is not offered, its virtual functions are. Where our driver lands
    and `driver.sriov` says how many each gets, that counts; else what NFD has seen, every physical function taken
    as split. Where our driver lands to remove what is there, no device is left to offer.
    """
    if driven is not None and driven.state == "Absent":
        return ()
    found = []
    for kind in assignment.enabled_kinds(policy):
        pf, vf = functions(kind, node)
        wanted = getattr(driven.sriov, kind.name) if driven is not None else None
        count = pf * (wanted or 1) if pf and wanted is not None else vf or pf
        if count:
            found.append((kind.resource, count * getattr(policy.spec.devicePlugin.sharing, kind.name)))
    return tuple(found)
