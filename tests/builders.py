"""The smallest valid objects, for tests that care about one part of them."""

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from compiler import API_VERSION, diagnostics, pipeline, schema
from compiler.fleet import definitions, parse
from compiler.formats import canonical, decode, documents
from compiler.inventory import reduction, snapshot
from compiler.output import tree
from compiler.planning import plan
from compiler.project import package_data
from compiler.rendering import layout, templates

PINNED: Mapping[str, Any] = {"driver": {"version": "2.2.0"}, "devicePlugin": {"version": "1.4.1"}}
"""A policy's spec of which nothing has to be said."""

HPRE = {"openfuyao.com/kae.present": "true", "openfuyao.com/kae.hpre.present": "true"}
"""The labels that the rules give a machine with HPRE devices, without their counts."""


def document(data: Any, file: str = "policies/test.yaml") -> documents.Document:
    """Data as it is read from a file that holds nothing else."""
    text = canonical.dump_json(data) if file.endswith(".json") else canonical.dump_yaml(data)
    (found,), notes = decode.decode(file, text.encode())
    assert notes == []
    return found


def raw(kind: str, name: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    """A document's data."""
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": {"name": name}, "spec": dict(spec)}


def policy(name: str = "tls", **spec: Any) -> definitions.Policy:
    """A policy; without a spec it governs every node."""
    return parse.policy_of(document(raw("KAEPolicy", name, spec), f"policies/{name}.yaml"))


def selecting(name: str, **labels: str) -> definitions.Policy:
    """A policy for nodes with these labels."""
    return policy(name, nodeSelector={"matchLabels": labels})


def cluster(name: str = "east", **spec: Any) -> definitions.Cluster:
    """A cluster; without a spec it has every default."""
    return parse.cluster_of(document(raw("KAECluster", name, spec), f"policies/clusters/{name}.yaml"))


def profile(
    labels: Mapping[str, str] | None = None,
    taints: Sequence[snapshot.Taint] = (),
    *,
    discovered: bool = True,
    os_image: str = "openEuler 22.03 (LTS-SP4)",
    kernel_version: str = "5.10.0-216.oe2203sp4.aarch64",
) -> snapshot.Profile:
    """A machine that KAE's driver supports."""
    return snapshot.Profile(
        architecture="arm64",
        kernel_version=kernel_version,
        kubelet_version="v1.31.4",
        os_image=os_image,
        discovered=discovered,
        labels=HPRE if labels is None else labels,
        taints=tuple(taints),
    )


def node(
    name: str = "kp920-01", labels: Mapping[str, str] | None = None, machine: snapshot.Profile | None = None
) -> snapshot.Node:
    """A node with HPRE devices, if its profile says nothing else."""
    return snapshot.Node(name=name, profile=machine or profile(), hostname=name, labels=labels or {})


def taint(text: str) -> snapshot.Taint:
    """A taint from kubectl's way of writing it: key=value:effect."""
    rest, _, effect = text.rpartition(":")
    key, _, value = rest.partition("=")
    return snapshot.Taint(key=key, value=value, effect=effect)


def nodes_of(*nodes: snapshot.Node, name: str = "east") -> snapshot.Inventory:
    """The inventory of a cluster."""
    return snapshot.Inventory(cluster=snapshot.ClusterName(name), file=f"inventory/{name}.json", nodes=nodes)


def kubernetes_node(
    name: str = "kp920-01", labels: Mapping[str, str] | None = None, taints: Sequence[Mapping[str, str]] = ()
) -> dict[str, Any]:
    """A Node as the API server prints it, with the volatile facts that it always holds."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "uid": f"uid-of-{name}",
            "resourceVersion": "4711",
            "labels": {"kubernetes.io/hostname": name} | (HPRE if labels is None else dict(labels)),
        },
        "spec": {"taints": [dict(taint) for taint in taints]},
        "status": {
            "nodeInfo": {
                "architecture": "arm64",
                "kernelVersion": "5.10.0-216.oe2203sp4.aarch64",
                "kubeletVersion": "v1.31.4",
                "osImage": "openEuler 22.03 (LTS-SP4)",
                "bootID": "a-boot",
            },
            "conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": "2024-11-05T03:00:00Z"}],
            "images": [{"names": ["example.com/image:1"]}],
        },
    }


def reduced(*items: Mapping[str, Any], ignored: Sequence[str] = ()) -> snapshot.Inventory:
    """The inventory of Nodes as the API server prints them."""
    return reduction.of_kubernetes(snapshot.ClusterName("east"), "inventory/east.json", items, ignored)


@functools.cache
def renderer() -> layout.Render:
    """The templates, which render equal values once."""
    return templates.renderer(package_data.templates())


@functools.cache
def judge() -> schema.Judge:
    """The schemas of the documents."""
    return schema.Judge(package_data.schemas())


def view(
    policies: Sequence[definitions.Policy],
    nodes: Sequence[snapshot.Node] = (),
    where: definitions.Cluster | None = None,
) -> tuple[plan.Plan, tuple[diagnostics.Diagnostic, ...]]:
    """A cluster's policies on its nodes, and what is to be said of them."""
    place = where or cluster()
    fleet = definitions.Fleet(
        policies=tuple(policies),
        clusters=(place,),
        inventories={place.name: nodes_of(*nodes, name=place.name)},
    )
    return pipeline.plan_cluster(fleet, place)


def files(
    policies: Sequence[definitions.Policy] = (),
    nodes: Sequence[snapshot.Node] = (),
    where: definitions.Cluster | None = None,
) -> dict[str, str]:
    """The files that a cluster compiles to, by path."""
    seen, notes = view(policies, nodes, where)
    assert not diagnostics.has_errors(notes), notes
    return dict(compiled(seen).files)


def compiled(planned: plan.Plan) -> tree.Tree:
    """The tree that the plan of a cluster compiles to."""
    made = pipeline.cluster_plan(planned)
    return layout.tree(made, layout.objects(made, renderer()))


def objects(
    policies: Sequence[definitions.Policy] = (),
    nodes: Sequence[snapshot.Node] = (),
    where: definitions.Cluster | None = None,
) -> dict[str, Any]:
    """The objects that a cluster compiles to, by path, as PyYAML reads them."""
    texts = files(policies, nodes, where)
    return {
        path: yaml.load(text, yaml.CSafeLoader)
        for path, text in texts.items()
        if path.endswith(".yaml") and path != "kustomization.yaml"
    }


def components(found: Mapping[str, Any]) -> set[str]:
    """The components that these files belong to."""
    return {path.partition("/")[0] for path in found if "/" in path}


def codes(found: Sequence[diagnostics.Diagnostic]) -> list[str]:
    """The codes of findings, in their order."""
    return [diagnostic.code for diagnostic in found]
