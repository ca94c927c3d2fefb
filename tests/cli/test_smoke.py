"""`kae smoke`: Jobs that try a device of each resource, and a sentence for what none of them tries."""

from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from syrupy.assertion import SnapshotAssertion

from tests import in_process
from tests.cli import diffs, fleet
from tests.cli.answers import refused, told

SMOKE = ("smoke", "--cluster", "east")
NOBODY = {"runAsNonRoot": True, "runAsUser": 65532, "runAsGroup": 65532}
VERSIONS = ("1.25", kubernetes_validate.latest_version())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return fleet.full(tmp_path)


def jobs(folder: Path, *arguments: str) -> list[dict[str, Any]]:
    """Return the Jobs of cluster east, after the schemas of Kubernetes took them."""
    made = list(yaml.load_all(told(folder, *SMOKE, *arguments), Loader=yaml.CSafeLoader))
    for job in made:
        for version in VERSIONS:
            kubernetes_validate.validate(job, version, strict=True)
    return made


def pod(job: dict[str, Any]) -> dict[str, Any]:
    spec: dict[str, Any] = job["spec"]["template"]["spec"]
    return spec


def change(folder: Path, old: str, new: str, file: str = "policies/tls.yaml") -> None:
    diffs.edit(folder, (old, new), file=file)


def test_each_policy_and_resource_has_a_job_on_any_of_its_nodes(folder: Path, snapshot: SnapshotAssertion) -> None:
    answer = in_process.kae(folder, *SMOKE)

    assert answer.code == 0
    assert (answer.out, answer.err) == snapshot
    assert [job["metadata"]["name"] for job in jobs(folder)] == ["kae-smoke-rest-hpre", "kae-smoke-tls-hpre"]


def test_a_node_has_jobs_of_its_own_that_run_nowhere_else(folder: Path) -> None:
    first, second = (jobs(folder, "--node", name)[0] for name in ("kp920-01", "kp920-02"))

    terms = pod(first)["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert terms == {
        "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["kp920-01"]}]}]
    }
    assert first["metadata"]["name"] != second["metadata"]["name"]
    assert first["metadata"]["name"].startswith("kae-smoke-tls-hpre-")


def test_the_pods_pass_the_restricted_standard(folder: Path) -> None:
    for job in jobs(folder):
        spec = pod(job)
        (container,) = spec["containers"]
        if "rest" in job["metadata"]["name"]:
            continue  # Of a driver that others installed; see below.
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        assert container["securityContext"]["allowPrivilegeEscalation"] is False
        assert not {"hostNetwork", "hostPID", "volumes"} & spec.keys()
        assert spec["automountServiceAccountToken"] is False


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        ("", NOBODY),
        ("    deviceNodes: {mode: '0660', group: 1500}\n", NOBODY | {"supplementalGroups": [1500]}),
        ("    deviceNodes: {mode: '0660'}\n", {"runAsUser": 0}),
    ],
)
def test_the_user_is_one_who_may_open_the_device_nodes(nodes: str, expected: dict[str, Any], folder: Path) -> None:
    change(folder, "  driver:\n", f"  driver:\n{nodes}")

    (_, tls) = jobs(folder)

    assert pod(tls)["securityContext"] == {**expected, "seccompProfile": {"type": "RuntimeDefault"}}


def test_device_nodes_of_a_foreign_driver_are_roots_unless_a_mode_is_set(folder: Path) -> None:
    before = pod(jobs(folder)[0])["securityContext"]
    change(folder, "  devicePlugin:\n", "  devicePlugin:\n    deviceNodes: {mode: '0666'}\n", "policies/rest.yaml")
    after = pod(jobs(folder)[0])["securityContext"]

    assert (before["runAsUser"], after["runAsUser"]) == (0, 65532)


def test_on_openshift_the_platform_chooses_the_user(folder: Path) -> None:
    change(folder, "  name: east\n", "  name: east\nspec: {platform: openshift}\n", "policies/east.yaml")

    (_, tls) = jobs(folder)

    assert pod(tls)["securityContext"] == {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}


def test_what_the_plugin_needs_to_run_on_a_node_the_pod_has_too(folder: Path) -> None:
    change(folder, "    version: 1.4.1\n", "    version: 1.4.1\n    pullSecrets: [{name: registry}]\n")
    change(folder, "  driver:\n", "  daemonSets:\n    tolerations: [{key: dedicated, operator: Exists}]\n  driver:\n")

    (_, tls) = jobs(folder)

    assert pod(tls)["imagePullSecrets"] == [{"name": "registry"}]
    assert pod(tls)["tolerations"] == [{"key": "dedicated", "operator": "Exists"}]
    assert pod(tls)["containers"][0]["image"].endswith("kae-device-plugin:1.4.1")


def test_functions_for_virtual_machines_are_not_tried_and_that_is_said(folder: Path) -> None:
    change(folder, "    sharing:\n      hpre: 8\n", "    mode: {hpre: vfio}\n")
    change(folder, "  driver:\n    version: 2.2.0\n", "  driver:\n    enabled: false\n")

    answer = in_process.kae(folder, *SMOKE)

    assert "kae-smoke-tls" not in answer.out
    assert "not tried: openfuyao.com/kae.hpre.vfio, which is for virtual machines" in answer.err


def test_a_named_node_without_a_device_is_told_and_nothing_is_printed(folder: Path) -> None:
    said = refused(3, folder, *SMOKE, "--node", "x86-01")

    assert "not tried: x86-01: " in said
    assert "has no device that a pod could try" in said
