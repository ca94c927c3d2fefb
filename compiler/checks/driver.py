"""Rules for the driver of a policy, in every variant that mappings, waves and frozen groups make of it."""

from collections.abc import Iterable, Iterator

from compiler import devices, wording
from compiler.diagnostics import Diagnostic
from compiler.fleet import definitions
from compiler.formats import documents
from compiler.planning import images, overrides


def findings(item: definitions.Policy) -> Iterator[Diagnostic]:
    """Everything that is wrong with the driver, whichever nodes there are."""
    yield from driver_version(item)
    yield from driver_environment(item)
    yield from module_parameters(item)
    yield from virtual_functions(item)
    yield from cleanup(item)


def driver_version(item: definitions.Policy) -> Iterator[Diagnostic]:
    """Package names that hold ${DRIVER_VERSION} are given a release, which neither a digest nor `latest` is."""
    for variant in overrides.variants(item):
        packages, version = variant.driver.source.packages, variant.driver.version
        if version not in ("", "latest") and not version.startswith(images.DIGEST):
            continue
        field = wording.dotted(variant.paths["version"][1:])
        for index, name in enumerate(packages.names if packages else ()):
            if "${DRIVER_VERSION}" in name:
                yield Diagnostic(
                    code="driver-version",
                    span=item.source.span(*variant.paths["source"], "packages", "names", index),
                    message=f"'{name}' needs a release of the driver, and {field} is '{version}'.",
                    hint=f"Set {field} to the packages' release, or write the release into the package's name.",
                )


def driver_environment(item: definitions.Policy) -> Iterator[Diagnostic]:
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
                message=f"{wording.quoted(variable.value)} is no value of INSTALL_POLICY.",
                hint="Write IfNotPresent, which keeps a foreign driver that works, or Always, which replaces it.",
            )


def module_parameters(item: definitions.Policy) -> Iterator[Diagnostic]:
    """A module parameter is one that the KAE modules know, in their range."""
    known = {kind.module: kind for kind in devices.KINDS}
    in_tree = any(variant.driver.source.inTree is not None for variant in overrides.variants(item))
    for module, parameters in sorted(item.spec.driver.moduleParameters.items()):
        path: documents.Path = ("spec", "driver", "moduleParameters", module)
        if module not in known:
            yield _unknown(item, path, f"{wording.quoted(module)} is no module of KAE.", known)
            continue
        for name, value in sorted(parameters.items()):
            limits = known[module].parameters.get(name)
            if limits is None:
                message = f"Module '{module}' has no parameter {wording.quoted(name)}."
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


def _unknown(item: definitions.Policy, path: documents.Path, message: str, known: Iterable[str]) -> Diagnostic:
    span = item.source.key_span(*path)
    hint = f"Those that there are: {wording.listed(sorted(known))}."
    return Diagnostic(code="module-parameter", span=span, message=message, hint=hint)


def virtual_functions(item: definitions.Policy) -> Iterator[Diagnostic]:
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


def cleanup(item: definitions.Policy) -> Iterator[Diagnostic]:
    """What cleans up when its DaemonSet goes has no pools, whose DaemonSets come and go while their nodes stay."""
    driver = item.spec.driver
    if driver.enabledCleanup and (driver.kernelMappings or driver.rollout.waves or driver.rollout.frozen):
        yield Diagnostic(
            code="cleanup-with-pools",
            span=item.source.span("spec", "driver", "enabledCleanup"),
            message=f"Policy '{item.name}' has pools, and would remove its driver wherever one of them ends.",
            notes=("The DaemonSet of a pool is deleted when a wave is over, a mapping renamed or a group thawed.",),
            hint="Remove enabledCleanup, a commit before the first pool; state: Absent removes drivers in any case.",
        )
