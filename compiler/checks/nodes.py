"""Rules for the nodes of a planned cluster; each finding names the nodes."""

from collections.abc import Iterable, Iterator, Sequence

from compiler import recipes, repeats, wording
from compiler.checks import dra
from compiler.checks import fleet as fleet_checks
from compiler.checks import pools as pool_checks
from compiler.diagnostics import Diagnostic, Span, rule, shared_rule
from compiler.fleet import assignment, definitions, selectors, taints
from compiler.inventory import snapshot
from compiler.planning import plan, pools, supported
from compiler.rendering import programs

shared_rule("drain-unstated", "error", "A policy sets drain.enabled if evictions cannot be confined to their node.")
shared_rule("unguarded-eviction", "warning", "Evictions are confined to the installer's own node (Kubernetes 1.30).")
shared_rule("unsupported-os", "warning", "KAE's driver supports the node's operating system.")
shared_rule("unsupported-kernel", "warning", "The driver supports the node's kernel.")

_QUIET = supported.QUIET_KUBERNETES

_OTHER_SOURCES = tuple(f"feature.node.kubernetes.io/{source}-" for source in ("cpu", "memory", "network", "storage"))
"""Labels that NFD makes by default, and that the NFD in output/ does not make (see its -label-sources)."""


def findings(planned: plan.Plan) -> Iterator[Diagnostic]:
    """Yield the findings on the nodes of a cluster."""
    cluster = planned.cluster
    span = Span(file=planned.inventory.file) if planned.inventory.file else cluster.span("metadata", "name")
    yield from kubernetes_release(planned, span)
    yield from installer_resident(planned, span)
    yield from admission_unsupported(planned)
    yield from duplicate_objects(planned)
    yield from nfd_already_running(planned, span)
    yield from rules_missing(planned)
    yield from unknown_nodes(planned, span)
    for one in planned.recipes:
        yield from unassigned_nodes(one.recipe, one.decisions, span)
        without = (division.policy for division in one.divisions if not division.nodes)
        yield from fleet_checks.unmatched_policies(without, planned.inventory.nodes)
        for division in one.divisions:
            own = [decision for decision in one.decisions if decision.division is division]
            yield from _of_division(planned, division, own)


def _of_division(planned: plan.Plan, division: pools.Division, own: Sequence[plan.Decision]) -> Iterator[Diagnostic]:
    """Yield the findings on the nodes of a policy; `own` are their decisions."""
    name, policy = planned.cluster.name, division.policy
    yield from opted_out(name, policy, own)
    yield from untolerated(name, policy, own)
    yield from unsupported(name, policy, own)
    yield from guests_without_driver(name, policy, own)
    yield from uncompared(name, policy, planned.inventory.nodes)
    yield from other_architectures(name, division)
    yield from pool_checks.in_cluster(division, planned.inventory, own)
    yield from pool_checks.daemonsets(planned.cluster, division)
    yield from dra.unsupported(planned, division, own)


@rule("architecture-not-covered", "warning")
def other_architectures(cluster: str, division: pools.Division) -> Iterator[Diagnostic]:
    """A program with `architectures` runs on a node of its policy; on the others it is left out."""
    policy = division.policy
    served = [node for node in division.nodes if assignment.is_served(policy, node)]
    there = sorted({machine for node in served if (machine := node.label(pools.ARCHITECTURE))})
    wanted = {made.program.name: made.program.architectures for made in division.deployments}
    for program, machines in wanted.items():
        if served and machines and not set(machines) & set(there):
            one = len(served) == 1
            are = f"{'is' if one else 'are'} {wording.listed(there)}"
            lack = f"{'has' if one else 'have'} no label {pools.ARCHITECTURE}"
            yield Diagnostic(
                span=policy.source.span("spec", "recipe"),
                message=f"Program '{program}' of policy '{policy.name}' is for {wording.listed(machines)}, and runs on "
                f"no node of cluster '{cluster}': {wording.nodes([node.name for node in served])} "
                f"{are if there else lack}.",
                hint=f"Correct `architectures` in the recipe, or set programs.{program}.enabled: false in the policy."
                if there
                else "Every kubelet sets the label: take the inventory of the cluster, or write it into this one.",
            )


@rule("duplicate-object", "error")
def duplicate_objects(planned: plan.Plan) -> Iterator[Diagnostic]:
    """The objects of a cluster have different names, whatever recipes and policies they are of.

    DaemonSets are of policies; accounts, their rights and what the API server adds to pods are of recipes.
    """
    named = [(name, division.policy) for division in planned.divisions for name in programs.daemon_sets(division)]
    for (_, first), (name, policy) in repeats.of(named, key=lambda pair: pair[0]):
        yield Diagnostic(
            span=policy.source.span("metadata", "name"),
            message=f"Policy '{policy.name}' makes DaemonSet '{name}' of cluster '{planned.cluster.name}', and so does "
            f"policy '{first.name}'.",
            notes=("The name is that of the recipe, of its program and of the policy, with hyphens between.",),
            hint="Rename one of the policies.",
        )
    used = [one for one in planned.recipes if one.divisions]
    of_recipes = [((kind, name), one) for one in used for kind, name in programs.of_recipe(one)]
    for (_, earlier), ((kind, name), one) in repeats.of(of_recipes, key=lambda pair: pair[0]):
        yield Diagnostic(
            span=one.divisions[0].policy.source.span("spec", "recipe"),
            message=f"Recipe '{one.recipe.name}' makes {kind} '{name}' of cluster '{planned.cluster.name}', and so "
            f"does recipe '{earlier.recipe.name}'.",
            notes=("The name is that of the recipe and of its part, with a hyphen between.",),
            hint="Rename the part, or leave one of the recipes out of the cluster.",
        )


@rule("admission-unsupported", "warning")
def admission_unsupported(planned: plan.Plan) -> Iterator[Diagnostic]:
    """The API server adds to pods what a recipe would have it add (MutatingAdmissionPolicy, Kubernetes 1.36)."""
    cluster, first = planned.cluster, supported.MUTATING_KUBERNETES
    if supported.can_mutate(cluster.spec):
        return
    stated = cluster.spec.kubernetesVersion
    why = f"has Kubernetes {stated}, whose API server adds" if stated else "does not say its Kubernetes: no policy adds"
    for one in planned.recipes:
        told = [each for each in one.recipe.admission if one.divisions]
        if told:
            asked = wording.listed(dict.fromkeys(name for each in told for name in each["resources"]))
            yield Diagnostic(
                span=cluster.setting_span(
                    one.divisions[0].policy.source.span("spec", "recipe"), "spec", "kubernetesVersion"
                ),
                message=f"Cluster '{cluster.name}' {why} nothing to pods that ask for {asked}.",
                notes=tuple(each["title"] for each in told if "title" in each),
                hint=f"Have pods write it themselves until the cluster has 1.{first}"
                + (", and then state it." if stated else ", or state its kubernetesVersion."),
            )


def kubernetes_release(planned: plan.Plan, span: Span) -> Iterator[Diagnostic]:
    """Evictions are confined to their node by an admission policy, which needs Kubernetes 1.30."""
    cluster, guard = planned.cluster, supported.GUARD_KUBERNETES
    minor, kubelet = supported.stated_kubernetes(cluster.spec), supported.newest_kubelet(planned.inventory.nodes)
    installed = ((division.policy, division.policy.installed) for division in planned.divisions)
    evicting = [policy for policy, driver in installed if driver is not None and driver.drain.enabled]
    if minor is None and kubelet is None:
        yield _release_unknown(cluster, span)
    if minor is None and kubelet is not None and kubelet < supported.OLDEST_KUBERNETES:
        yield _release_too_old(cluster, kubelet, span)
    if minor is None and kubelet is not None and kubelet < guard and evicting:
        yield _release_unstated(cluster, kubelet, span)
    if minor is not None and minor < guard:
        if kubelet is not None and kubelet >= guard and evicting:
            yield _release_outdated(cluster, minor, kubelet, span)
        yield from (_unguarded(cluster, policy, minor) for policy in evicting)


@rule("installer-resident", "warning")
def installer_resident(planned: plan.Plan, span: Span) -> Iterator[Diagnostic]:
    """Where Kubernetes can start a pod over (1.36), installers end with their work, and nothing privileged stays.

    An older cluster has no way out but its upgrade, and so no finding: privileges.txt and the docs tell what stays.
    """
    cluster, nodes = planned.cluster, planned.inventory.nodes
    installing = [(division.policy, driver) for division in planned.divisions if (driver := division.policy.installed)]
    stated, oldest = supported.stated_kubernetes(cluster.spec), supported.oldest_kubelet(nodes)
    if not installing:
        return
    if supported.starts_over(cluster.spec, nodes):
        yield from (_cleans_up(policy) for policy, driver in installing if driver.enabled_cleanup)
    elif stated is not None and stated >= _QUIET:
        yield _kubelets_too_old(cluster, nodes, span)
    elif oldest is not None and oldest >= _QUIET:
        yield Diagnostic(
            span=cluster.setting_span(span, "spec", "kubernetesVersion"),
            message=f"The driver installers of cluster '{cluster.name}' stay on their nodes, privileged.",
            notes=(
                f"Its kubelets have Kubernetes 1.{oldest}, and so has its API server; but the fields of pods that end"
                " their installer are for stated releases alone, as an older API server drops them.",
            ),
            hint="Set spec.kubernetesVersion to the server version that `kubectl version` prints.",
        )


def _kubelets_too_old(cluster: definitions.Cluster, nodes: Sequence[snapshot.Node], span: Span) -> Diagnostic:
    old = [node.name for node in nodes if 0 < supported.kubernetes_minor(node.profile.kubelet_version) < _QUIET]
    return Diagnostic(
        span=span,
        message=f"The driver installers of cluster '{cluster.name}' stay on their nodes, privileged.",
        notes=(f"The kubelets of {wording.nodes(old)} are older than Kubernetes 1.{_QUIET}.",),
        hint=f"Upgrade these kubelets: from 1.{_QUIET} on an installer ends when the driver is right.",
    )


def _cleans_up(policy: definitions.Policy) -> Diagnostic:
    return Diagnostic(
        span=policy.source.setting_span("spec", "driver", "enabledCleanup"),
        message=f"The driver installers of policy '{policy.name}' stay on their nodes, privileged.",
        notes=("With enabledCleanup they remove the driver as they are deleted, so they have to be there then.",),
        hint="Remove driver.enabledCleanup, and remove the driver by driver.state: Absent before its policy goes.",
    )


@rule("kubernetes-version-outdated", "warning")
def _release_outdated(cluster: definitions.Cluster, minor: int, kubelet: int, span: Span) -> Diagnostic:
    """A KAECluster does not state a Kubernetes before 1.30 that a kubelet has left behind."""
    return Diagnostic(
        span=cluster.setting_span(span, "spec", "kubernetesVersion"),
        message=f"Cluster '{cluster.name}' is said to have Kubernetes 1.{minor}, but a kubelet has 1.{kubelet}.",
        notes=(
            "No kubelet is newer than the API server, so that takes the guard, which confines a driver's evictions "
            "to its own node.",
        ),
        hint="Set spec.kubernetesVersion to the server version that `kubectl version` prints.",
    )


@rule("kubernetes-version-unknown", "warning")
def _release_unknown(cluster: definitions.Cluster, span: Span) -> Diagnostic:
    """The KAECluster or the inventory states the Kubernetes release."""
    return Diagnostic(
        span=cluster.setting_span(span, "metadata", "name"),
        message=f"The Kubernetes release of cluster '{cluster.name}' is unknown; "
        f"1.{supported.GUARD_KUBERNETES} or newer is assumed.",
        hint="Set spec.kubernetesVersion in its KAECluster until its inventory arrives.",
    )


@rule("kubernetes-too-old", "warning")
def _release_too_old(cluster: definitions.Cluster, kubelet: int, span: Span) -> Diagnostic:
    """The newest kubelet has Kubernetes 1.25 or newer."""
    oldest = f"1.{supported.OLDEST_KUBERNETES}"
    return Diagnostic(
        span=span,
        message=f"The newest kubelet of cluster '{cluster.name}' has Kubernetes 1.{kubelet}.",
        notes=(f"Manifests are rendered for {oldest} and newer; an older API may refuse them.",),
        hint="Upgrade the cluster first.",
    )


@rule("kubernetes-version-unstated", "guard")
def _release_unstated(cluster: definitions.Cluster, kubelet: int, span: Span) -> Diagnostic:
    """A KAECluster states its Kubernetes release if its kubelets do not show that it is 1.30 or newer."""
    guard = f"1.{supported.GUARD_KUBERNETES}"
    return Diagnostic(
        span=cluster.setting_span(span, "metadata", "name"),
        message=f"The newest kubelet of cluster '{cluster.name}' has Kubernetes 1.{kubelet}, so its API server may "
        f"be older than {guard}.",
        notes=(
            f"The guard confines a driver's evictions to its own node. From {guard} on an API server takes it; "
            "with an older one, no sync succeeds.",
        ),
        hint="Set spec.kubernetesVersion in its KAECluster to the server version that `kubectl version` prints.",
    )


def _unguarded(cluster: definitions.Cluster, policy: definitions.Policy, minor: int) -> Diagnostic:
    place = ("spec", "driver", "drain", "enabled")
    is_written = policy.source.has(place)
    return Diagnostic(
        code="unguarded-eviction" if is_written else "drain-unstated",
        span=policy.source.setting_span(*place),
        message=f"The driver of policy '{policy.name}' may evict any pod of cluster '{cluster.name}'.",
        notes=(
            f"Kubernetes 1.{minor} cannot confine its evictions to its own node; "
            f"1.{supported.GUARD_KUBERNETES} and newer can.",
        ),
        hint="Upgrade the cluster, or set driver.drain.enabled: false and let pods release their devices themselves."
        if is_written
        else "Write driver.drain.enabled: true to accept that, or false to evict no pods.",
    )


@rule("nfd-already-running", "warning")
def nfd_already_running(planned: plan.Plan, span: Span) -> Iterator[Diagnostic]:
    """One NFD runs in a cluster.

    Labels of NFD without those of the rules in output/ come from another one.
    """
    cluster, nodes = planned.cluster, planned.inventory.nodes
    if not cluster.spec.nfd.enabled:
        return
    labels = {key for decision in planned.builtin.decisions for key in decision.node.profile.labels}
    # Without devices, the NFD in output/ leaves no label of its rules either; but it has few sources of labels.
    own = {one.recipe.present for one in planned.recipes if one.recipe.has_rules}
    if own.isdisjoint(labels) and any(key.startswith(_OTHER_SOURCES) for key in labels):
        discovered = [node.name for node in nodes if node.profile.discovered]
        yield Diagnostic(
            span=cluster.setting_span(span, "spec", "nfd", "enabled"),
            message=f"NFD already labels {_listed(cluster.name, discovered)}, without the rules of this compiler.",
            notes=("Two NFDs in one cluster overwrite each other's labels.",),
            hint="If NFD is deployed separately, set nfd.enabled: false and nfd.nodefeaturerules: true.",
        )


@rule("rules-missing", "warning")
def rules_missing(planned: plan.Plan) -> Iterator[Diagnostic]:
    """NodeFeatureRules in the cluster make the labels that policies need."""
    cluster, used = planned.cluster, [one.recipe for one in planned.recipes if one.divisions]
    found = next((recipe for recipe in used if recipe.has_rules), None)
    pooled = [division.policy.name for division in planned.divisions if division.label is not None]
    if (found or pooled) and not cluster.spec.nfd.enabled and not cluster.spec.nfd.nodefeaturerules:
        label = found and (found.kinds[0].present if found.kinds else found.present)
        yield Diagnostic(
            span=cluster.span("spec", "nfd", "enabled"),
            message=f"The output of cluster '{cluster.name}' has no NodeFeatureRules to label its nodes.",
            notes=(
                *((f"Every DaemonSet selects nodes by labels such as {label}.",) if label else ()),
                *(f"The pools of policy '{name}' need rules of this compiler." for name in pooled),
            ),
            hint="Set nfd.nodefeaturerules: true, unless the rules are applied elsewhere.",
        )


@rule("node-unknown", "warning")
def unknown_nodes(planned: plan.Plan, span: Span) -> Iterator[Diagnostic]:
    """NFD has labelled every node."""
    nodes = _nodes(decision for decision in planned.builtin.decisions if not decision.node.profile.discovered)
    unknown = list(_unknown(planned))
    if nodes and unknown:
        its, it = ("their", "them") if len(nodes) > 1 else ("its", "it")
        nothing = "nothing for them runs" if len(planned.recipes) > 1 else "nothing runs"
        yield Diagnostic(
            span=span,
            message=f"NFD has not labelled {wording.nodes(nodes)} yet.",
            notes=(f"Until then, {its} {wording.listed(unknown)} are unknown and {nothing} on {it}.",),
            hint=f"If NFD's worker runs on {it}, take a new inventory; if not, find out what keeps it away.",
        )


def _unknown(planned: plan.Plan) -> Iterator[str]:
    """Yield the words for everything that the policies of a cluster need to know of a node from NFD."""
    yield from (one.recipe.words.devices for one in planned.awaited)
    if any(division.label for division in planned.divisions if not division.policy.recipe.has_rules):
        yield "pools"


@rule("node-without-policy", "warning")
def unassigned_nodes(recipe: recipes.Recipe, decisions: Iterable[plan.Decision], span: Span) -> Iterator[Diagnostic]:
    """A node with the hardware of a recipe, or of KAE, is assigned to a policy of it."""
    if recipe.is_everywhere:
        return
    lonely = (decision for decision in decisions if decision.policy is None)
    nodes = _nodes(decision for decision in lonely if assignment.has_hardware(recipe, decision.node))
    if nodes:
        message = f"No policy matches {wording.nodes(nodes)} with {recipe.words.devices}."
        hint = "Widen a policy's nodeSelector, or add a policy with `default: true`."
        yield Diagnostic(span=span, message=message, hint=hint)


_HELD = ("Its interface is DRA: pods there with a device by a claim stay in Terminating until the label is removed.",)


@rule("node-opted-out", "warning")
def opted_out(cluster: str, policy: definitions.Policy, own: Sequence[plan.Decision]) -> Iterator[Diagnostic]:
    """A node of a policy has not opted out."""
    parts = (
        (policy.installed, "driver", policy.recipe.opt_out_driver),
        (policy.offered, "device plugin", policy.recipe.opt_out_device_plugin),
        *(
            (one if one.enabled else None, f"program '{one.name}'", policy.recipe.opt_out(one.name))
            for one in policy.programs
        ),
    )
    for part, noun, label in parts:
        refusing = (decision for decision in own if part is not None and decision.node.label(label) == "false")
        nodes = _nodes(decision for decision in refusing if assignment.is_present(policy, decision.node))
        if nodes:
            yield Diagnostic(
                span=policy.source.span("metadata", "name"),
                message=f"The {noun} of policy '{policy.name}' does not run on {_listed(cluster, nodes)}.",
                notes=(
                    f"The label {label}=false keeps it away.",
                    *(_HELD if isinstance(part, definitions.Plugin) and part.is_dra else ()),
                ),
                hint="Remove the label if the opt-out is no longer wanted.",
            )


@rule("node-untolerated", "warning")
def untolerated(cluster: str, policy: definitions.Policy, own: Sequence[plan.Decision]) -> Iterator[Diagnostic]:
    """A policy tolerates the taints of its nodes."""
    by_taint = repeats.grouped(
        (taints.text(taint), decision)
        for decision in own
        if assignment.is_present(policy, decision.node)
        for taint in taints.untolerated(policy.pods.tolerations, decision.node.profile.taints)
    )
    for taint_text, decisions in sorted(by_taint.items()):
        yield Diagnostic(
            span=policy.source.setting_span("spec", "daemonSets", "tolerations"),
            message=f"Policy '{policy.name}' does not tolerate the taint {taint_text} "
            f"of {_listed(cluster, _nodes(decisions))}.",
            hint="Add a toleration to daemonSets.tolerations, or exclude such nodes in the nodeSelector.",
        )


def unsupported(cluster: str, policy: definitions.Policy, own: Sequence[plan.Decision]) -> Iterator[Diagnostic]:
    """The driver supports the operating system and the kernel of the nodes that it is installed on."""
    support = policy.recipe.support
    if support is None:
        return
    systems: dict[str, list[plan.Decision]] = {}
    kernels: dict[str, list[plan.Decision]] = {}
    for decision in own:
        profile = decision.node.profile
        driver = decision.pool.driver if decision.pool else None
        if driver is None or driver.source.in_tree is not None or driver.state == "Absent":
            continue
        if not support.has_system(profile.os_image):
            systems.setdefault(profile.os_image, []).append(decision)
        elif not support.has_kernel(profile.kernel_version):
            kernels.setdefault(profile.kernel_version, []).append(decision)
    kinds = (("unsupported-os", "operating system", systems), ("unsupported-kernel", "kernel", kernels))
    for code, noun, by_name in kinds:
        for name, decisions in sorted(by_name.items()):
            yield Diagnostic(
                code=code,
                span=policy.source.span("metadata", "name"),
                message=f"{policy.recipe.words.software}'s driver is not known to support the {noun} "
                f"{wording.quoted(name)} of {_listed(cluster, _nodes(decisions))}.",
                notes=(f"Policy '{policy.name}' installs it there.",),
                hint="Exclude such nodes from the policy, or give them a policy with driver.enabled: false.",
            )


@rule("vf-without-driver", "warning")
def guests_without_driver(
    cluster: str, policy: definitions.Policy, own: Sequence[plan.Decision]
) -> Iterator[Diagnostic]:
    """Virtual functions that are advertised have a driver in their own node."""

    def lacks(decision: plan.Decision) -> bool:
        counts = [plan.functions(kind, decision.node) for kind in policy.kinds]
        is_guest = any(vf for _, vf in counts) and not any(pf for pf, _ in counts)
        is_served = decision.pool is not None and decision.pool.driver.state == "Present"
        return is_guest and decision.device_plugin.image is not None and not is_served

    nodes = _nodes(filter(lacks, own)) if policy.installed is not None else []
    if nodes:
        yield Diagnostic(
            span=policy.source.span("metadata", "name"),
            message=f"Policy '{policy.name}' gives the virtual functions of {_listed(cluster, nodes)} a device plugin, "
            "but no driver.",
            notes=("A guest needs the driver in its own kernel, even if its host has one.",),
            hint="Let the driver run there too, or install it in the guest's image and set driver.enabled: false.",
        )


@rule("not-an-integer", "warning")
def uncompared(cluster: str, policy: definitions.Policy, nodes: Sequence[snapshot.Node]) -> Iterator[Diagnostic]:
    """A label that is compared with Gt or Lt is an integer."""
    for index, requirement in enumerate(policy.selector.matchExpressions if policy.selector else ()):
        if requirement.operator not in ("Gt", "Lt"):
            continue
        own = (node for node in nodes if assignment.has_hardware(policy.recipe, node))
        odd = [node.name for node in own if not selectors.comparable(node.label(requirement.key))]
        if odd:
            yield Diagnostic(
                span=policy.source.span("spec", "nodeSelector", "matchExpressions", index, "operator"),
                message=f"'{requirement.operator}' compares integers, but the label '{requirement.key}' "
                f"of {_listed(cluster, odd)} is not an integer.",
                notes=("Neither this policy nor its negation in a default policy matches such a node.",),
                hint="Give the label an integer, or select by In.",
            )


def _listed(cluster: str, nodes: Sequence[str]) -> str:
    return f"{wording.nodes(nodes)} of cluster '{cluster}'"


def _nodes(decisions: Iterable[plan.Decision]) -> list[str]:
    return sorted(name for decision in decisions for name in decision.names)
