"""Rules for the driver of a policy, in every variant that its mappings, waves and frozen groups make."""

from collections.abc import Iterable, Iterator, Sequence

from compiler import recipes, wording
from compiler.checks import containers
from compiler.diagnostics import Diagnostic, rule
from compiler.fleet import definitions
from compiler.formats import documents
from compiler.planning import images, overrides

_INSTALL_POLICIES = ("IfNotPresent", "Always")


def findings(policy: definitions.Policy, variants: Sequence[overrides.Variant]) -> Iterator[Diagnostic]:
    """Yield the mistakes in the driver of a policy and in its variants, judged without any nodes."""
    if policy.driver is None:
        return
    yield from driver_version(policy, variants)
    yield from driver_environment(policy, policy.driver)
    yield from repository_credentials(policy, variants)
    if policy.recipe.modules:
        yield from module_parameters(policy, policy.driver, variants)
    yield from virtual_functions(policy, policy.driver)
    yield from cleanup(policy, policy.driver)


@rule("driver-version", "error")
def driver_version(policy: definitions.Policy, variants: Iterable[overrides.Variant]) -> Iterator[Diagnostic]:
    """Package names with ${DRIVER_VERSION} have a release to fill in."""
    for variant in variants:
        packages, version = variant.driver.source.packages, variant.driver.parts["version"]
        if version not in ("", "latest") and not version.startswith(images.DIGEST):
            continue  # The others are not releases.
        _, path = variant.counting.place("version")
        field = wording.dotted(path[1:])
        for index, name in enumerate(packages.names if packages else ()):
            if "${DRIVER_VERSION}" in name:
                yield Diagnostic(
                    span=policy.source.span(*variant.source, "packages", "names", index),
                    message=f"'{name}' needs a release of the driver, but {field} is '{version}'.",
                    hint=f"Set {field} to the release of the packages, or write it into the package name.",
                )


@rule("install-policy", "error")
def driver_environment(policy: definitions.Policy, driver: definitions.Driver) -> Iterator[Diagnostic]:
    """INSTALL_POLICY is IfNotPresent or Always."""
    yield from containers.variables(policy.source, ("spec", "driver"), driver.container.env, ("NODE_NAME",))
    for index, variable in enumerate(driver.container.env):
        if variable.name == policy.written.install_policy and variable.value not in _INSTALL_POLICIES:
            message = f"{wording.quoted(variable.value)} is not a value of {variable.name}."
            hint = "Write IfNotPresent to keep a foreign driver that works, or Always to replace it."
            hint = wording.did_you_mean(variable.value, _INSTALL_POLICIES) or hint
            span = policy.source.span("spec", "driver", "env", index, "value")
            yield Diagnostic(span=span, message=message, hint=hint)


@rule("credentials-without-repositories", "error")
def repository_credentials(policy: definitions.Policy, variants: Iterable[overrides.Variant]) -> Iterator[Diagnostic]:
    """A Secret with credentials is for repositories that are named."""
    for variant in variants:
        for name in ("build", "packages"):
            source = getattr(variant.driver.source, name)
            if source is not None and source.credentials_secret is not None and not source.repositories:
                yield Diagnostic(
                    span=policy.source.span(*variant.source, name, "credentialsSecret"),
                    message=f"The Secret '{source.credentials_secret}' is for repositories, and none is named.",
                    hint="Name them in repositories; the nodes' own have their credentials in /etc/yum.repos.d.",
                )


@rule("module-parameter", "error")
def module_parameters(
    policy: definitions.Policy, driver: definitions.Driver, variants: Iterable[overrides.Variant]
) -> Iterator[Diagnostic]:
    """The KAE modules know each module parameter, and its value is in their range."""
    known = {module.name: module for module in policy.recipe.modules}
    in_tree = any(variant.driver.source.in_tree is not None for variant in variants)
    for module, parameters in sorted(driver.parameters.items()):
        path: documents.Path = ("spec", "driver", "moduleParameters", module)
        if module not in known:
            message = f"{wording.quoted(module)} is not a module of {policy.recipe.words.software}."
            yield _unknown(policy, path, message, known)
            continue
        for name, value in sorted(parameters.items()):
            schema = known[module].parameters.get(name)
            if schema is None:
                message = f"Module '{module}' has no parameter {wording.quoted(name)}."
                yield _unknown(policy, (*path, name), message, known[module].parameters)
                continue
            limits = {**schema, **known[module].in_tree.get(name, {})} if in_tree else schema
            least, most, step = limits["minimum"], limits["maximum"], limits.get("multipleOf", 1)
            if not least <= int(value) <= most or int(value) % step:
                even = "an even" if step > 1 else "a"
                in_tree_only = "; the in-tree modules know no other" if most < schema["maximum"] else ""
                yield Diagnostic(
                    span=policy.source.span(*path, name),
                    message=f"'{name}' of module '{module}' is {value}, which is out of its range.",
                    hint=f"Write {even} number from {least} to {most}{in_tree_only}.",
                )


def _unknown(policy: definitions.Policy, path: documents.Path, message: str, known: Iterable[str]) -> Diagnostic:
    span = policy.source.key_span(*path)
    hint = f"The known ones are {wording.listed(sorted(known))}."
    return Diagnostic(span=span, message=message, hint=hint)


@rule("sriov-without-driver", "error")
def virtual_functions(policy: definitions.Policy, driver: definitions.Driver) -> Iterator[Diagnostic]:
    """Only a policy that installs a driver sets up virtual functions."""
    for name, count in driver.sriov.items():
        if not driver.enabled:
            message = f"Policy '{policy.name}' asks for virtual functions, but installs no driver to set them up."
            hint = "Remove driver.sriov, or set driver.enabled: true."
            yield Diagnostic(span=policy.source.span("spec", "driver", "sriov", name), message=message, hint=hint)
        else:
            kind = next(kind for kind in policy.recipe.kinds if kind.name == name)
            yield from _queues(policy, driver, kind, count)


@rule("sriov-over-hardware", "error")
def _queues(
    policy: definitions.Policy, driver: definitions.Driver, kind: recipes.Kind, count: int
) -> Iterator[Diagnostic]:
    """Virtual functions fit the hardware: at most 63 a device, with a queue for each."""
    queues = kind.queues
    if queues is None:
        return
    kept = int(driver.parameters.get(kind.module, {}).get(queues.parameter, queues.kept))
    left = queues.number - kept
    if count and left < count:
        yield Diagnostic(
            span=policy.source.span("spec", "driver", "sriov", kind.name),
            message=f"{wording.counted(count, 'virtual function')} of {kind.name} "
            f"{'needs' if count == 1 else 'need'} a queue each, but only {left} {'is' if left == 1 else 'are'} left.",
            notes=(f"The physical function keeps {kept} of {queues.number} queues ({queues.parameter}).",),
            hint=f"Lower moduleParameters.{kind.module}.{queues.parameter}, or ask for fewer virtual functions.",
        )


@rule("cleanup-with-pools", "error")
def cleanup(policy: definitions.Policy, driver: definitions.Driver) -> Iterator[Diagnostic]:
    """A policy with enabledCleanup has no pools."""
    if driver.enabled_cleanup and (policy.mappings or policy.groups):
        yield Diagnostic(
            span=policy.source.span("spec", "driver", "enabledCleanup"),
            message=f"Policy '{policy.name}' has pools, so enabledCleanup removes its driver when a pool ends.",
            notes=(
                "A pool's DaemonSet is deleted when a wave ends, a mapping is renamed or a frozen group is removed.",
            ),
            hint="Remove enabledCleanup one commit before the first pool; use state: Absent to remove drivers.",
        )
