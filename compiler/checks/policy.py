"""Rules for one KAEPolicy."""

from collections.abc import Iterator

from compiler import devices, diagnostics
from compiler.checks import containers, driver, images, pools
from compiler.diagnostics import Diagnostic
from compiler.fleet import assignment, definitions, overlap, selectors
from compiler.formats import documents
from compiler.model import base

_OWN_LABELS = ("app.kubernetes.io/name", "device.openfuyao.com/policy", "device.openfuyao.com/pool")
_EFFECTS = f"{devices.DOMAIN}/kae.pool."
_COUNTS = frozenset(f"{kind.resource}.vf" for kind in devices.KINDS)
"""How many virtual functions there are is an effect of `driver.sriov`."""
_COMPONENTS = ("driver", "devicePlugin")


def findings(item: definitions.Policy) -> Iterator[Diagnostic]:
    """Everything that is wrong with a policy by itself."""
    yield from no_kind_enabled(item)
    yield from default_with_selector(item)
    yield from selector_values(item)
    yield from tolerations(item.source, ("spec", "daemonSets", "tolerations"), item.spec.daemonSets.tolerations)
    yield from reserved_labels(item)
    for name in _COMPONENTS:
        yield from images.of_component(item, name)
        yield from containers.pull_secrets(item, name)
        yield from containers.amounts(item, name)
    yield from driver.findings(item)
    yield from pools.findings(item)
    yield from unavailable(item)


def no_kind_enabled(item: definitions.Policy) -> Iterator[Diagnostic]:
    """A policy serves at least one kind of device."""
    if not assignment.enabled_kinds(item):
        yield Diagnostic(
            code="no-kind-enabled",
            span=item.source.setting_span("spec", "operator"),
            message=f"Policy '{item.name}' enables no kind of device.",
            hint="Set enabledHPRE, enabledSEC or enabledZIP to true, or delete the policy.",
        )


def default_with_selector(item: definitions.Policy) -> Iterator[Diagnostic]:
    """The default policy has no nodeSelector of its own."""
    if item.spec.default and item.spec.nodeSelector is not None:
        yield Diagnostic(
            code="default-with-selector",
            span=item.source.setting_span("spec", "nodeSelector"),
            message=f"Policy '{item.name}' is the default and has a nodeSelector too.",
            notes=("The default policy takes the nodes that no other policy of the cluster matches.",),
            hint="Remove `default: true` or the nodeSelector.",
        )


def selector_values(item: definitions.Policy) -> Iterator[Diagnostic]:
    """Every selector of the policy is sound."""
    yield from _selector(item, ("spec", "nodeSelector"), item.spec.nodeSelector)
    for path, group in item.groups:
        yield from _selector(item, (*path, "inventorySelector"), group.inventorySelector)


def _selector(
    item: definitions.Policy, path: documents.Path, selector: base.NodeSelector | None
) -> Iterator[Diagnostic]:
    """A requirement has the values that its operator needs, and asks for no effect; some node can match them all."""
    if selector is None:
        return
    for requirement in selectors.of(selector):
        if requirement.key.startswith(_EFFECTS) or requirement.key in _COUNTS:
            yield Diagnostic(
                code="selector-on-effect",
                span=_key_span(item.source, path, selector, requirement.key),
                message=f"A selector of policy '{item.name}' asks for the label '{requirement.key}'.",
                notes=("That label follows from what policies do: a node could move to and fro for ever.",),
                hint="Select by a label that people or clouds give, or by the kinds of devices.",
            )
    sound = True
    for index, expression in enumerate(selector.matchExpressions):
        requirement = selectors.Requirement(expression.key, expression.operator, expression.values)
        misuse = selectors.misuse(requirement)
        if misuse:
            sound = False
            yield Diagnostic(
                code="selector-values",
                span=item.source.span(*path, "matchExpressions", index, "values"),
                message=f"Operator '{expression.operator}' on '{expression.key}' {misuse}.",
            )
    contradicted = overlap.contradiction(selectors.of(selector), ()) if sound else None
    if contradicted is not None:
        yield Diagnostic(
            code="selector-never-matches",
            span=item.source.setting_span(*path),
            message=f"The {path[-1]} of policy '{item.name}' can match no node.",
            notes=(f"Its requirements on '{contradicted}' contradict each other.",),
            hint="Remove one of them.",
        )


def _key_span(
    source: documents.Document, path: documents.Path, selector: base.NodeSelector, key: str
) -> diagnostics.Span:
    """Where a selector asks for a label."""
    if key in selector.matchLabels:
        return source.key_span(*path, "matchLabels", key)
    index = next(index for index, found in enumerate(selector.matchExpressions) if found.key == key)
    return source.span(*path, "matchExpressions", index, "key")


def tolerations(
    source: documents.Document, path: documents.Path, items: tuple[base.Toleration, ...]
) -> Iterator[Diagnostic]:
    """A toleration is one that the API server accepts (ValidateTolerations in Kubernetes' core validation)."""
    for index, item in enumerate(items):
        fault = None
        if item.key is None and item.operator != "Exists":
            said = "without a key tolerates every taint, and needs operator 'Exists'"
            fault = (said, "operator", "Name the taint's key, or write operator: Exists.")
        elif item.operator == "Exists" and item.value:
            fault = ("with operator 'Exists' has no value", "value", "Remove the value, or use operator Equal.")
        elif item.tolerationSeconds is not None and item.effect != "NoExecute":
            said = "with tolerationSeconds needs effect 'NoExecute'"
            fault = (said, "tolerationSeconds", "Write effect: NoExecute, or remove tolerationSeconds.")
        if fault:
            said, field, hint = fault
            span = source.span(*path, index, field)
            yield Diagnostic(code="toleration", span=span, message=f"A toleration {said}.", hint=hint)


def reserved_labels(item: definitions.Policy) -> Iterator[Diagnostic]:
    """Labels for pods do not replace the ones that the compiler owns."""
    for key in sorted(item.spec.daemonSets.labels):
        if key in _OWN_LABELS:
            yield Diagnostic(
                code="reserved-label",
                span=item.source.key_span("spec", "daemonSets", "labels", key),
                message=f"The label '{key}' is set by the compiler.",
                notes=("DaemonSets select their pods by it.",),
                hint="Use a label of your own domain.",
            )


def unavailable(item: definitions.Policy) -> Iterator[Diagnostic]:
    """A DaemonSet may replace at least one pod at a time, as it never surges."""
    places: tuple[tuple[documents.Path, int | str], ...] = (
        (("spec", "driver", "rollout", "maxUnavailable"), item.spec.driver.rollout.maxUnavailable),
        (("spec", "devicePlugin", "maxUnavailable"), item.spec.devicePlugin.maxUnavailable),
    )
    for path, value in places:
        if value in (0, "0%"):
            yield Diagnostic(
                code="unavailable-zero",
                span=item.source.span(*path),
                message="'maxUnavailable' is zero, so no pod could ever be replaced.",
                hint="Give at least 1 or 1%.",
            )
