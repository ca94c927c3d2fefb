"""The device plugin on a real node: its image, its DaemonSet as compiled, the real kubelet; only the hardware is fake.

Figures go to standard output: `pytest -rP` shows them.
"""

import contextlib
import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cluster.control import pods
from tests.cluster.local import waiting
from tests.cluster.nodes import images as image_store
from tests.cluster.nodes import node as nodes
from tests.cluster.nodes import plugin_node
from tests.images import archives

HPRE, SEC, ZIP = (f"openfuyao.com/kae.{name}" for name in ("hpre", "sec", "zip"))
SELECTOR = "app.kubernetes.io/name=kae-device-plugin"
EXAMPLES = Path(__file__).parents[2] / "docs/examples"


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployed:
    """The plugin at work on the node."""

    node: nodes.Node
    namespace: pods.Namespace
    devices: plugin_node.Devices
    folder: Path
    """The project that it was compiled from."""

    def plugin(self) -> Any:
        """Return the plugin's pod; the newest where one is ending."""
        found = [pod for pod in self.namespace.pods(SELECTOR) if "deletionTimestamp" not in pod["metadata"]]
        return found[-1] if found else None

    def run(self, *command: str) -> str:
        """Return what a command prints in the plugin's container."""
        return self.namespace.run(self.plugin()["metadata"]["name"], *command)

    def wait_for(self, **counts: int) -> None:
        """Wait until so many devices are allocatable, by kind."""
        for kind, count in counts.items():
            self.node.wait_for_allocatable(f"openfuyao.com/kae.{kind}", count)


@pytest.fixture(scope="module")
def deployed(
    node: nodes.Node, images: image_store.Images, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Deployed]:
    images.load(plugin_node.IMAGE, archives.built_image())
    folder = tmp_path_factory.mktemp("project")
    # Of another name for each module that uses this.
    devices = plugin_node.Devices(node.plane.instance.state / folder.name, node)
    daemon_set = plugin_node.daemon_set(folder, devices.host)
    namespace = pods.Namespace(name="kae-operator", plane=node.plane)
    labels = [f"openfuyao.com/kae.{name}.present=true" for name in ("hpre", "sec", "zip")]
    node.plane.kubectl("label", "node", node.name, *labels)
    with contextlib.ExitStack() as stack:
        stack.callback(devices.close)
        node.plane.kubectl("apply", "-f", "-", text=plugin_node.text(*plugin_node.others(folder), daemon_set))
        stack.callback(node.plane.kubectl, "delete", "namespace", "kae-operator", "--wait=true")
        found = Deployed(node=node, namespace=namespace, devices=devices, folder=folder)
        waiting.until("the plugin's pod", found.plugin, timeout_s=20)
        namespace.wait_for_ready(found.plugin()["metadata"]["name"])
        found.wait_for(hpre=2, sec=4, zip=2)
        yield found


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
    script = (
        "import json, os\n"
        "found = {}\n"
        "for name in os.listdir('/sys/class/uacce'):\n"
        "    if os.path.exists(f'/sys/class/uacce/{name}/api'):\n"
        "        node = os.stat(f'/dev/{name}')\n"
        "        open(f'/dev/{name}', 'rb+', buffering=0).close()\n"
        "        real = os.path.basename(os.path.realpath(f'/sys/class/uacce/{name}'))\n"
        "        found[name] = (real, f'{os.major(node.st_rdev)}:{os.minor(node.st_rdev)}')\n"
        "print(json.dumps(found))\n"
    )
    found: dict[str, list[str]] = json.loads(namespace.run(name, "python3", "-c", script))
    return {entry: (real, numbers) for entry, (real, numbers) in sorted(found.items())}


def expected(deployed: Deployed, address: str) -> tuple[str, str]:
    """Return the entry of a device on the host, and its numbers there."""
    state = deployed.devices.host.states()[address]
    folder = deployed.devices.host.sysfs / "bus/pci/devices" / address / "uacce" / str(state.entry)
    return str(state.entry), (folder / "dev").read_text().strip()


def address_of(entry: str) -> str:
    """Return the PCI address in the name of an entry as containers see it."""
    number = int(entry.rpartition("-")[2])
    return f"{number >> 16:04x}:{number >> 8 & 0xFF:02x}:{number >> 3 & 0x1F:02x}.{number & 7}"


def test_the_plugin_runs_without_any_privilege(deployed: Deployed) -> None:
    status = dict(re.findall(r"(\w+):\s+(\S+)", deployed.run("cat", "/proc/1/status")))
    write = "import os; os.open('/app/x', os.O_CREAT)"
    pod = deployed.plugin()

    assert (status["CapEff"], status["CapPrm"], status["CapBnd"]) == ("0" * 16,) * 3
    assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")
    assert "Read-only file system" in failure(deployed, "python", "-c", write)
    assert "No such file" in failure(deployed, "ls", "/var/run/secrets/kubernetes.io")
    assert "hostNetwork" not in pod["spec"]
    assert pod["status"]["podIP"] != pod["status"]["hostIP"]


def failure(deployed: Deployed, *command: str) -> str:
    """Return what a command that fails in the plugin's container says."""
    script = "import subprocess, sys; print(subprocess.run(sys.argv[1:], capture_output=True, text=True).stderr)"
    return deployed.run("python", "-c", script, *command)


def test_list_in_the_pod_says_what_the_kubelet_was_told(deployed: Deployed) -> None:
    found = json.loads(deployed.run("python", "-m", "device_plugin", "list", "--sysfs", "/host/sys", "-o", "json"))

    assert {item["name"]: item["allocatable"] for item in found["resources"]} == {HPRE: 2, SEC: 4, ZIP: 2}


def test_two_resources_in_one_container_both_work_and_nothing_else_is_shown(
    deployed: Deployed, debian: str, namespace: pods.Namespace
) -> None:
    namespace.apply(user("both", debian, deployed, hpre=1, sec=1))
    namespace.wait_for_ready("both")

    found = seen(namespace, "both")

    assert [name.partition("-")[0] for name in found] == ["hisi_hpre", "hisi_sec2"]
    assert all(found[name] == expected(deployed, address_of(name)) for name in found)
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
    deployed.wait_for(hpre=2, sec=4, zip=2)
    namespace.run("stays", "touch", "/end")
    waiting.until("the restart", lambda: restarts(namespace, "stays") == 1, timeout_s=30)
    namespace.wait_for_ready("stays")
    after = seen(namespace, "stays")

    assert after == {name: expected(deployed, address_of(name))}
    assert after != before


def restarts(namespace: pods.Namespace, name: str) -> int:
    """Return how often a pod's container was started again, and runs."""
    (status,) = namespace.pod(name)["status"]["containerStatuses"]
    return int(status["restartCount"]) if status["ready"] else -1


def test_an_unplugged_device_leaves_allocatable_and_comes_back(deployed: Deployed) -> None:
    began = time.monotonic()
    deployed.devices.host.unplug("0000:b9:00.0")
    deployed.wait_for(hpre=1)
    took_s = time.monotonic() - began
    deployed.devices.host.replug("0000:b9:00.0")
    deployed.wait_for(hpre=2)

    sys.stdout.write(f"unplugged to allocatable in the API: {took_s:.1f} s\n")
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
    deployed.wait_for(hpre=2, sec=4, zip=2)

    assert namespace.wait_for_ready("goes-on")["status"]["containerStatuses"] == before["status"]["containerStatuses"]


def test_a_restart_of_the_kubelet_loses_nothing(deployed: Deployed, debian: str, namespace: pods.Namespace) -> None:
    namespace.apply(user("survives", debian, deployed, hpre=1))
    before = namespace.wait_for_ready("survives")
    plugin = deployed.plugin()

    deployed.node.restart_kubelet()
    deployed.wait_for(hpre=2, sec=4, zip=2)
    after = namespace.wait_for_ready("survives")

    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert after["status"]["containerStatuses"] == before["status"]["containerStatuses"]
    assert deployed.plugin()["status"]["containerStatuses"] == plugin["status"]["containerStatuses"]


def test_the_folder_of_sockets_may_be_deleted_and_the_plugin_restarts_with_a_new_one(deployed: Deployed) -> None:
    folder = "/var/lib/kubelet/plugins_registry/kae"
    before = deployed.plugin()["status"]["containerStatuses"][0]["restartCount"]

    in_node = ["nsenter", f"--target={deployed.node.containerd.pid}", "--mount"]
    subprocess.run([*in_node, "rm", "-r", folder], check=True)

    def restarted() -> dict[str, Any] | None:
        (status,) = deployed.plugin()["status"]["containerStatuses"]
        return status if status["restartCount"] > before and status["ready"] else None

    status = waiting.until("another container of the plugin", restarted, timeout_s=60)
    deployed.wait_for(hpre=2, sec=4, zip=2)
    assert status["lastState"]["terminated"]["message"].strip() == (
        f"'{folder}' was deleted on the host; a restart mounts the new one."
    )


def test_an_update_of_the_plugin_leaves_users_alone_and_a_short_gap(
    deployed: Deployed, debian: str, namespace: pods.Namespace
) -> None:
    namespace.apply(user("unmoved", debian, deployed, hpre=1, sec=1))
    before = namespace.wait_for_ready("unmoved")
    old = deployed.plugin()["metadata"]["uid"]

    patch = json.dumps({"spec": {"template": {"metadata": {"annotations": {"example.com/update": "1"}}}}})
    deployed.namespace.kubectl("patch", "daemonset", "kae-device-plugin-tls", "--patch", patch)
    gap_s = longest_gap_s(deployed, old)
    after = namespace.wait_for_ready("unmoved")

    sys.stdout.write(f"gap in allocatable: {gap_s:.1f} s\n")
    assert gap_s < 5
    assert after["status"]["containerStatuses"] == before["status"]["containerStatuses"]
    assert deployed.plugin()["metadata"]["uid"] != old


def longest_gap_s(deployed: Deployed, old: str) -> float:
    """Return the longest time without an allocatable HPRE device, until the plugin's successor is Ready."""
    deadline = time.monotonic() + 60
    since: float | None = None
    longest = 0.0
    while time.monotonic() < deadline:
        now = time.monotonic()
        if deployed.node.allocatable(HPRE) == 2:
            longest = max(longest, now - since if since else 0.0)
            since = None
            pod = deployed.plugin()
            if pod and pod["metadata"]["uid"] != old and is_ready(pod):
                return longest
        else:
            since = since or now
        time.sleep(0.05)
    raise AssertionError("the successor is not Ready after a minute")


def is_ready(pod: Any) -> bool:
    """Return whether a pod is Ready."""
    return any(found["type"] == "Ready" and found["status"] == "True" for found in pod["status"]["conditions"])


def test_the_example_of_the_documentation_is_accepted(deployed: Deployed, namespace: pods.Namespace) -> None:
    documents = list(yaml.safe_load_all((EXAMPLES / "nginx.yaml").read_text()))

    namespace.apply(*documents)
    waiting.until("the pod", lambda: namespace.pods("app=nginx") or namespace.pods(), timeout_s=20)

    (pod,) = namespace.pods()
    assert pod["spec"]["containers"][0]["resources"]["limits"] == {HPRE: "1"}
    # Its image is not on this node; the device was given all the same.
    waiting.until("a node", lambda: namespace.pods()[0]["spec"].get("nodeName"), timeout_s=20)
