"""Node by node: which policy governs it, what lands on it, and why.

What lands is read off the very terms and tolerations that the DaemonSets carry, so the plan is what the
DaemonSet controller will do. Nodes that no selector can tell apart are judged once.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from compiler import devices, documents, governance, images, selectors
from compiler.model import base, cluster


@dataclass(frozen=True, slots=True, kw_only=True)
class Landing:
    """Whether a component's pod runs on a node: its image if so, and why or why not."""

    image: str | None
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What happens to nodes that are alike in everything that any policy asks."""

    nodes: tuple[documents.Node, ...]
    policy: documents.Policy | None
    why: str
    pool: str | None
    driver: Landing
    device_plugin: Landing
    resources: tuple[tuple[str, int], ...]

    @property
    def node(self) -> documents.Node:
        """One of the nodes, to stand for all."""
        return self.nodes[0]

    @property
    def names(self) -> tuple[str, ...]:
        """The nodes' names."""
        return tuple(node.name for node in self.nodes)


def enabled_kinds(policy: documents.Policy) -> tuple[devices.Kind, ...]:
    """The kinds that a policy serves, in the table's order."""
    return tuple(kind for kind in devices.KINDS if getattr(policy.spec.operator, kind.switch))


def serving_terms(governed: governance.Governed, opt_out: str) -> tuple[selectors.Term, ...]:
    """The node affinity of a component: a device of an enabled kind, no opt-out, and the policy's own terms."""
    return tuple(
        (
            selectors.Requirement(kind.present, "In", ("true",)),
            selectors.Requirement(opt_out, "NotIn", ("false",)),
            *term,
        )
        for kind in enabled_kinds(governed.policy)
        for term in governed.terms
    )


def tolerates(toleration: base.Toleration, taint: documents.Taint) -> bool:
    """Whether a pod with the toleration bears the taint (Kubernetes' Toleration.ToleratesTaint)."""
    if toleration.effect not in (None, taint.effect) or toleration.key not in (None, taint.key):
        return False
    return toleration.operator == "Exists" or (toleration.value or "") == taint.value


def untolerated(
    tolerations: Iterable[base.Toleration], taints: Iterable[documents.Taint]
) -> tuple[documents.Taint, ...]:
    """The taints that keep a DaemonSet's pod away; PreferNoSchedule never does."""
    chosen = tuple(tolerations)
    return tuple(
        taint
        for taint in taints
        if taint.effect != "PreferNoSchedule" and not any(tolerates(item, taint) for item in chosen)
    )


def verdicts(
    governed: Sequence[governance.Governed], nodes: Sequence[documents.Node], spec: cluster.KAEClusterSpec
) -> tuple[Verdict, ...]:
    """The verdict on every node, alike nodes together, in the order of the first node's name."""
    keys = _relevant_keys(governed)
    groups: dict[tuple[object, ...], list[documents.Node]] = {}
    for node in nodes:
        own = node.labels
        key = (id(node.profile), *(own.get(name) for name in keys)) if own else (id(node.profile),)
        if documents.HOSTNAME in keys:
            key = (*key, node.hostname)
        groups.setdefault(key, []).append(node)
    return tuple(_verdict(governed, tuple(alike), spec) for alike in groups.values())


def _relevant_keys(governed: Iterable[governance.Governed]) -> tuple[str, ...]:
    keys = {requirement.key for item in governed for term in item.terms for requirement in term}
    for kind in devices.KINDS:
        keys.update((kind.present, *_count_labels(kind)))
    return tuple(sorted(keys | {devices.OPT_OUT_DRIVER, devices.OPT_OUT_DEVICE_PLUGIN}))


def _count_labels(kind: devices.Kind) -> tuple[str, str]:
    return f"{kind.resource}.pf", f"{kind.resource}.vf"


def _verdict(
    governed: Sequence[governance.Governed], nodes: tuple[documents.Node, ...], spec: cluster.KAEClusterSpec
) -> Verdict:
    node = nodes[0]
    found = next((item for item in governed if item.governs(node.label)), None)
    if found is None:
        why = "no policy matches its labels"
        nothing = Landing(image=None, reason="no policy governs the node")
        return Verdict(
            nodes=nodes, policy=None, why=why, pool=None, driver=nothing, device_plugin=nothing, resources=()
        )
    policy = found.policy
    driver = _landing(found, node, spec, policy.spec.driver, devices.OPT_OUT_DRIVER)
    plugin = _landing(found, node, spec, policy.spec.devicePlugin, devices.OPT_OUT_DEVICE_PLUGIN)
    return Verdict(
        nodes=nodes,
        policy=policy,
        why=_why(found, node),
        pool=policy.name if driver.image else None,
        driver=driver,
        device_plugin=plugin,
        resources=resources(policy, node, driven=driver.image is not None) if plugin.image else (),
    )


def _why(found: governance.Governed, node: documents.Node) -> str:
    if found.policy.spec.default:
        return f"policy '{found.policy.name}' is the default, and no other policy matches"
    term = next(term for term in found.terms if selectors.term_matches(term, node.label))
    said = ", ".join(selectors.text(requirement) for requirement in term) or "every node"
    return f"policy '{found.policy.name}' matches: {said}"


def _landing(
    governed: governance.Governed,
    node: documents.Node,
    spec: cluster.KAEClusterSpec,
    component: object,
    opt_out: str,
) -> Landing:
    """Whether the component's DaemonSet has a pod on the node; the first obstacle is the reason."""
    policy = governed.policy
    driver = component is policy.spec.driver
    part = policy.spec.driver if driver else policy.spec.devicePlugin
    if not part.enabled:
        field = "driver" if driver else "devicePlugin"
        return Landing(image=None, reason=f"{field}.enabled is false: it is pre-installed")
    if not any(selectors.term_matches(term, node.label) for term in serving_terms(governed, opt_out)):
        return Landing(image=None, reason=_obstacle(policy, node, opt_out))
    barred = untolerated(policy.spec.daemonSets.tolerations, node.profile.taints)
    if barred:
        said = ", ".join(taint_text(taint) for taint in barred)
        return Landing(image=None, reason=f"nothing tolerates the taint {said}")
    image = images.mirrored(images.reference(part), spec.images.mirrors)
    present = ", ".join(kind.name for kind in enabled_kinds(policy) if node.label(kind.present) == "true")
    return Landing(image=image, reason=f"it has devices of {present}")


def _obstacle(policy: documents.Policy, node: documents.Node, opt_out: str) -> str:
    kinds = enabled_kinds(policy)
    if not node.profile.discovered:
        return "NFD has not labelled the node yet: its devices are unknown"
    if not any(node.label(kind.present) == "true" for kind in kinds):
        return f"it has no device of {', '.join(kind.name for kind in kinds)}"
    return f"it has opted out: {opt_out}=false"


def taint_text(taint: documents.Taint) -> str:
    """A taint as kubectl writes it: key=value:effect."""
    value = f"={taint.value}" if taint.value else ""
    return f"{taint.key}{value}:{taint.effect}"


def functions(kind: devices.Kind, node: documents.Node) -> tuple[int, int]:
    """How many physical and virtual functions of a kind NFD counted on the node."""
    pf, vf = (_count(node.label(key)) for key in _count_labels(kind))
    return pf, vf


def _count(value: str | None) -> int:
    return int(value) if value and value.isascii() and value.isdigit() else 0


def resources(policy: documents.Policy, node: documents.Node, *, driven: bool) -> tuple[tuple[str, int], ...]:
    """Resource and amount that the kubelet will offer: devices times replicas; `driven`: our driver lands there.

    A physical function with virtual functions is not offered, its virtual functions are. Where our driver lands
    and `driver.sriov` says how many each gets, that counts; else what NFD has seen, every physical function taken
    as split. Where our driver lands to remove what is there, no device is left to offer.
    """
    if driven and policy.spec.driver.state == "Absent":
        return ()
    found = []
    for kind in enabled_kinds(policy):
        pf, vf = functions(kind, node)
        wanted = getattr(policy.spec.driver.sriov, kind.name) if driven else None
        count = pf * (wanted or 1) if pf and wanted is not None else vf or pf
        if count:
            found.append((kind.resource, count * getattr(policy.spec.devicePlugin.sharing, kind.name)))
    return tuple(found)
