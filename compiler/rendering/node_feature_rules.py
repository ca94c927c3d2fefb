"""NodeFeatureRules: they make NFD set the labels by which DaemonSets select their nodes."""

from collections.abc import Iterator, Sequence

from compiler import devices
from compiler.fleet import definitions
from compiler.planning import kernels, pools
from compiler.rendering import ir


def of_cluster(cluster: definitions.Cluster, divisions: Sequence[pools.Division]) -> Iterator[ir.Manifest]:
    """Yield the rules of a cluster: for the devices of its nodes, and for the pools of each policy."""
    if not cluster.spec.nfd.enabled and not cluster.spec.nfd.nodefeaturerules:
        return
    identifiers = tuple(sorted(identifier for kind in devices.KINDS for identifier in (kind.pf, kind.vf)))
    rules = ir.DeviceRules(
        vendor=devices.VENDOR,
        devices=identifiers,
        kinds=tuple(ir.RuleKind(name=kind.name, pf=kind.pf, vf=kind.vf) for kind in devices.KINDS),
    )
    yield ir.Manifest(component="node-feature-rule", template="nodefeaturerule-kae.yaml", value=rules)
    for division in divisions:
        if division.label is not None and division.pools:
            value = pool_rules(division, division.label, identifiers)
            yield ir.Manifest(component="node-feature-rule", template="nodefeaturerule-pool.yaml", value=value)


def pool_rules(division: pools.Division, label: str, identifiers: tuple[str, ...]) -> ir.PoolRules:
    """Return the rules that give the nodes of a policy the label of their pool; `identifiers` are PCI device ids."""
    name = division.policy.name
    groups = tuple(group for group in division.groups if group.nodes or group.declared is None)
    return ir.PoolRules(
        name=f"kae-pool-{name}",
        policy=name,
        label=label,
        # Variables of all objects share one map, so they are named after the policy.
        group_variable=f"kae.{name}.group",
        kernel_variable=f"kae.{name}.kernel",
        vendor=devices.VENDOR,
        devices=identifiers,
        groups=tuple(ir.GroupRule(name=group.name, nodes=group.nodes) for group in groups),
        kernels=tuple(_kernel_rules(division)),
        pools=tuple(
            ir.PoolRule(
                name=pool.name,
                group=pool.group.name if pool.group else None,
                kernels=pool.kernels.name if pool.kernels else None,
            )
            for pool in division.pools
            if pool.group is None or pool.group in groups
        ),
    )


def _kernel_rules(division: pools.Division) -> Iterator[ir.KernelRule]:
    for mapping in division.policy.spec.driver.kernelMappings:
        classes = [kernel_class for kernel_class in division.classes if kernel_class.mapping is mapping]
        for one in classes:
            if one.kernel is not None:
                yield ir.KernelRule(name=one.name, operator="In", value=one.kernel)
        # If a mapping has a pool for each kernel, this rule takes its other kernels, so that no later mapping does.
        if mapping.regexp is not None:
            yield ir.KernelRule(name=mapping.name, operator="InRegexp", value=mapping.regexp)
        elif mapping.literal is not None and not any(one.kernel for one in classes):
            yield ir.KernelRule(name=mapping.name, operator="In", value=kernels.cleaned(mapping.literal))
