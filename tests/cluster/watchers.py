"""The watcher in a real cluster: its compiled rights and config, its nodes, and a client with its token."""

import contextlib
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests import builders
from tests.cluster.control import access, api, manifests
from tests.cluster.control import control_plane as control_planes
from tests.cluster.local import waiting
from tests.watcher import servers

ROOT = Path(__file__).resolve().parents[2]
OWN = manifests.NAMESPACE
CLUSTER = "east"
PATH = f"inventory/{CLUSTER}.json"
ANNOTATION = "device.openfuyao.com/config"
NODES = "/api/v1/nodes"

_END_S = 120

_PACE = {"interval": "4s", "quietSeconds": 1, "removalQuietSeconds": 2, "minCommitSeconds": 1, "maxLossPercent": 50}
_DEVICES = {"openfuyao.com/kae.hpre.present": "true", "openfuyao.com/kae.hpre.pf": "2"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Installed:
    plane: control_planes.ControlPlane
    git: servers.Web
    folder: Path
    config: Path
    kubeconfig: Path
    caller: api.Api
    """Somebody with the watcher's token."""

    @property
    def remote(self) -> Path:
        return self.folder / "git/inventory.git"


@contextlib.contextmanager
def installed(plane: control_planes.ControlPlane, folder: Path) -> Iterator[Installed]:
    """The watcher's rights in a cluster, as long as the context lasts; its repository is served from the folder."""
    (folder / "git").mkdir()
    with contextlib.ExitStack() as stack:
        web = stack.enter_context(servers.web(folder / "git"))
        place = {"repository": {"url": f"{web.url}/inventory.git"}, "secretName": "git"}
        watcher = {"enabled": True, "image": "registry.example.com/kae-watcher:1.0.0", **place, **_PACE}
        nfd = {"kubernetesVersion": "1.36", "nfd": {"enabled": False}}
        documents = {
            "policies/tls.yaml": manifests.document("KAEPolicy", "tls", {"driver": {"version": "2.0.1"}}),
            "policies/east.yaml": manifests.document("KAECluster", CLUSTER, {**nfd, "watcher": watcher}),
        }
        output = manifests.compiled(folder / "project", documents) / "output" / CLUSTER
        objects = [item.data for item in manifests.of(output) if item.component in ("namespace", "watcher")]
        (deployment,) = (item for item in objects if item["kind"] == "Deployment")
        objects.remove(deployment)
        stack.callback(plane.delete, *objects)
        plane.apply(*objects)
        token = plane.kubectl("--namespace", OWN, "create", "token", "kae-watcher").strip()
        config = folder / "config.json"
        config.write_text(deployment["spec"]["template"]["metadata"]["annotations"][ANNOTATION])
        kubeconfig = access.kubeconfig(plane, folder, token=token)
        caller = plane.api.with_token(token)
        waiting.until("the rights", lambda: caller.request("GET", NODES).status == 200)
        yield Installed(plane=plane, git=web, folder=folder, config=config, kubeconfig=kubeconfig, caller=caller)


@dataclass(frozen=True, slots=True)
class Nodes:
    plane: control_planes.ControlPlane

    def make(self, name: str) -> None:
        """Register a node with two devices, in one request, as a kubelet does."""
        node = builders.kubernetes_node(name, _DEVICES)
        metadata = {key: node["metadata"][key] for key in ("name", "labels")}
        self.plane.api.ask("POST", NODES, {"metadata": metadata, "status": node["status"]})

    def label(self, name: str, **labels: str | None) -> None:
        self.plane.api.ask("PATCH", f"{NODES}/{name}", {"metadata": {"labels": labels}})

    def devices(self, name: str, count: int) -> None:
        self.label(name, **{"openfuyao.com/kae.hpre.pf": str(count)})

    def boot(self, name: str, kernel: str) -> None:
        self.plane.api.ask("PATCH", f"{NODES}/{name}/status", {"status": {"nodeInfo": {"kernelVersion": kernel}}})

    def beat(self, name: str) -> None:
        for moment in range(20):
            ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": f"2026-01-01T00:00:{moment:02}Z"}
            self.plane.api.ask("PATCH", f"{NODES}/{name}/status", {"status": {"conditions": [ready]}})

    def remove(self, *names: str) -> None:
        for name in names:
            self.plane.api.ask("DELETE", f"{NODES}/{name}")


@contextlib.contextmanager
def four(plane: control_planes.ControlPlane) -> Iterator[Nodes]:
    """The nodes a, b, c and d, and no others; at the end none."""
    made = Nodes(plane)
    plane.api.request("DELETE", NODES)
    for name in "abcd":
        made.make(name)
    yield made
    plane.api.request("DELETE", NODES)


class Watcher:
    name = "the watcher"

    def __init__(self, installed: Installed, folder: Path) -> None:
        """Start it; all that it writes is below the folder."""
        self._log = folder / "watcher.log"
        self._program = folder / "program"
        self._program.mkdir()
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(command(installed, folder), cwd=ROOT, stderr=log)

    @property
    def is_ready(self) -> bool:
        return (self._program / "ready").exists()

    def ended(self) -> int | None:
        return self._process.poll()

    def log_tail(self) -> str:
        return self._log.read_text()

    @property
    def errors(self) -> list[str]:
        """Return the errors in the log, and every line that is no record."""
        records = [json.loads(line) for line in self._log.read_text().splitlines()]
        return [record["message"] for record in records if record["level"] != "info"]

    def stop(self) -> int:
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait(timeout=_END_S)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


def command(installed: Installed, folder: Path) -> list[str]:
    files = ("--config", str(installed.config), "--kubeconfig", str(installed.kubeconfig))
    folders = [f"--{name}={folder / name}" for name in ("secrets", "signing", "scratch")]
    return [sys.executable, "-m", "watcher", *files, *folders, f"--program-dir={folder / 'program'}"]
