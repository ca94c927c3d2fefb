"""The hardware of the node, which is all that is fake: a folder that the pods of the real node take for its host.

The folder is the fake host of the driver installer's tests, where a real installer loads and unloads a driver. Pods
are as compiled: an admission policy of the cluster puts the folder in the place of the host when a pod is made.
"""

import contextlib
import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from runtime import driver_labels
from tests.cluster.control import objects as kinds
from tests.cluster.local import waiting
from tests.cluster.nodes import driver_node, plugin_node
from tests.cluster.nodes import images as image_store
from tests.cluster.nodes import node as nodes
from tests.installer import machines
from tests.property import nfd_rules

OLD, NEW = "2.0.1", "2.0.2"
_RULES = "/apis/nfd.k8s-sigs.io/v1alpha1/nodefeaturerules"


class Hardware:
    def __init__(self, node: nodes.Node, images: image_store.Images, scratch: Path) -> None:
        """Make a host without a driver, and an image for each version of the driver."""
        self.node = node
        self._labelled: set[str] = set()
        self.machine: machines.Machine = driver_node.machine(node.plane, "host", mknod=True)
        driver_node.make_images(images, self.machine, scratch, OLD, NEW)
        driver_node.share(node, self.machine)

    @contextlib.contextmanager
    def working(self, objects: kinds.Objects) -> Iterator[tuple[waiting.Repeated, ...]]:
        """Have the pods of the cluster see the host, udev make its nodes, and NFD label the node by the rules."""
        for item in _admission(self.machine.root):
            objects.apply(item, json.dumps(item), "hardware")
        sysfs = self.machine.root / "sys"
        folder = plugin_node.DeviceFolder(self.node.plane.instance, sysfs, self.machine.root / "dev")

        def show() -> None:
            # The kernel may be between two steps, as it is for udev.
            with contextlib.suppress(FileNotFoundError):
                if folder.show():
                    folder.tell()

        udev = waiting.Repeated("udev", show)
        nfd = waiting.Repeated("NFD", self._label)
        with contextlib.closing(folder), udev.working(), nfd.working():
            yield udev, nfd

    def _label(self) -> None:
        plane = self.node.plane
        data = self.node.describe()
        functions = _functions(self.machine.root)
        rules, told = plane.api.get(_RULES)["items"], _told(self.machine.root)
        wanted = driver_node.labels_of(rules, self.node.name, self.machine.kernel, functions, told)
        labels: Mapping[str, str] = data["metadata"]["labels"]
        gone = dict.fromkeys(self._labelled - wanted.keys())
        changes = {**gone, **{key: value for key, value in wanted.items() if labels.get(key) != value}}
        if changes:
            driver_node.set_labels(self.node, changes)
        self._labelled = set(wanted)


def _functions(root: Path) -> tuple[Mapping[str, str], ...]:
    """Return the PCI functions of a host, as NFD's worker reports them."""
    names = ("vendor", "device")
    return tuple(
        {name: (path / name).read_text().strip().removeprefix("0x") for name in names}
        for path in sorted((root / "sys/bus/pci/devices").iterdir())
    )


def _told(root: Path) -> Mapping[str, str]:
    """Return the features that driver installers of a host tell, as NFD's worker reports them."""
    folder = root / driver_labels.FOLDER.lstrip("/")
    files = {path.name: path.read_text() for path in folder.glob("[!.]*")}
    return nfd_rules.local(files, datetime.now(UTC))


def _admission(root: Path) -> Iterator[dict[str, Any]]:
    """Yield the policies by which pods get the fake host: the installer as its root, users of devices as /sys."""
    uses = "has(c.resources) && has(c.resources.limits) && c.resources.limits.exists(k, k.startsWith('openfuyao.com/'))"
    folders = ", ".join(_volume(name, path) for name, path in driver_node.folders(root).items())
    yield from _mutation("kae-loop-host", _is("kae-driver"), f"Object{{spec: Object.spec{{volumes: [{folders}]}}}}")
    mount = "Object.spec.containers.volumeMounts{mountPath: '/sys', name: 'sysfs', readOnly: true}"
    container = f"Object.spec.containers{{name: c.name, volumeMounts: [{mount}]}}"
    yield from _mutation(
        "kae-loop-sysfs",
        f"{_is('kae-device-plugin')} || object.spec.containers.exists(c, {uses})",
        f"Object{{spec: Object.spec{{volumes: [{_volume('sysfs', root / 'sys')}],"
        f" containers: object.spec.containers.map(c, {container})}}}}",
    )


def _is(name: str) -> str:
    label = "app.kubernetes.io/name"
    return (
        f"(has(object.metadata.labels) && '{label}' in object.metadata.labels"
        f" && object.metadata.labels['{label}'] == '{name}')"
    )


def _volume(name: str, path: Path) -> str:
    source = f"Object.spec.volumes.hostPath{{path: '{path}', type: 'Directory'}}"
    return f"Object.spec.volumes{{name: '{name}', hostPath: {source}}}"


def _mutation(name: str, condition: str, change: str) -> Iterator[dict[str, Any]]:
    version = "admissionregistration.k8s.io/v1"
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    spec = {
        "failurePolicy": "Fail",
        "reinvocationPolicy": "Never",
        "matchConstraints": {"resourceRules": [rule]},
        "matchConditions": [{"name": "theirs", "expression": condition}],
        "mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": change}}],
    }
    yield {"apiVersion": version, "kind": "MutatingAdmissionPolicy", "metadata": {"name": name}, "spec": spec}
    binding = {"apiVersion": version, "kind": "MutatingAdmissionPolicyBinding", "metadata": {"name": name}}
    yield {**binding, "spec": {"policyName": name}}
