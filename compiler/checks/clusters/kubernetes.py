"""Rules for the Kubernetes release of a planned cluster: the one that is stated, and those of its kubelets."""

from collections.abc import Iterator

from compiler.diagnostics import Diagnostic, Span
from compiler.fleet import definitions
from compiler.planning import plan, supported


def release(planned: plan.Plan, span: Span) -> Iterator[Diagnostic]:
    """Evictions are confined to their node by an admission policy, which needs Kubernetes 1.30."""
    cluster = planned.cluster
    stated, kubelet = supported.stated_kubernetes(cluster.spec), supported.newest_kubelet(planned.inventory.nodes)
    if stated is None:
        yield from _unstated(planned, kubelet, span)
        return
    if stated >= supported.GUARD_KUBERNETES:
        return
    if kubelet is not None and kubelet >= supported.GUARD_KUBERNETES and any(_evicting(planned)):
        yield Diagnostic(
            code="kubernetes-version-outdated",
            span=cluster.setting_span(span, "spec", "kubernetesVersion"),
            message=f"Cluster '{cluster.name}' is said to have Kubernetes 1.{stated}, but a kubelet has 1.{kubelet}.",
            notes=(
                "No kubelet is newer than the API server, so that takes the guard, which confines a driver's evictions "
                "to its own node.",
            ),
            hint="Set spec.kubernetesVersion to the server version that `kubectl version` prints.",
        )
    for policy in _evicting(planned):
        yield _unguarded(cluster, policy, stated)


def _unstated(planned: plan.Plan, kubelet: int | None, span: Span) -> Iterator[Diagnostic]:
    cluster, oldest, guard = planned.cluster, supported.OLDEST_KUBERNETES, supported.GUARD_KUBERNETES
    if kubelet is None:
        yield Diagnostic(
            code="kubernetes-version-unknown",
            span=cluster.setting_span(span, "metadata", "name"),
            message=f"The Kubernetes release of cluster '{cluster.name}' is unknown; 1.{guard} or newer is assumed.",
            hint="Set spec.kubernetesVersion in its KAECluster until its inventory arrives.",
        )
        return
    if kubelet < oldest:
        yield Diagnostic(
            code="kubernetes-too-old",
            span=span,
            message=f"The newest kubelet of cluster '{cluster.name}' has Kubernetes 1.{kubelet}.",
            notes=(f"Manifests are rendered for 1.{oldest} and newer; an older API may refuse them.",),
            hint="Upgrade the cluster first.",
        )
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
