"""NFD as the templates render it, release by release, and the rules by which it labels devices."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import kubernetes_validate
import pytest

from compiler import kae
from compiler.fleet import pods
from runtime import driver_labels
from tests.property import nfd_rules
from tests.templates.nfd import NAMESPACE, Rendered

MINORS = (16, 17, 18, 19)

Device = tuple[str, str]
"""Vendor and device id of a PCI device."""

_OLD, _NEW = ["-metrics=8081"], ["-port=8080"]
_API = ["-feature-gates=NodeFeatureAPI=true"]
_OF_MASTER = ["-nfd-api-parallelism=100", "-resync-period=10m"]
_OF_WORKER = ["-feature-sources=all", "-label-sources=kernel,pci,system"]
_NO_GROUPS = ["-feature-gates=NodeFeatureGroupAPI=false"]
ARGUMENTS = {
    "nfd-master": {
        16: ["-crd-controller=true", *_API, *_NO_GROUPS, *_OLD, *_OF_MASTER],
        17: [*_NO_GROUPS, *_OLD, *_OF_MASTER],
        18: [*_NO_GROUPS, *_NEW, *_OF_MASTER],
        19: [*_NO_GROUPS, *_NEW, *_OF_MASTER],
    },
    "nfd-worker": {
        16: [*_API, *_OLD, *_OF_WORKER],
        17: [*_OLD, *_OF_WORKER],
        18: [*_NEW, *_OF_WORKER],
        19: [*_NEW, *_OF_WORKER],
    },
    "nfd-gc": {
        16: ["-gc-interval=1h"],
        17: ["-gc-interval=1h"],
        18: ["-gc-interval=1h", *_NEW],
        19: ["-gc-interval=1h", *_NEW],
    },
}
"""The arguments of each program of each minor release, in order."""


def pod_spec(found: Mapping[str, Any]) -> Any:
    return found["spec"]["template"]["spec"]


def container(found: Mapping[str, Any]) -> Any:
    (only,) = pod_spec(found)["containers"]
    return only


def workloads(found: Mapping[str, Any]) -> list[Any]:
    return [item for item in found.values() if item["kind"] in ("DaemonSet", "Deployment")]


def probed(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return the endpoint of each probe."""
    probes = {name: probe for name, probe in container(found).items() if name.endswith("Probe")}
    return {name: probe.get("grpc") or probe.get("httpGet") for name, probe in probes.items()}


@pytest.mark.parametrize("minor", MINORS)
def test_each_program_gets_the_arguments_of_its_release(rendered: Rendered, minor: int) -> None:
    found = [container(item) for item in workloads(rendered(minor))]

    assert {tuple(item["command"]): item["args"] for item in found} == {
        (program,): arguments[minor] for program, arguments in ARGUMENTS.items()
    }


@pytest.mark.parametrize("minor", MINORS)
def test_probes_ask_where_the_release_answers(rendered: Rendered, minor: int) -> None:
    found = rendered(minor)
    grpc = minor <= 17
    answer = {"port": 8082} if grpc else {"path": "/healthz", "port": "http"}

    assert probed(found["deployment-nfd-master"]) == dict.fromkeys(
        ("startupProbe", "livenessProbe", "readinessProbe"), answer
    )
    assert probed(found["daemonset-nfd-worker"]) == dict.fromkeys(("livenessProbe", "readinessProbe"), answer)
    assert probed(found["deployment-nfd-gc"]) == (
        {} if grpc else dict.fromkeys(("livenessProbe", "readinessProbe"), answer)
    )


@pytest.mark.parametrize("minor", MINORS)
def test_every_probe_asks_a_port_that_its_container_declares(rendered: Rendered, minor: int) -> None:
    for item in workloads(rendered(minor)):
        ports = container(item)["ports"]
        declared = {port[key] for port in ports for key in ("name", "containerPort")}

        assert {probe["port"] for probe in probed(item).values()} <= declared
        assert {port["protocol"] for port in ports} == {"TCP"}


@pytest.mark.parametrize(
    ("minor", "read"),
    [(minor, ["nodefeatures", "nodefeaturerules", "nodefeaturegroups"]) for minor in (16, 17, 18)]
    + [(19, ["nodefeatures", "nodefeaturerules"])],
)
def test_masters_patch_nodes_and_read_what_their_release_reads(rendered: Rendered, minor: int, read: list[str]) -> None:
    found = rendered(minor)["clusterrole-kae-nfd-master"]

    assert found["rules"] == [
        {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list", "patch"]},
        {"apiGroups": [""], "resources": ["nodes/status"], "verbs": ["patch"]},
        {"apiGroups": ["nfd.k8s-sigs.io"], "resources": read, "verbs": ["list", "watch"]},
    ]


@pytest.mark.parametrize("minor", MINORS)
def test_the_workers_may_write_reports_in_their_own_namespace_and_nothing_else(rendered: Rendered, minor: int) -> None:
    found = rendered(minor)["role-nfd-worker"]

    assert found["kind"] == "Role"
    assert found["metadata"]["namespace"] == NAMESPACE
    assert found["rules"] == [
        {"apiGroups": ["nfd.k8s-sigs.io"], "resources": ["nodefeatures"], "verbs": ["create", "get", "update"]},
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]},
    ]


def test_every_role_is_bound_to_the_account_of_its_name(rendered: Rendered) -> None:
    found = rendered(16)
    bindings = [item for item in found.values() if item["kind"].endswith("RoleBinding")]
    roles = {(item["kind"], item["metadata"]["name"]) for item in found.values() if item["kind"].endswith("Role")}
    accounts = {name.removeprefix("serviceaccount-") for name in found if name.startswith("serviceaccount-")}

    assert accounts == {"nfd-master", "nfd-worker", "nfd-gc"}
    assert {(item["roleRef"]["kind"], item["roleRef"]["name"]) for item in bindings} == roles
    for item in bindings:
        (subject,) = item["subjects"]
        assert subject == {"kind": "ServiceAccount", "name": subject["name"], "namespace": NAMESPACE}
        assert item["roleRef"]["name"].removeprefix("kae-") == subject["name"]
    assert {pod_spec(item)["serviceAccountName"] for item in workloads(found)} == accounts


@pytest.mark.parametrize("minor", MINORS)
def test_no_pod_has_a_privilege_and_only_the_workers_see_the_host_to_read(rendered: Rendered, minor: int) -> None:
    for item in workloads(rendered(minor)):
        spec = pod_spec(item)
        only = container(item)
        mounts = only.get("volumeMounts", [])

        assert not {"hostNetwork", "hostPID", "hostIPC"} & spec.keys()
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert only["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert bool(mounts) == (item["kind"] == "DaemonSet")
        assert all(mount["readOnly"] is True for mount in mounts)
        volumes = spec.get("volumes", [])
        assert {mount["name"] for mount in mounts} == {volume["name"] for volume in volumes}
        made = {one["hostPath"]["path"] for one in volumes if one["hostPath"]["type"] not in ("File", "Directory")}
        assert made == ({driver_labels.FOLDER} if volumes else set())


def test_an_object_s_file_is_named_after_it(rendered: Rendered) -> None:
    found = rendered(17)

    assert {name: f"{item['kind'].lower()}-{item['metadata']['name']}" for name, item in found.items()} == {
        name: name for name in found
    }


def test_every_object_lies_in_the_namespace_or_has_a_name_of_its_own(rendered: Rendered) -> None:
    for name, item in rendered(16).items():
        metadata = item["metadata"]
        if item["kind"].startswith("Cluster"):
            assert metadata["name"].startswith("kae-"), name
        assert metadata.get("namespace") == (None if item["kind"].startswith(("Cluster", "Custom")) else NAMESPACE), (
            name
        )


def test_every_object_says_whose_it_is_and_selectors_hold_names_alone(rendered: Rendered, device_rules: Any) -> None:
    for item in (*rendered(16).values(), device_rules):
        assert item["metadata"]["labels"] == {"app.kubernetes.io/part-of": "kae", "app.kubernetes.io/managed-by": "kae"}
    for item in workloads(rendered(16)):
        labels = {"app.kubernetes.io/name": item["metadata"]["name"]}
        assert item["spec"]["selector"] == {"matchLabels": labels}
        assert item["spec"]["template"]["metadata"] == {"labels": labels}


def test_the_schemas_of_the_oldest_and_the_newest_kubernetes_accept_all(rendered: Rendered) -> None:
    toleration = (pods.Toleration(key="dedicated", operator="Exists", effect="NoExecute", tolerationSeconds=5),)
    distinct = {
        json.dumps(item, sort_keys=True): item
        for minor in MINORS
        for item in rendered(minor, toleration, toleration).values()
    }

    for item in distinct.values():
        for release in ("1.25", kubernetes_validate.latest_version()):
            assert kubernetes_validate.validate(item, release, strict=True) == ".".join(release.split(".")[:2])


def test_neither_nodes_nor_the_labels_of_people_are_ever_written(rendered: Rendered, device_rules: Any) -> None:
    for item in (*rendered(16).values(), *rendered(19).values(), device_rules):
        assert item["kind"] != "Node"
        assert "kae.deploy" not in json.dumps(item)


def labels_of(rules: Mapping[str, Any], present: Sequence[Device]) -> dict[str, str]:
    """Return the labels that NFD would give to a node with these devices."""
    instances = tuple({"vendor": vendor, "device": device} for vendor, device in present)
    return nfd_rules.labels([rules], nfd_rules.Features(attributes={}, instances={"pci.device": instances}))


def test_a_node_without_kae_devices_gets_no_label(device_rules: Any) -> None:
    strangers = [("8086", "a258"), ("19e5", "a222"), ("1af4", "1041")]

    assert labels_of(device_rules, strangers) == {}


def test_physical_and_virtual_functions_are_counted_apart(device_rules: Any) -> None:
    present = [("19e5", "a258"), *[("19e5", "a259")] * 5, ("8086", "a259")]

    assert labels_of(device_rules, present) == {
        "openfuyao.com/kae.present": "true",
        "openfuyao.com/kae.hpre.present": "true",
        "openfuyao.com/kae.hpre.pf": "1",
        "openfuyao.com/kae.hpre.vf": "5",
    }


def test_a_guest_with_virtual_functions_alone_gets_no_label_about_physical_ones(device_rules: Any) -> None:
    assert labels_of(device_rules, [("19e5", "a251")]) == {
        "openfuyao.com/kae.present": "true",
        "openfuyao.com/kae.zip.present": "true",
        "openfuyao.com/kae.zip.vf": "1",
    }


@pytest.mark.parametrize("kind", kae.KINDS, ids=lambda kind: kind.name)
def test_the_labels_of_a_kind_are_the_ones_that_selectors_read(device_rules: Any, kind: kae.Kind) -> None:
    found = labels_of(device_rules, [(kae.VENDOR, kind.pf), (kae.VENDOR, kind.vf)])

    assert found == {
        kae.RECIPE.present: "true",
        f"{kind.resource}.present": "true",
        f"{kind.resource}.pf": "1",
        f"{kind.resource}.vf": "1",
    }
