"""The device plugin on a real node: its image, its compiled DaemonSet, the real kubelet; only the hardware is fake."""

import json
import re
from pathlib import Path
from typing import Any

import yaml

from tests.cluster.control import pods
from tests.cluster.local import waiting
from tests.cluster.nodes.plugin_node import LOOK, Deployed

HPRE, SEC, ZIP = (f"openfuyao.com/kae.{name}" for name in ("hpre", "sec", "zip"))
EXAMPLES = Path(__file__).parents[2] / "docs/examples"


def user(name: str, image: str, deployed: Deployed, **resources: int) -> dict[str, Any]:
    """Return a pod that uses devices, with the fake sysfs in place of the kernel's; it ends when /end appears."""
    limits = {f"openfuyao.com/kae.{kind}": count for kind, count in resources.items()}
    sysfs = {"name": "sysfs", "hostPath": {"path": str(deployed.devices.host.sysfs)}}
    return pods.pod(
        name,
        image,
        ["sh", "-c", "while [ ! -e /end ]; do sleep 0.1; done"],
        volumes=[sysfs],
        restartPolicy="Always",
        container={
            "resources": {"limits": limits},
            "volumeMounts": [{"name": "sysfs", "mountPath": "/sys", "readOnly": True}],
        },
    )


def seen(namespace: pods.Namespace, name: str) -> dict[str, tuple[str, str]]:
    """Return the entries that a pod can use, with the real entry behind each and the numbers of its device node."""
    shown: dict[str, list[str]] = json.loads(namespace.run(name, "python3", "-c", LOOK))["shown"]
    return {entry: (real, numbers) for entry, (real, numbers) in sorted(shown.items())}


def test_the_plugin_runs_without_any_privilege(deployed: Deployed) -> None:
    status = dict(re.findall(r"(\w+):\s+(\S+)", deployed.run("cat", "/proc/1/status")))
    write = "import os; os.open('/app/x', os.O_CREAT)"
    pod = deployed.plugin()

    assert {status[name] for name in ("CapEff", "CapPrm", "CapBnd")} == {"0" * 16}
    assert status["NoNewPrivs"] == "1"
    assert status["Seccomp"] == "2"
    assert "Read-only file system" in failure(deployed, "python", "-c", write)
    assert "No such file" in failure(deployed, "ls", "/var/run/secrets/kubernetes.io")
    assert "hostNetwork" not in pod["spec"]
    assert pod["status"]["podIP"] != pod["status"]["hostIP"]


def failure(deployed: Deployed, *command: str) -> str:
    script = "import subprocess, sys; print(subprocess.run(sys.argv[1:], capture_output=True, text=True).stderr)"
    return deployed.run("python", "-c", script, *command)


def test_list_in_the_pod_says_what_the_kubelet_was_told(deployed: Deployed) -> None:
    listed = json.loads(deployed.run("python", "-m", "device_plugin", "list", "--sysfs", "/host/sys", "-o", "json"))

    assert {item["name"]: item["allocatable"] for item in listed["resources"]} == {HPRE: 2, SEC: 4, ZIP: 2}


def test_two_resources_in_one_container_both_work_and_nothing_else_is_shown(
    deployed: Deployed, debian: str, namespace: pods.Namespace
) -> None:
    namespace.apply(user("both", debian, deployed, hpre=1, sec=1))
    namespace.wait_for_ready("both")

    entries = seen(namespace, "both")

    assert [name.partition("-")[0] for name in entries] == ["hisi_hpre", "hisi_sec2"]
    assert entries == {name: deployed.entry_of(name) for name in entries}
    environment = namespace.run("both", "env")
    assert "OPENSSL_CONF=/run/kae/openssl/openssl.cnf" in environment
    assert "dynamic_path = /usr/local/lib/engines-3.0/kae.so" in namespace.run(
        "both", "cat", "/run/kae/openssl/openssl.cnf"
    )


def test_a_container_that_restarts_after_a_renumbering_gets_its_own_device(
    deployed: Deployed, debian: str, namespace: pods.Namespace
) -> None:
    namespace.apply(user("stays", debian, deployed, hpre=1))
    namespace.wait_for_ready("stays")
    (name,) = before = seen(namespace, "stays")

    deployed.devices.host.renumber()
    deployed.wait_for_all()
    namespace.run("stays", "touch", "/end")
    waiting.until("the restart", lambda: restarts(namespace.pod("stays")) == 1)
    namespace.wait_for_ready("stays")
    after = seen(namespace, "stays")

    assert after == {name: deployed.entry_of(name)}
    assert after != before


def restarts(pod: Any) -> int:
    """Return how often the container of a pod was started again, and runs; -1 where it does not."""
    (status,) = pod["status"]["containerStatuses"]
    return int(status["restartCount"]) if status["ready"] else -1


def test_an_unplugged_device_leaves_allocatable_and_comes_back(deployed: Deployed) -> None:
    deployed.devices.host.unplug("0000:b9:00.0")
    deployed.wait_for(hpre=1)
    deployed.devices.host.replug("0000:b9:00.0")
    deployed.wait_for(hpre=2)

    assert deployed.node.capacity(HPRE) == 2


def test_while_the_driver_is_changed_nothing_is_allocatable_and_pods_go_on(
    deployed: Deployed, debian: str, namespace: pods.Namespace
) -> None:
    namespace.apply(user("goes-on", debian, deployed, zip=1))
    before = namespace.wait_for_ready("goes-on")
    flag = deployed.node.path("/run/kae/driver-changing")

    flag.write_text('{"reason": "a test"}')
    deployed.wait_for(hpre=0, sec=0, zip=0)
    flag.unlink()
    deployed.wait_for_all()

    namespace.wait_for_same(before)


def test_a_restart_of_the_kubelet_loses_nothing(deployed: Deployed, debian: str, namespace: pods.Namespace) -> None:
    namespace.apply(user("survives", debian, deployed, hpre=1))
    before = namespace.wait_for_ready("survives")
    plugin = deployed.plugin()

    deployed.node.restart_kubelet()
    deployed.wait_for_all()

    namespace.wait_for_same(before)
    deployed.namespace.wait_for_same(plugin)


def test_a_plugin_whose_folder_of_sockets_is_deleted_restarts_with_a_new_one(deployed: Deployed) -> None:
    folder = "/var/lib/kubelet/plugins_registry/kae"
    before = restarts(deployed.plugin())

    deployed.node.run("rm", "-r", folder)
    waiting.until("another container of the plugin", lambda: restarts(deployed.plugin()) > before)
    deployed.wait_for_all()

    (status,) = deployed.plugin()["status"]["containerStatuses"]
    said = status["lastState"]["terminated"]["message"].strip()
    assert said == f"'{folder}' was deleted on the host; a restart mounts the new one."


def test_an_update_of_the_plugin_leaves_users_alone(deployed: Deployed, debian: str, namespace: pods.Namespace) -> None:
    namespace.apply(user("unmoved", debian, deployed, hpre=1, sec=1))
    before = namespace.wait_for_ready("unmoved")
    old = deployed.plugin()["metadata"]["uid"]

    patch = json.dumps({"spec": {"template": {"metadata": {"annotations": {"example.com/update": "1"}}}}})
    deployed.namespace.kubectl("patch", "daemonset", "kae-device-plugin-tls", "--patch", patch)

    def successor() -> Any:
        plugin = deployed.plugin()
        return plugin if plugin is not None and plugin["metadata"]["uid"] != old else None

    deployed.namespace.wait_for_ready(waiting.until("the successor", successor)["metadata"]["name"])
    deployed.wait_for_all()
    namespace.wait_for_same(before)


def test_the_example_of_the_documentation_gets_a_device(deployed: Deployed, namespace: pods.Namespace) -> None:
    namespace.apply(*yaml.safe_load_all((EXAMPLES / "nginx.yaml").read_text()))

    # Its image is not on this node; the device was given all the same.
    bound = waiting.until("a pod with a node", lambda: [pod for pod in namespace.pods() if "nodeName" in pod["spec"]])

    (pod,) = bound
    assert pod["spec"]["containers"][0]["resources"]["limits"] == {HPRE: "1"}
