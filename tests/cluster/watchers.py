"""The watcher in a real cluster: its compiled rights and config, its nodes, and a client with its token."""

import contextlib
import http.client
import json
import signal
import ssl
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests import builders, in_process, project
from tests.cluster.control import control_plane as control_planes
from tests.cluster.local import waiting
from tests.watcher import servers, settings

ROOT = Path(__file__).resolve().parents[2]
OWN = "kae-operator"
CLUSTER = "east"
PATH = f"inventory/{CLUSTER}.json"
ANNOTATION = "device.openfuyao.com/config"
NODES = "/api/v1/nodes"

_WAIT_S = 60
_END_S = 8
"""A watch ends after four seconds; the rest is for processors that others use, too."""

_POLICY = """\
apiVersion: device.openfuyao.com/v1alpha1
kind: KAEPolicy
metadata: {name: tls}
spec: {driver: {version: 2.0.1}}
"""

_CLUSTER = """\
apiVersion: device.openfuyao.com/v1alpha1
kind: KAECluster
metadata: {name: east}
spec:
  kubernetesVersion: "1.36"
  nfd: {enabled: false}
  watcher:
    enabled: true
    image: registry.example.com/kae-watcher:1.0.0
    repository: {url: "%s/inventory.git"}
    secretName: git
    interval: 4s
    quietSeconds: 1
    removalQuietSeconds: 2
    minCommitSeconds: 1
    maxLossPercent: 50
"""

_DEVICES = {"openfuyao.com/kae.hpre.present": "true", "openfuyao.com/kae.hpre.pf": "2"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Installed:
    """The compiled rights in force, and the program's config as the compiler wrote it."""

    plane: control_planes.ControlPlane
    git: servers.Web
    folder: Path
    config: Path
    kubeconfig: Path
    token: str

    @property
    def remote(self) -> Path:
        """The folder of the config's repository."""
        return self.folder / "git/inventory.git"


@contextlib.contextmanager
def installed(plane: control_planes.ControlPlane, folder: Path) -> Iterator[Installed]:
    """The watcher's rights in a cluster, as long as the context lasts; its repository is served from the folder."""
    (folder / "git").mkdir()
    with contextlib.ExitStack() as stack:
        web = stack.enter_context(servers.web(folder / "git"))
        texts = {"policies/tls.yaml": _POLICY, "policies/east.yaml": _CLUSTER % web.url}
        answer = in_process.kae(project.write(folder / "project", texts), "compile")
        assert answer.code == 0, answer.err
        output = folder / "project/output/east"
        found = [yaml.safe_load(path.read_text()) for path in sorted(output.glob("watcher/*.yaml"))]
        (deployment,) = (item for item in found if item["kind"] == "Deployment")
        rights = [item for item in found if item["kind"] != "Deployment"]
        namespace = yaml.safe_load(next(output.glob("namespace/*.yaml")).read_text())
        stack.callback(_remove, plane, rights)
        for part in ([namespace], rights):
            plane.kubectl("apply", "-f", "-", text=json.dumps({"apiVersion": "v1", "kind": "List", "items": part}))
        token = plane.kubectl("--namespace", OWN, "create", "token", "kae-watcher").strip()
        config = folder / "config.json"
        config.write_text(deployment["spec"]["template"]["metadata"]["annotations"][ANNOTATION])
        instance = plane.instance
        kubeconfig = settings.kubeconfig(folder, f"https://{instance.address}", token, instance.state / "pki/ca.crt")
        made = Installed(plane=plane, git=web, folder=folder, config=config, kubeconfig=kubeconfig, token=token)
        with contextlib.closing(Caller(made)) as caller:
            waiting.until("the rights", lambda: caller.asks("GET", NODES) == 200, timeout_s=30)
        yield made


@dataclass(frozen=True, slots=True)
class Nodes:
    """Changes of nodes, as kubelets and NFD make them."""

    plane: control_planes.ControlPlane

    def make(self, name: str) -> None:
        """Register a node with two devices, in one request, as a kubelet does."""
        node = builders.kubernetes_node(name, _DEVICES)
        metadata = {key: node["metadata"][key] for key in ("name", "labels")}
        self._ask("POST", NODES, {"metadata": metadata, "status": node["status"]})

    def label(self, name: str, **labels: str | None) -> None:
        self._ask("PATCH", f"{NODES}/{name}", {"metadata": {"labels": labels}})

    def devices(self, name: str, count: int) -> None:
        """Set the number of devices that NFD finds."""
        self.label(name, **{"openfuyao.com/kae.hpre.pf": str(count)})

    def boot(self, name: str, kernel: str) -> None:
        """Boot the node with another kernel."""
        self._ask("PATCH", f"{NODES}/{name}/status", {"status": {"nodeInfo": {"kernelVersion": kernel}}})

    def beat(self, name: str, moment: int) -> None:
        """A heartbeat."""
        ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": f"2026-01-01T00:00:{moment:02}Z"}
        self._ask("PATCH", f"{NODES}/{name}/status", {"status": {"conditions": [ready]}})

    def remove(self, *names: str) -> None:
        for name in names:
            self._ask("DELETE", f"{NODES}/{name}", None)

    def _ask(self, method: str, path: str, body: Mapping[str, Any] | None) -> None:
        answer = self.plane.api.request(method, path, body)
        assert answer.status in (200, 201), f"{method} {path}: {answer}"


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
    """A watcher in a process of its own, of which the kubelet's probes are asked."""

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
        """Send SIGTERM; return the exit code."""
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait(timeout=_END_S)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


class Caller:
    """Somebody with the watcher's token."""

    def __init__(self, installed: Installed) -> None:
        instance = installed.plane.instance
        context = ssl.create_default_context(cafile=str(instance.state / "pki/ca.crt"))
        self._connection = http.client.HTTPSConnection(instance.address, timeout=30, context=context)
        self._token = installed.token

    def close(self) -> None:
        self._connection.close()

    def ask(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> tuple[int, bytes]:
        """Return status and text of the answer."""
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": kind, "Accept": "application/json"}
        self._connection.request(method, path, body=None if body is None else json.dumps(body), headers=headers)
        answer = self._connection.getresponse()
        return answer.status, answer.read()

    def asks(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> int:
        """Return the status of the answer."""
        return self.ask(method, path, body)[0]

    def reviews(self, sort: str, spec: Mapping[str, Any]) -> Any:
        """Return what the API server says of the caller's own rights."""
        status, text = self.ask("POST", f"/apis/authorization.k8s.io/v1/{sort}", {"spec": spec})
        assert status == 201, text
        return json.loads(text)["status"]

    def may(self, **attributes: str) -> bool:
        """Return the answer to `kubectl auth can-i`."""
        return bool(self.reviews("selfsubjectaccessreviews", {"resourceAttributes": attributes})["allowed"])


def command(installed: Installed, folder: Path) -> list[str]:
    files = ("--config", str(installed.config), "--kubeconfig", str(installed.kubeconfig))
    folders = [f"--{name}={folder / name}" for name in ("secrets", "signing", "scratch")]
    return [sys.executable, "-m", "watcher", *files, *folders, f"--program-dir={folder / 'program'}"]


def _remove(plane: control_planes.ControlPlane, rights: list[Mapping[str, Any]]) -> None:
    for item in rights:
        if "namespace" not in item["metadata"]:
            plane.kubectl("delete", item["kind"], item["metadata"]["name"], "--ignore-not-found", "--wait=true")
    plane.kubectl("delete", "namespace", OWN, "--ignore-not-found", "--wait=true")
