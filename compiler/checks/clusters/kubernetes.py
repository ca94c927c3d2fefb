"""Rules for the Kubernetes release of a planned cluster: the one that is stated, and those of its kubelets."""

from collections.abc import Iterator

from compiler.diagnostics import Diagnostic, Span, rule, shared_rule
from compiler.fleet import definitions
from compiler.planning import plan, supported

shared_rule("drain-unstated", "error", "A policy sets drain.enabled if evictions cannot be confined to their node.")
shared_rule("unguarded-eviction", "warning", "Evictions are confined to the installer's own node (Kubernetes 1.30).")


def release(planned: plan.Plan, span: Span) -> Iterator[Diagnostic]:
    """Evictions are confined to their node by an admission policy, which needs Kubernetes 1.30."""
    spec, kubelet = planned.cluster.spec, supported.newest_kubelet(planned.inventory.nodes)
    minor = supported.stated_kubernetes(spec)
    if minor is None and kubelet is None:
        yield _unknown(planned.cluster, span)
    elif minor is None and kubelet is not None:
        yield from _too_old(planned.cluster, kubelet, span)
        yield from _unstated(planned, kubelet, span)
    elif minor is not None and minor < supported.GUARD_KUBERNETES:
        yield from _outdated(planned, minor, kubelet, span)
        for policy in _evicting(planned):
            yield _unguarded(planned.cluster, policy, minor)


@rule("kubernetes-version-outdated", "warning")
def _outdated(planned: plan.Plan, minor: int, kubelet: int | None, span: Span) -> Iterator[Diagnostic]:
    """A KAECluster does not state a Kubernetes before 1.30 that a kubelet has left behind."""
    cluster = planned.cluster
    if kubelet is not None and kubelet >= supported.GUARD_KUBERNETES and any(_evicting(planned)):
        yield Diagnostic(
            code="kubernetes-version-outdated",
            span=cluster.setting_span(span, "spec", "kubernetesVersion"),
            message=f"Cluster '{cluster.name}' is said to have Kubernetes 1.{minor}, but a kubelet has 1.{kubelet}.",
            notes=(
                "No kubelet is newer than the API server, so that takes the guard, which confines a driver's evictions "
                "to its own node.",
            ),
            hint="Set spec.kubernetesVersion to the server version that `kubectl version` prints.",
        )


@rule("kubernetes-version-unknown", "warning")
def _unknown(cluster: definitions.Cluster, span: Span) -> Diagnostic:
    """The KAECluster or the inventory states the Kubernetes release."""
    return Diagnostic(
        code="kubernetes-version-unknown",
        span=cluster.setting_span(span, "metadata", "name"),
        message=f"The Kubernetes release of cluster '{cluster.name}' is unknown; "
        f"1.{supported.GUARD_KUBERNETES} or newer is assumed.",
        hint="Set spec.kubernetesVersion in its KAECluster until its inventory arrives.",
    )


@rule("kubernetes-too-old", "warning")
def _too_old(cluster: definitions.Cluster, kubelet: int, span: Span) -> Iterator[Diagnostic]:
    """The newest kubelet has Kubernetes 1.25 or newer."""
    oldest = supported.OLDEST_KUBERNETES
    if kubelet < oldest:
        yield Diagnostic(
            code="kubernetes-too-old",
            span=span,
            message=f"The newest kubelet of cluster '{cluster.name}' has Kubernetes 1.{kubelet}.",
            notes=(f"Manifests are rendered for 1.{oldest} and newer; an older API may refuse them.",),
            hint="Upgrade the cluster first.",
        )


@rule("kubernetes-version-unstated", "guard")
def _unstated(planned: plan.Plan, kubelet: int, span: Span) -> Iterator[Diagnostic]:
    """A KAECluster states its Kubernetes release if its kubelets do not show that it is 1.30 or newer."""
    cluster, guard = planned.cluster, supported.GUARD_KUBERNETES
    if kubelet < guard and any(_evicting(planned)):
        yield Diagnostic(
            code="kubernetes-version-unstated",
            span=cluster.setting_span(span, "metadata", "name"),
            message=f"The newest kubelet of cluster '{cluster.name}' has Kubernetes 1.{kubelet}, so its API server may "
            f"be older than 1.{guard}.",
            notes=(
                f"The guard confines a driver's evictions to its own node. From 1.{guard} on an API server takes it; "
                "with an older one, no sync succeeds.",
            ),
            hint="Set spec.kubernetesVersion in its KAECluster to the server version that `kubectl version` prints.",
        )


def _evicting(planned: plan.Plan) -> Iterator[definitions.Policy]:
    """Yield the policies whose drivers evict pods."""
    for division in planned.divisions:
        driver = division.policy.installed
        if driver is not None and driver.drain.enabled:
            yield division.policy


def _unguarded(cluster: definitions.Cluster, policy: definitions.Policy, minor: int) -> Diagnostic:
    is_written = policy.source.has(("spec", "driver", "drain", "enabled"))
    return Diagnostic(
        code="unguarded-eviction" if is_written else "drain-unstated",
        span=policy.source.setting_span("spec", "driver", "drain", "enabled"),
        message=f"The driver of policy '{policy.name}' may evict any pod of cluster '{cluster.name}'.",
        notes=(
            f"Kubernetes 1.{minor} cannot confine its evictions to its own node; "
            f"1.{supported.GUARD_KUBERNETES} and newer can.",
        ),
        hint="Upgrade the cluster, or set driver.drain.enabled: false and let pods release their devices themselves."
        if is_written
        else "Write driver.drain.enabled: true to accept that, or false to evict no pods.",
    )
