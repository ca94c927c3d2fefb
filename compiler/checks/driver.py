"""Rules for the driver of a policy, in every variant that its mappings, waves and frozen groups make."""

from collections.abc import Iterable, Iterator, Sequence

from compiler import devices, wording
from compiler.checks import containers
from compiler.diagnostics import Diagnostic
from compiler.fleet import definitions
from compiler.formats import documents
from compiler.planning import images, overrides

_INSTALL_POLICIES = ("IfNotPresent", "Always")


def findings(policy: definitions.Policy, variants: Sequence[overrides.Variant]) -> Iterator[Diagnostic]:
    """Yield the mistakes in the driver of a policy and in its variants, judged without any nodes."""
    yield from driver_version(policy, variants)
    yield from driver_environment(policy)
    yield from repository_credentials(policy, variants)
    yield from module_parameters(policy, variants)
    yield from virtual_functions(policy)
    yield from cleanup(policy)


def driver_version(policy: definitions.Policy, variants: Iterable[overrides.Variant]) -> Iterator[Diagnostic]:
    """Package names with ${DRIVER_VERSION} have a release to fill in; a digest and `latest` are not releases."""
    for variant in variants:
        packages, version = variant.driver.source.packages, variant.driver.version
        if version not in ("", "latest") and not version.startswith(images.DIGEST):
            continue
        field = wording.dotted(variant.paths["version"][1:])
        for index, name in enumerate(packages.names if packages else ()):
            if "${DRIVER_VERSION}" in name:
                yield Diagnostic(
                    code="driver-version",
                    span=policy.source.span(*variant.paths["source"], "packages", "names", index),
                    message=f"'{name}' needs a release of the driver, but {field} is '{version}'.",
                    hint=f"Set {field} to the release of the packages, or write it into the package name.",
                )


def driver_environment(policy: definitions.Policy) -> Iterator[Diagnostic]:
    """INSTALL_POLICY is IfNotPresent or Always."""
    yield from containers.variables(policy.source, ("spec", "driver"), policy.spec.driver.env, ("NODE_NAME",))
    for index, variable in enumerate(policy.spec.driver.env):
        if variable.name == "INSTALL_POLICY" and variable.value not in _INSTALL_POLICIES:
            near = wording.nearest(variable.value, _INSTALL_POLICIES)
            yield Diagnostic(
                code="install-policy",
                span=policy.source.span("spec", "driver", "env", index, "value"),
                message=f"{wording.quoted(variable.value)} is not a value of INSTALL_POLICY.",
                hint=f"Did you mean '{near}'?"
                if near
                else "Write IfNotPresent to keep a foreign driver that works, or Always to replace it.",
            )


def repository_credentials(policy: definitions.Policy, variants: Iterable[overrides.Variant]) -> Iterator[Diagnostic]:
    """A Secret with credentials is for repositories that are named: those of the nodes have their own."""
    for variant in variants:
        for name in ("build", "packages"):
            source = getattr(variant.driver.source, name)
            if source is not None and source.credentialsSecret is not None and not source.repositories:
                yield Diagnostic(
                    code="credentials-without-repositories",
                    span=policy.source.span(*variant.paths["source"], name, "credentialsSecret"),
                    message=f"The Secret '{source.credentialsSecret}' is for repositories, and none is named.",
                    hint="Name them in repositories; the nodes' own have their credentials in /etc/yum.repos.d.",
                )


def module_parameters(policy: definitions.Policy, variants: Iterable[overrides.Variant]) -> Iterator[Diagnostic]:
    """The KAE modules know each module parameter, and its value is in their range."""
    known = {kind.module: kind for kind in devices.KINDS}
    in_tree = any(variant.driver.source.inTree is not None for variant in variants)
    for module, parameters in sorted(policy.spec.driver.moduleParameters.items()):
        path: documents.Path = ("spec", "driver", "moduleParameters", module)
        if module not in known:
            yield _unknown(policy, path, f"{wording.quoted(module)} is not a module of KAE.", known)
            continue
        for name, value in sorted(parameters.items()):
            limits = known[module].parameters.get(name)
            if limits is None:
                message = f"Module '{module}' has no parameter {wording.quoted(name)}."
                yield _unknown(policy, (*path, name), message, known[module].parameters)
                continue
            most = 1 if in_tree and name == "uacce_mode" else limits.most
            if not limits.least <= value <= most or value % limits.step:
                even = "an even" if limits.step > 1 else "a"
                in_tree_only = "; the in-tree modules know no other" if most < limits.most else ""
                yield Diagnostic(
                    code="module-parameter",
                    span=policy.source.span(*path, name),
                    message=f"'{name}' of module '{module}' is {value}, which is out of its range.",
                    hint=f"Write {even} number from {limits.least} to {most}{in_tree_only}.",
                )


def _unknown(policy: definitions.Policy, path: documents.Path, message: str, known: Iterable[str]) -> Diagnostic:
    span = policy.source.key_span(*path)
    hint = f"The known ones are {wording.listed(sorted(known))}."
    return Diagnostic(code="module-parameter", span=span, message=message, hint=hint)


def virtual_functions(policy: definitions.Policy) -> Iterator[Diagnostic]:
    """The installed driver sets up virtual functions, and each gets a queue that its physical function leaves."""
    driver = policy.spec.driver
    for kind, count in driver.sriov.model_dump(exclude_none=True).items():
        if not driver.enabled:
            yield Diagnostic(
                code="sriov-without-driver",
                span=policy.source.span("spec", "driver", "sriov", kind),
                message=f"Policy '{policy.name}' asks for virtual functions, but installs no driver to set them up.",
                hint="Remove driver.sriov, or set driver.enabled: true.",
            )
        else:
            yield from _queues(policy, next(one for one in devices.KINDS if one.name == kind), count)


def _queues(policy: definitions.Policy, kind: devices.Kind, count: int) -> Iterator[Diagnostic]:
    kept = policy.spec.driver.moduleParameters.get(kind.module, {}).get("pf_q_num", devices.PF_QUEUES)
    left = devices.DEVICE_QUEUES - kept
    if count and left < count:
        yield Diagnostic(
            code="sriov-over-hardware",
            span=policy.source.span("spec", "driver", "sriov", kind.name),
            message=f"{wording.counted(count, 'virtual function')} of {kind.name} "
            f"{'needs' if count == 1 else 'need'} a queue each, but only {left} {'is' if left == 1 else 'are'} left.",
            notes=(f"The physical function keeps {kept} of {devices.DEVICE_QUEUES} queues (pf_q_num).",),
            hint=f"Lower moduleParameters.{kind.module}.pf_q_num, or ask for fewer virtual functions.",
        )


def cleanup(policy: definitions.Policy) -> Iterator[Diagnostic]:
    """A policy that cleans up after its DaemonSet has no pools: their DaemonSets go while the nodes stay."""
    driver = policy.spec.driver
    if driver.enabledCleanup and (driver.kernelMappings or driver.rollout.waves or driver.rollout.frozen):
        yield Diagnostic(
            code="cleanup-with-pools",
            span=policy.source.span("spec", "driver", "enabledCleanup"),
            message=f"Policy '{policy.name}' has pools, so enabledCleanup removes its driver when a pool ends.",
            notes=(
                "A pool's DaemonSet is deleted when a wave ends, a mapping is renamed or a frozen group is removed.",
            ),
            hint="Remove enabledCleanup one commit before the first pool; use state: Absent to remove drivers.",
        )
