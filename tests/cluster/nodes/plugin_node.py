"""The node with KAE devices: a fake sysfs and its device nodes, and the DaemonSet as the compiler renders it."""

import fcntl
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from tests import project
from tests.cluster.control import manifests
from tests.cluster.nodes import node as nodes
from tests.device_plugin import hosts, kernel, machines

IMAGE = "localhost/kae-device-plugin:1"

_POLICY = f"""\
apiVersion: device.openfuyao.com/v1alpha1
kind: KAEPolicy
metadata:
  name: tls
spec:
  operator: {{enabledHPRE: true, enabledSEC: true, enabledZIP: true}}
  driver: {{enabled: false}}
  devicePlugin:
    repository: ""
    image: {IMAGE}
    version: ""
    sharing: {{sec: 2}}
    inject: {{opensslConf: "3.0"}}
"""


class Devices:
    """A fake host with its device nodes in /dev of the node, and its events sent by the kernel.

    Links in /dev lead to the fake host's nodes. Events are real: a PCI device of this machine is asked to
    announce itself (uevent), which every listener receives as it would for a KAE device.
    """

    def __init__(self, root: Path, node: nodes.Node) -> None:
        # There is one /dev for all clusters of the machine.
        self._lock = (node.plane.instance.state.parent / "dev.lock").open("w")
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        self._spokesman = next(iter(sorted(Path("/sys/bus/pci/devices").iterdir()))) / "uevent"
        self._ready = False
        self.host: hosts.Host = machines.bare_metal(root, mknod=True, tell=self._tell)
        self._ready = True
        self._show()

    def close(self) -> None:
        """Take the links out of /dev."""
        for path in Path("/dev").glob("hisi_*"):
            path.unlink()
        self._lock.close()

    def tell(self) -> None:
        """Have the kernel tell of something."""
        self._spokesman.write_text("change")

    def _tell(self, _: kernel.Event) -> None:
        if self._ready:
            self._show()
            self.tell()

    def _show(self) -> None:
        wanted = {path.name: path for path in self.host.dev.iterdir()}
        for path in Path("/dev").glob("hisi_*"):
            if path.name not in wanted:
                path.unlink()
        for name, target in wanted.items():
            if not os.path.lexists(f"/dev/{name}"):
                Path("/dev", name).symlink_to(target)


def daemon_set(folder: Path, host: hosts.Host) -> Mapping[str, Any]:
    """Return the compiled DaemonSet, with the fake host's /dev and sysfs mounted; nothing else differs."""
    project.write(folder, {"policies/tls.yaml": _POLICY, "policies/test.yaml": manifests.CLUSTER})
    answer = project.kae(folder, "compile")
    assert answer.code == 0, answer.err
    (path,) = folder.glob("output/test/device-plugin/daemonset-*.yaml")
    found: dict[str, Any] = yaml.safe_load(path.read_text())
    pod = found["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    container["command"] += ["--sysfs", "/host/sys"]
    container["volumeMounts"].append({"name": "sysfs", "mountPath": "/host/sys", "readOnly": True})
    for volume in pod["volumes"]:
        if volume["name"] == "dev":
            volume["hostPath"]["path"] = str(host.dev)
    pod["volumes"].append({"name": "sysfs", "hostPath": {"path": str(host.sysfs), "type": "Directory"}})
    return found


def others(folder: Path) -> list[Mapping[str, Any]]:
    """Return what else the DaemonSet needs: its namespace and its ServiceAccount, as compiled."""
    paths = [
        *folder.glob("output/test/namespace/*.yaml"),
        *folder.glob("output/test/device-plugin/serviceaccount-*.yaml"),
    ]
    return [yaml.safe_load(path.read_text()) for path in paths]


def text(*objects: Mapping[str, Any]) -> str:
    """Return objects as text for kubectl."""
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
