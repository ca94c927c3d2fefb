"""Rules for one KAEPolicy."""

import functools
import operator
import re
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType

from compiler import devices, documents, images, lines, overlap, plan, selectors
from compiler.checks import containers
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
        yield from containers.pull_secrets(item, name)
        yield from containers.amounts(item, name)
    yield from driver_version(item)
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
    noun = _COMPONENTS[name]
    whole = not component.repository and not component.version
    if not whole and not (component.repository and component.version):
        given, absent = ("version", "repository") if component.version else ("repository", "version")
        yield Diagnostic(
            code="image-reference",
            span=place(item.source, "spec", name, absent),
            message=f"The {noun}'s image has a {given} and no {absent}.",
            hint="Give both, or leave both empty and write the whole reference as image.",
        )
    elif not _IMAGE.fullmatch(reference):
        yield Diagnostic(
            code="image-reference",
            span=place(item.source, "spec", name, _misspelt(component)),
            message=f"The {noun}'s image '{reference}' is no image reference.",
            hint="Names are in lower case; a version is a tag, or sha256: with 64 hexadecimal digits.",
        )
    elif images.tag(reference) == "latest":
        field = f"{name}.image" if whole else f"{name}.version"
        yield mutable_tag(item.source, field, reference, f"the {noun}'s image")


def _misspelt(component: policy.Component) -> str:
    """The field that spoils an image reference."""
    if component.repository and not re.fullmatch(_NAME, component.repository.rstrip("/")):
        return "repository"
    return "version" if component.version and re.fullmatch(_NAME, component.image) else "image"


def mutable_tag(source: documents.Document, field: str, reference: str, what: str) -> Diagnostic:
    """An image is pinned by a version or a digest; `field` is the one to pin it in, below spec."""
    pinned = "a release or a digest (sha256:…)"
    if not field.endswith(".version"):
        pinned = "a reference with a release as its tag, or with a digest (@sha256:…)"
    return Diagnostic(
        code="mutable-tag",
        span=place(source, "spec", *field.split(".")),
        message=f"'{reference}', {what}, can change without a commit.",
        hint=f"Set {field} to {pinned}.",
    )


def driver_version(item: documents.Policy) -> Iterator[Diagnostic]:
    """Package names that hold ${DRIVER_VERSION} are given a release, which neither a digest nor `latest` is."""
    packages = item.spec.driver.source.packages
    version = item.spec.driver.version
    for index, name in enumerate(packages.names if packages else ()):
        if "${DRIVER_VERSION}" in name and (version in ("", "latest") or version.startswith(images.DIGEST)):
            yield Diagnostic(
                code="driver-version",
                span=item.source.span("spec", "driver", "source", "packages", "names", index),
                message=f"'{name}' needs a release of the driver, and driver.version is '{version}'.",
                hint="Set driver.version to the packages' release, or write the release into the package's name.",
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
                message=f"{lines.quoted(variable.value)} is no value of INSTALL_POLICY.",
                hint="Write IfNotPresent, which keeps a foreign driver that works, or Always, which replaces it.",
            )


def module_parameters(item: documents.Policy) -> Iterator[Diagnostic]:
    """A module parameter is one that the KAE modules know, in their range."""
    known = {kind.module: kind for kind in devices.KINDS}
    in_tree = item.spec.driver.source.inTree is not None
    for module, parameters in sorted(item.spec.driver.moduleParameters.items()):
        path: documents.Path = ("spec", "driver", "moduleParameters", module)
        if module not in known:
            yield _unknown(item, path, f"{lines.quoted(module)} is no module of KAE.", known)
            continue
        for name, value in sorted(parameters.items()):
            limits = known[module].parameters.get(name)
            if limits is None:
                message = f"Module '{module}' has no parameter {lines.quoted(name)}."
                yield _unknown(item, (*path, name), message, known[module].parameters)
                continue
            most = 1 if in_tree and name == "uacce_mode" else limits.most
            if not limits.least <= value <= most or value % limits.step:
                even = "an even" if limits.step > 1 else "a"
                where = "; the kernel's own modules know no other" if most < limits.most else ""
                yield Diagnostic(
                    code="module-parameter",
                    span=item.source.span(*path, name),
                    message=f"'{name}' of module '{module}' is {value}, out of its range.",
                    hint=f"Give it {even} number from {limits.least} to {most}{where}.",
                )


def _unknown(item: documents.Policy, path: documents.Path, message: str, known: Iterable[str]) -> Diagnostic:
    span = item.source.places.span(path, key=True)
    hint = f"Those that there are: {', '.join(sorted(known))}."
    return Diagnostic(code="module-parameter", span=span, message=message, hint=hint)


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
                hint="Remove driver.sriov, or set driver.enabled: true.",
            )
            continue
        kept = driver.moduleParameters.get(kind.module, {}).get("pf_q_num", 256)
        if count and devices.DEVICE_QUEUES - kept < count:
            yield Diagnostic(
                code="sriov-over-hardware",
                span=span,
                message=f"{count} virtual functions of {kind.name} need a queue each, and "
                f"{devices.DEVICE_QUEUES - kept} are left.",
                notes=(f"The physical function keeps {kept} of {devices.DEVICE_QUEUES} queues (pf_q_num).",),
                hint=f"Lower moduleParameters.{kind.module}.pf_q_num, or ask for fewer virtual functions.",
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
                message="'maxUnavailable' is zero, so no pod could ever be replaced.",
                hint="Give at least 1 or 1%.",
            )
