"""What the nodes of a cluster make of its policies: warnings, each naming the nodes."""

from collections.abc import Callable, Iterable, Iterator, Sequence

from compiler import devices, wording
from compiler.checks import cluster
from compiler.diagnostics import Diagnostic, Span
from compiler.fleet import assignment, definitions, selectors
from compiler.inventory import snapshot
from compiler.planning import plan, pools

_SYSTEMS = ("openEuler 22.03", "openEuler 24.03", "EulerOS", "TencentOS")
_KERNELS = ("5.4.", "5.10.", "5.15.", "6.6.")
"""Operating systems and kernels that KAE 2.x supports (kunpengcompute/KAE, release notes and env-check.sh)."""

_OTHER_SOURCES = tuple(f"feature.node.kubernetes.io/{source}-" for source in ("cpu", "memory", "network", "storage"))
"""Labels that NFD makes by default, and that the NFD which we deploy does not (its -label-sources)."""

_PLAIN_2203 = "oe2203."
"""The kernel of openEuler 22.03 without a service pack, which env-check.sh refuses."""


def is_supported_system(os_image: str) -> bool:
    """Whether KAE's driver is known to support an operating system, as a node tells it."""
    return os_image.startswith(_SYSTEMS)


def is_supported_kernel(version: str) -> bool:
    """Whether KAE's driver is known to support a kernel."""
    return version.startswith(_KERNELS) and _PLAIN_2203 not in version


def newest_kubernetes(item: definitions.Cluster, nodes: Iterable[snapshot.Node]) -> int | None:
    """The minor release whose API the manifests may use: as stated, or that of the newest kubelet."""
    if item.spec.kubernetesVersion is not None:
        return cluster.kubernetes_minor(item.spec.kubernetesVersion)
    profiles = {id(node.profile): node.profile for node in nodes}
    minors = (cluster.kubernetes_minor(profile.kubelet_version) for profile in profiles.values())
    return max((minor for minor in minors if minor), default=None)


def findings(
    item: definitions.Cluster,
    governed: Sequence[pools.Division],
    verdicts: Sequence[plan.Verdict],
    place: Span,
) -> Iterator[Diagnostic]:
    """Everything that the nodes of a cluster give reason to say; `place` is where the nodes are listed."""
    nodes = [node for verdict in verdicts for node in verdict.nodes]
    yield from kubernetes_release(item, governed, nodes, place)
    yield from nfd_already_running(item, nodes, place)
    yield from rules_missing(item, governed)
    yield from unknown_nodes(verdicts, place)
    yield from ungoverned_nodes(verdicts, place)
    for entry in governed:
        own = [verdict for verdict in verdicts if verdict.policy is entry.policy]
        yield from opted_out(item, entry.policy, own)
        yield from barred(item, entry.policy, own)
        yield from unsupported(item, entry.policy, own)
        yield from guests_without_driver(item, entry.policy, own)
        yield from uncompared(item, entry, nodes)


def _cluster_span(item: definitions.Cluster, place: Span, *path: str) -> Span:
    """A setting of the KAECluster; where the nodes are listed if there is none."""
    return item.source.setting_span(*path) if item.source else place


def kubernetes_release(
    item: definitions.Cluster,
    governed: Sequence[pools.Division],
    nodes: Sequence[snapshot.Node],
    place: Span,
) -> Iterator[Diagnostic]:
    """Evictions are confined to their node by an admission policy, which needs Kubernetes 1.30."""
    minor = newest_kubernetes(item, nodes)
    if minor is None:
        yield Diagnostic(
            code="kubernetes-version-unknown",
            span=_cluster_span(item, place, "metadata", "name"),
            message=f"The Kubernetes release of cluster '{item.name}' is unknown; 1.{cluster.GUARD_KUBERNETES} "
            "or newer is assumed.",
            hint="Set spec.kubernetesVersion in its KAECluster until its inventory arrives.",
        )
    elif minor < cluster.OLDEST_KUBERNETES and item.spec.kubernetesVersion is None:
        yield Diagnostic(
            code="kubernetes-too-old",
            span=place,
            message=f"The newest kubelet of cluster '{item.name}' is of Kubernetes 1.{minor}.",
            notes=(
                f"Manifests are rendered for 1.{cluster.OLDEST_KUBERNETES} and newer; an older API may refuse them.",
            ),
            hint="Upgrade the cluster first.",
        )
    if minor is not None and minor < cluster.GUARD_KUBERNETES:
        for entry in governed:
            driver = entry.policy.spec.driver
            if driver.enabled and driver.drain.enabled:
                yield _unguarded(item, entry.policy, minor)


def _unguarded(item: definitions.Cluster, policy: definitions.Policy, minor: int) -> Diagnostic:
    written = policy.source.has(("spec", "driver", "drain", "enabled"))
    return Diagnostic(
        code="unguarded-eviction" if written else "drain-unstated",
        span=policy.source.setting_span("spec", "driver", "drain", "enabled"),
        message=f"The driver of policy '{policy.name}' may evict any pod of cluster '{item.name}'.",
        notes=(
            f"Kubernetes 1.{minor} cannot confine its evictions to its own node; 1.{cluster.GUARD_KUBERNETES} can.",
        ),
        hint="Upgrade the cluster, or set driver.drain.enabled: false and let holders of devices go by themselves."
        if written
        else "Write driver.drain.enabled: true to accept that, or false to evict nobody.",
    )


def nfd_already_running(item: definitions.Cluster, nodes: Sequence[snapshot.Node], place: Span) -> Iterator[Diagnostic]:
    """One NFD runs in a cluster: labels of NFD without any of our rules' come from another one."""
    if not item.spec.nfd.enabled:
        return
    labels = {key for node in nodes for key in node.profile.labels}
    labelled = [node.name for node in nodes if node.profile.discovered]
    # Where there is no KAE device, our own NFD leaves no label of ours either; but it has few sources of labels.
    if devices.PRESENT not in labels and any(key.startswith(_OTHER_SOURCES) for key in labels):
        yield Diagnostic(
            code="nfd-already-running",
            span=_cluster_span(item, place, "spec", "nfd", "enabled"),
            message=f"NFD already labels {assignment.listed(labelled)} of cluster '{item.name}', "
            "without the rules of this compiler.",
            notes=("Two NFDs in one cluster fight over the nodes' labels.",),
            hint="If NFD is deployed by somebody else, set nfd.enabled: false and nfd.nodefeaturerules: true.",
        )


def rules_missing(item: definitions.Cluster, governed: Sequence[pools.Division]) -> Iterator[Diagnostic]:
    """A policy's labels are made by NodeFeatureRules in the cluster."""
    if governed and not item.spec.nfd.enabled and not item.spec.nfd.nodefeaturerules:
        pooled = [entry.policy.name for entry in governed if entry.label is not None]
        yield Diagnostic(
            code="rules-missing",
            span=item.span("spec", "nfd", "enabled"),
            message=f"Nothing of ours labels the nodes of cluster '{item.name}'.",
            notes=(
                f"Every DaemonSet selects nodes by labels such as {devices.KINDS[0].present}.",
                *(f"Policy '{name}' has pools, which only rules of this compiler can tell." for name in pooled),
            ),
            hint="Set nfd.nodefeaturerules: true, unless the rules are applied elsewhere.",
        )


def unknown_nodes(verdicts: Iterable[plan.Verdict], place: Span) -> Iterator[Diagnostic]:
    """NFD has labelled every node; what it has not labelled is unknown, not absent."""
    nodes = _nodes(verdicts, lambda verdict: not verdict.node.profile.discovered)
    if nodes:
        yield Diagnostic(
            code="node-unknown",
            span=place,
            message=f"NFD has not labelled {assignment.listed(nodes)} yet.",
            notes=("Whether they have KAE devices is unknown; nothing runs on them until then.",),
            hint="If NFD's worker runs on them, take a new inventory; if not, find out what keeps it away.",
        )


def ungoverned_nodes(verdicts: Iterable[plan.Verdict], place: Span) -> Iterator[Diagnostic]:
    """A node with KAE devices is governed by a policy."""
    nodes = _nodes(verdicts, lambda verdict: verdict.policy is None and verdict.node.label(devices.PRESENT) == "true")
    if nodes:
        yield Diagnostic(
            code="node-without-policy",
            span=place,
            message=f"No policy governs {assignment.listed(nodes)}, though KAE devices are there.",
            hint="Widen a policy's nodeSelector, or add a policy with `default: true`.",
        )


def opted_out(
    item: definitions.Cluster, policy: definitions.Policy, own: Sequence[plan.Verdict]
) -> Iterator[Diagnostic]:
    """A node that a policy governs has not opted out."""
    parts = (
        ("driver", "driver", devices.OPT_OUT_DRIVER),
        ("devicePlugin", "device plugin", devices.OPT_OUT_DEVICE_PLUGIN),
    )
    for field, noun, label in parts:
        if not getattr(policy.spec, field).enabled:
            continue
        nodes = _nodes(own, _without(label))
        if nodes:
            yield Diagnostic(
                code="node-opted-out",
                span=policy.source.span("metadata", "name"),
                message=f"The {noun} of policy '{policy.name}' stays away from {_said(item, nodes)}.",
                notes=(f"The label {label}=false keeps it away.",),
                hint="Remove the label where that is no longer meant.",
            )


def _without(label: str) -> Callable[[plan.Verdict], bool]:
    def refuses(verdict: plan.Verdict) -> bool:
        return verdict.node.label(label) == "false" and verdict.node.label(devices.PRESENT) == "true"

    return refuses


def barred(item: definitions.Cluster, policy: definitions.Policy, own: Sequence[plan.Verdict]) -> Iterator[Diagnostic]:
    """A policy tolerates the taints of the nodes that it governs."""
    tolerations = policy.spec.daemonSets.tolerations
    taints: dict[str, list[plan.Verdict]] = {}
    for verdict in own:
        if any(verdict.node.label(kind.present) == "true" for kind in assignment.enabled_kinds(policy)):
            for taint in plan.untolerated(tolerations, verdict.node.profile.taints):
                taints.setdefault(plan.taint_text(taint), []).append(verdict)
    for text, verdicts in sorted(taints.items()):
        yield Diagnostic(
            code="node-untolerated",
            span=policy.source.setting_span("spec", "daemonSets", "tolerations"),
            message=f"Policy '{policy.name}' governs {_said(item, _nodes(verdicts))}, "
            f"but does not tolerate the taint {text}.",
            hint="Add a toleration to daemonSets.tolerations, or leave the nodes out of the nodeSelector.",
        )


def unsupported(
    item: definitions.Cluster, policy: definitions.Policy, own: Sequence[plan.Verdict]
) -> Iterator[Diagnostic]:
    """The driver supports the operating system and the kernel of the nodes that it is installed on."""
    systems: dict[str, list[plan.Verdict]] = {}
    kernels: dict[str, list[plan.Verdict]] = {}
    for verdict in own:
        profile = verdict.node.profile
        driver = verdict.pool.driver if verdict.pool else None
        if driver is None or driver.source.inTree is not None or driver.state == "Absent":
            continue
        if not is_supported_system(profile.os_image):
            systems.setdefault(profile.os_image, []).append(verdict)
        elif not is_supported_kernel(profile.kernel_version):
            kernels.setdefault(profile.kernel_version, []).append(verdict)
    kinds = (("unsupported-os", "operating system", systems), ("unsupported-kernel", "kernel", kernels))
    for code, noun, found in kinds:
        for name, verdicts in sorted(found.items()):
            yield Diagnostic(
                code=code,
                span=policy.source.span("metadata", "name"),
                message=f"KAE's driver is not known to support the {noun} {wording.quoted(name)} "
                f"of {_said(item, _nodes(verdicts))}.",
                notes=(f"Policy '{policy.name}' installs it there.",),
                hint="Leave the nodes out of the policy, or give them one of their own with driver.enabled: false.",
            )


def guests_without_driver(
    item: definitions.Cluster, policy: definitions.Policy, own: Sequence[plan.Verdict]
) -> Iterator[Diagnostic]:
    """Virtual functions that are handed out have a driver in their own node."""
    driver = policy.spec.driver

    def lacks(verdict: plan.Verdict) -> bool:
        counts = [plan.functions(kind, verdict.node) for kind in assignment.enabled_kinds(policy)]
        guest = any(vf for _, vf in counts) and not any(pf for pf, _ in counts)
        served = verdict.pool is not None and verdict.pool.driver.state == "Present"
        return guest and driver.enabled and verdict.device_plugin.image is not None and not served

    nodes = _nodes(own, lacks)
    if nodes:
        yield Diagnostic(
            code="vf-without-driver",
            span=policy.source.span("metadata", "name"),
            message=f"Policy '{policy.name}' gives the virtual functions of {_said(item, nodes)} a device plugin, "
            "but no driver.",
            notes=("A guest needs the driver in its own kernel, whatever its host runs.",),
            hint="Let the driver run there too, or install it in the guest's image and set driver.enabled: false.",
        )


def uncompared(
    item: definitions.Cluster, entry: pools.Division, nodes: Sequence[snapshot.Node]
) -> Iterator[Diagnostic]:
    """A label that is compared with Gt or Lt is an integer; a node with another value matches nothing."""
    selector = entry.policy.spec.nodeSelector
    for index, requirement in enumerate(selector.matchExpressions if selector else ()):
        if requirement.operator not in ("Gt", "Lt"):
            continue
        odd = [node.name for node in nodes if _is_odd(node, requirement.key)]
        if odd:
            yield Diagnostic(
                code="not-an-integer",
                span=entry.policy.source.span("spec", "nodeSelector", "matchExpressions", index, "operator"),
                message=f"'{requirement.operator}' compares whole numbers, and the label '{requirement.key}' "
                f"of {_said(item, odd)} is none.",
                notes=("Neither this policy nor the negation of it in a default policy takes such a node.",),
                hint="Give the label a whole number, or select by In.",
            )


def _is_odd(node: snapshot.Node, key: str) -> bool:
    return node.label(devices.PRESENT) == "true" and not selectors.comparable(node.label(key))


def _said(item: definitions.Cluster, nodes: Sequence[str]) -> str:
    return f"{assignment.listed(nodes)} of cluster '{item.name}'"


def _nodes(verdicts: Iterable[plan.Verdict], holds: Callable[[plan.Verdict], bool] | None = None) -> list[str]:
    return sorted(name for verdict in verdicts if holds is None or holds(verdict) for name in verdict.names)
