"""The node with KAE devices: a fake sysfs and its device nodes, and the DaemonSet as the compiler renders it."""

import fcntl
import json
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from device_plugin.host import paths
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

    Events are real: a PCI device of this machine is asked to
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
        """Take the nodes out of /dev."""
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
        """Make the host's nodes those of /dev, with the mode and the links that the installer's udev rules give."""
        numbers = {path.name: path.stat().st_rdev for path in self.host.dev.iterdir()}
        links = {self._published(name): name for name in numbers}
        for path in Path("/dev").glob("hisi_*"):
            stays = path.readlink().name == links.get(path.name) if path.is_symlink() else path.name in numbers
            if not stays or (path.name in numbers and path.stat().st_rdev != numbers[path.name]):
                path.unlink()
        for name, number in numbers.items():
            # No link to the fake host: containerd gives privileged containers the nodes of /dev, and skips links.
            if not (node := Path("/dev", name)).exists():
                os.mknod(node, stat.S_IFCHR, number)
                node.chmod(0o666)
        for name, target in links.items():
            if not (link := Path("/dev", name)).is_symlink():
                link.symlink_to(target)

    def _published(self, name: str) -> str:
        """Return the name in containers of a device whose entry has this name."""
        function = (self.host.sysfs / "class/uacce" / name).resolve().parents[1]
        return paths.published_name(name.rpartition("-")[0], function.name)


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
