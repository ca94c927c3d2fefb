"""The files of a cluster: the components of its output, their objects, rendered once, and the tree that holds them."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import msgspec

from compiler import names
from compiler.fleet import clusters
from compiler.formats import canonical
from compiler.output import index_file
from compiler.output import tree as trees
from compiler.planning import plan, supported
from compiler.rendering import (
    admission,
    cluster_programs,
    gitops,
    ir,
    network_policies,
    node_feature_rules,
    node_programs,
    programs,
)
from compiler.rendering import privileges as object_privileges

Render = Callable[[ir.Manifest], Mapping[str, Any]]


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
    Component(name="program", inputs=programs.of_plan),
    Component(name="admission", inputs=admission.of_plan),
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


class Object(msgspec.Struct, frozen=True, kw_only=True):
    """A Kubernetes object of a cluster's output."""

    path: str
    """The path below output/<cluster>/."""
    component: str
    data: Mapping[str, Any]
    workload: index_file.Workload | None = None
    """The entry of index.json for a DaemonSet of a recipe."""

    images: tuple[str, ...] = ()
    """Images that it names beside those of its containers, such as in arguments."""
    lists_privileges: bool = False
    """True for a program of a recipe whose privileges are told: those of the built-in recipe never change."""


def objects(made: ir.ClusterManifests, render: Render) -> tuple[Object, ...]:
    """Return every object of a cluster, sorted by path, with the annotations of its GitOps engine."""
    rendered = [
        _object(manifest, gitops.annotated(render(manifest), made.engine, kept=manifest.kept))
        for manifest in made.manifests
    ]
    rendered.extend(_object(manifest, render(manifest)) for manifest in made.bootstrap)
    return tuple(sorted(rendered, key=lambda obj: obj.path))


def tree(planned: plan.Plan, rendered: Iterable[Object]) -> trees.Tree:
    """Return the files of a cluster: its objects, kustomization.yaml, images.txt and perhaps privileges.txt."""
    rendered = tuple(rendered)
    texts: dict[str, str] = {}
    for obj in rendered:
        if obj.path in texts:
            raise ValueError(f"two objects of one cluster are called {obj.path}")
        texts[obj.path] = canonical.dump_yaml(obj.data)
    applied = [obj for obj in rendered if obj.component != names.BOOTSTRAP]
    texts["kustomization.yaml"] = canonical.dump_yaml(
        {
            "apiVersion": "kustomize.config.k8s.io/v1beta1",
            "kind": "Kustomization",
            "resources": [obj.path for obj in sorted(applied, key=lambda obj: (NAMES.index(obj.component), obj.path))],
        }
    )
    images = sorted({image for obj in applied for image in (*_images(obj.data), *obj.images)})
    texts["images.txt"] = "".join(f"{image}\n" for image in images)
    if any(obj.lists_privileges for obj in rendered):
        texts["privileges.txt"] = "".join(f"{privilege}\n" for privilege in privileges(rendered))
    facts = index_file.Index(
        workloads=tuple(obj.workload for obj in rendered if obj.workload),
        has_nodes=bool(planned.inventory.nodes),
        declared=planned.cluster.source is not None,
        frozen=tuple(
            index_file.Frozen(policy=division.policy.name, group=group.name, entry=group.declared.entry)
            for division in planned.divisions
            for group in division.groups
            if group.declared is not None and group.declared.is_frozen
        ),
    )
    return trees.Tree.of(planned.cluster.name, texts, facts)


def privileges(rendered: Iterable[Object]) -> tuple[object_privileges.Listed, ...]:
    """Return the privileges of the programs of all recipes but the built-in one."""
    rendered = tuple(rendered)
    own = (obj.data for obj in rendered if obj.lists_privileges)
    return object_privileges.listed(own, [obj.data for obj in rendered])


_LISTED = node_programs.Pod | programs.Program | admission.Admission


def _object(manifest: ir.Manifest, data: Mapping[str, Any]) -> Object:
    folder = manifest.folder or manifest.component
    path = f"{folder}/{data['kind'].lower()}-{data['metadata']['name']}.yaml"
    return Object(
        path=path,
        component=manifest.component,
        data=data,
        workload=_workload(path, manifest.value),
        images=manifest.value.images if isinstance(manifest.value, programs.Program) else (),
        lists_privileges=bool(manifest.folder) and isinstance(manifest.value, _LISTED),
    )


def _workload(path: str, value: Any) -> index_file.Workload | None:
    match value:
        case node_programs.DevicePlugin():
            return index_file.Workload(file=path, component="device-plugin", policy=value.policy, recipe=value.recipe)
        case node_programs.DriverPool(policy=policy, recipe=recipe, pool=pool, state=state):
            return index_file.Workload(
                file=path, component="driver", policy=policy, pool=pool, state=state, recipe=recipe
            )
        case programs.Program(component=component, policy=policy, recipe=recipe, pool=pool):
            return index_file.Workload(file=path, component=component, policy=policy, pool=pool, recipe=recipe)
    return None


def _images(data: Any) -> Iterator[str]:
    rest = [data]
    while rest:
        value = rest.pop()
        if isinstance(value, dict):
            if isinstance(image := value.get("image"), str):
                yield image
            rest += value.values()
        elif isinstance(value, list):
            rest += value
