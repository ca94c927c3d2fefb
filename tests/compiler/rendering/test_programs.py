"""The frame of vendors' programs: what the compiler adds to a pod, and what stands beside it."""

import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests import builders

MATCH: dict[str, Any] = {"features": [{"feature": "cpu.cpuid", "matchExpressions": {"VENDOR": {"op": "Exists"}}}]}
POD = {"containers": [{"name": "main", "image": "vendor"}]}
DRIVER: dict[str, Any] = {
    "driver": {
        "image": "installer",
        "sources": ["prebuilt"],
        "payloads": [{"image": "vendor", "paths": ["/opt/lib/modules"]}],
        "modules": [{"name": "vendor_core"}, {"name": "vendor_net"}],
    }
}


def images(*names: str) -> dict[str, Any]:
    return {name: {"repository": "r.example", "image": name, "version": "1"} for name in names}


def made(
    program: dict[str, Any] | None = None,
    policy: dict[str, Any] | None = None,
    cluster: dict[str, Any] | None = None,
    **recipe: Any,
) -> Mapping[str, Any]:
    """The objects of a cluster with a policy of a recipe with one program, by path."""
    spec = {
        "title": "A vendor",
        "match": MATCH,
        "images": images("vendor", "installer"),
        "programs": [{"name": "plugin", "pod": POD, **(program or {})}],
        **recipe,
    }
    document = builders.recipe("net", **spec)
    given = builders.device_policy("lab", document, **(policy or {}))
    where = builders.cluster("east", **{"kubernetesVersion": "1.36", **(cluster or {})})
    return builders.objects([given], where=where)


def pod(found: Mapping[str, Any], name: str = "net-plugin-lab") -> dict[str, Any]:
    template: dict[str, Any] = found[f"net/daemonset-{name}.yaml"]["spec"]["template"]
    return template


def test_a_pod_has_no_token_and_no_rights_to_gain_unless_the_recipe_says_so() -> None:
    spec = pod(made())["spec"]

    assert spec["automountServiceAccountToken"] is False
    assert spec["enableServiceLinks"] is False
    assert spec["securityContext"] == {"seccompProfile": {"type": "RuntimeDefault"}}
    assert spec["containers"][0]["securityContext"] == {"allowPrivilegeEscalation": False}


def test_the_api_server_takes_containers_that_have_all_rights() -> None:
    def security(**given: Any) -> Any:
        containers = [{"name": "main", "image": "vendor", "securityContext": given}]
        return pod(made({"pod": {"containers": containers}}))["spec"]["containers"][0]["securityContext"]

    assert security(privileged=True) == {"privileged": True}
    assert security(capabilities={"add": ["SYS_ADMIN"]}) == {"capabilities": {"add": ["SYS_ADMIN"]}}
    assert security(privileged=False)["allowPrivilegeEscalation"] is False
    assert security(allowPrivilegeEscalation=True) == {"allowPrivilegeEscalation": True}


def test_rules_make_a_role_or_a_cluster_role_and_a_token() -> None:
    rule = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}

    found = made({"rules": [rule]})

    assert found["net/role-net-plugin.yaml"]["rules"] == [rule]
    assert pod(found)["spec"]["automountServiceAccountToken"] is True
    assert not any("clusterrole" in path for path in found if path.startswith("net/"))
    assert made({"clusterRules": [rule]})["net/clusterrole-kae-net-plugin.yaml"]["rules"] == [rule]


def test_a_program_is_closed_to_the_network_but_for_the_api_server_where_it_has_rules() -> None:
    cluster = {"networkPolicies": {"enabled": True, "apiServerPorts": [6443]}}
    rule = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}
    path = "network-policies/networkpolicy-net-plugin.yaml"

    closed, asking = (made(program, cluster=cluster)[path]["spec"] for program in ({}, {"rules": [rule]}))

    assert (closed["policyTypes"], closed.get("ingress", []), closed.get("egress", [])) == (
        ["Ingress", "Egress"],
        [],
        [],
    )
    assert [port["port"] for one in asking["egress"] for port in one["ports"]] == [6443]


def test_a_program_after_the_driver_waits_for_it_by_our_own_image_and_is_known_to_the_installer() -> None:
    template = pod(made({"after": "driver", "per": "pool"}, **DRIVER))

    (waiting, *_) = template["spec"]["initContainers"]
    assert template["metadata"]["labels"]["device.openfuyao.com/after"] == "net-driver"
    assert (waiting["name"], waiting["image"]) == ("wait-for-driver", "r.example/installer:1")
    assert waiting["command"][4:] == [
        "/host/run/driver-changing",
        "/host/modprobe.d/kae-net--unproved.conf",
        "vendor_core",
        "vendor_net",
    ]
    assert all(mount["readOnly"] for mount in waiting["volumeMounts"])


def test_a_program_waits_for_no_driver_that_is_pre_installed_and_is_not_there_where_it_is_removed() -> None:
    program = {"after": "driver", "per": "pool"}

    there = pod(made(program, {"driver": {"enabled": False}}, **DRIVER))
    removed = made(program, {"driver": {"state": "Absent"}}, **DRIVER)

    assert "initContainers" not in there["spec"]
    assert "device.openfuyao.com/after" not in there["metadata"]["labels"]
    assert not any("net-plugin" in path for path in removed)


def test_a_wave_has_another_image_and_other_values() -> None:
    parameters = {"parameters": {"properties": {"level": {"type": "integer", "default": 1}}}}
    program = {"per": "pool", "pod": {"containers": [{"name": "main", "image": "vendor", "args": ["${values.level}"]}]}}
    wave = {"name": "canary", "nodes": ["n-1"], "images": {"vendor": {"version": "2"}}, "values": {"level": 2}}

    found = made(program, {"rollout": {"waves": [wave]}}, **parameters)

    (canary,), (rest,) = (pod(found, f"net-plugin-lab--{name}")["spec"]["containers"] for name in ("canary", "rest"))
    assert (canary["image"], canary["args"]) == ("r.example/vendor:2", ["2"])
    assert (rest["image"], rest["args"]) == ("r.example/vendor:1", ["1"])


def test_a_policy_gives_containers_other_amounts_as_a_whole() -> None:
    amounts = {"limits": {"memory": "1Mi"}, "requests": {"cpu": "1m"}}
    program = {"pod": {"containers": [{"name": "main", "image": "vendor", "resources": amounts}]}}
    policy = {"programs": {"plugin": {"resources": {"main": {"limits": {"memory": "2Mi"}}}, "maxUnavailable": 3}}}

    found = made(program, policy)

    assert pod(found)["spec"]["containers"][0]["resources"] == {"limits": {"memory": "2Mi"}}
    assert found["net/daemonset-net-plugin-lab.yaml"]["spec"]["updateStrategy"]["rollingUpdate"]["maxUnavailable"] == 3


def test_a_program_that_disrupts_goes_node_by_node() -> None:
    def pace(program: dict[str, Any]) -> Any:
        return made(program)["net/daemonset-net-plugin-lab.yaml"]["spec"]["updateStrategy"]["rollingUpdate"]

    assert pace({"disrupts": True}) == {"maxSurge": 0, "maxUnavailable": 1}
    assert pace({})["maxUnavailable"] == "10%"


ADMISSION: dict[str, Any] = {
    "admission": [
        {
            "name": "ask",
            "resources": ["example.com/net"],
            "mutations": [{"applyConfiguration": "Object{}"}],
        }
    ]
}


def test_the_api_server_changes_pods_from_1_36_on_and_none_of_ours() -> None:
    path = "net/mutatingadmissionpolicy-kae-net-ask.yaml"

    found = made({"offers": ["example.com/net"]}, **ADMISSION)

    spec = found[path]["spec"]
    assert (spec["failurePolicy"], spec["reinvocationPolicy"]) == ("Ignore", "IfNeeded")
    assert spec["matchConstraints"]["namespaceSelector"]["matchExpressions"] == [
        {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kae-operator", "kube-system"]}
    ]
    assert "example.com/net" in spec["matchConditions"][0]["expression"]
    assert found["net/mutatingadmissionpolicybinding-kae-net-ask.yaml"]["spec"] == {"policyName": "kae-net-ask"}
    for version in ("1.35", None):
        older = made(
            {"offers": ["example.com/net"]}, cluster={"kubernetesVersion": version} if version else {}, **ADMISSION
        )
        assert (path in older) == (version is None)


def test_nfd_gives_nodes_resources_and_may_take_them_away_when_no_recipe_has_any() -> None:
    match = {**MATCH, "extended": {"example.com/memory": "@cpu.security.vendor"}}

    found, without = made(match=match), made()

    (rule,) = found["node-feature-rule/nodefeaturerule-net.yaml"]["spec"]["rules"]
    assert rule["extendedResources"] == {"example.com/memory": "@cpu.security.vendor"}
    status = {"apiGroups": [""], "resources": ["nodes/status"], "verbs": ["patch"]}
    assert status in found["nfd/clusterrole-kae-nfd-master.yaml"]["rules"]
    assert status in without["nfd/clusterrole-kae-nfd-master.yaml"]["rules"]


def test_all_parts_of_a_match_hold_and_of_the_alternatives_one() -> None:
    def feature(name: str) -> dict[str, Any]:
        return {"feature": "kernel.loadedmodule", "matchExpressions": {name: {"op": "Exists"}}}

    match = {
        "pci": [{"kind": "card", "vendor": "1924", "classes": ["0200"]}],
        "features": [feature("a")],
        "any": [{"features": [feature("b")]}, {"features": [feature("c")]}],
    }

    rules = made(match=match)["node-feature-rule/nodefeaturerule-net.yaml"]["spec"]["rules"]

    for rule in rules[:2]:
        alternatives = [[list(one["matchExpressions"]) for one in way["matchFeatures"]] for way in rule["matchAny"]]
        assert alternatives == [[["class", "vendor"], ["a"], [last]] for last in ("b", "c")]
    # Functions are counted whatever is loaded.
    assert len(rules[2]["matchFeatures"]) == 1


@pytest.mark.long
def test_the_wait_ends_once_no_change_is_announced_and_all_modules_are_loaded(tmp_path: Path) -> None:
    def waits(changing: Path, blocked: Path, *modules: str) -> bool:
        command = [*pod(made({"after": "driver"}, **DRIVER))["spec"]["initContainers"][0]["command"][:4]]
        try:
            subprocess.run([*command, changing, blocked, *modules], check=True, timeout=1)
        except subprocess.TimeoutExpired:
            return True
        return False

    absent, there = tmp_path / "absent", tmp_path / "there"
    there.touch()
    # `..` of /sys/module is a folder on every host.
    assert waits(absent, absent, ".", "..") is False
    assert waits(there, absent, ".") is True
    assert waits(absent, there, ".") is True
    assert waits(absent, absent, ".", "no-such-module") is True


def test_a_program_has_the_image_and_the_names_of_the_system_of_its_pool() -> None:
    texts = ["${os.id} ${os.version}", "${pool.name}"]
    program = {"per": "pool", "pod": {"containers": [{"name": "main", "image": "vendor", "args": texts}]}}
    mappings = [
        {"name": name, "regexp": ".", "os": {"id": name, "versions": [version]}, "images": {"vendor": {"version": tag}}}
        for name, version, tag in (("ubuntu", "24.04", "2"), ("openEuler", "24.03", "3"))
    ]
    mappings[1]["name"] = "euler"

    found = made(program, {"kernelMappings": mappings})

    (ubuntu,) = pod(found, "net-plugin-lab--ubuntu")["spec"]["containers"]
    (euler,) = pod(found, "net-plugin-lab--euler")["spec"]["containers"]
    assert (ubuntu["image"], ubuntu["args"]) == ("r.example/vendor:2", ["ubuntu 24.04", "ubuntu"])
    assert (euler["image"], euler["args"]) == ("r.example/vendor:3", ["openEuler 24.03", "euler"])


def test_no_name_of_an_object_of_all_namespaces_is_one_of_others() -> None:
    # A recipe `cluster` with a program `admin` had ClusterRole cluster-admin, and its account with it.
    rule = {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]}

    found = made({"clusterRules": [rule], "offers": ["example.com/net"]}, **ADMISSION)

    own = [data for path, data in found.items() if path.startswith("net/") and "namespace" not in data["metadata"]]
    assert {data["kind"] for data in own} >= {"ClusterRole", "ClusterRoleBinding", "MutatingAdmissionPolicy"}
    assert [data["metadata"]["name"] for data in own if not data["metadata"]["name"].startswith("kae-")] == []
