"""`kae smoke` and `kae support-bundle` on a real node: the Jobs get devices from the plugin; only the hardware is fake.

A fake device is one of the kernel's own character devices, so it opens, and knows no ioctl that starts a queue.
"""

import json
import re
import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from compiler.commands import support_bundle
from tests import in_process
from tests.cluster.control import pods
from tests.cluster.local import waiting
from tests.cluster.nodes.plugin_node import Deployed

KINDS = ("hpre", "sec", "zip")
RANDOM = ("1:8", "1:9")
"""Stand-ins that answer EINVAL and not ENOTTY: /dev/random and /dev/urandom (drivers/char/random.c)."""
REFUSED = "was opened, and refuses to start a queue: Invalid argument (EINVAL)."
UNKNOWN = "was opened; no queue was started, as its driver has no ioctl for that."


@pytest.fixture(scope="module")
def folder(deployed: Deployed, tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = shutil.copytree(deployed.folder, tmp_path_factory.mktemp("smoke") / "project")
    plane = deployed.node.plane
    plane.kubectl("label", "node", deployed.node.name, *(f"openfuyao.com/kae.{kind}.pf=2" for kind in KINDS))
    (made / "inventory").mkdir()
    access = ("--kubeconfig", str(plane.kubeconfig))
    taken = in_process.kae(made, "inventory", "--cluster", "test", *access, "--output-file", "inventory/test.json")
    assert taken.code == 0, taken.err
    return made


def jobs(folder: Path, *arguments: str) -> list[dict[str, Any]]:
    answer = in_process.kae(folder, "smoke", "--cluster", "test", *arguments)
    assert answer.code == 0, answer.err
    return list(yaml.load_all(answer.out, Loader=yaml.CSafeLoader))


def with_modes(folder: Path, tmp_path: Path) -> Path:
    made = shutil.copytree(folder, tmp_path / "project")
    policy = made / "policies/tls.yaml"
    data = json.loads(policy.read_text())
    data["spec"]["devicePlugin"]["deviceNodes"] = {}
    policy.write_text(json.dumps(data))
    return made


@pytest.fixture(scope="module")
def ended(
    deployed: Deployed, folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, tuple[int, str]]]:
    """The user and the end of each Job, for users without rights and for root; all look at the fake host's sysfs."""
    open_to_all = with_modes(folder, tmp_path_factory.mktemp("modes"))
    made = [*jobs(open_to_all), *jobs(folder, "--node", deployed.node.name)]
    for job in made:
        spec = job["spec"]["template"]["spec"]
        spec["volumes"] = [{"name": "sysfs", "hostPath": {"path": str(deployed.devices.host.sysfs)}}]
        spec["containers"][0]["volumeMounts"] = [{"name": "sysfs", "mountPath": "/sys", "readOnly": True}]
    deployed.namespace.apply(*made)
    yield {
        job["metadata"]["name"]: (
            job["spec"]["template"]["spec"]["securityContext"]["runAsUser"],
            end_of(deployed.namespace, job["metadata"]["name"]),
        )
        for job in made
    }
    deployed.namespace.kubectl("delete", "job", "-l", "app.kubernetes.io/name=kae-smoke", "--wait=true")


def end_of(namespace: pods.Namespace, name: str) -> str:
    def ending() -> str | None:
        status = json.loads(namespace.kubectl("get", "job", name, "-o", "json"))["status"]
        true = [item["type"] for item in status.get("conditions", ()) if item["status"] == "True"]
        return next((item for item in true if item in ("Complete", "Failed")), None)

    return waiting.until(f"the end of job {name}", ending, explain=lambda: namespace.kubectl("describe", "job,pod"))


def test_each_resource_is_tried_by_a_user_without_rights_and_by_root(
    deployed: Deployed, ended: dict[str, tuple[int, str]]
) -> None:
    assert sorted(user for user, _ in ended.values()) == [0, 0, 0, 65532, 65532, 65532]
    for name, (_, end) in ended.items():
        log = deployed.namespace.kubectl("logs", f"job/{name}")
        module = {"hpre": "hisi_hpre", "sec": "hisi_sec2", "zip": "hisi_zip"}[name.split("-")[3]]
        said = re.fullmatch(rf"node {deployed.node.name}: /dev/(?P<entry>{module}-[0-9]+) (?P<words>.*)\n", log)
        assert said is not None, log
        _, numbers = deployed.entry_of(said["entry"])
        assert (end, said["words"]) == (("Failed", REFUSED) if numbers in RANDOM else ("Complete", UNKNOWN))

    assert "Complete" in {end for _, end in ended.values()}


def test_the_restricted_standard_admits_the_pods(folder: Path, namespace: pods.Namespace, tmp_path: Path) -> None:
    label = "pod-security.kubernetes.io/enforce=restricted"
    namespace.plane.kubectl("label", "namespace", namespace.name, label)
    made = jobs(with_modes(folder, tmp_path))

    for job in made:
        template = job["spec"]["template"]
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {**template["metadata"], "name": job["metadata"]["name"]},
            "spec": template["spec"],
        }
        namespace.kubectl("apply", "--dry-run=server", "-f", "-", text=json.dumps(pod))

    assert len(made) == len(KINDS)


@pytest.mark.usefixtures("ended")
def test_the_bundle_has_what_the_plugin_and_the_jobs_say(deployed: Deployed, folder: Path, tmp_path: Path) -> None:
    access = ("--cluster", "test", "--kubeconfig", str(deployed.node.plane.kubeconfig))

    answer = in_process.kae(folder, "support-bundle", *access, "--output-file", str(tmp_path / "bundle.tar.gz"))

    assert (answer.code, answer.err) == (0, "")
    with tarfile.open(tmp_path / "bundle.tar.gz") as packed:
        packed.extractall(tmp_path, filter="data")
    bundle = tmp_path / support_bundle.FOLDER
    (listed,) = bundle.rglob("*-device-plugin-list.txt")
    assert "openfuyao.com/kae.hpre" in listed.read_text()
    logs = [path.read_text() for path in bundle.glob("logs/**/*") if path.is_file() and "smoke" in str(path)]
    assert any("was opened" in text for text in logs)
    assert any(event["reason"] == "Started" for event in json.loads((bundle / "events.json").read_text()))
    assert json.loads((bundle / "versions.json").read_text())["server"]["gitVersion"].startswith("v1.")
    # The test mounts a fake host into the plugin, which is what differs.
    differences = json.loads((bundle / "difference.json").read_text())
    assert {item["kind"] for item in differences if item["state"] == "changed"} == {"DaemonSet"}
