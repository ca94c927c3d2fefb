"""Rules for policies whose interface is DRA (Dynamic Resource Allocation)."""

from collections.abc import Iterable, Iterator, Sequence

from compiler import wording
from compiler.diagnostics import Diagnostic, rule
from compiler.fleet import definitions
from compiler.inventory import snapshot
from compiler.planning import plan, pools, supported
from runtime import device_plugin_config

_TOKENS = 512
"""The most tokens of a resource: each is a device of a slice, and 64 of them fill one."""

_PLACE = ("spec", "devicePlugin", "interface")
_SINCE = f"1.{supported.DRA_KUBERNETES}"


@rule("dra-setting", "error")
def settings(policy: definitions.Policy) -> Iterator[Diagnostic]:
    """The interface DRA and the device plugin's have each their own settings: a policy states none of the other one."""
    plugin = policy.offered
    if plugin is None:
        return
    if not plugin.is_dra:
        if policy.source.has(("spec", "devicePlugin", "dra")):
            yield Diagnostic(
                span=policy.source.span("spec", "devicePlugin", "dra"),
                message=f"Policy '{policy.name}' says how claims get devices, and its interface is DevicePlugin.",
                hint="Set devicePlugin.interface: DRA, or remove devicePlugin.dra.",
            )
        return
    if policy.source.has(("spec", "devicePlugin", "allocationPolicy")):
        yield Diagnostic(
            span=policy.source.span("spec", "devicePlugin", "allocationPolicy"),
            message=f"Policy '{policy.name}' has an allocationPolicy, which the interface DRA does not have.",
            notes=("The scheduler chooses the devices of a claim: the first ones that fit.",),
            hint="Remove allocationPolicy.",
        )
    for resource in plugin.resources:
        if resource.shares != 1:
            yield Diagnostic(
                span=policy.source.setting_span(*_PLACE),
                message=f"Policy '{policy.name}' shares devices of {resource.name}, which the interface DRA does not.",
                hint="Remove the sharing; where devices have queues, set devicePlugin.dra.queues: Shared.",
            )
        if isinstance(resource, device_plugin_config.Token) and resource.count > _TOKENS:
            yield Diagnostic(
                span=policy.source.setting_span(*_PLACE),
                message=f"Policy '{policy.name}' offers {resource.count} tokens of {resource.name} by DRA, at most"
                f" {_TOKENS} are possible.",
                hint=f"Offer at most {_TOKENS}, or use the interface DevicePlugin.",
            )


@rule("dra-unsupported", "error")
def unsupported(planned: plan.Plan, division: pools.Division, own: Sequence[plan.Decision]) -> Iterator[Diagnostic]:
    """The API server, the kubelets and the container runtimes of a policy's nodes know DRA, if it is its interface.

    An older API server stores objects without the fields of features that it does not know, and says nothing. An older
    runtime starts a container without the devices of its claims, and says nothing.
    """
    cluster, policy = planned.cluster, division.policy
    if policy.offered is None or not policy.offered.is_dra:
        return
    stated = supported.stated_kubernetes(cluster.spec)
    place = policy.source.setting_span(*_PLACE)
    if stated is None or stated < supported.DRA_KUBERNETES:
        release = cluster.spec.kubernetesVersion
        yield Diagnostic(
            span=cluster.setting_span(place, "spec", "kubernetesVersion"),
            message=f"Policy '{policy.name}' offers devices by DRA, and cluster '{cluster.name}' "
            + (f"has Kubernetes {release}." if release else "does not say its Kubernetes."),
            notes=(f"Extended resources, taints and capacities of DRA are there from Kubernetes {_SINCE} on.",),
            hint=f"Upgrade the cluster to {_SINCE}, and state it, or use the interface DevicePlugin."
            if release
            else "Set spec.kubernetesVersion in its KAECluster to the server version that `kubectl version` prints.",
        )
    nodes = [node for decision in own if decision.device_plugin.image is not None for node in decision.nodes]
    old = [node.name for node in nodes if _is_old(supported.kubernetes_minor(node.profile.kubelet_version))]
    if old:
        yield Diagnostic(
            span=place,
            message=f"Policy '{policy.name}' offers devices by DRA, and the kubelets of {wording.nodes(old)} of cluster"
            f" '{cluster.name}' are older than Kubernetes {_SINCE}.",
            hint="Upgrade these kubelets, or give their nodes a policy with the interface DevicePlugin.",
        )
    yield from _runtimes(cluster, policy, nodes)


def _is_old(minor: int) -> bool:
    return 0 < minor < supported.DRA_KUBERNETES


def _runtimes(
    cluster: definitions.Cluster, policy: definitions.Policy, nodes: Iterable[snapshot.Node]
) -> Iterator[Diagnostic]:
    by_runtime: dict[str, list[str]] = {}
    for node in nodes:
        by_runtime.setdefault(node.profile.container_runtime_version, []).append(node.name)
    place = policy.source.setting_span(*_PLACE)
    for runtime, names in sorted(by_runtime.items()):
        if not runtime:
            yield Diagnostic(
                span=place,
                message=f"Policy '{policy.name}' offers devices by DRA, and the inventory does not say which container"
                f" runtime {wording.nodes(names)} of cluster '{cluster.name}' {_have(names)}.",
                hint="Make the inventory anew: `kae inventory`, or the watcher of this release.",
            )
        elif not supported.gives_cdi_devices(runtime):
            yield Diagnostic(
                span=place,
                message=f"Policy '{policy.name}' offers devices by DRA, and {wording.nodes(names)} of cluster"
                f" '{cluster.name}' {_have(names)} {runtime}.",
                notes=(
                    f"Only containerd from {supported.DRA_CONTAINERD}.0 and CRI-O from 1.{supported.DRA_CRIO} on are"
                    " known to give a pod the devices of its claims. Others may run it without them, and say nothing.",
                ),
                hint="Give these nodes such a runtime, or a policy with the interface DevicePlugin.",
            )


def _have(names: Sequence[str]) -> str:
    return "has" if len(names) == 1 else "have"
