"""Rules for one KAEPolicy or DevicePolicy."""

from collections.abc import Iterator, Sequence

from compiler import diagnostics, keywords, names, recipes, wording
from compiler.checks import containers, dra, driver, images, pools, resources
from compiler.diagnostics import Diagnostic, rule, shared_rule
from compiler.fleet import definitions, overlap, pods, selectors
from compiler.formats import documents, references
from compiler.planning import kernels, overrides

shared_rule("selector-never-matches", "error", "A policy's selector can match a node.")


def findings(policy: definitions.Policy) -> Iterator[Diagnostic]:
    """Yield the mistakes in one policy, judged without any nodes."""
    yield from without_settings(policy)
    yield from no_kind_enabled(policy)
    yield from default_with_selector(policy)
    yield from selector_values(policy)
    yield from tolerations(policy.source, ("spec", "daemonSets", "tolerations"), policy.pods.tolerations)
    yield from reserved_labels(policy)
    variants = tuple(overrides.variants(policy))
    yield from images.of_driver(variants)
    yield from images.of_device_plugin(policy)
    yield from images.of_programs(policy)
    yield from facts_of_programs(policy)
    yield from waiting(policy, variants)
    yield from components(policy)
    yield from driver.findings(policy, variants)
    yield from pools.findings(policy, variants)
    yield from resources.of_plugin(policy)
    yield from dra.settings(policy)


def components(policy: definitions.Policy) -> Iterator[Diagnostic]:
    """The API server takes the pull secrets and the amounts of each component, and a DaemonSet can replace its pods."""
    rollout = (*policy.written.rollout, "rollout")
    parts: tuple[tuple[definitions.Component, documents.Path, definitions.Driver | definitions.Plugin | None], ...] = (
        ("driver", rollout, policy.driver),
        ("devicePlugin", ("spec", "devicePlugin"), policy.plugin),
    )
    for name, path, part in parts:
        if part is not None:
            yield from containers.pull_secrets(policy.source, policy.written.pulls[name], part.container.pull_secrets)
            yield from containers.amounts(policy.source, ("spec", name, "resources"), part.container.resources)
            yield from _unavailable(policy.source, (*path, "maxUnavailable"), part.max_unavailable)
    for program in policy.programs:
        path = ("spec", "programs", program.name)
        yield from _unavailable(policy.source, (*path, "maxUnavailable"), program.pace)
        for container, given in program.resources.items():
            yield from containers.amounts(policy.source, (*path, "resources", container), given)


@rule("unavailable-zero", "error")
def _unavailable(source: documents.Document, path: documents.Path, most: int | str) -> Iterator[Diagnostic]:
    """A DaemonSet may replace at least one pod at a time."""
    if most in (0, "0%"):  # Its maxSurge is 0.
        message = "'maxUnavailable' is zero, so no pod can ever be replaced."
        yield Diagnostic(span=source.span(*path), message=message, hint="Write at least 1 or 1%.")


_OF_KERNEL = (
    "several kernels",
    "Name an image after the kernel in every mapping of kernelMappings (${KERNEL_FULL_VERSION}).",
)
_OF_SYSTEM = (
    "several operating systems",
    "Write `os` in every mapping of kernelMappings, with one version for ${os.version}.",
)


def facts_of_programs(policy: definitions.Policy) -> Iterator[Diagnostic]:
    """Yield the programs that name the kernel, or the operating system, in pools of several."""
    known = [set(_facts(policy, mapping)) for mapping in policy.mappings] or [set()]
    for program in policy.programs:
        texts = (place.text for place in references.places(program.data, program.path))
        named = dict.fromkeys(name for text in texts for name in references.names(text))
        for sort, (several, hint) in (("kernel", _OF_KERNEL), ("os", _OF_SYSTEM)):
            own = (name for name in named if name.startswith(f"{sort}."))
            name = next((one for one in own if not all({sort, one} & facts for facts in known)), None)
            if name is not None and program.enabled:
                yield Diagnostic(
                    code="reference-absent",
                    span=policy.source.setting_span("spec", "kernelMappings"),
                    message=f"Program '{program.name}' names '${{{name}}}', and policy '{policy.name}' has pools of "
                    f"{several}.",
                    hint=hint,
                )


@rule("driver-differs", "guard")
def waiting(policy: definitions.Policy, variants: Sequence[overrides.Variant]) -> Iterator[Diagnostic]:
    """A program that a policy has once, and that waits for the driver, waits for the same driver on all of its nodes.

    Its pods wait for the modules that the policy says, and never start where a pool has others, or none.
    """
    driver = policy.installed
    own = (one for one in policy.programs if one.enabled and not one.is_pooled and one.data.get("after") == "driver")
    program = next(own, None)
    if driver is None or program is None:
        return
    differing = {
        (*layer.path, *policy.written.below, field): layer
        for variant in variants
        for field in ("modules", "state")
        if getattr(variant.driver, field) != getattr(driver, field)
        for layer in variant.layers
    }
    for path, layer in differing.items():
        if policy.source.has(path):
            yield Diagnostic(
                span=policy.source.span(*path),
                message=f"Program '{program.name}' waits for the driver of policy '{policy.name}', and '{layer.name}' "
                f"has {'other modules' if path[-1] == 'modules' else 'another state'}.",
                notes=("One pod for all pools waits for the modules that spec.driver has.",),
                hint="Write per: pool at the program in the recipe, or the same for all pools.",
            )
    if kernels.is_named(driver.images[driver.installer]):
        yield Diagnostic(
            span=policy.source.span("spec", "recipe"),
            message=f"Program '{program.name}' waits for the driver of policy '{policy.name}' by the image of its "
            "installer, which is named after the kernel.",
            notes=("One pod for all pools has one image.",),
            hint="Write per: pool at the program in the recipe, or name the installer's image without the kernel.",
        )


def _facts(policy: definitions.Policy, mapping: definitions.KernelMapping) -> Iterator[str]:
    """Yield what all nodes of each pool of a mapping have in common: the kernel, or names that references have."""
    if overrides.is_per_kernel(policy, mapping):
        yield "kernel"
    yield from kernels.of_system(mapping.os)


def without_settings(policy: definitions.Policy) -> Iterator[Diagnostic]:
    """Yield that a spec states nothing at any depth: its defaults are for every node, with the newest images."""
    spec = policy.source.data.get("spec")
    if spec and not _states(spec):  # The schema tells of an empty mapping.
        yield Diagnostic(
            code="invalid-value",
            span=policy.source.setting_span("spec"),
            message="'spec' is empty: no part of it has a value.",
            hint="Write the driver's version, and its nodes; `default: true` takes all that no other policy takes.",
        )


def _states(value: object) -> bool:
    """Return whether a value, or any value in it, is neither an empty mapping nor an empty list."""
    if isinstance(value, dict | list):
        return any(map(_states, value.values() if isinstance(value, dict) else value))
    return True


@rule("no-kind-enabled", "error")
def no_kind_enabled(policy: definitions.Policy) -> Iterator[Diagnostic]:
    """A KAEPolicy serves at least one kind of device."""
    if policy.written.switches and not policy.kinds:
        message = f"Policy '{policy.name}' enables no kind of device."
        hint = f"Set one of {wording.listed(policy.written.switches)} to true, or delete the policy."
        yield Diagnostic(span=policy.source.setting_span("spec", "operator"), message=message, hint=hint)


@rule("default-with-selector", "error")
def default_with_selector(policy: definitions.Policy) -> Iterator[Diagnostic]:
    """The default policy has no nodeSelector of its own."""
    if policy.is_default and policy.selector is not None:
        yield Diagnostic(
            span=policy.source.setting_span("spec", "nodeSelector"),
            message=f"Policy '{policy.name}' is the default and has a nodeSelector too.",
            notes=("The default policy takes the nodes that no other policy of the cluster matches.",),
            hint="Remove `default: true` or the nodeSelector.",
        )


def selector_values(policy: definitions.Policy) -> Iterator[Diagnostic]:
    """The requirements of every selector are well formed, ask for no effect and do not contradict each other."""
    own: tuple[documents.Path, selectors.Selector | None] = (("spec", "nodeSelector"), policy.selector)
    for path, given in (own, *(((*group.path, "inventorySelector"), group.selector) for group in policy.groups)):
        if given is not None:
            yield from selector(policy.source, path, given, f"policy '{policy.name}'")


def selector(
    source: documents.Document, path: documents.Path, given: selectors.Selector, owner: str
) -> Iterator[Diagnostic]:
    """The requirements of a selector are well formed, ask for no effect and do not contradict each other."""
    yield from _effects(source, path, given, owner)
    misused = list(_values(source, path, given))
    yield from misused
    contradicted = None if misused else overlap.contradiction(selectors.of(given), ())
    if contradicted is not None:
        yield Diagnostic(
            code="selector-never-matches",
            span=source.setting_span(*path),
            message=f"The {path[-1]} of {owner} can match no node.",
            notes=(f"Its requirements on '{contradicted}' contradict each other.",),
            hint="Remove one of them.",
        )


@rule("selector-on-effect", "error")
def _effects(
    source: documents.Document, path: documents.Path, given: selectors.Selector, owner: str
) -> Iterator[Diagnostic]:
    """No selector uses a label that policies change."""
    for requirement in selectors.of(given):
        is_effect = recipes.is_count(requirement.key) and requirement.key.endswith(".vf")
        if is_effect or recipes.is_of_pool(requirement.key) or recipes.is_of_driver(requirement.key):
            yield Diagnostic(
                span=_key_span(source, path, given, requirement.key),
                message=f"A selector of {owner} uses '{requirement.key}', a label that policies change.",
                notes=("A node could move between policies for ever, as each policy changes the label.",),
                hint="Select by a label that people or clouds set, or by the kinds of devices.",
            )


@rule("selector-values", "error")
def _values(source: documents.Document, path: documents.Path, given: selectors.Selector) -> Iterator[Diagnostic]:
    """A selector requirement has the values that its operator needs."""
    for index, expression in enumerate(given.matchExpressions):
        misuse = selectors.misuse(expression)
        if misuse:
            message = f"Operator '{expression.operator}' on '{expression.key}' {misuse}."
            yield Diagnostic(span=source.span(*path, "matchExpressions", index, "values"), message=message)


def _key_span(
    source: documents.Document, path: documents.Path, selector: selectors.Selector, key: str
) -> diagnostics.Span:
    """Return the position of a label in a selector."""
    if key in selector.matchLabels:
        return source.key_span(*path, "matchLabels", key)
    index = next(index for index, expression in enumerate(selector.matchExpressions) if expression.key == key)
    return source.span(*path, "matchExpressions", index, "key")


@rule("toleration", "error")
def tolerations(
    source: documents.Document, path: documents.Path, given: tuple[pods.Toleration, ...]
) -> Iterator[Diagnostic]:
    """The API server accepts every toleration.

    See `ValidateTolerations` in Kubernetes' core validation.
    """
    for index, toleration in enumerate(given):
        if toleration.key is None and toleration.operator != "Exists":
            message = keywords.TOLERATES_ALL
            field, hint = "operator", "Name the taint's key, or write operator: Exists."
        elif toleration.operator == "Exists" and toleration.value:
            message = keywords.TOLERATES_ANY_VALUE
            field, hint = "value", "Remove the value, or use operator Equal."
        elif toleration.tolerationSeconds is not None and toleration.effect != "NoExecute":
            message = keywords.TOLERATES_FOR_SECONDS
            field, hint = "tolerationSeconds", "Write effect: NoExecute, or remove tolerationSeconds."
        else:
            continue
        yield Diagnostic(span=source.span(*path, index, field), message=message, hint=hint)


@rule("reserved-label", "error")
def reserved_labels(policy: definitions.Policy) -> Iterator[Diagnostic]:
    """Labels for pods replace none that the compiler sets."""
    for key in sorted(policy.pods.labels):
        if key in names.RESERVED_LABELS:
            yield Diagnostic(
                span=policy.source.key_span("spec", "daemonSets", "labels", key),
                message=f"The label '{key}' is set by the compiler.",
                notes=("DaemonSets select their pods by it.",),
                hint="Use a label with a domain of your own.",
            )
