"""`kae status`: what a live cluster is, held against the plan of its nodes and against the output."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

import compiler
from compiler.kube import lease_objects
from compiler.project import package_data
from compiler.rendering import templates
from tests import builders, in_process, project
from tests.cli import fleet, livecluster
from tests.cli.answers import refused
from tests.golden import trees
from tests.kube import apiserver

DRIVER, PLUGIN = "kae-driver-tls", "kae-device-plugin-tls"


@pytest.fixture
def server(compiled: Path, tmp_path: Path) -> Iterator[apiserver.ApiServer]:
    """Cluster east, in which all is as planned."""
    with apiserver.serving(tmp_path) as running:
        livecluster.applied(running, compiled, "east")
        yield running


def status(folder: Path, server: apiserver.ApiServer, *more: str) -> in_process.Answer:
    """Return the answer of the command for cluster east."""
    return in_process.kae(folder, "status", "--cluster", "east", "--kubeconfig", str(server.kubeconfig), *more)


def data(folder: Path, server: apiserver.ApiServer) -> dict[str, Any]:
    """The same, as programs read it; always not as planned."""
    cluster = cluster_of(folder, server, 4)
    assert cluster["asPlanned"] is False
    return cluster


def cluster_of(folder: Path, server: apiserver.ApiServer, code: int = 0) -> dict[str, Any]:
    """The same, of an answer that ends with a code."""
    answer = status(folder, server, "-o", "json")
    assert answer.code == code
    cluster: dict[str, Any] = json.loads(answer.out)["cluster"]
    return cluster


def daemon_set(cluster: dict[str, Any], name: str) -> dict[str, Any]:
    one: dict[str, Any]
    (one,) = (item for item in cluster["daemonSets"] if item["name"] == name)
    return one


def live(server: apiserver.ApiServer, name: str) -> dict[str, Any]:
    return server.get("apps/v1", "DaemonSet", name, livecluster.NAMESPACE)


def states(cluster: dict[str, Any]) -> list[tuple[str, str]]:
    """State and kind of each object that is told."""
    return [(item["state"], item["kind"]) for item in cluster["objects"]]


def test_a_cluster_as_planned_ends_with_0(
    compiled: Path, server: apiserver.ApiServer, snapshot: SnapshotAssertion
) -> None:
    answer = status(compiled, server)

    assert answer.code == 0
    assert answer.out.replace(server.address, "https://east") == snapshot
    assert "warning[node-unknown]" in answer.err


def test_programs_get_exactly_the_fields_that_are_promised(compiled: Path, server: apiserver.ApiServer) -> None:
    answer = status(compiled, server, "-o", "json")

    read = json.loads(answer.out)
    assert answer.code == 0
    assert (read["version"], read["cluster"]["asPlanned"]) == (1, True)
    assert {item["code"] for item in read["diagnostics"]} >= {"node-unknown"}
    assert set(read["cluster"]) == {
        *("name", "server", "asPlanned", "output", "nodes", "daemonSets", "deployments", "leases", "objects", "skews"),
        *("loaded", "devices"),
    }
    assert daemon_set(read["cluster"], DRIVER) == {
        "namespace": "kae-operator",
        "name": DRIVER,
        "found": True,
        "observed": True,
        "planned": 1,
        "pods": 1,
        "ready": 1,
        "current": 1,
        "heldUpBy": [],
        "problems": [],
    }


def test_a_program_of_another_release_is_told_and_is_no_difference(
    compiled: Path, server: apiserver.ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    image = live(server, PLUGIN)["spec"]["template"]["spec"]["containers"][0]["image"]
    monkeypatch.setattr(compiler, "__version__", "7.8.9")

    answer, read = status(compiled, server), status(compiled, server, "-o", "json")

    release = image.rpartition(":")[2]
    assert (answer.code, read.code) == (0, 0)
    assert f"\n  {PLUGIN} runs {release} of kae, and this is 7.8.9\n" in answer.out.partition("\nother releases:")[2]
    assert {"name": PLUGIN, "image": image, "release": release} in json.loads(read.out)["cluster"]["skews"]


def test_everything_that_is_wrong_is_told_to_people(
    compiled: Path, server: apiserver.ApiServer, snapshot: SnapshotAssertion
) -> None:
    now = datetime.now(UTC)
    ago = {minutes: (now - timedelta(minutes=minutes)).isoformat() for minutes in (5, 31, 180)}
    plugin, worker = live(server, PLUGIN), live(server, "nfd-worker")
    waiting = {"reason": "ImagePullBackOff", "message": "Back-off pulling image"}
    dead = server.get("v1", "Node", "kp920-03")
    dead["status"]["conditions"] = [
        {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown", "lastTransitionTime": ago[31]}
    ]
    server.put(
        dead,
        builders.kubernetes_node("zz-new", {}),
        livecluster.unready(livecluster.pod(plugin, "kp920-01"), waiting, ago[5]),
        livecluster.unready(livecluster.pod(worker, "kp920-03"), since=ago[31]),
        livecluster.pod(plugin, "x86-01"),
        livecluster.lease("kae-driver-tls-1", "kp920-01", ago[180], ago[31]),
        livecluster.lease("other", "somebody", ago[5], ago[5]),
    )
    server.delete("v1", "Node", "new-01")
    server.delete("v1", "Pod", f"{DRIVER}-kp920-01", livecluster.NAMESPACE)
    server.delete("v1", "ServiceAccount", "kae-device-plugin", livecluster.NAMESPACE)
    worker["spec"]["template"]["spec"]["containers"][0]["image"] = "example.com/nfd:1"
    worker["metadata"]["labels"].pop("app.kubernetes.io/managed-by")
    master = server.get("apps/v1", "Deployment", "nfd-master", livecluster.NAMESPACE)
    master["status"] = {"conditions": [{"type": "Available", "status": "False", "reason": "Unavailable"}]}
    stray = {"name": "kae-watcher", "labels": {"app.kubernetes.io/part-of": "kae"}}
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": stray}
    server.put(worker, master, role)

    answer = status(compiled, server)

    assert answer.code == 4
    assert answer.out.replace(server.address, "https://east") == snapshot


def test_a_pod_that_is_missing_is_named_by_its_node(compiled: Path, server: apiserver.ApiServer) -> None:
    server.delete("v1", "Pod", f"{DRIVER}-kp920-01", livecluster.NAMESPACE)

    image = "cr.openfuyao.cn/openfuyao/kae-driver-installer:2.2.0"
    pod = {"kind": "missing", "node": "kp920-01", "pod": None, "reason": "", "since": None}
    assert daemon_set(data(compiled, server), DRIVER)["problems"] == [pod | {"image": None, "plannedImage": image}]


def test_the_plan_is_that_of_the_nodes_as_they_are_now(compiled: Path, server: apiserver.ApiServer) -> None:
    server.put(builders.kubernetes_node("kp920-09", fleet.HPRE | {"pool": "tls"}))

    cluster = data(compiled, server)

    assert [item["node"] for item in daemon_set(cluster, DRIVER)["problems"]] == ["kp920-09"]
    assert cluster["nodes"]["notInInventory"] == ["kp920-09"]


def test_what_the_probe_of_a_driver_says_is_the_reason(compiled: Path, server: apiserver.ApiServer) -> None:
    item = livecluster.unready(livecluster.pod(live(server, DRIVER), "kp920-01"))
    said = "Readiness probe failed: hisi_hpre is used by process 4711"
    pod = item["metadata"]["name"]
    server.put(item, livecluster.event("e1", pod, reason="Unhealthy", message=said, lastTimestamp=livecluster.TIME))

    (problem,) = daemon_set(data(compiled, server), DRIVER)["problems"]

    assert (problem["kind"], problem["reason"]) == ("not-ready", "hisi_hpre is used by process 4711")


def test_a_rollout_under_way_shows_who_is_old_and_who_holds_it_up(compiled: Path, server: apiserver.ApiServer) -> None:
    server.put(*(builders.kubernetes_node(name, fleet.HPRE | {"pool": "tls"}) for name in ("kp920-08", "kp920-09")))
    item = live(server, DRIVER)
    item["status"] = {"observedGeneration": 1, "desiredNumberScheduled": 3}
    old = livecluster.pod(item, "kp920-08")
    old["spec"]["containers"][0] = old["spec"]["containers"][0] | {"image": "cr.openfuyao.cn/openfuyao/old:1"}
    unready = livecluster.unready(livecluster.pod(item, "kp920-09", 2))
    server.put(item, livecluster.revision(item, 2), livecluster.pod(item, "kp920-01", 2), old, unready)

    driver = daemon_set(data(compiled, server), DRIVER)

    problems = [(problem["node"], problem["kind"]) for problem in driver["problems"]]
    assert problems == [("kp920-08", "old"), ("kp920-09", "not-ready")]
    assert (driver["pods"], driver["ready"], driver["current"]) == (3, 2, 2)
    assert driver["heldUpBy"] == ["kp920-09"]


def test_a_change_that_no_controller_has_seen_is_not_as_planned(compiled: Path, server: apiserver.ApiServer) -> None:
    item = live(server, DRIVER)
    item["metadata"]["generation"] = 2
    server.put(item)

    assert daemon_set(data(compiled, server), DRIVER)["observed"] is False


def test_pods_of_others_are_no_matter(compiled: Path, server: apiserver.ApiServer) -> None:
    other = live(server, DRIVER)
    other["metadata"]["uid"] = "another"
    server.put(livecluster.pod(other, "x86-01"))

    assert status(compiled, server).code == 0


def test_whoever_holds_a_lease_is_named_with_the_time(compiled: Path, server: apiserver.ApiServer) -> None:
    now = datetime.now(UTC)
    times = [(now - timedelta(seconds=seconds)).isoformat() for seconds in (700, 20)]
    free = livecluster.lease("kae-driver-tls-2", "", *times)
    server.put(livecluster.lease("kae-driver-tls-1", "kp920-01", *times), free)

    (lease,) = cluster_of(compiled, server)["leases"]  # A host at work is as planned.

    assert (lease["name"], lease["holder"], lease["expired"]) == ("kae-driver-tls-1", "kp920-01", False)
    assert 700 <= lease["heldSeconds"] < 760
    assert 20 <= lease["renewedSecondsAgo"] < 80


def test_a_lease_of_a_swap_never_expires_and_the_command_that_frees_it_is_shown(
    compiled: Path, server: apiserver.ApiServer
) -> None:
    old = (datetime.now(UTC) - timedelta(hours=2)).isoformat()
    lease = livecluster.lease("kae-driver-tls-1", "kp920-01", old, old)
    lease["metadata"]["annotations"] = {lease_objects.SWAP: "2026-01-02T03:04:05Z"}
    server.put(lease)

    (read,) = cluster_of(compiled, server)["leases"]
    shown = status(compiled, server).out

    assert (read["expired"], read["swapSince"]) == (False, "2026-01-02T03:04:05Z")
    assert "in a swap since 2026-01-02T03:04:05Z. The host has vanished in it" in shown
    assert "kubectl delete lease -n kae-operator kae-driver-tls-1\n" in shown


@pytest.mark.parametrize("when", ["", "soon", "2024-11-05T03:00:00"])
def test_a_lease_without_sound_times_counts_as_expired(when: str, compiled: Path, server: apiserver.ApiServer) -> None:
    server.put(livecluster.lease("kae-driver-tls-1", "kp920-01", when, when))

    (lease,) = cluster_of(compiled, server)["leases"]

    assert (lease["heldSeconds"], lease["expired"]) == (None, True)


def test_an_object_that_is_missing_is_named_by_its_file(compiled: Path, server: apiserver.ApiServer) -> None:
    server.delete("v1", "ServiceAccount", "kae-driver", livecluster.NAMESPACE)

    account = {"apiVersion": "v1", "kind": "ServiceAccount", "namespace": "kae-operator", "name": "kae-driver"}
    file = "driver/serviceaccount-kae-driver.yaml"
    assert data(compiled, server)["objects"] == [account | {"state": "missing", "file": file, "changes": []}]


def test_a_field_that_was_changed_by_hand_is_named_by_its_path(compiled: Path, server: apiserver.ApiServer) -> None:
    role = server.get("rbac.authorization.k8s.io/v1", "Role", "kae-driver", livecluster.NAMESPACE)
    role["rules"][0]["verbs"].append("delete")
    server.put(role)

    (item,) = data(compiled, server)["objects"]

    assert (item["state"], item["kind"]) == ("changed", "Role")
    count = len(role["rules"][0]["verbs"]) - 1
    assert item["changes"] == [{"path": f"rules[0].verbs[{count}]", "wanted": None, "live": "delete"}]


def test_an_object_that_is_being_deleted_is_told(compiled: Path, server: apiserver.ApiServer) -> None:
    item = server.get("v1", "Namespace", livecluster.NAMESPACE)
    item["metadata"]["deletionTimestamp"] = livecluster.TIME
    server.put(item)

    assert states(data(compiled, server)) == [("ending", "Namespace")]


def test_objects_of_ours_that_output_does_not_have_are_found(compiled: Path, server: apiserver.ApiServer) -> None:
    labels = {"app.kubernetes.io/part-of": "kae"}
    left = {"name": "kae-old", "namespace": livecluster.NAMESPACE, "labels": labels}
    owned = left | {"name": "made", "ownerReferences": [{"uid": "x", "kind": "DaemonSet"}]}
    server.put(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": left},
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": owned},
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": left | {"name": "foreign", "labels": {}}},
    )

    (item,) = data(compiled, server)["objects"]

    assert (item["state"], item["kind"], item["name"], item["file"]) == ("extra", "ConfigMap", "kae-old", None)


def test_what_is_never_pruned_is_shown_and_is_as_planned(compiled: Path, server: apiserver.ApiServer) -> None:
    labels = {"app.kubernetes.io/part-of": "kae"}
    definition = {"name": "nodefeaturegroups.example.com", "labels": labels}
    server.put(
        {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": definition},
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kae-before", "labels": labels}},
    )

    assert states(cluster_of(compiled, server)) == [("kept", "CustomResourceDefinition"), ("kept", "Namespace")]


def test_kinds_that_the_cluster_does_not_know_are_missing(compiled: Path, server: apiserver.ApiServer) -> None:
    server.state.unknown.add("nfd.k8s-sigs.io/v1alpha1")

    assert states(data(compiled, server)) == [("missing", "NodeFeatureRule")]


def test_an_empty_cluster_lacks_everything(compiled: Path, tmp_path: Path) -> None:
    with apiserver.serving(tmp_path) as server:
        cluster = data(compiled, server)

    assert {item["state"] for item in cluster["objects"]} == {"missing"}
    assert not any(item["found"] for item in (*cluster["daemonSets"], *cluster["deployments"]))
    assert cluster["nodes"]["onlyInInventory"] == sorted(node["metadata"]["name"] for node in fleet.NODES)


def test_an_output_that_is_not_compiled_is_told(server: apiserver.ApiServer, tmp_path: Path) -> None:
    folder = fleet.full(tmp_path / "fleet")
    in_process.kae(folder, "compile")
    (folder / "output/east/driver/role-kae-driver.yaml").write_text("edited\n")

    answer = status(folder, server)

    assert answer.code == 4
    assert "The output is not what the documents compile to" in answer.out


def test_nothing_is_written_and_no_event_is_read_without_need(compiled: Path, server: apiserver.ApiServer) -> None:
    before = project.tree(compiled)

    status(compiled, server)

    assert project.tree(compiled) == before
    assert all(request.startswith("GET ") and "/events" not in request for request in server.state.requests)


def test_every_kind_of_the_examples_is_looked_for() -> None:
    items = [item for files in trees.every().values() for item in livecluster.parsed(files)]
    rendered = {(item["apiVersion"], item["kind"]) for item in items}

    assert rendered <= {(kind.api_version, kind.name) for kind in templates.kinds(package_data.templates())}
    assert len(rendered) > 10


def test_wrong_documents_end_with_1_before_anybody_is_asked(server: apiserver.ApiServer, tmp_path: Path) -> None:
    folder = fleet.small(tmp_path / "fleet")
    project.write(folder, {"policies/more.yaml": fleet.REST.replace("name: rest", "name: a")})

    answer = status(folder, server, "-o", "json")

    assert answer.code == 1
    assert json.loads(answer.out)["cluster"] is None
    assert server.state.requests == []


def test_a_warning_counts_where_that_is_wanted(compiled: Path, server: apiserver.ApiServer) -> None:
    assert status(compiled, server, "--strict").code == 1


def test_a_denial_ends_with_3_and_names_what_is_missing(compiled: Path, server: apiserver.ApiServer) -> None:
    server.state.forbidden.add("list pods")

    answer = status(compiled, server)

    assert (answer.code, answer.out) == (3, "")
    assert "did not list pods in namespace kae-operator, as the credentials do not allow it (403): " in answer.err


def test_the_default_kubeconfig_is_that_of_kubectl(
    compiled: Path, server: apiserver.ApiServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".kube").mkdir()
    named = status(compiled, server)
    server.kubeconfig.rename(tmp_path / ".kube/config")

    answer = in_process.kae(compiled, "status", "--cluster", "east")

    assert answer == named


def test_without_a_kubeconfig_it_says_how_to_name_one(
    compiled: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))

    assert refused(3, compiled, "status", "--cluster", "east") == (
        f"kae: there is no kubeconfig: '{tmp_path}/.kube/config' does not exist.\n"
        "hint: Name one with --kubeconfig FILE, or set KUBECONFIG.\n"
    )
