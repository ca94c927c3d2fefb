"""The smallest valid objects, for tests that care about one part of them."""

import functools
import pickle
from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from compiler import API_VERSION, diagnostics, pipeline, schema
from compiler.fleet import definitions
from compiler.formats import canonical, decode, documents
from compiler.inventory import reduction, snapshot
from compiler.output import tree
from compiler.planning import overrides, plan
from compiler.project import package_data
from compiler.read import fleet as reader
from compiler.rendering import layout, templates

PINNED: Mapping[str, Any] = {"driver": {"version": "2.2.0"}, "devicePlugin": {"version": "1.4.1"}}
"""The spec of a policy that needs no settings."""

HPRE = {"openfuyao.com/kae.present": "true", "openfuyao.com/kae.hpre.present": "true"}
"""The labels that the rules give a machine with HPRE devices, without their counts."""


def document(data: Any, file: str = "policies/test.yaml") -> documents.Document:
    """Return data as read from a file that holds nothing else."""
    text = canonical.dump_json(data) if file.endswith(".json") else canonical.dump_yaml(data)
    (found,), findings = decode.decode(file, text.encode())
    assert findings == []
    return found


def raw(kind: str, name: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return a document's data."""
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": {"name": name}, "spec": dict(spec)}


def policy(name: str = "tls", **spec: Any) -> definitions.Policy:
    """Return a policy; without a spec it matches every node."""
    return reader.policy_of(document(raw("KAEPolicy", name, spec), f"policies/{name}.yaml"), judge().complete, {})


IMAGES: Mapping[str, Any] = {
    name: {"repository": "registry.example.com/drivers", "image": image, "version": "1.0"}
    for name, image in (("installer", "installer"), ("device-plugin", "kae-device-plugin"))
}
"""The images of a recipe that has no payloads."""


def recipe(name: str = "onload", **spec: Any) -> documents.Document:
    """Return a recipe; without a spec it is for every node, and has neither driver nor device plugin."""
    data = {"title": name, "match": {"all": {}}, "images": dict(IMAGES)} | spec
    return document(raw("Recipe", name, data), f"recipes/{name}/recipe.yaml")


def device_policy(name: str, of: documents.Document, **spec: Any) -> definitions.Policy:
    """Return a policy of a recipe; without a spec it matches every node."""
    recipe_name = of.data["metadata"]["name"]
    data = raw("DevicePolicy", name, {"recipe": recipe_name} | spec)
    return reader.policy_of(document(data, f"policies/{name}.yaml"), judge().complete, {recipe_name: of})


def variants(item: definitions.Policy) -> tuple[overrides.Variant, ...]:
    """Return every driver that a policy can install."""
    return tuple(overrides.variants(item))


def selecting(name: str, **labels: str) -> definitions.Policy:
    """Return a policy for nodes with these labels."""
    return policy(name, nodeSelector={"matchLabels": labels})


def excluding(size: int) -> list[definitions.Policy]:
    """Return a default policy whose DaemonSets list about this many bytes, and the policies that list the values."""
    spec = {**PINNED, "operator": {"enabledHPRE": True, "enabledSEC": True, "enabledZIP": True}}
    # As long as a label's value can be; each of three device kinds repeats them, with quotes and a comma.
    hosts = [f"kp920-{number:05}-".ljust(63, "x") for number in range(size // (3 * 66))]
    listed = [
        policy(f"p{number}", nodeSelector={"matchExpressions": [expression]}, **spec)
        for number in range(-(-len(hosts) // 256))
        for expression in [
            {"key": "kubernetes.io/hostname", "operator": "In", "values": hosts[256 * number : 256 * (number + 1)]}
        ]
    ]
    return [*listed, policy("rest", default=True, **spec)]


def cluster(name: str = "east", **spec: Any) -> definitions.Cluster:
    """Return a cluster; without a spec it has every default."""
    return reader.cluster_of(
        document(raw("KAECluster", name, spec), f"policies/clusters/{name}.yaml"), judge().complete
    )


def profile(
    labels: Mapping[str, str] | None = None,
    taints: Sequence[snapshot.Taint] = (),
    *,
    discovered: bool = True,
    os_image: str = "openEuler 22.03 (LTS-SP4)",
    kernel_version: str = "5.10.0-216.oe2203sp4.aarch64",
) -> snapshot.Profile:
    """Return a machine that KAE's driver supports."""
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
    """Return a node, by default one with HPRE devices."""
    return snapshot.Node(name=name, profile=machine or profile(), hostname=name, labels=labels or {})


def taint(text: str) -> snapshot.Taint:
    """Return a taint from kubectl's way of writing it: key=value:effect."""
    rest, _, effect = text.rpartition(":")
    key, _, value = rest.partition("=")
    return snapshot.Taint(key=key, value=value, effect=effect)


def nodes_of(*nodes: snapshot.Node, name: str = "east") -> snapshot.Inventory:
    """Return the inventory of a cluster."""
    return snapshot.Inventory(cluster=snapshot.ClusterName(name), file=f"inventory/{name}.json", nodes=nodes)


def kubernetes_node(
    name: str = "kp920-01", labels: Mapping[str, str] | None = None, taints: Sequence[Mapping[str, str]] = ()
) -> dict[str, Any]:
    """Return a Node as the API server prints it, volatile fields included."""
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
    """Return the inventory of Nodes as the API server prints them."""
    return reduction.of_kubernetes(snapshot.ClusterName("east"), "inventory/east.json", items, ignored)


@functools.cache
def renderer() -> layout.Render:
    """Return the templates, which render equal values once."""
    return templates.renderer(package_data.templates(), package_data.code())


@functools.cache
def judge() -> schema.Judge:
    """Return the schemas of the documents."""
    return schema.Judge(package_data.schemas())


def view(
    policies: Sequence[definitions.Policy],
    nodes: Sequence[snapshot.Node] = (),
    where: definitions.Cluster | None = None,
) -> tuple[plan.Plan, tuple[diagnostics.Diagnostic, ...]]:
    """Return the plan of policies on a cluster's nodes, and the findings."""
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
    """Return the files that a cluster compiles to, by path."""
    seen, findings = view(policies, nodes, where)
    assert not diagnostics.has_errors(findings), findings
    return dict(compiled(seen).files)


def compiled(planned: plan.Plan) -> tree.Tree:
    """Return the tree that the plan of a cluster compiles to."""
    return pipeline.render_cluster(planned, renderer())[0]


def objects(
    policies: Sequence[definitions.Policy] = (),
    nodes: Sequence[snapshot.Node] = (),
    where: definitions.Cluster | None = None,
) -> dict[str, Any]:
    """Return the objects that a cluster compiles to, by path, as PyYAML reads them."""
    texts = files(policies, nodes, where)
    return {
        path: pickle.loads(_read(text))  # noqa: S301 - it is ours
        for path, text in texts.items()
        if path.endswith(".yaml") and path != "kustomization.yaml"
    }


@functools.cache
def _read(text: str) -> bytes:
    """Return what PyYAML reads, pickled: most objects of most clusters are alike, and a test may change its own."""
    return pickle.dumps(yaml.load(text, yaml.CSafeLoader))


def components(found: Mapping[str, Any]) -> set[str]:
    """Return the components that these files belong to."""
    return {path.partition("/")[0] for path in found if "/" in path}


def codes(found: Sequence[diagnostics.Diagnostic]) -> list[str]:
    """Return the codes of findings, in their order."""
    return [diagnostic.code for diagnostic in found]
