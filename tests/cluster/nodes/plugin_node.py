"""The node with KAE devices: a fake sysfs and its device nodes, and the DaemonSet as the compiler renders it."""

import contextlib
import fcntl
import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from device_plugin.host import paths
from tests import tools
from tests.cluster.control import manifests, pods
from tests.cluster.local import instances, machine, waiting
from tests.cluster.nodes import images as image_store
from tests.cluster.nodes import node as nodes
from tests.device_plugin import hosts, kernel, machines
from tests.images import stores

IMAGE = "localhost/kae-device-plugin:1"

LOOK = """\
import json, os
shown = {}
for name in os.listdir('/sys/class/uacce'):
    if os.path.exists(f'/sys/class/uacce/{name}/api'):
        os.close(os.open(f'/dev/{name}', os.O_RDWR))
        node = os.stat(f'/dev/{name}')
        entry = os.path.basename(os.path.realpath(f'/sys/class/uacce/{name}'))
        shown[name] = (entry, f'{os.major(node.st_rdev)}:{os.minor(node.st_rdev)}')
print(json.dumps({'shown': shown, 'nodes': sorted(name for name in os.listdir('/dev') if name.startswith('hisi_'))}))
"""
"""Opens each device that libwd would choose from; prints its entry on the host and its numbers, by its name there."""

_LOCK_S = 600
"""For the tests of a module that has devices, in another cluster."""


class DeviceFolder:
    """The /dev of the node, which has the device nodes of a fake host, with the links that udev's rules give."""

    def __init__(self, instance: instances.Instance, sysfs: Path, dev: Path) -> None:
        """Takes /dev for itself: there is one for all clusters of the machine."""
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
        """Have a PCI device of this machine announce itself: a real uevent, which every listener receives."""
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
        self._folder.close()

    def _tell(self, _: kernel.Event) -> None:
        if self._ready:
            self._folder.show()
            self._folder.tell()


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployed:
    node: nodes.Node
    namespace: pods.Namespace
    devices: Devices
    folder: Path

    def plugin(self) -> Any:
        """Return the plugin's pod; None where there is none that stays."""
        return next(iter(self.namespace.staying("app.kubernetes.io/name=kae-device-plugin")), None)

    def run(self, *command: str) -> str:
        return self.namespace.run(self.plugin()["metadata"]["name"], *command)

    def wait_for(self, **counts: int) -> None:
        for kind, count in counts.items():
            self.node.wait_for_allocatable(f"openfuyao.com/kae.{kind}", count)

    def wait_for_all(self) -> None:
        self.wait_for(hpre=2, sec=4, zip=2)

    def entry_of(self, name: str) -> tuple[str, str]:
        """Return the entry on the host, and its numbers there, of the device that has this name in containers."""
        number = int(name.rpartition("-")[2])
        address = f"{number >> 16:04x}:{number >> 8 & 0xFF:02x}:{number >> 3 & 0x1F:02x}.{number & 7}"
        entry = str(self.devices.host.states()[address].entry)
        folder = self.devices.host.sysfs / "bus/pci/devices" / address / "uacce" / entry
        return entry, (folder / "dev").read_text().strip()


def change(deployed: Deployed, folder: Path, **plugin: Any) -> list[Mapping[str, Any]]:
    """Apply the plugin as it is compiled with other fields of devicePlugin, and wait for the new pod; return it all."""
    before = deployed.plugin()["metadata"]["uid"]
    objects = compiled(folder, deployed.devices.host, **plugin)
    deployed.node.plane.apply(*objects)

    def successor() -> Any:
        plugin = deployed.plugin()
        return plugin if plugin is not None and plugin["metadata"]["uid"] != before else None

    deployed.namespace.wait_for_ready(waiting.until("the new plugin's pod", successor)["metadata"]["name"])
    return objects


@contextlib.contextmanager
def deployed(node: nodes.Node, folder: Path, **plugin: Any) -> Iterator[Deployed]:
    """The plugin at work on the node, compiled in the folder, whose name is that of no other one.

    `plugin` are fields of the policy's devicePlugin that differ.
    """
    devices = Devices(node.plane.instance.state / folder.name, node)
    objects = compiled(folder, devices.host, **plugin)
    namespace = pods.Namespace(name=manifests.NAMESPACE, plane=node.plane)
    labels = [f"openfuyao.com/kae.{name}.present=true" for name in ("hpre", "sec", "zip")]
    node.plane.kubectl("label", "node", node.name, *labels)
    with contextlib.ExitStack() as stack:
        stack.callback(devices.close)
        node.plane.apply(*objects)
        stack.callback(node.plane.delete, *(item for item in objects if "namespace" not in item["metadata"]))
        made = Deployed(node=node, namespace=namespace, devices=devices, folder=folder)
        namespace.wait_for_ready(waiting.until("the plugin's pod", made.plugin)["metadata"]["name"])
        if not plugin:
            made.wait_for_all()
        yield made


@contextlib.contextmanager
def with_cdi(node: nodes.Node, images: image_store.Images, folder: Path, **plugin: Any) -> Iterator[Deployed]:
    """The plugin as `deployed` has it, on a node whose runtime knows CDI; skips where it does not."""
    if os.environ.get("KAE_CLUSTER_RUNTIME") != "containerd-2":
        tools.skip("KAE_CLUSTER_RUNTIME=containerd-2 is not set: containerd before 2.0 knows no CDI.")
    images.load(IMAGE, stores.built_image())
    with deployed(node, folder, **plugin) as made:
        # CDI has mounts sorted, so that the one of cgroups comes after the fake sysfs, which is read-only.
        (made.devices.host.sysfs / "fs/cgroup").mkdir(parents=True)
        yield made


def compiled(folder: Path, host: hosts.Host, **differs: Any) -> list[Mapping[str, Any]]:
    """Return the compiled objects, the fake host's /dev and sysfs mounted in the DaemonSet; nothing else differs."""
    plugin: dict[str, Any] = {"repository": "", "image": IMAGE, "version": "", "inject": {"opensslConf": "3.0"}}
    plugin |= differs or {"sharing": {"sec": 2}}
    kinds = dict.fromkeys(("enabledHPRE", "enabledSEC", "enabledZIP"), True)
    spec = {"operator": kinds, "driver": {"enabled": False}, "devicePlugin": plugin}
    documents = {"policies/tls.yaml": manifests.document("KAEPolicy", "tls", spec)}
    manifests.compiled(folder, {**documents, "policies/test.yaml": manifests.cluster()})
    wanted = ("namespace", "device-plugin", "guard")
    objects = [item.data for item in manifests.of(folder / "output/test") if item.component in wanted]
    (daemon_set,) = (item for item in objects if item["kind"] == "DaemonSet")
    pod = daemon_set["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    container["command"] += ["--sysfs", "/host/sys"]
    container["volumeMounts"].append({"name": "sysfs", "mountPath": "/host/sys", "readOnly": True})
    for volume in pod["volumes"]:
        if volume["name"] == "dev":
            volume["hostPath"]["path"] = str(host.dev)
    pod["volumes"].append({"name": "sysfs", "hostPath": {"path": str(host.sysfs), "type": "Directory"}})
    return objects
