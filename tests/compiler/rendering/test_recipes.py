"""The objects of recipes beside KAE's: their names, folders, accounts, rules and guards."""

from typing import Any

import pytest

from compiler.fleet import definitions
from compiler.formats import documents
from compiler.output import index_file
from runtime import driver_labels
from tests import builders
from tests.property import nfd_rules

DRIVER = {
    "image": "installer",
    "payloads": [{"image": "modules", "paths": ["/opt/lib/modules"]}],
    "modules": [{"name": "onload"}],
}
IMAGES = {**builders.IMAGES, "modules": {"repository": "registry.test", "image": "modules", "version": "1.0"}}


def recipe(name: str, **match: Any) -> documents.Document:
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


def test_the_objects_of_kae_are_as_without_other_recipes() -> None:
    alone, beside = compiled(), compiled(builders.device_policy("desk", ONLOAD), builders.device_policy("lab", KMOD))

    assert {path: beside[path] for path in alone} == alone


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


def test_a_recipe_for_every_node_has_no_rule_but_those_of_its_driver_and_of_pools() -> None:
    objects = compiled(builders.device_policy("lab", KMOD, **POOLS))

    assert named(objects, "node-feature-rule") == [
        "nodefeaturerule-kae.yaml",
        "nodefeaturerule-kmod-pool-lab.yaml",
        "nodefeaturerule-kmod.yaml",
    ]
    assert labels(objects) == {"openfuyao.com/kmod.pool.lab": "canary"}


def test_what_installers_tell_of_each_recipe_becomes_two_labels_and_nothing_else_does() -> None:
    objects = compiled(builders.device_policy("desk", ONLOAD), builders.device_policy("lab", KMOD))
    told = {
        "onload.driver-version": "9.0.2",
        "onload.driver-state": "Ready",
        "kmod.driver-state": "Blocked",
        "kae.driver-state": "certainly",
        "sgx.driver-version": "1.0",
        "openfuyao.com/kae.present": "true",
        "onload.present": "true",
        "pool": "rest",
    }

    assert labels(objects, local_feature=told) == {
        "openfuyao.com/onload.driver-version": "9.0.2",
        "openfuyao.com/onload.driver-state": "Ready",
        "openfuyao.com/kmod.driver-state": "Blocked",
    }


def test_only_installers_may_write_what_nfd_is_told() -> None:
    writers, readers = set[str](), set[str]()
    for item in compiled(builders.device_policy("desk", ONLOAD)).values():
        spec = item["spec"]["template"]["spec"] if item["kind"] in ("DaemonSet", "Deployment") else {}
        for volume in spec.get("volumes", ()):
            path = volume.get("hostPath", {}).get("path", "").rstrip("/")
            if "hostPath" in volume and f"{driver_labels.FOLDER}/".startswith(f"{path}/"):
                mounts = (mount for one in spec["containers"] for mount in one["volumeMounts"])
                is_read_only = all(mount.get("readOnly") for mount in mounts if mount["name"] == volume["name"])
                (readers if is_read_only else writers).add(spec["serviceAccountName"])

    assert (writers, readers) == ({"kae-driver-tls", "onload-driver-desk"}, {"nfd-worker"})


def test_a_driver_that_nothing_of_ours_installs_is_told_by_nobody() -> None:
    desk = builders.device_policy("desk", ONLOAD, driver={"enabled": False})

    (rules,) = (item for path, item in compiled(desk).items() if path.endswith("/nodefeaturerule-onload.yaml"))

    assert not [rule["name"] for rule in rules["spec"]["rules"] if ".driver-" in rule["name"]]


def test_pools_of_several_kinds_are_labelled_where_one_of_them_is() -> None:
    objects = compiled(builders.device_policy("desk", ONLOAD, **POOLS))

    pool = "openfuyao.com/onload.pool.desk"
    assert labels(objects, ("10ee", "5084", "1200"))[pool] == labels(objects, ("1924", "1", "0200"))[pool] == "canary"
    assert pool not in labels(objects, ("10ee", "1", "1200"))


def test_a_recipe_without_rules_of_ours_needs_none_where_nfd_is_somebody_elses() -> None:
    objects = compiled(builders.device_policy("desk", ONLOAD), nfd={"enabled": False})

    assert named(objects, "node-feature-rule") == []


def test_the_index_names_the_recipe_of_a_workload_but_for_kae() -> None:
    planned, _ = builders.view([builders.policy("tls"), builders.device_policy("desk", ONLOAD)])
    text = builders.compiled(planned).index_content()
    (index,) = index_file.read(text)

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
