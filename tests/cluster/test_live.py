"""The compiler's access to a live cluster, on a real API server: lists, watches, and status."""

import base64
import contextlib
import json
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from compiler.kube import client
from compiler.kube import reader as reader_module
from tests import builders, in_process
from tests.cluster.control import access, manifests
from tests.cluster.control import control_plane as control_planes
from tests.cluster.control import objects as kinds
from tests.cluster.local import waiting

ROOT = Path(__file__).resolve().parents[2]
LAB = ROOT / "output/lab"
NAMESPACE = "kae-operator"
MANY, SIZE = 45, 20
"""More nodes than two pages of this size."""

PLUGIN, WORKER = "kae-device-plugin-lab", "nfd-worker"
_PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
_APPS = f"/apis/apps/v1/namespaces/{NAMESPACE}"


@contextlib.contextmanager
def registered(plane: control_planes.ControlPlane, nodes: Sequence[Mapping[str, Any]]) -> Iterator[None]:
    try:
        for node in nodes:
            metadata = {key: node["metadata"].get(key, {}) for key in ("name", "labels", "annotations")}
            spec = {"taints": node["spec"].get("taints", [])}
            plane.api.ask("POST", "/api/v1/nodes", {"metadata": metadata, "spec": spec, "status": node["status"]})
        yield
    finally:
        plane.api.ask("DELETE", "/api/v1/nodes")


@pytest.fixture
def cluster(control_plane: control_planes.ControlPlane) -> Iterator[reader_module.Cluster]:
    with contextlib.closing(reader_module.Cluster(control_plane.kubeconfig)) as opened:
        yield opened


def start_of(cluster: reader_module.Cluster) -> str:
    return next(cluster.pages()).resource_version


def label(plane: control_planes.ControlPlane, node: str, value: str | None) -> None:
    plane.api.ask("PATCH", f"/api/v1/nodes/{node}", {"metadata": {"labels": {"pool": value}}})


def test_the_inventory_is_that_of_kubectls_answer(
    control_plane: control_planes.ControlPlane,
    cluster: reader_module.Cluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reader_module, "PAGE", SIZE)
    names = [f"kp920-{number:02}" for number in range(MANY)]
    made = [builders.kubernetes_node(name, builders.HPRE | {"zone": name[-1]}) for name in names]
    taint = {"key": "dedicated", "value": "db", "effect": "NoSchedule"}
    with registered(control_plane, [*made, builders.kubernetes_node("tainted", {}, [taint])]):
        pages = list(cluster.pages())
        answer = in_process.kae(
            tmp_path, "inventory", "--cluster", "east", "--kubeconfig", str(control_plane.kubeconfig)
        )
        piped = subprocess.run(
            (sys.executable, "-m", "compiler", "-C", str(tmp_path), "inventory", "--cluster", "east"),
            input=control_plane.kubectl("get", "nodes", "-o", "json"),
            capture_output=True,
            text=True,
            cwd=ROOT,
            check=True,
            timeout=60,
        )

    assert (answer.code, answer.err) == (0, "")
    assert answer.out == piped.stdout
    assert answer.out.count('"name":"kp920-') == MANY
    assert [len(page.items) for page in pages] == [SIZE, SIZE, MANY + 1 - 2 * SIZE]
    assert len({page.resource_version for page in pages}) == 1


@pytest.mark.usefixtures("four_nodes")
def test_a_watch_tells_changes_deletions_and_that_time_goes_on(
    control_plane: control_planes.ControlPlane, cluster: reader_module.Cluster
) -> None:
    seen = cluster.watch(start_of(cluster), timeout_s=15)
    label(control_plane, "a", "tls")
    control_plane.api.ask("DELETE", "/api/v1/nodes/b")

    coming = iter(seen)
    events = [next(coming)]
    # Bookmarks tell of what came after the answer began, and nothing where nothing did.
    label(control_plane, "a", None)
    events += coming

    told = [(event.type, event.object["metadata"]) for event in events]
    labels = [meta["labels"].get("pool") for kind, meta in told if kind == "MODIFIED" and meta["name"] == "a"]
    assert "tls" in labels
    assert labels[-1] is None
    assert ("DELETED", "b") in [(kind, meta.get("name")) for kind, meta in told]
    assert all(set(event.object) <= {"kind", "apiVersion", "metadata"} for event in events)
    assert "BOOKMARK" in [kind for kind, _ in told]
    assert seen.resource_version == told[-1][1]["resourceVersion"]


@pytest.mark.usefixtures("four_nodes")
def test_a_node_is_there_or_gone(control_plane: control_planes.ControlPlane, cluster: reader_module.Cluster) -> None:
    node = cluster.object("v1", "Node", "a")
    control_plane.api.ask("DELETE", "/api/v1/nodes/a")

    assert node is not None
    assert node["status"]["nodeInfo"]["architecture"] == "arm64"
    assert cluster.object("v1", "Node", "a") is None


@pytest.mark.usefixtures("four_nodes")
def test_a_state_that_the_api_server_has_forgotten_is_told(
    control_plane: control_planes.ControlPlane, cluster: reader_module.Cluster
) -> None:
    old = start_of(cluster)
    label(control_plane, "a", "tls")
    compact(control_plane, start_of(cluster))
    # What it remembers by itself, beside etcd, goes with it.
    restart(control_plane)

    with pytest.raises(client.Gone, match=r"\(410\): .*too old resource version"):
        list(cluster.watch(old, timeout_s=15))


@pytest.mark.usefixtures("four_nodes")
def test_a_list_goes_on_from_a_page_or_says_that_it_cannot(
    control_plane: control_planes.ControlPlane, cluster: reader_module.Cluster
) -> None:
    pages = cluster.pages(1)
    first = next(pages)
    label(control_plane, "a", "tls")
    compact(control_plane, start_of(cluster))
    restart(control_plane)

    with pytest.raises(client.Gone, match="did not list nodes"):
        list(pages)

    assert len(first.items) == 1
    assert len(cluster.snapshot(lambda raw: raw["metadata"]["name"])) == 4


@pytest.mark.usefixtures("four_nodes")
def test_a_restart_of_the_api_server_is_survived(
    control_plane: control_planes.ControlPlane, cluster: reader_module.Cluster
) -> None:
    seen = cluster.watch(start_of(cluster))
    waiting_for_it = threading.Timer(1, lambda: restart(control_plane))
    waiting_for_it.start()
    with contextlib.suppress(client.Unreachable):  # It may find the time to say goodbye.
        list(seen)
    waiting_for_it.join()
    label(control_plane, "c", "web")

    events = cluster.watch(seen.resource_version, timeout_s=5)

    names = [event.object["metadata"].get("name") for event in events if event.type == "MODIFIED"]
    assert "c" in names


def compact(plane: control_planes.ControlPlane, revision: str) -> None:
    """Make etcd forget everything before a revision, by its gateway for JSON."""
    url = f"http://{plane.instance.address}:2379/v3/kv/compaction"
    body = json.dumps({"revision": revision, "physical": True}).encode()
    with urllib.request.urlopen(urllib.request.Request(url, data=body), timeout=30) as answer:
        assert answer.status == 200


def restart(plane: control_planes.ControlPlane) -> None:
    server = plane.program("kube-apiserver")
    server.__exit__(None, None, None)
    server.start()
    waiting.until("kube-apiserver", plane.api.is_ready, programs=(server,))


def test_who_may_not_list_nodes_is_told_so(control_plane: control_planes.ControlPlane, tmp_path: Path) -> None:
    cluster = reader_module.Cluster(
        access.kubeconfig(control_plane, tmp_path, token=access.token_of(control_plane, "default"))
    )

    with pytest.raises(client.Denied) as caught:
        list(cluster.pages())

    assert str(caught.value) == (
        f"the API server at https://{control_plane.instance.address} did not list nodes, "
        "as the credentials do not allow it (403): nodes is forbidden: "
        'User "system:serviceaccount:default:default" cannot list resource "nodes" in API group "" '
        "at the cluster scope."
    )


def test_a_token_that_is_not_known_is_denied_until_the_file_holds_another(
    control_plane: control_planes.ControlPlane, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    token.write_text("nobody's")
    cluster = reader_module.Cluster(access.kubeconfig(control_plane, tmp_path, tokenFile=str(token)))
    with pytest.raises(client.Denied, match=r"does not accept the credentials \(401\): Unauthorized"):
        next(cluster.pages())

    token.write_text(access.token_of(control_plane, "default"))

    with pytest.raises(client.Denied, match="did not list nodes, as the credentials do not allow it"):
        next(cluster.pages())


def test_a_server_with_a_certificate_of_another_authority_is_not_trusted(
    control_plane: control_planes.ControlPlane, tmp_path: Path
) -> None:
    config = yaml.safe_load(control_plane.kubeconfig.read_text())
    other = tmp_path / "other.crt"
    make = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=other -out"
    command = [*make.split(), str(other), "-keyout", str(tmp_path / "other.key")]
    subprocess.run(command, check=True, capture_output=True, timeout=30)
    entry = config["clusters"][0]["cluster"]
    entry.pop("certificate-authority", None)
    entry["certificate-authority-data"] = base64.b64encode(other.read_bytes()).decode()
    path = tmp_path / "kubeconfig"
    path.write_text(yaml.safe_dump(config))

    with pytest.raises(client.Untrusted, match="is not trusted: unable to get local issuer certificate"):
        next(reader_module.Cluster(path).pages())


@pytest.fixture(scope="module")
def reader(control_plane: control_planes.ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A kubeconfig with the rights of docs/examples/rights/status.yaml, and no others."""
    control_plane.kubectl("apply", "--server-side", "--force-conflicts", "-f", str(LAB / "namespace"))
    folder = tmp_path_factory.mktemp("reader")
    with access.granted(control_plane, folder, access.documented()) as kubeconfig:
        yield kubeconfig


@pytest.fixture(scope="module")
def applied(control_plane: control_planes.ControlPlane) -> Iterator[control_planes.ControlPlane]:
    """The nodes of the example cluster `lab`, with its output applied; no kubelet runs anything."""
    plane = control_plane
    with registered(plane, json.loads((ROOT / "inventory/lab.json").read_text())["items"]):
        try:
            plane.kubectl("apply", "--server-side", "--force-conflicts", "-f", str(LAB / "namespace"))
            kinds.Objects(plane.api).define((item.data, item.text) for item in manifests.definitions_of_nfd())
            apply(plane)
            yield plane
        finally:
            for kind in ("daemonsets", "deployments"):
                plane.api.request("DELETE", f"{_APPS}/{kind}?propagationPolicy=Background")
            waiting.until("the end of all pods", lambda: without_pods(plane))
            plane.kubectl("delete", "-k", str(LAB), "--ignore-not-found", "--wait=true")


@pytest.fixture
def lab(reader: Path, applied: control_planes.ControlPlane) -> Iterator[control_planes.ControlPlane]:
    """The same, as planned; what a test changes is put right again."""
    settled(applied, reader)
    yield applied
    apply(applied)


def apply(plane: control_planes.ControlPlane) -> None:
    plane.kubectl("apply", "--server-side", "--force-conflicts", "-k", str(LAB))


def without_pods(plane: control_planes.ControlPlane) -> bool:
    """Return whether no pod is there, nor anything that makes one; no kubelet ends them."""
    plane.api.request("DELETE", f"{_PODS}?gracePeriodSeconds=0")
    return not any(plane.api.get(path)["items"] for path in (f"{_APPS}/daemonsets", f"{_APPS}/replicasets", _PODS))


def run_pods(plane: control_planes.ControlPlane) -> None:
    """Act as the kubelets: renew nodes, make bound pods ready, and remove deleted pods."""
    now = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    for item in plane.api.get("/api/v1/nodes")["items"]:
        alive = {"type": "Ready", "status": "True", "reason": "KubeletReady", "lastHeartbeatTime": now}
        plane.api.ask("PATCH", f"/api/v1/nodes/{item['metadata']['name']}/status", {"status": {"conditions": [alive]}})
    for item in plane.api.get(_PODS)["items"]:
        path = f"{_PODS}/{item['metadata']['name']}"
        if "deletionTimestamp" in item["metadata"]:
            plane.api.request("DELETE", path, {"gracePeriodSeconds": 0})
        elif item["spec"].get("nodeName"):
            ready = {"type": "Ready", "status": "True", "lastTransitionTime": now}
            plane.api.request("PATCH", f"{path}/status", {"status": {"phase": "Running", "conditions": [ready]}})


def status(kubeconfig: Path) -> tuple[int, dict[str, Any]]:
    asked = ("status", "--cluster", "lab", "--kubeconfig", str(kubeconfig), "-o", "json")
    answer = in_process.kae(ROOT, *asked)
    assert answer.code in (0, 4), answer
    cluster: dict[str, Any] = json.loads(answer.out)["cluster"]
    return answer.code, cluster


def settled(plane: control_planes.ControlPlane, reader: Path) -> None:
    def as_planned() -> bool:
        run_pods(plane)
        return status(reader)[0] == 0

    waiting.until("the lab", as_planned, explain=lambda: json.dumps(status(reader)[1], indent=1))


def problems(told: Mapping[str, Any], name: str) -> list[tuple[str, str]]:
    (item,) = (item for item in told["daemonSets"] if item["name"] == name)
    return [(problem["kind"], problem["node"]) for problem in item["problems"]]


def test_a_cluster_as_planned_ends_with_0(lab: control_planes.ControlPlane, reader: Path) -> None:
    answer = in_process.kae(ROOT, "status", "--cluster", "lab", "--kubeconfig", str(reader))

    assert answer.code == 0
    assert answer.out.startswith(f"cluster lab at https://{lab.instance.address}, 2 nodes: as planned\n")


def test_a_pod_that_is_missing_is_named(lab: control_planes.ControlPlane, reader: Path) -> None:
    # Without its controller the pod is not made anew.
    controllers = lab.program("kube-controller-manager")
    controllers.__exit__(None, None, None)
    try:
        lab.api.ask("DELETE", f"{_PODS}?labelSelector=app.kubernetes.io/name=kae-device-plugin&gracePeriodSeconds=0")
        code, told = status(reader)
    finally:
        controllers.start()

    assert code == 4
    assert problems(told, PLUGIN) == [("missing", "lab-kp920-01")]
    assert problems(told, WORKER) == []


def test_a_field_changed_by_hand_shows_as_such_and_as_a_rollout(lab: control_planes.ControlPlane, reader: Path) -> None:
    container = {"name": "worker", "image": "example.com/nfd:1"}
    template = {"spec": {"containers": [container]}}
    patch = json.dumps({"spec": {"template": template}, "metadata": {"labels": {"mine": "too"}}})
    lab.kubectl("patch", "daemonset", WORKER, "-n", NAMESPACE, "-p", patch)
    rolling = waiting.until("a rollout", lambda: old_pods(reader))

    (change,) = [item for item in rolling["objects"] if item["name"] == WORKER]
    assert change["state"] == "changed"
    assert change["changes"] == [
        {
            "path": "spec.template.spec.containers[worker].image",
            "wanted": change["changes"][0]["wanted"],
            "live": "example.com/nfd:1",
        }
    ]


def old_pods(reader: Path) -> dict[str, Any]:
    """Return the status, once a pod of the worker is of an older template; empty before."""
    told = status(reader)[1]
    return told if "old" in [kind for kind, _ in problems(told, WORKER)] else {}


def test_a_deleted_object_and_one_left_over_are_named(lab: control_planes.ControlPlane, reader: Path) -> None:
    lab.kubectl("delete", "nodefeaturerule", "kae")
    left = {"name": "kae-left", "namespace": NAMESPACE, "labels": {"app.kubernetes.io/part-of": "kae"}}
    lab.api.ask("POST", f"/api/v1/namespaces/{NAMESPACE}/configmaps", {"metadata": left})

    code, told = status(reader)
    lab.kubectl("delete", "configmap", "kae-left", "-n", NAMESPACE)

    assert code == 4
    assert [(item["state"], item["kind"], item["name"]) for item in told["objects"]] == [
        ("missing", "NodeFeatureRule", "kae"),
        ("extra", "ConfigMap", "kae-left"),
    ]


def test_without_rights_nothing_is_said_of_clusters(control_plane: control_planes.ControlPlane, tmp_path: Path) -> None:
    path = access.kubeconfig(control_plane, tmp_path, token=access.token_of(control_plane, "default"))

    answer = in_process.kae(ROOT, "status", "--cluster", "lab", "--kubeconfig", str(path))

    assert answer.code == 3
    assert answer.out == ""
    assert 'cannot list resource "nodes"' in answer.err
