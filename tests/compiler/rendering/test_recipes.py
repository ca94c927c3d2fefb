"""The objects of recipes beside KAE's: their names, folders, accounts, rules and guards."""

from typing import Any

import pytest

from compiler.fleet import definitions
from compiler.output import index_file
from tests import builders
from tests.property import nfd_rules

DRIVER = {
    "image": "installer",
    "payloads": [{"image": "modules", "paths": ["/opt/lib/modules"]}],
    "modules": [{"name": "onload"}],
}
IMAGES = {**builders.IMAGES, "modules": {"repository": "registry.test", "image": "modules", "version": "1.0"}}


def recipe(name: str, **match: Any) -> definitions.Recipe:
    """A recipe with a driver and a device plugin; the module and the resource are named after it."""
    driver = {**DRIVER, "modules": [{"name": name}]}
    plugin = {"resources": [{"name": f"{name}.example.com/token", "class": "token", "count": 2}]}
    return builders.recipe(name, match=match, images=IMAGES, driver=driver, devicePlugin=plugin)


ONLOAD = recipe(
    "onload",
    pci=[
        {"kind": "sfc", "vendor": "1924", "virtual": ["1b03"], "classes": ["0200"]},
        {"kind": "fpga", "vendor": "10ee", "devices": ["5084", "5085"]},
    ],
)
SGX = recipe(
    "sgx",
    features=[
        {"feature": "cpu.cpuid", "matchExpressions": {"SGX": {"op": "Exists"}}},
        {"feature": "kernel.config", "matchExpressions": {"X86_SGX": {"op": "In", "value": ["y"]}}},
    ],
)
KMOD = recipe("kmod", all={})

POOLS = {"rollout": {"waves": [{"name": "canary", "nodes": ["kp920-01"]}]}}
Objects = dict[str, Any]


def compiled(*policies: definitions.Policy, **cluster: Any) -> Objects:
    """The objects of a cluster without nodes, in which KAE has a policy too."""
    return builders.objects([builders.policy("tls", **builders.PINNED), *policies], (), builders.cluster(**cluster))


def named(objects: Objects, folder: str) -> list[str]:
    return [path.rpartition("/")[2] for path in objects if path.startswith(f"{folder}/")]


def labels(objects: Objects, *present: tuple[str, str, str], **flags: dict[str, str]) -> dict[str, str]:
    """The labels of a node with PCI functions of these vendors, devices and classes, and with features."""
    rules = [item for path, item in objects.items() if path.startswith("node-feature-rule/")]
    functions = tuple({"vendor": vendor, "device": device, "class": of} for vendor, device, of in present)
    attributes = {"system.name": {"nodename": "kp920-01"}, "kernel.version": {"full": "6.1"}}
    attributes |= {name.replace("_", ".", 1): values for name, values in flags.items()}
    return nfd_rules.labels(rules, nfd_rules.Features(attributes=attributes, instances={"pci.device": functions}))


def test_the_programs_of_a_recipe_are_in_a_folder_of_its_name_and_named_after_it() -> None:
    objects = compiled(builders.device_policy("desk", ONLOAD))

    assert named(objects, "onload") == [
        "clusterrole-onload-driver.yaml",
        "clusterrolebinding-onload-driver.yaml",
        "daemonset-onload-device-plugin-desk.yaml",
        "daemonset-onload-driver-desk.yaml",
        "role-onload-driver.yaml",
        "rolebinding-onload-driver.yaml",
        "serviceaccount-onload-device-plugin.yaml",
        "serviceaccount-onload-driver.yaml",
    ]
    assert {path: data for path, data in compiled().items() if path not in objects} == {}


def test_the_objects_of_kae_are_as_without_other_recipes() -> None:
    alone, beside = compiled(), compiled(builders.device_policy("desk", ONLOAD), builders.device_policy("lab", KMOD))

    assert {path: beside[path] for path in alone} == alone


@pytest.mark.parametrize("program", ["driver", "device-plugin"])
def test_a_daemon_set_of_a_recipe_has_its_own_labels_and_account(program: str) -> None:
    daemon_set = compiled(builders.device_policy("desk", ONLOAD))[f"onload/daemonset-onload-{program}-desk.yaml"]
    template = daemon_set["spec"]["template"]
    (first, *_) = template["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][
        "nodeSelectorTerms"
    ]

    assert daemon_set["spec"]["selector"]["matchLabels"].items() <= template["metadata"]["labels"].items()
    assert daemon_set["spec"]["selector"]["matchLabels"]["app.kubernetes.io/name"] == f"onload-{program}"
    assert template["spec"]["serviceAccountName"] == f"onload-{program}"
    assert first["matchExpressions"] == [
        {"key": "openfuyao.com/onload.sfc.present", "operator": "In", "values": ["true"]},
        {"key": f"openfuyao.com/onload.deploy.{program}", "operator": "NotIn", "values": ["false"]},
    ]


def test_the_device_plugin_of_a_recipe_has_host_folders_of_its_own() -> None:
    spec = compiled(builders.device_policy("desk", ONLOAD))["onload/daemonset-onload-device-plugin-desk.yaml"]["spec"][
        "template"
    ]["spec"]

    paths = {volume["name"]: volume["hostPath"]["path"] for volume in spec["volumes"] if "hostPath" in volume}
    mounted = {mount["name"]: mount["mountPath"] for mount in spec["containers"][0]["volumeMounts"]}
    for name, path in (
        ("run-kae", "/run/kae/recipes/onload"),
        ("plugins-registry", "/var/lib/kubelet/plugins_registry/onload"),
    ):
        assert paths[name] == mounted[name] == path


def test_an_installer_of_a_recipe_takes_leases_of_its_own_and_is_guarded_by_its_own_account() -> None:
    objects = compiled(builders.device_policy("desk", ONLOAD))

    (held,) = (rule for rule in objects["onload/role-onload-driver.yaml"]["rules"] if "update" in rule["verbs"])
    assert held["resourceNames"] == ["onload-driver-desk-1"]
    assert objects["onload/rolebinding-onload-driver.yaml"]["subjects"][0]["name"] == "onload-driver"
    for name in ("onload-driver", "onload-driver-leases"):
        guard = objects[f"guard/validatingadmissionpolicy-{name}.yaml"]["spec"]
        binding = objects[f"guard/validatingadmissionpolicybinding-{name}.yaml"]["spec"]
        assert binding["policyName"] == name
        assert guard["matchConditions"][0]["expression"].endswith(
            "== 'system:serviceaccount:kae-operator:onload-driver'"
        )
        assert "kae-driver" not in str(guard)
    assert "startsWith('onload-driver-')" in str(objects["guard/validatingadmissionpolicy-onload-driver-leases.yaml"])


def test_a_role_that_cleans_up_is_named_after_its_recipe_and_policy() -> None:
    objects = compiled(builders.device_policy("desk", ONLOAD, driver={"enabledCleanup": True}))

    assert objects["onload/role-onload-driver-desk.yaml"]["rules"][-1]["resourceNames"] == ["onload-driver-desk"]


def test_pci_functions_are_labelled_by_vendor_class_and_device_and_counted() -> None:
    objects = compiled(builders.device_policy("desk", ONLOAD))

    card = labels(objects, ("1924", "0a03", "0200"), ("1924", "0a03", "0200"), ("1924", "1b03", "0200"))
    assert card == {
        "openfuyao.com/onload.present": "true",
        "openfuyao.com/onload.sfc.present": "true",
        "openfuyao.com/onload.sfc.pf": "2",
        "openfuyao.com/onload.sfc.vf": "1",
    }
    assert labels(objects, ("1924", "0a03", "0700"), ("10ee", "9999", "1200")) == {}
    assert labels(objects, ("10ee", "5085", "1200")) == {
        "openfuyao.com/onload.present": "true",
        "openfuyao.com/onload.fpga.present": "true",
        "openfuyao.com/onload.fpga.pf": "1",
    }


def test_features_are_labelled_where_all_of_them_hold() -> None:
    objects = compiled(builders.device_policy("enclaves", SGX, **POOLS))

    assert labels(objects, cpu_cpuid={"SGX": "true"}, kernel_config={"X86_SGX": "y"}) == {
        "openfuyao.com/sgx.present": "true",
        "openfuyao.com/sgx.pool.enclaves": "canary",
    }
    assert labels(objects, cpu_cpuid={"SGX": "true"}, kernel_config={"X86_SGX": "n"}) == {}


def test_what_a_node_must_not_have_is_asked_of_nodes_that_a_worker_has_reported() -> None:
    condition = {"feature": "kernel.loadedmodule", "matchExpressions": {"nouveau": {"op": "DoesNotExist"}}}
    objects = compiled(builders.device_policy("gpu", recipe("gpu", features=[condition])))

    assert labels(objects, kernel_loadedmodule={}) == {"openfuyao.com/gpu.present": "true"}
    assert labels(objects, kernel_loadedmodule={"nouveau": ""}) == {}
    rules = [item for path, item in objects.items() if path.startswith("node-feature-rule/")]
    unreported = nfd_rules.Features(attributes={"kernel.loadedmodule": {}}, instances={})
    assert nfd_rules.labels(rules, unreported) == {}


def test_a_recipe_for_every_node_has_no_rule_but_those_of_pools() -> None:
    objects = compiled(builders.device_policy("lab", KMOD, **POOLS))

    assert named(objects, "node-feature-rule") == ["nodefeaturerule-kae.yaml", "nodefeaturerule-kmod-pool-lab.yaml"]
    assert labels(objects) == {"openfuyao.com/kmod.pool.lab": "canary"}


def test_pools_of_several_kinds_are_labelled_where_one_of_them_is() -> None:
    objects = compiled(builders.device_policy("desk", ONLOAD, **POOLS))

    pool = "openfuyao.com/onload.pool.desk"
    assert labels(objects, ("10ee", "5084", "1200"))[pool] == labels(objects, ("1924", "1", "0200"))[pool] == "canary"
    assert pool not in labels(objects, ("10ee", "1", "1200"))


def test_a_recipe_without_rules_of_ours_needs_none_where_nfd_is_somebody_elses() -> None:
    objects = compiled(builders.device_policy("desk", ONLOAD), nfd={"enabled": False})

    assert named(objects, "node-feature-rule") == []


def test_each_program_of_a_recipe_has_its_network_policy_and_its_constraints() -> None:
    objects = compiled(builders.device_policy("desk", ONLOAD), platform="openshift", networkPolicies={"enabled": True})

    for name in ("onload-driver", "onload-device-plugin"):
        selected = objects[f"network-policies/networkpolicy-{name}.yaml"]["spec"]["podSelector"]
        assert selected == {"matchLabels": {"app.kubernetes.io/name": name}}
    assert [name for name in named(objects, "openshift") if "onload" in name] == [
        "role-onload-device-plugin-constraints.yaml",
        "rolebinding-onload-device-plugin-constraints.yaml",
        "rolebinding-onload-driver-privileged.yaml",
        "securitycontextconstraints-onload-device-plugin.yaml",
    ]


def test_metrics_of_recipes_are_scraped_and_alerts_look_at_their_pods() -> None:
    desk = builders.device_policy("desk", ONLOAD, driver={"metrics": {"enabled": True}})
    objects = compiled(desk, monitoring={"enabled": True})

    (names,) = objects["monitoring/podmonitor-kae.yaml"]["spec"]["selector"]["matchExpressions"]
    assert names["values"] == ["onload-driver"]
    rules = str(objects["monitoring/prometheusrule-kae.yaml"])
    assert 'pod=~"(kae|onload)-driver-.+"' in rules
    assert "KAE driver" not in rules


def test_the_index_names_the_recipe_of_a_workload_but_for_kae() -> None:
    planned, _ = builders.view([builders.policy("tls"), builders.device_policy("desk", ONLOAD)])
    text = builders.compiled(planned).index_content()
    (index,) = index_file.sides(text)

    assert {item.file: item.recipe for item in index.workloads} == {
        "device-plugin/daemonset-kae-device-plugin-tls.yaml": "kae",
        "driver/daemonset-kae-driver-tls.yaml": "kae",
        "onload/daemonset-onload-device-plugin-desk.yaml": "onload",
        "onload/daemonset-onload-driver-desk.yaml": "onload",
    }
    assert b'"recipe": "kae"' not in text
    assert index_file.text(index).encode() == text


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("driver/daemonset-kae-driver-tls.yaml", ("kae", "driver")),
        ("device-plugin/daemonset-kae-device-plugin-tls.yaml", ("kae", "device-plugin")),
        ("onload/daemonset-onload-driver-desk--canary.yaml", ("onload", "driver")),
        ("simple-kmod/daemonset-simple-kmod-device-plugin-lab.yaml", ("simple-kmod", "device-plugin")),
        ("nfd/daemonset-nfd-worker.yaml", None),
        ("onload/role-onload-driver.yaml", None),
        ("onload/daemonset-other-driver-desk.yaml", None),
    ],
)
def test_a_path_tells_the_recipe_and_the_program_of_a_daemon_set(path: str, expected: object) -> None:
    assert index_file.program(path) == expected
