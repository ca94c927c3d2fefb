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
from tests import in_process, project
from tests.cluster.control import manifests
from tests.cluster.local import instances, machine, waiting
from tests.cluster.nodes import node as nodes
from tests.device_plugin import hosts, kernel, machines

IMAGE = "localhost/kae-device-plugin:1"

_LOCK_S = 600
"""For the tests of a module that has devices, in another cluster."""

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


class DeviceFolder:
    """The /dev of the node, which has the device nodes of a fake host, with the links that udev's rules give."""

    def __init__(self, instance: instances.Instance, sysfs: Path, dev: Path) -> None:
        """Takes /dev for itself: there is one for all clusters of the machine.

        Raises:
            AssertionError: The machine has devices of its own, whose nodes would go.
            TimedOut: Another cluster's tests keep it.
        """
        assert not machine.own_devices(), machine.OWN_DEVICES
        self._sysfs, self._dev, self._instance = sysfs, dev, instance
        self._lock = (instance.state.parent / "dev.lock").open("w")
        waiting.until(f"/dev, which the holder of {self._lock.name} has", self._taken, timeout_s=_LOCK_S)
        machine.take_devices(self._instance)
        self._spokesman = next(iter(sorted(Path("/sys/bus/pci/devices").iterdir()))) / "uevent"

    def close(self) -> None:
        """Take the nodes out of /dev."""
        machine.return_devices(self._instance)
        self._lock.close()

    def tell(self) -> None:
        """Have the kernel tell of something.

        The event is real: a PCI device of this machine is asked to announce itself (uevent), which every listener
        receives as it would for a KAE device.
        """
        self._spokesman.write_text("change")

    def show(self) -> bool:
        """Make the host's nodes those of /dev, and the names that containers have links; return whether any changed."""
        # One that has no entry, or no node yet, is between two steps of the kernel.
        entries = [path for path in self._dev.iterdir() if (self._sysfs / "class/uacce" / path.name).exists()]
        numbers = {path.name: path.stat().st_rdev for path in entries}
        links = {self._published(name): name for name in numbers}
        changed = False
        for path in Path("/dev").glob("hisi_*"):
            stays = path.readlink().name == links.get(path.name) if path.is_symlink() else path.name in numbers
            if not stays or (path.name in numbers and path.stat().st_rdev != numbers[path.name]):
                path.unlink()
                changed = True
        for name, number in numbers.items():
            # No link to the fake host: containerd gives privileged containers the nodes of /dev, and skips links.
            if not (node := Path("/dev", name)).exists():
                os.mknod(node, stat.S_IFCHR, number)
                node.chmod(0o666)
                changed = True
        for name, target in links.items():
            if not (link := Path("/dev", name)).is_symlink():
                link.symlink_to(target)
        return changed

    def _taken(self) -> bool:
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _published(self, name: str) -> str:
        """Return the name in containers of a device whose entry has this name."""
        function = (self._sysfs / "class/uacce" / name).resolve().parents[1]
        return paths.published_name(name.rpartition("-")[0], function.name)


class Devices:
    """A fake host with its device nodes in /dev of the node, and its events sent by the kernel."""

    def __init__(self, root: Path, node: nodes.Node) -> None:
        self._ready = False
        self._folder = DeviceFolder(node.plane.instance, root / "sys", root / "dev")
        self.host: hosts.Host = machines.bare_metal(root, mknod=True, tell=self._tell)
        self._ready = True
        self._folder.show()

    def close(self) -> None:
        """Take the nodes out of /dev."""
        self._folder.close()

    def _tell(self, _: kernel.Event) -> None:
        if self._ready:
            self._folder.show()
            self._folder.tell()


def daemon_set(folder: Path, host: hosts.Host) -> Mapping[str, Any]:
    """Return the compiled DaemonSet, with the fake host's /dev and sysfs mounted; nothing else differs."""
    project.write(folder, {"policies/tls.yaml": _POLICY, "policies/test.yaml": manifests.CLUSTER})
    answer = in_process.kae(folder, "compile")
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
