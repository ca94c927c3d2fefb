"""Rules for one KAEPolicy."""

import functools
import operator
import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from compiler import devices, documents, images, overlap, plan, selectors
from compiler.diagnostics import Diagnostic, Span
from compiler.model import base, policy

_OWN_LABELS = ("app.kubernetes.io/name", "device.openfuyao.com/policy", "device.openfuyao.com/pool")
_NAME = r"[a-z0-9]+([._-]+[a-z0-9]+)*(:[0-9]+)?(/[a-z0-9]+([._-]+[a-z0-9]+)*)*"
_IMAGE = re.compile(_NAME + r"(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(@sha256:[0-9a-f]{64})?")
"""https://github.com/distribution/reference, in brief."""

_COMPONENTS: Mapping[str, str] = MappingProxyType({"driver": "driver", "devicePlugin": "device plugin"})


def place(source: documents.Document, *path: str | int) -> Span:
    """Where a setting stands: its value, the key of a mapping or list, the document's name where it is not written."""
    if not source.has(path):
        return source.span("metadata", "name")
    value = functools.reduce(operator.getitem, path, source.data)
    return source.places.span(path, key=isinstance(value, dict | list))


def faults(item: documents.Policy) -> Iterator[Diagnostic]:
    """Everything that is wrong with a policy by itself."""
    yield from no_kind_enabled(item)
    yield from default_with_selector(item)
    yield from selector_values(item)
    yield from tolerations(item.source, ("spec", "daemonSets", "tolerations"), item.spec.daemonSets.tolerations)
    yield from reserved_labels(item)
    for name in _COMPONENTS:
        yield from image(item, name)
    yield from driver_environment(item)
    yield from module_parameters(item)
    yield from virtual_functions(item)
    yield from unavailable(item)


def no_kind_enabled(item: documents.Policy) -> Iterator[Diagnostic]:
    """A policy serves at least one kind of device."""
    if not plan.enabled_kinds(item):
        yield Diagnostic(
            code="no-kind-enabled",
            span=place(item.source, "spec", "operator"),
            message=f"Policy '{item.name}' enables no kind of device.",
            hint="Set enabledHPRE, enabledSEC or enabledZIP to true, or delete the policy.",
        )


def default_with_selector(item: documents.Policy) -> Iterator[Diagnostic]:
    """The default policy has no nodeSelector of its own."""
    if item.spec.default and item.spec.nodeSelector is not None:
        yield Diagnostic(
            code="default-with-selector",
            span=place(item.source, "spec", "nodeSelector"),
            message=f"Policy '{item.name}' is the default and has a nodeSelector too.",
            notes=("The default policy takes the nodes that no other policy of the cluster matches.",),
            hint="Remove `default: true` or the nodeSelector.",
        )


def selector_values(item: documents.Policy) -> Iterator[Diagnostic]:
    """A selector requirement has the values that its operator needs, and the selector can match some node."""
    selector = item.spec.nodeSelector
    if selector is None:
        return
    sound = True
    for index, expression in enumerate(selector.matchExpressions):
        requirement = selectors.Requirement(expression.key, expression.operator, expression.values)
        misuse = selectors.misuse(requirement)
        if misuse:
            sound = False
            yield Diagnostic(
                code="selector-values",
                span=item.source.span("spec", "nodeSelector", "matchExpressions", index, "values"),
                message=f"Operator '{expression.operator}' on '{expression.key}' {misuse}.",
            )
    contradicted = overlap.contradiction(selectors.of(selector), ()) if sound else None
    if contradicted is not None:
        yield Diagnostic(
            code="selector-never-matches",
            span=place(item.source, "spec", "nodeSelector"),
            message=f"The nodeSelector of policy '{item.name}' can match no node.",
            notes=(f"Its requirements on '{contradicted}' contradict each other.",),
            hint="Remove one of them.",
        )


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


def reserved_labels(item: documents.Policy) -> Iterator[Diagnostic]:
    """Labels for pods do not replace the ones that the compiler owns."""
    for key in sorted(item.spec.daemonSets.labels):
        if key in _OWN_LABELS:
            yield Diagnostic(
                code="reserved-label",
                span=item.source.places.span(("spec", "daemonSets", "labels", key), key=True),
                message=f"The label '{key}' is set by the compiler.",
                notes=("DaemonSets select their pods by it.",),
                hint="Use a label of your own domain.",
            )


def image(item: documents.Policy, name: str) -> Iterator[Diagnostic]:
    """Repository, image and version together name an image, and the image is pinned."""
    component: policy.Component = getattr(item.spec, name)
    if not component.enabled:
        return
    reference = images.reference(component)
    halves = bool(component.repository) != bool(component.version)
    if halves or not _IMAGE.fullmatch(reference):
        yield Diagnostic(
            code="image-reference",
            span=item.source.span("spec", name, "repository" if halves else "image"),
            message=f"Repository '{component.repository}', image '{component.image}' and version "
            f"'{component.version}' do not name an image.",
            hint="Give repository and version both, or leave both empty and give the whole reference as image.",
        )
    elif images.tag(reference) == "latest":
        yield mutable_tag(item.source, ("spec", name, "version"), reference, f"the {_COMPONENTS[name]}'s image")


def mutable_tag(source: documents.Document, path: documents.Path, reference: str, what: str) -> Diagnostic:
    """An image is pinned by a version or a digest."""
    return Diagnostic(
        code="mutable-tag",
        span=source.span(*path),
        message=f"'{reference}', {what}, can change without a commit.",
        hint="Pin a version, or a digest: version: sha256:…",
    )


def driver_environment(item: documents.Policy) -> Iterator[Diagnostic]:
    """Environment names are unique, none is ours, and INSTALL_POLICY is IfNotPresent or Always."""
    seen: set[str] = set()
    for index, variable in enumerate(item.spec.driver.env):
        if variable.name in seen or variable.name == "NODE_NAME":
            why = "is set twice" if variable.name in seen else "is set by the compiler"
            yield Diagnostic(
                code="duplicate-name",
                span=item.source.span("spec", "driver", "env", index, "name"),
                message=f"The variable '{variable.name}' {why}.",
                hint="Keep one of the two." if variable.name in seen else "Remove it.",
            )
        seen.add(variable.name)
        if variable.name == "INSTALL_POLICY" and variable.value not in ("IfNotPresent", "Always"):
            yield Diagnostic(
                code="install-policy",
                span=item.source.span("spec", "driver", "env", index, "value"),
                message=f"INSTALL_POLICY is '{variable.value}', which is neither 'IfNotPresent' nor 'Always'.",
                hint="IfNotPresent keeps a driver that works; Always replaces it.",
            )


def module_parameters(item: documents.Policy) -> Iterator[Diagnostic]:
    """A module parameter is one that the KAE modules know, in their range."""
    known = {kind.module: kind for kind in devices.KINDS}
    in_tree = item.spec.driver.source.inTree is not None
    for module, parameters in sorted(item.spec.driver.moduleParameters.items()):
        path: documents.Path = ("spec", "driver", "moduleParameters", module)
        if module not in known:
            yield _parameter_fault(item, path, f"'{module}' is no KAE module.", sorted(known))
            continue
        for name, value in sorted(parameters.items()):
            limits = known[module].parameters.get(name)
            if limits is None:
                names = sorted(known[module].parameters)
                yield _parameter_fault(item, (*path, name), f"'{module}' has no parameter '{name}'.", names)
                continue
            most = 1 if in_tree and name == "uacce_mode" else limits.most
            if not limits.least <= value <= most or value % limits.step:
                even = " and even" if limits.step > 1 else ""
                message = f"{module}.{name} is {value}; it is from {limits.least} to {most}{even}."
                yield _parameter_fault(item, (*path, name), message, ())


def _parameter_fault(
    item: documents.Policy, path: documents.Path, message: str, known: list[str] | tuple[str, ...]
) -> Diagnostic:
    hint = f"Known are {', '.join(known)}." if known else ""
    return Diagnostic(code="module-parameter", span=item.source.span(*path), message=message, hint=hint)


def virtual_functions(item: documents.Policy) -> Iterator[Diagnostic]:
    """Virtual functions are set up by our driver, and each finds a queue that its physical function left."""
    driver = item.spec.driver
    for kind in devices.KINDS:
        count = getattr(driver.sriov, kind.name)
        if count is None:
            continue
        span = item.source.span("spec", "driver", "sriov", kind.name)
        if not driver.enabled:
            yield Diagnostic(
                code="sriov-without-driver",
                span=span,
                message=f"Policy '{item.name}' asks for virtual functions, but its driver is pre-installed.",
                hint="Remove driver.sriov, or let driver.enabled be true.",
            )
            continue
        kept = driver.moduleParameters.get(kind.module, {}).get("pf_q_num", 256)
        if count and devices.DEVICE_QUEUES - kept < count:
            yield Diagnostic(
                code="sriov-over-hardware",
                span=span,
                message=f"{count} virtual functions of {kind.name} have no queues: "
                f"the physical function keeps {kept} of {devices.DEVICE_QUEUES}.",
                hint=f"Lower moduleParameters.{kind.module}.pf_q_num or the number of virtual functions.",
            )


def unavailable(item: documents.Policy) -> Iterator[Diagnostic]:
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
                message="maxUnavailable is zero: no pod could ever be replaced.",
                hint="Give at least 1 or 1%.",
            )
