"""NodeFeatureRules: they make NFD set the labels by which DaemonSets select their nodes."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import Literal

import msgspec

from compiler import recipes
from compiler.fleet import definitions
from compiler.planning import kernels, plan, pools
from compiler.rendering import ir
from runtime import driver_labels

Hardware = tuple[tuple[recipes.Feature, ...], ...]
"""Features of which all of one element hold."""


class DeviceRule(msgspec.Struct, frozen=True, kw_only=True):
    """A label for the nodes with certain hardware."""

    name: str
    label: str
    hardware: Hardware
    extended: Mapping[str, str] = {}
    """Resources that NFD gives such nodes, each with its amount."""
    counts: bool = False
    """True where the label's value is the number of PCI functions, otherwise it is "true"."""


class DriverRule(msgspec.Struct, frozen=True, kw_only=True):
    """A label with the value of a feature that the driver installers tell."""

    name: str
    """Of the feature, and of the rule."""
    label: str
    states: tuple[str, ...] = ()
    """The values that it may have; none: any."""


class DeviceRules(msgspec.Struct, frozen=True, kw_only=True):
    """The NodeFeatureRule of a recipe's name: labels for its hardware, and for the driver that a node has loaded."""

    name: str
    rules: tuple[DeviceRule, ...]
    of_driver: tuple[DriverRule, ...] = ()


class KernelRule(msgspec.Struct, frozen=True, kw_only=True):
    """The kernels of a class, as a feature matcher's operator and value."""

    name: str
    operator: Literal["In", "InRegexp"]
    value: str
    features: tuple[recipes.Feature, ...] = ()
    """What else holds: the operating system, where the mapping asks for one."""


class PoolRule(msgspec.Struct, frozen=True, kw_only=True):
    """The pool of the nodes in this group and with these kernels; None matches every node."""

    name: str
    group: str | None
    kernels: str | None


class PoolRules(msgspec.Struct, frozen=True, kw_only=True):
    """The NodeFeatureRule `<recipe>-pool-<policy>`: the label that says in which pool of its policy a node is."""

    name: str
    policy: str
    label: str
    group_variable: str
    kernel_variable: str
    hardware: Hardware
    """What a node of the policy has; for a recipe of every node, a feature that every node has."""
    groups: tuple[pools.Group, ...]
    """In order: the first that matches holds."""
    kernels: tuple[KernelRule, ...]
    """In order: the first that matches holds."""
    pools: tuple[PoolRule, ...]


def of_plan(planned: plan.Plan) -> Iterator[ir.Input]:
    """Yield the rules of a cluster: for the hardware and the drivers of each recipe, and for the pools of each policy.

    Devices of a built-in recipe are labelled in every cluster, those of another one where it has a policy.
    """
    for one in planned.recipes:
        recipe = one.recipe
        is_installed = any(division.policy.installed for division in one.divisions)
        rules = DeviceRules(
            name=recipe.name,
            rules=tuple(_device_rules(recipe)) if recipe.has_rules else (),
            of_driver=_driver_rules(recipe) if is_installed else (),
        )
        if rules.rules or rules.of_driver:
            yield ir.Input(("nodefeaturerule-devices",), rules)
    for division in planned.divisions:
        if division.label is not None and division.parts:
            yield ir.Input(("nodefeaturerule-pool",), _pool_rules(division, division.label))


def _pool_rules(division: pools.Division, label: str) -> PoolRules:
    recipe, name = division.policy.recipe, division.policy.name
    groups = tuple(group for group in division.groups if group.nodes or group.declared is None)
    return PoolRules(
        name=f"{recipe.name}-pool-{name}",
        policy=name,
        label=label,
        # Variables of all objects share one map, so they are named after the policy.
        group_variable=f"{recipe.name}.{name}.group",
        kernel_variable=f"{recipe.name}.{name}.kernel",
        hardware=_hardware(recipe),
        groups=groups,
        kernels=tuple(_kernel_rules(division)),
        pools=tuple(
            PoolRule(
                name=pool.name,
                group=pool.group.name if pool.group else None,
                kernels=pool.kernels.name if pool.kernels else None,
            )
            for pool in division.parts
            if pool.group is None or pool.group in groups
        ),
    )


def _kernel_rules(division: pools.Division) -> Iterator[KernelRule]:
    for mapping in division.policy.mappings:
        classes = [kernel_class for kernel_class in division.classes if kernel_class.mapping is mapping]
        features = (_system(mapping.os),) if mapping.os else ()
        for one in classes:
            if one.kernel is not None:
                yield KernelRule(name=one.name, operator="In", value=one.kernel, features=features)
        # If a mapping has a pool for each kernel, this rule takes its other kernels, so that no later mapping does.
        if mapping.regexp is not None:
            yield KernelRule(name=mapping.name, operator="InRegexp", value=mapping.regexp, features=features)
        elif mapping.literal is not None and not any(one.kernel for one in classes):
            kernel = kernels.cleaned(mapping.literal)
            yield KernelRule(name=mapping.name, operator="In", value=kernel, features=features)


def _system(stated: definitions.System) -> recipes.Feature:
    named = {"ID": (stated.id,), "VERSION_ID": stated.versions}
    terms = {name: recipes.Expression(op="In", value=values) for name, values in named.items() if values}
    return recipes.Feature(feature="system.osrelease", matchExpressions=terms)


def _driver_rules(recipe: recipes.Recipe) -> tuple[DriverRule, ...]:
    version, state = driver_labels.version_feature(recipe.name), driver_labels.state_feature(recipe.name)
    return (
        DriverRule(name=version, label=recipe.driver_version),
        DriverRule(name=state, label=recipe.driver_state, states=driver_labels.STATES),
    )


def _device_rules(recipe: recipes.Recipe) -> Iterator[DeviceRule]:
    yield DeviceRule(
        name=recipe.name,
        label=recipe.present,
        hardware=_hardware(recipe),
        extended=dict(sorted(recipe.extended.items())),
    )
    for kind in recipe.kinds:
        name = f"{recipe.name}.{kind.name}"
        both = (*kind.devices, *kind.virtual) if kind.devices else ()
        yield DeviceRule(name=name, label=kind.present, hardware=_further(recipe, ((_functions(kind, both),),)))
        physical = _functions(kind, kind.devices, none_of=kind.virtual)
        yield DeviceRule(name=f"{name}.pf", label=kind.pf_count, hardware=((physical,),), counts=True)
        if kind.virtual:
            virtual = _functions(kind, kind.virtual)
            yield DeviceRule(name=f"{name}.vf", label=kind.vf_count, hardware=((virtual,),), counts=True)


def _hardware(recipe: recipes.Recipe) -> Hardware:
    """Return how NFD knows the nodes of a recipe: by PCI functions, by features, or, for every node, by its name.

    A rule without a positive condition would also fire for nodes that no worker has reported.
    """
    if recipe.kinds:
        return _further(recipe, tuple((feature,) for feature in _all_functions(recipe.kinds)))
    found = _further(recipe, ((),))
    named = recipes.Feature(feature="system.name", matchExpressions={"nodename": recipes.Expression(op="Exists")})
    return tuple(known if _is_positive(known) else (named, *known) for known in found)


def _is_positive(known: Iterable[recipes.Feature]) -> bool:
    return any(term.op != "DoesNotExist" for feature in known for term in feature.matchExpressions.values())


def _further(recipe: recipes.Recipe, hardware: Hardware) -> Hardware:
    """Return hardware with the recipe's further features, and with each of its alternatives."""
    alternatives: Hardware = tuple(
        (*functions, *one.features)
        for one in recipe.alternatives
        for functions in (tuple((feature,) for feature in _all_functions(one.kinds)) or ((),))
    ) or ((),)
    return tuple((*base, *recipe.features, *one) for base, one in product(hardware, alternatives))


def _all_functions(kinds: Iterable[recipes.Kind]) -> Iterator[recipes.Feature]:
    """Yield a condition for the kinds of a vendor whose functions are known by their device ids, and for each other."""
    listed: dict[tuple[str, tuple[str, ...]], set[str]] = {}
    for kind in kinds:
        if kind.devices:
            listed.setdefault((kind.vendor, kind.classes), set()).update(kind.devices, kind.virtual)
        else:
            yield _functions(kind, ())
    for (vendor, classes), identifiers in listed.items():
        yield _pci(vendor, classes, sorted(identifiers))


def _functions(kind: recipes.Kind, identifiers: Sequence[str], none_of: Sequence[str] = ()) -> recipes.Feature:
    """Return a condition for functions of a kind with these device ids; without any, for all but `none_of`."""
    return _pci(kind.vendor, kind.classes, identifiers, () if identifiers else none_of)


def _pci(
    vendor: str, classes: Sequence[str], identifiers: Sequence[str], none_of: Sequence[str] = ()
) -> recipes.Feature:
    stated = (
        ("vendor", "In", [vendor]),
        ("device", "In", identifiers),
        ("device", "NotIn", none_of),
        ("class", "In", classes),
    )
    terms = {name: recipes.Expression(op=op, value=tuple(values)) for name, op, values in stated if values}
    return recipes.Feature(feature="pci.device", matchExpressions=terms)
