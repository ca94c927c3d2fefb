"""What a host has loaded, from the installer's file by the real NFD to the node, by the watcher to git, to the plan.

NFD_PROGRAMS names a folder with nfd-master and nfd-worker of one of the releases 0.16 to 0.19, built from NFD's source
with CGO_ENABLED=0, and NFD_MINOR the release (16, …); without them these tests are skipped. NFD is no module that Go's
proxy has, so nothing here can build it.
"""

import contextlib
import json
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from runtime import driver_labels
from tests import project, tools
from tests.cli import answers
from tests.cluster import watchers
from tests.cluster.control import access, manifests
from tests.cluster.control import control_plane as control_planes
from tests.cluster.control import objects as kinds
from tests.cluster.local import processes, waiting
from tests.installer import machines, settings
from tests.watcher import remotes

NODE = "a"
VERSION, STATE = "openfuyao.com/kae.driver-version", "openfuyao.com/kae.driver-state"
FEATURES = "/etc/kubernetes/node-feature-discovery/features.d"
OTHERS = """\
pool=rest
openfuyao.com/kae.pool.tls=gold
openfuyao.com/kae.deploy.driver=false
feature.node.kubernetes.io/kernel-version.full=9.9
example.com/x
onload.driver-version=1.0
kae.driver-age=3
"""
"""A file that somebody else has put into the folder."""

_TAGS = {"16": "v0.16.4", "17": "v0.17.4", "18": "v0.18.3", "19": "v0.19.0"}
_IN_FOLDER = f'mount -t tmpfs none /etc && mkdir -p {FEATURES} && mount --bind "$0" {FEATURES} && exec "$@"'
"""A shell that shows a folder to the program where the worker's container has it mounted."""


class Nfd:
    """NFD with the arguments and the rights that are compiled for it: a master that runs, and a worker to be called."""

    def __init__(self, plane: control_planes.ControlPlane, root: Path, folder: Path) -> None:
        """Take the project whose output is applied, and a folder for what is written."""
        self.root = root
        self.output = root / "output" / watchers.CLUSTER
        self.machine = machines.Machine(folder / "host")
        self.features = self.machine.root / driver_labels.FOLDER.lstrip("/")
        self.features.mkdir(parents=True)
        self._plane = plane
        self._folder = folder
        self._programs = Path(tools.require_setting("NFD_PROGRAMS", "a folder with nfd-master and nfd-worker"))
        self.master = processes.Program(plane.instance, "nfd-master", ["env", *self._command("nfd-master")])

    @property
    def labels(self) -> dict[str, str]:
        return dict(self._plane.api.get(f"{watchers.NODES}/{NODE}")["metadata"]["labels"])

    @property
    def loaded(self) -> tuple[str | None, str | None]:
        labels = self.labels
        return labels.get(VERSION), labels.get(STATE)

    def look(self) -> None:
        """Run the worker once on the host."""
        command = ("env", *self._command("nfd-worker"), "-oneshot")
        inside = ("unshare", "--mount", "sh", "-c", _IN_FOLDER, str(self.features), *command)
        subprocess.run(inside, check=True, capture_output=True, timeout=120)

    def until(self, version: str | None, state: str | None) -> None:
        """Look, and wait until the node has these labels, or lacks them."""
        self.look()
        waiting.until(
            f"the labels {version} and {state}",
            lambda: self.loaded == (version, state),
            programs=(self.master,),
            explain=lambda: f"There are {self.loaded}.",
        )

    def install(self, version: str, **changes: Any) -> None:
        """Have the installer of a policy of this version do its work on the host."""
        settings.installer(self.machine, self.machine.image(version), driver_version=version, **changes).settle()

    def _command(self, name: str) -> Sequence[str]:
        (item,) = (data for data in workloads(self.output) if data["metadata"]["name"] == name)
        (container,) = item["spec"]["template"]["spec"]["containers"]
        token = self._plane.kubectl("--namespace", manifests.NAMESPACE, "create", "token", name).strip()
        folder = self._folder / name
        folder.mkdir(exist_ok=True)
        file = access.kubeconfig(self._plane, folder, token=token)
        known = (f"NODE_NAME={NODE}", f"KUBERNETES_NAMESPACE={manifests.NAMESPACE}")
        return [*known, str(self._programs / name), *container["args"], f"-kubeconfig={file}"]


def workloads(output: Path) -> list[Mapping[str, Any]]:
    return [item.data for item in manifests.of(output) if item.component == "nfd" and _has_pods(item.data)]


def _has_pods(data: Mapping[str, Any]) -> bool:
    return data["kind"] in ("DaemonSet", "Deployment")


@contextlib.contextmanager
def applied(plane: control_planes.ControlPlane, objects: kinds.Objects, output: Path) -> Iterator[None]:
    """The definitions, rights and rules of NFD in a cluster, without its pods."""
    every = [item.data for item in manifests.of(output) if item.component in ("namespace", "crds", "nfd")]
    wanted = [data for data in every if not _has_pods(data)]
    rules = [item.data for item in manifests.of(output) if item.component == "node-feature-rule"]
    plane.apply(*wanted)
    for definition in (data for data in wanted if data["kind"] == "CustomResourceDefinition"):
        objects.wait_until_established(definition)
    plane.apply(*rules)
    yield
    plane.delete(*rules, *(data for data in wanted if data["kind"] not in ("Namespace", "CustomResourceDefinition")))


@pytest.fixture
def nfd(
    control_plane: control_planes.ControlPlane, objects: kinds.Objects, four_nodes: watchers.Nodes, tmp_path: Path
) -> Iterator[Nfd]:
    """NFD has labelled the only node of a cluster whose policy wants the driver 2.3.0, and nothing is loaded there."""
    four_nodes.remove("b", "c", "d")
    tag = _TAGS[tools.require_setting("NFD_MINOR", "the minor release of these programs")]
    policy = {"driver": {"version": "2.3.0"}, "devicePlugin": {"version": "1.0.0"}}
    documents = {
        "policies/tls.yaml": manifests.document("KAEPolicy", "tls", policy),
        "policies/east.yaml": manifests.document(
            "KAECluster", watchers.CLUSTER, {"kubernetesVersion": "1.36", "nfd": {"image": {"tag": tag}}}
        ),
    }
    root = manifests.compiled(tmp_path / "project", documents)
    with applied(control_plane, objects, root / "output" / watchers.CLUSTER):
        made = Nfd(control_plane, root, tmp_path)
        with made.master:
            made.look()
            waiting.until("NFD's labels", lambda: any("kernel-version.full" in key for key in made.labels))
            yield made


def test_what_is_loaded_comes_to_the_node_to_git_and_into_the_plan(
    nfd: Nfd, installed: watchers.Installed, tmp_path: Path
) -> None:
    remote = remotes.Remote(installed.remote)
    before = nfd.labels

    nfd.install("2.2.0")
    nfd.until("2.2.0", "Ready")
    command = [*watchers.command(installed, tmp_path), "--once"]
    subprocess.run(command, cwd=watchers.ROOT, capture_output=True, timeout=300, check=True)

    told = remote.read("main", watchers.PATH).decode()
    (line,) = json.loads(told)["spec"]["nodes"]
    assert line["labels"] == {VERSION: "2.2.0", STATE: "Ready"}
    project.write(nfd.root, {watchers.PATH: told})
    assert "  1 node (a): loaded 2.2.0, wants 2.3.0\n" in answers.told(nfd.root, "plan")
    nfd.install("2.3.0")
    nfd.until("2.3.0", "Ready")
    nfd.install("2.3.0", state="Absent")
    nfd.until(None, None)
    assert nfd.labels == before


def test_nothing_else_of_the_folder_becomes_a_label_and_a_file_ends(nfd: Nfd) -> None:
    before = nfd.labels
    (nfd.features / "others").write_text(OTHERS)
    (nfd.features / ".kae.new").write_text("kae.driver-version=0.0.0\n")
    nfd.install("2.2.0")

    nfd.until("2.2.0", "Ready")
    assert nfd.labels == {**before, VERSION: "2.2.0", STATE: "Ready"}
    file = nfd.features / "kae"
    file.write_text(file.read_text().replace("Ready", "certainly"))
    nfd.until("2.2.0", None)
    file.write_text("# +expiry-time=2026-01-01T00:00:00Z\n" + file.read_text().partition("\n")[2])
    nfd.until(None, None)
    assert nfd.labels == before
