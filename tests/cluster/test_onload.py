"""Onload on a real node: the shipped recipe, its tokens for real containers, and a swap that drains their holders.

Compiler, API server, kubelet, container runtime, device plugin and installer are real; modules and kernel are those of
a fake host, a folder, whose device nodes the node shows under their own names.
"""

import contextlib
import fcntl
import json
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests import in_process, project
from tests.cluster.control import manifests, pods
from tests.cluster.control import objects as kinds
from tests.cluster.local import waiting
from tests.cluster.nodes import driver_node, plugin_node
from tests.cluster.nodes import images as image_store
from tests.cluster.nodes import node as nodes
from tests.images import stores
from tests.installer import homes, machines, settings, stacks

OLD, NEW = "8.1", "8.2"
DRIVER, PLUGIN = "localhost/kae-driver-installer:1", plugin_node.IMAGE
ONLOAD, LATENCY = stacks.RESOURCES
OWN = homes.own("onload")
LIBRARY = "/opt/onload/usr/lib64/libonload.so"
NODES = {"onload": "1:3", "onload_epoll": "1:5"}
PROFILE = {"EF_POLL_USEC": "100000", "EF_TCP_FASTSTART_IDLE": "0", "EF_TCP_FASTSTART_INIT": "0"}
COUNT = 40
"""`maxPods` of the shipped policy."""

LOOK = f"""\
import json, os, time
nodes = {{}}
for name in sorted(os.listdir('/dev')):
    if name.startswith(('onload', 'sfc')):
        os.close(os.open(f'/dev/{{name}}', os.O_RDWR))
        numbers = os.stat(f'/dev/{{name}}').st_rdev
        nodes[name] = f'{{os.major(numbers)}}:{{os.minor(numbers)}}'
mounts = [line.split() for line in open('/proc/self/mounts')]
print(json.dumps({{
    'nodes': nodes,
    'mounts': {{words[1]: words[3].partition(',')[0] for words in mounts if words[1].startswith('/opt')}},
    'files': sorted(f'{{top}}/{{name}}' for top, _, names in os.walk('/opt/onload') for name in names),
    'library': open('{LIBRARY}', 'rb').read()[-3:].decode() if os.path.exists('{LIBRARY}') else None,
    'preloaded': '{LIBRARY}' in open('/proc/self/maps').read(),
    'env': {{name: text for name, text in os.environ.items() if name.startswith(('EF_', 'LD_'))}},
}}), flush=True)
time.sleep(3600)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Desk:
    node: nodes.Node
    machine: machines.Machine
    folder: Path
    operator: pods.Namespace

    def compiled(self, version: str) -> list[dict[str, Any]]:
        """Compile the policy for a version, label the node by the rules, and return the other objects."""
        policy = yaml.safe_load((self.folder / "policies/onload.yaml").read_text())
        policy["spec"]["images"] = {
            "driver-installer": _image(DRIVER),
            "device-plugin": _image(PLUGIN),
            "modules": _image(f"localhost/onload-module:{version}-${{KERNEL_FULL_VERSION}}"),
            "user": _image(f"localhost/onload-user:{version}"),
        }
        mapping = {"name": "oe2203", "regexp": "oe2203sp4", "driver": {"modules": ["sfc", "onload"]}}
        policy["spec"]["kernelMappings"] = [mapping]
        inventory = self.node.plane.api.get("/api/v1/nodes")
        for item in inventory["items"]:
            item["status"]["nodeInfo"]["kernelVersion"] = machines.KERNEL
        documents = {"policies/onload.yaml": policy, "inventory/test.json": inventory}
        manifests.compiled(self.folder, documents)
        objects = [dict(item.data) for item in manifests.of(self.folder / "output/test")]
        rules = [item for item in objects if item["kind"] == "NodeFeatureRule"]
        self._label(rules)
        return [self._on_host(item) for item in objects if item not in rules]

    def bring(self, version: str) -> None:
        self.node.plane.apply(*self.compiled(version))

    def wait_for(self, version: str) -> None:
        def proved() -> bool:
            installers = self.operator.pods("app.kubernetes.io/name=onload-driver")
            of_it = [pod for pod in installers if driver_node.config_of(pod)["driverVersion"] == version]
            return any(kinds.condition(pod) == "True" for pod in of_it)

        waiting.until(f"Onload {version}", proved, explain=self._explain)
        for resource in (ONLOAD, LATENCY):
            self.node.wait_for_allocatable(resource, COUNT)

    def installer(self, command: str) -> str:
        (pod,) = self.operator.staying("app.kubernetes.io/name=onload-driver")
        return self.operator.run(pod["metadata"]["name"], "python", "-m", "installer", command)

    def _on_host(self, item: dict[str, Any]) -> dict[str, Any]:
        for volume in item["spec"]["template"]["spec"]["volumes"] if item["kind"] == "DaemonSet" else ():
            place = {**driver_node.folders(self.machine.root), "dev": self.machine.root / "dev"}.get(volume["name"])
            if place:
                volume["hostPath"]["path"] = str(place)
        return item

    def _label(self, rules: list[dict[str, Any]]) -> None:
        card = {"vendor": "1924", "device": "0b03", "class": "0200"}
        labels = driver_node.labels_of(rules, self.node.name, machines.KERNEL, (card,))
        driver_node.set_labels(self.node, labels)

    def _explain(self) -> str:
        options = ("--all-containers", "--tail=20")
        said = [self.operator.kubectl("logs", pod["metadata"]["name"], *options) for pod in self.operator.pods()]
        return "\n".join((*said, *self.operator.events()))

    @contextlib.contextmanager
    def labelled(self) -> Iterator[None]:
        before = self.node.describe()["metadata"]["labels"]
        driver_node.set_labels(self.node, {"onload": "example"})
        try:
            yield
        finally:
            after = self.node.describe()["metadata"]["labels"]
            driver_node.set_labels(self.node, {name: before.get(name) for name in after})


def _image(name: str) -> dict[str, str]:
    repository, _, rest = name.partition("/")
    image, _, version = rest.partition(":")
    return {"repository": repository, "image": image, "version": version}


def make_images(images: image_store.Images, folder: Path) -> None:
    """Make images of a driver's modules and of user space as the recipe asks for: they hold files, and `cp`."""
    program = folder / "cp"
    libraries = subprocess.run(("ldd", "/bin/cp"), capture_output=True, text=True, check=True).stdout
    for path in ("/bin/cp", *re.findall(r"(/\S+) \(0x", libraries)):
        target = program / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)
    (stub,) = Path("/usr/lib").glob("*-linux-gnu/libutil.so.1")
    for version in (OLD, NEW):
        payloads = stacks.onload(folder / version, version) / "payload"
        # A library that the dynamic linker takes, with its version behind the end.
        (payloads / f"user{LIBRARY}").write_bytes(stub.read_bytes() + version.encode())
        modules = f"localhost/onload-module:{version}-{machines.KERNEL}"
        images.build(modules, program, payloads / "modules")
        images.build(f"localhost/onload-user:{version}", program, payloads / "user")


@contextlib.contextmanager
def shown(node: nodes.Node, host: machines.Machine) -> Iterator[None]:
    links = {Path("/dev", name): host.root / "dev" / name for name in NODES}
    with (node.plane.instance.state.parent / "dev.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for link, target in links.items():
            assert link.is_symlink() or not link.exists(), f"This machine has {link} of its own: use another one."
            link.unlink(missing_ok=True)
            link.symlink_to(target)
        node.run("mount", "--bind", str(host.root / "opt"), "/opt")
        try:
            yield
        finally:
            node.run("umount", "/opt")
            for link in links:
                link.unlink()


@pytest.fixture(scope="module")
def desk(node: nodes.Node, images: image_store.Images, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    machine = driver_node.machine(node.plane, "onload-host", mknod=True)
    stacks.add_own_sfc(machine)
    driver_node.share(node, machine)
    images.load(DRIVER, stores.built_image("kae-driver-installer"))
    images.load(PLUGIN, stores.built_image())
    make_images(images, tmp_path_factory.mktemp("images"))
    folder = tmp_path_factory.mktemp("project")
    cluster = manifests.cluster(nfd={"enabled": False, "nodefeaturerules": True})
    project.write(folder, {"policies/test.yaml": json.dumps(cluster)})
    answer = in_process.kae(folder, "recipe", "add", "onload")
    assert answer.code == 0, answer.err
    operator = pods.Namespace(name=driver_node.NAMESPACE, plane=node.plane)
    made = Desk(node=node, machine=machine, folder=folder, operator=operator)
    with shown(node, machine), made.labelled():
        made.compiled(OLD)  # Its rules tell which node has a card, and so which kernels there are.
        with driver_node.applied(node.plane, made.compiled(OLD)):
            made.wait_for(OLD)
            yield made


@dataclass(frozen=True, slots=True, kw_only=True)
class Users:
    namespace: pods.Namespace
    image: str

    def come(self, name: str, *resources: str) -> Any:
        """Start a pod with these resources; return what it sees. It stays."""
        limits = {"limits": dict.fromkeys(resources, 1)}
        made = pods.pod(name, self.image, ["python3", "-c", LOOK], container={"resources": limits})
        self.namespace.apply(made)
        self.namespace.wait_for_ready(name)
        return json.loads(waiting.until(f"the view of {name}", lambda: self.namespace.logs(name)))


@pytest.fixture
def users(namespace: pods.Namespace, debian: str) -> Users:
    return Users(namespace=namespace, image=debian)


def view(version: str, **env: str) -> dict[str, Any]:
    libraries = [LIBRARY, f"{LIBRARY}.1"]
    return {
        "nodes": NODES,
        "mounts": dict.fromkeys(libraries, "ro"),
        "files": libraries,
        "library": version,
        "preloaded": True,
        "env": {"LD_PRELOAD": LIBRARY, **env},
    }


NOTHING: Mapping[str, object] = {"nodes": {}, "mounts": {}, "files": [], "library": None, "preloaded": False, "env": {}}


def test_a_swap_drains_the_holders_of_tokens_and_the_next_ones_see_the_new_version(desk: Desk, users: Users) -> None:
    assert users.come("bystander") == NOTHING
    assert users.come("plain", ONLOAD) == view(OLD)
    assert users.come("fast", LATENCY) == view(OLD, **PROFILE)
    users.namespace.spare("fast", "spare-fast")
    desk.machine.calls()

    desk.bring(NEW)
    for resource in (ONLOAD, LATENCY):
        desk.node.wait_for_allocatable(resource, 0)
        assert desk.node.capacity(resource) == COUNT
    users.namespace.wait_for_end("plain")
    assert users.namespace.pod("fast") is not None
    assert desk.node.path(OWN.changing).exists()
    assert settings.changes_made(desk.machine) == []
    users.namespace.kubectl("delete", "poddisruptionbudget", "spare-fast")
    desk.wait_for(NEW)

    users.namespace.wait_for_end("fast")
    assert users.namespace.pod("bystander")["status"]["phase"] == "Running"
    changes = [call for call in settings.changes_made(desk.machine) if not call.startswith("depmod")]
    assert changes == [
        "rmmod onload",
        "rmmod sfc_char",
        "rmmod sfc_resource",
        "rmmod sfc",
        "modprobe sfc",
        "modprobe onload",
    ]
    assert not desk.node.path(OWN.changing).exists()
    assert f"The driver {NEW} is loaded and verified." in desk.installer("plan")
    assert users.come("plain", ONLOAD) == view(NEW)
    assert users.come("fast", LATENCY) == view(NEW, **PROFILE)
