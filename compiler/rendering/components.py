"""The components of an output: the record of each, and so the objects of a cluster."""

from collections.abc import Callable, Iterator

import msgspec

from compiler.fleet import clusters
from compiler.planning import plan, supported
from compiler.rendering import cluster_programs, ir, network_policies, node_feature_rules, node_programs


class Component(msgspec.Struct, frozen=True, kw_only=True):
    """A folder of templates/, which is also a folder of the output of each cluster that has objects of it."""

    name: str
    inputs: Callable[[plan.Plan], Iterator[ir.Input]]
    """The values of its objects in a cluster, with their templates."""
    wanted: Callable[[clusters.Spec], bool] = lambda _: True
    """True for the settings of a cluster that has the component."""


COMPONENTS = (
    Component(name="namespace", wanted=lambda spec: spec.namespaceManaged, inputs=cluster_programs.namespace),
    Component(name="openshift", wanted=lambda spec: spec.platform == "openshift", inputs=cluster_programs.constraints),
    Component(
        name="network-policies",
        wanted=lambda spec: spec.networkPolicies.enabled,
        inputs=network_policies.of_plan,
    ),
    Component(name="crds", wanted=lambda spec: spec.nfd.enabled, inputs=cluster_programs.definitions_of_nfd),
    Component(name="nfd", wanted=lambda spec: spec.nfd.enabled, inputs=cluster_programs.nfd),
    Component(
        name="node-feature-rule",
        wanted=lambda spec: spec.nfd.enabled or spec.nfd.nodefeaturerules,
        inputs=node_feature_rules.of_plan,
    ),
    Component(name="guard", wanted=supported.can_guard, inputs=node_programs.guards),
    Component(name="driver", inputs=node_programs.drivers),
    Component(name="device-plugin", inputs=node_programs.device_plugins),
    Component(name="watcher", inputs=cluster_programs.watcher),
    Component(name="monitoring", wanted=lambda spec: spec.monitoring.enabled, inputs=cluster_programs.monitoring),
)
"""In the order in which kustomize lists them."""

NAMES = tuple(component.name for component in COMPONENTS)


def manifests(planned: plan.Plan) -> tuple[ir.Manifest, ...]:
    """Return every object of a cluster, in the order of its components."""
    return tuple(
        ir.Manifest(
            component=component.name,
            template=f"{template}.yaml",
            value=made.value,
            kept=made.kept,
            folder=made.folder,
        )
        for component in COMPONENTS
        if component.wanted(planned.cluster.spec)
        for made in component.inputs(planned)
        for template in made.templates
    )
