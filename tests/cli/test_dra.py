"""Policies of both interfaces in one cluster: their objects, what a node can have once, and what is told of it."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from compiler.changes import objects
from tests import builders, in_process, project, revisions
from tests.cli import answers, livecluster
from tests.kube import apiserver

DRA: dict[str, Any] = {"interface": "DRA", "dra": {"queues": "Exclusive"}}


def recipe(name: str, resource: str = "example.com/npu") -> dict[str, Any]:
    found = {"name": resource, "class": "char", "groups": [{"paths": [{"path": f"/dev/{name}*"}]}]}
    image = {"repository": "registry.example.com/npu", "image": "kae-device-plugin", "version": "1.4.1"}
    spec = {
        "title": "NPU",
        "match": {"labels": {"npu": [name]}},
        "images": {"device-plugin": image},
        "devicePlugin": {"resources": [found]},
    }
    return document("Recipe", name, spec)


def document(kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "device.openfuyao.com/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def policy(name: str, recipe: str, **plugin: Any) -> dict[str, Any]:
    spec = {"recipe": recipe, "nodeSelector": {"matchLabels": {"pool": name}}, "devicePlugin": plugin}
    return document("DevicePolicy", name, spec)


def node(name: str, pool: str, npu: str, runtime: str = "containerd://2.1.4") -> dict[str, Any]:
    made = builders.kubernetes_node(name, {"pool": pool, "npu": npu})
    made["status"]["nodeInfo"] |= {"kubeletVersion": "v1.36.3", "containerRuntimeVersion": runtime}
    return made


def written(folder: Path, *documents: dict[str, Any], cluster: dict[str, Any] | None = None, **nodes: Any) -> Path:
    stated = {"kubernetesVersion": "1.36", "nfd": {"enabled": False}} if cluster is None else cluster
    files = {"policies/east.yaml": document("KAECluster", "east", stated)}
    for item in documents:
        name = item["metadata"]["name"]
        place = f"recipes/{name}/recipe.yaml" if item["kind"] == "Recipe" else f"policies/{name}.yaml"
        files[place] = item
    if nodes:
        items = [node(name.replace("_", "-"), *fields) for name, fields in nodes.items()]
        files["inventory/east.json"] = {"apiVersion": "v1", "kind": "List", "items": items}
    return project.write(folder, {path: json.dumps(data) for path, data in files.items()})


def classes(folder: Path) -> dict[str, Any]:
    found = (yaml.safe_load(path.read_text()) for path in folder.glob("output/east/**/deviceclass-*.yaml"))
    return {item["metadata"]["name"]: item["spec"] for item in found}


def test_a_resource_is_in_one_class_whatever_recipes_and_interfaces_offer_it(tmp_path: Path) -> None:
    made = [recipe("ascend"), recipe("other"), recipe("third", "example.com/third")]
    written(tmp_path, *made, policy("a", "ascend", **DRA), policy("b", "other", **DRA), policy("c", "third"))
    answers.told(tmp_path, "compile")
    both = classes(tmp_path)

    # A recipe that goes back stays in the class, as its nodes go one by one.
    written(tmp_path, policy("b", "other"))
    answers.told(tmp_path, "compile")

    assert classes(tmp_path) == both

    assert both == {
        "npu.example.com": {
            "extendedResourceName": "example.com/npu",
            "selectors": [
                {
                    "cel": {
                        "expression": "(device.driver == 'kae-ascend.openfuyao.com' || device.driver =="
                        " 'kae-other.openfuyao.com') && device.attributes[device.driver].?resource.orValue('') =="
                        " 'example.com/npu'"
                    }
                }
            ],
        }
    }


def test_no_node_has_one_resource_by_both_interfaces(tmp_path: Path) -> None:
    everywhere = policy("b", "other")
    del everywhere["spec"]["nodeSelector"]
    both = [recipe(name) | {} for name in ("ascend", "other")]
    for item in both:
        item["spec"]["match"] = {"all": {}}
    written(tmp_path, *both, policy("a", "ascend", **DRA), everywhere)

    said = answers.refused(1, tmp_path, "compile")

    assert "error[policy-overlap]" in said
    assert "Both offer 'example.com/npu'." in said


def test_plans_of_both_interfaces_have_the_same_amounts(tmp_path: Path) -> None:
    def planned(folder: Path, **plugin: Any) -> Any:
        kae = document("KAEPolicy", "tls", {"driver": {"enabled": False}, "devicePlugin": plugin})
        written(folder, kae)
        made = builders.kubernetes_node("n1", builders.HPRE | {"openfuyao.com/kae.hpre.pf": "2"})
        made["status"]["nodeInfo"] |= {"kubeletVersion": "v1.36.3", "containerRuntimeVersion": "containerd://2.1.4"}
        items = {"apiVersion": "v1", "kind": "List", "items": [made]}
        project.write(folder, {"inventory/east.json": json.dumps(items)})
        return json.loads(answers.told(folder, "plan", "-o", "json"))["clusters"][0]["nodes"][0]

    plans = [planned(tmp_path / "plugin"), planned(tmp_path / "dra", **DRA)]

    assert plans[1].pop("interface") == "DRA"
    assert plans[0] == plans[1]
    assert plans[1]["resources"] == {"openfuyao.com/kae.hpre": 2}


@pytest.mark.parametrize(
    ("cluster", "runtime", "said"),
    [
        ({}, "containerd://2.1.4", "cluster 'east' does not say its Kubernetes."),
        (None, "containerd://1.7.27", "1 node (n1) of cluster 'east' has containerd://1.7.27."),
        *(
            (None, runtime, f"1 node (n1) of cluster 'east' has {runtime}.")
            for runtime in (
                *("containerd://v1.7.2", "containerd://Unknown", "containerd://1", "containerd:1.7.2"),
                *("cri-o://1.20.0", "cri-o://1.27.9", "docker://24.0.7", "rkt://1.2"),
            )
        ),
        (None, "", "does not say which container runtime 1 node (n1) of cluster 'east' has."),
    ],
)
def test_what_a_cluster_lacks_for_dra_is_an_error_with_its_nodes(
    cluster: dict[str, Any] | None, runtime: str, said: str, tmp_path: Path
) -> None:
    written(tmp_path, recipe("ascend"), policy("a", "ascend", **DRA), cluster=cluster, n1=("a", "ascend", runtime))

    told = answers.refused(1, tmp_path, "compile")

    assert "error[dra-unsupported]" in told
    assert said in told


@pytest.mark.parametrize(
    "runtime", ["containerd://2.0.0-rc.1", "containerd://2.1.4-k3s1", "cri-o://1.28.0", "cri-o://1.36.1-2.rhaos4.21"]
)
def test_runtimes_that_give_containers_the_devices_of_claims_are_no_finding(runtime: str, tmp_path: Path) -> None:
    written(tmp_path, recipe("ascend"), policy("a", "ascend", **DRA), n1=("a", "ascend", runtime))

    answers.told(tmp_path, "compile")


def test_resources_with_like_names_have_a_class_each(tmp_path: Path) -> None:
    both = [recipe("one", "example.com/a.b"), recipe("two", "b.example.com/a")]
    written(tmp_path, *both, policy("a", "one", **DRA), policy("b", "two", **DRA))

    answers.told(tmp_path, "compile")

    named = {spec["extendedResourceName"]: name for name, spec in classes(tmp_path).items()}
    assert sorted(named) == ["b.example.com/a", "example.com/a.b"]
    assert named["b.example.com/a"] == "a.b.example.com"


def test_a_node_of_device_plugins_may_have_any_runtime(tmp_path: Path) -> None:
    both = [recipe("ascend"), policy("a", "ascend", **DRA), policy("b", "ascend")]
    written(tmp_path, *both, n1=("a", "ascend"), n2=("b", "ascend", "containerd://1.6.20"))

    assert in_process.kae(tmp_path, "compile").code == 0


def test_the_rights_that_come_with_dra_are_privileges_and_so_is_what_confines_them(tmp_path: Path) -> None:
    written(tmp_path, recipe("ascend"), policy("a", "ascend", **DRA), n1=("a", "ascend"))
    answers.told(tmp_path, "compile")

    listed = (tmp_path / "output/east/privileges.txt").read_text()
    bindings = sorted(path.name for path in (tmp_path / "output/east/guard").iterdir())

    assert "hostPath: /var/run/cdi" in listed
    assert "resourceslices" in listed
    assert bindings == [
        GUARD,
        "validatingadmissionpolicybinding-ascend-device-plugin.yaml",
    ]


GUARD = "validatingadmissionpolicy-ascend-device-plugin.yaml"


def test_explain_names_the_interface_and_the_classes_of_a_node(tmp_path: Path) -> None:
    written(tmp_path, recipe("ascend"), policy("a", "ascend", **DRA), n1=("a", "ascend"))

    said = answers.told(tmp_path, "explain", "n1")

    assert "  because it has npu=ascend, and offers resources by DRA\n" in said
    assert "  by Dynamic Resource Allocation, as devices of npu.example.com\n" in said


def test_plan_and_report_name_the_interface_beside_the_device_plugin(tmp_path: Path) -> None:
    written(tmp_path, recipe("ascend"), policy("a", "ascend", **DRA), n1=("a", "ascend"))
    answers.told(tmp_path, "compile")

    for command in ("plan", "report"):
        assert "kae-device-plugin:1.4.1 by DRA" in answers.told(tmp_path, command)
    (planned,) = json.loads(answers.told(tmp_path, "plan", "-o", "json"))["clusters"][0]["stacks"][0]["nodes"]
    (reported,) = json.loads(answers.told(tmp_path, "report", "-o", "json"))["policies"]
    (explained,) = json.loads(answers.told(tmp_path, "explain", "n1", "-o", "json"))["stacks"]
    assert {each["interface"] for each in (planned, reported, explained)} == {"DRA"}
    answers.told(tmp_path, "report", "--html", "page.html")
    assert "example.com/npu=? by DRA" in (tmp_path / "page.html").read_text()


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ({}, DRA, "Devices are offered by DRA from then on, and one in use only when its container has ended."),
        (DRA, {}, "by device plugins from then on, and what a claim has only when the claim has ended: until then"),
        (DRA, {"interface": "DRA", "dra": {"queues": "Shared"}}, ""),
    ],
)
def test_diff_says_what_a_change_of_interface_does_to_devices(
    before: dict[str, Any], after: dict[str, Any], said: str, tmp_path: Path
) -> None:
    own = policy("a", "ascend", **before)
    written(tmp_path, recipe("ascend"), own, n1=("a", "ascend"))
    answers.told(tmp_path, "compile")
    revisions.commit(tmp_path)
    own["spec"]["devicePlugin"] = after
    written(tmp_path, own)
    answers.told(tmp_path, "compile")

    told = answers.told(tmp_path, "diff", "HEAD")

    assert "1 node of policy a gets a new device-plugin pod in cluster east" in told
    assert said in told if said else "are offered by" not in told


def test_diff_says_that_containers_with_a_claim_of_a_withdrawn_resource_do_not_start_again(tmp_path: Path) -> None:
    two, own = recipe("ascend"), policy("a", "ascend", **DRA)
    resources = two["spec"]["devicePlugin"]["resources"]
    written(tmp_path, two, own, n1=("a", "ascend"))
    resources.append({"name": "example.com/other", "class": "char", "groups": [{"paths": [{"path": "/dev/other*"}]}]})
    written(tmp_path, two)
    revisions.commit(tmp_path)
    resources.pop()
    written(tmp_path, two)

    told = answers.told(tmp_path, "diff", "HEAD")

    assert "A container that has example.com/other by a claim does not start again once it ends." in told
    assert "example.com/npu by a claim" not in told


@pytest.mark.parametrize("engine", ["argocd", "flux"])
def test_nothing_that_dra_needs_leaves_the_cluster_while_nodes_go_back(engine: str, tmp_path: Path) -> None:
    cluster = {
        "kubernetesVersion": "1.36",
        "nfd": {"enabled": False},
        "gitops": {"engine": engine},
        "networkPolicies": {"enabled": True},
    }
    nodes = {"n1": ("a", "ascend"), "n2": ("a", "ascend")}
    written(tmp_path, recipe("ascend"), policy("a", "ascend"), cluster=cluster, **nodes)
    answers.told(tmp_path, "compile")
    revisions.commit(tmp_path)
    plugins = objects_of(tmp_path)
    written(tmp_path, policy("a", "ascend", **DRA), cluster=cluster)
    answers.told(tmp_path, "compile")
    revisions.commit(tmp_path)
    by_dra = objects_of(tmp_path)
    written(tmp_path, policy("a", "ascend"), cluster=cluster)
    answers.told(tmp_path, "compile")

    said = answers.told(tmp_path, "diff", "HEAD")

    assert objects_of(tmp_path) == plugins
    gone = {ref: data for ref, data in by_dra.items() if ref not in plugins}
    assert {ref.kind for ref in gone} == {
        "DeviceClass",
        "ClusterRole",
        "ClusterRoleBinding",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
        "NetworkPolicy",
    }
    assert {objects.protector(data) for data in gone.values()} == {engine}
    names = {"argocd": "Argo CD", "flux": "Flux"}
    assert f"pruned from the output, but {names[engine]} leaves it in the cluster: DeviceClass npu.example.com" in said
    assert "until somebody deletes it" in said
    (opened,) = (data["spec"] for ref, data in gone.items() if ref.kind == "NetworkPolicy")
    (account,) = (data["metadata"]["name"] for ref, data in plugins.items() if ref.kind == "ServiceAccount")
    assert opened["podSelector"] == {"matchLabels": {"app.kubernetes.io/name": account}}
    assert [each["port"] for each in opened["egress"][0]["ports"]] == [443, 6443]


def objects_of(folder: Path) -> dict[objects.Ref, Any]:
    return {objects.ref(data): data for data in livecluster.objects(folder, "east")}


def test_an_opt_out_of_a_node_with_dra_says_that_pods_stay_in_terminating(tmp_path: Path) -> None:
    label = "openfuyao.com/ascend.deploy.device-plugin"
    written(tmp_path, recipe("ascend"), policy("a", "ascend", **DRA), policy("b", "ascend"), n1=("a", "ascend"))
    answers.told(tmp_path, "compile")
    revisions.commit(tmp_path)
    items = [node("n1", "a", "ascend"), node("n2", "b", "ascend")]
    for item in items:
        item["metadata"]["labels"][label] = "false"
    project.write(tmp_path, {"inventory/east.json": json.dumps({"apiVersion": "v1", "kind": "List", "items": items})})

    compiled, planned = (in_process.kae(tmp_path, command).err for command in ("compile", "plan"))
    changed = in_process.kae(tmp_path, "diff", "HEAD")

    held = "pods there with a device by a claim stay in Terminating until the label is removed"
    assert (compiled.count(held), planned.count(held)) == (1, 1)
    assert "warning[claims-unended]: The device plugin of policy 'a', whose interface is DRA" in changed.err


@pytest.mark.parametrize(
    ("inject", "is_said"), [({}, False), ({"env": {"NPU_LOG": "1"}}, True), ({"preload": ["/usr/lib/npu.so"]}, True)]
)
def test_diff_says_whose_variables_and_mounts_win_where_the_interface_changes(
    inject: dict[str, Any], is_said: bool, tmp_path: Path
) -> None:
    made = recipe("ascend")
    made["spec"]["devicePlugin"]["resources"][0]["inject"] = [inject] if inject else []
    written(tmp_path, made, policy("a", "ascend"), n1=("a", "ascend"))
    answers.told(tmp_path, "compile")
    revisions.commit(tmp_path)
    said = []
    for plugin in (DRA, {}):
        written(tmp_path, policy("a", "ascend", **plugin))
        answers.told(tmp_path, "compile")
        said.append(answers.told(tmp_path, "diff", "HEAD"))
        revisions.commit(tmp_path)

    assert ("Variables and mounts that come with a device then win over those of the pod" in said[0]) is is_said
    assert ("Variables and mounts of a pod then win over those that come with a device" in said[1]) is is_said
    assert "until then the device plugin, its rights and its DeviceClasses have to stay" in said[1]


def test_smoke_says_how_to_learn_which_claim_a_pod_got(tmp_path: Path) -> None:
    kae = document("KAEPolicy", "tls", {"driver": {"enabled": False}, "devicePlugin": DRA})
    written(tmp_path, kae)
    made = builders.kubernetes_node("n1", builders.HPRE | {"openfuyao.com/kae.hpre.pf": "2"})
    made["status"]["nodeInfo"] |= {"kubeletVersion": "v1.36.3", "containerRuntimeVersion": "containerd://2.1.4"}
    project.write(tmp_path, {"inventory/east.json": json.dumps({"apiVersion": "v1", "kind": "List", "items": [made]})})

    answer = in_process.kae(tmp_path, "smoke")

    assert answer.code == 0
    assert yaml.safe_load(answer.out)["spec"]["template"]["spec"]["containers"][0]["resources"] == {
        "limits": {"openfuyao.com/kae.hpre": 1}
    }
    assert "-l job-name=kae-smoke-tls-hpre" in answer.err
    assert ".status.extendedResourceClaimStatus.resourceClaimName" in answer.err


def published(
    node: str, generation: int, *taints: str | None, driver: str = "kae-ascend.openfuyao.com"
) -> dict[str, Any]:
    """Return a slice with a device of the resource for each taint; None for a device without one."""
    devices = [
        {
            "name": f"npu-{number}",
            "attributes": {"resource": {"string": "example.com/npu"}},
            **({"taints": [{"key": f"openfuyao.com/{taint}", "effect": "NoSchedule"}]} if taint else {}),
        }
        for number, taint in enumerate(taints)
    ]
    pool = {"name": node, "generation": generation, "resourceSliceCount": 1}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": f"{node}-{driver}-{generation}"},
        "spec": {"driver": driver, "nodeName": node, "pool": pool, "devices": devices},
    }


def test_status_tells_the_devices_of_nodes_as_planned_published_and_unhealthy(tmp_path: Path) -> None:
    policies = [recipe("ascend"), policy("a", "ascend", **DRA), policy("b", "ascend")]
    written(tmp_path, *policies, n1=("a", "ascend"), n2=("a", "ascend"), n3=("b", "ascend"))
    answers.told(tmp_path, "compile")
    with apiserver.serving(tmp_path) as server:
        own = [node(name, pool, "ascend") for name, pool in (("n1", "a"), ("n2", "a"), ("n3", "b"))]
        server.put(*own, *livecluster.objects(tmp_path, "east"))
        server.put(
            published("n1", 1, None, None, None, None),
            published("n1", 2, None, "unhealthy", "given-by-device-plugin", "given-by-claim"),
            published("n1", 9, None, driver="gpu.example.com"),
        )
        asked = ("status", "--kubeconfig", str(server.kubeconfig))
        text, data = (in_process.kae(tmp_path, *asked, *more).out for more in ((), ("-o", "json")))

    assert (
        "\ndevices by DRA:\n"
        "  example.com/npu on n1: ? planned, 4 published, 1 unhealthy\n"
        "  example.com/npu on n2: ? planned, 0 published, 0 unhealthy\n"
    ) in text
    assert json.loads(data)["cluster"]["devices"] == [
        {"node": "n1", "resource": "example.com/npu", "planned": None, "published": 4, "unhealthy": 1},
        {"node": "n2", "resource": "example.com/npu", "planned": None, "published": 0, "unhealthy": 0},
    ]


def test_nodes_go_from_interface_to_interface_by_two_policies_of_disjoint_nodes(tmp_path: Path) -> None:
    def policies(*names: str) -> list[dict[str, Any]]:
        chosen = {"key": "name", "operator": "In", "values": list(names)}
        made = [policy("new", "ascend", **DRA), policy("old", "ascend")]
        for item, operator in zip(made, ("In", "NotIn"), strict=True):
            item["spec"]["nodeSelector"] = {"matchExpressions": [chosen | {"operator": operator}]}
        return made

    def plan() -> dict[str, Any]:
        (cluster,) = json.loads(answers.told(tmp_path, "plan", "-o", "json"))["clusters"]
        return {each["name"]: each.get("interface") for each in cluster["stacks"][0]["nodes"]}

    written(tmp_path, recipe("ascend"), *policies("n1"))
    items = [node(f"n{number}", "a", "ascend") for number in range(1, 4)]
    for item in items:
        item["metadata"]["labels"]["name"] = item["metadata"]["name"]
    project.write(tmp_path, {"inventory/east.json": json.dumps({"apiVersion": "v1", "kind": "List", "items": items})})
    answers.told(tmp_path, "compile")
    revisions.commit(tmp_path)
    assert plan() == {"n1": "DRA", "n2": None, "n3": None}
    written(tmp_path, *policies("n1", "n2"))
    answers.told(tmp_path, "compile")
    there = answers.told(tmp_path, "diff", "HEAD")
    assert plan() == {"n1": "DRA", "n2": "DRA", "n3": None}
    revisions.commit(tmp_path)
    written(tmp_path, *policies("n1"))
    answers.told(tmp_path, "compile")
    back = answers.told(tmp_path, "diff", "HEAD")

    assert "Devices are offered by DRA from then on" in there
    assert "Devices are offered by device plugins from then on" in back
    assert "claims-unended" not in there + back
