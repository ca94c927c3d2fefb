"""Requests to the API server, by the real client over real HTTP."""

import contextlib
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from compiler.kube import lease_objects
from installer.drain import cluster
from tests.kube import apiserver
from tests.kube.apiserver import ApiServer

NAMESPACE = "kae-operator"
LEASE = lease_objects.Lease(
    name="kae-driver-tls-1", holder="node-1", renewed="2026-01-02T03:04:05.000006Z", duration_s=900
)


@pytest.fixture
def api(server: ApiServer) -> Iterator[cluster.Cluster]:
    with contextlib.closing(cluster.Cluster(server.kubeconfig)) as api:
        yield api


@pytest.fixture
def impatient(server: ApiServer) -> Iterator[cluster.Cluster]:
    """As `api`; but it waits for no more than a third of a second."""
    with contextlib.closing(cluster.Cluster(server.kubeconfig, timeout_s=0.3)) as api:
        yield api


def failure(question: Callable[[], object], kind: type[Exception] = cluster.Unreachable) -> str:
    """The sentence of what a question raises."""
    with pytest.raises(kind) as raised:
        question()
    return str(raised.value)


def outcome(api: cluster.Cluster) -> cluster.Outcome:
    """Ask once for an eviction, and close the connection."""
    with contextlib.closing(api):
        return api.evict("default", "nginx-0").outcome


@pytest.mark.parametrize("known", [False, True], ids=["by-name", "by-uid"])
def test_an_eviction_is_accepted(known: bool, server: ApiServer, api: cluster.Cluster) -> None:
    server.put_pods("default/nginx-0")
    uid = server.get("v1", "Pod", "nginx-0", "default")["metadata"].get("uid", "")

    answer = api.evict("default", "nginx-0", uid if known else "")

    assert answer == cluster.EvictionAnswer(outcome=cluster.Outcome.ACCEPTED)
    assert server.state.evicted == ["default/nginx-0"]


def test_another_pod_of_the_name_is_not_evicted(server: ApiServer, api: cluster.Cluster) -> None:
    server.put_pods("default/nginx-0")

    answer = api.evict("default", "nginx-0", "uid-of-the-former-pod")

    assert answer == cluster.EvictionAnswer(outcome=cluster.Outcome.GONE)
    assert server.state.evicted == []


@pytest.mark.parametrize(
    ("state", "outcome", "reason"),
    [
        ({}, cluster.Outcome.GONE, ""),
        (
            {"budgets": {"default/nginx-0": "web"}},
            cluster.Outcome.NOT_NOW,
            "The disruption budget web needs 2 healthy pods and has 2 currently.",
        ),
        (
            {"broken": {"pods/default/nginx-0": (429, {"message": "Too many requests, please try again later."})}},
            cluster.Outcome.NOT_NOW,
            "Too many requests, please try again later.",
        ),
        (
            {"forbidden": {"pods/default/nginx-0"}},
            cluster.Outcome.FORBIDDEN,
            'pods "nginx-0" is forbidden: User "kae-driver" cannot do that.',
        ),
    ],
    ids=["gone", "budget", "under load", "not allowed"],
)
def test_an_eviction_that_does_not_happen_says_why(
    state: dict[str, Any], outcome: cluster.Outcome, reason: str, server: ApiServer, api: cluster.Cluster
) -> None:
    if state:
        server.put_pods("default/nginx-0")
    for name, value in state.items():
        setattr(server.state, name, value)

    assert api.evict("default", "nginx-0") == cluster.EvictionAnswer(outcome=outcome, reason=reason)


def test_a_created_answer_that_says_failure_is_no_eviction(server: ApiServer, api: cluster.Cluster) -> None:
    said = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
    server.state.broken["pods/default/nginx-0"] = (201, {"status": "Failure", "message": said, "code": 500})

    sentence = failure(lambda: api.evict("default", "nginx-0"), cluster.Refused)

    assert sentence == f"The API server at {server.address} did not evict the pod default/nginx-0 (500): {said}"


def test_names_are_quoted_in_paths(server: ApiServer, api: cluster.Cluster) -> None:
    api.evict("default", "../../secrets?a=b")

    assert server.state.requests == ["POST /api/v1/namespaces/default/pods/..%2F..%2Fsecrets%3Fa%3Db/eviction"]


def test_a_lease_is_read_as_it_was_written(server: ApiServer, api: cluster.Cluster) -> None:
    written = api.write_lease(NAMESPACE, LEASE)

    assert api.lease(NAMESPACE, LEASE.name) == written == replace(LEASE, version=written.version)
    assert server.lease(LEASE.name) == {
        "holderIdentity": "node-1",
        "renewTime": "2026-01-02T03:04:05.000006Z",
        "leaseDurationSeconds": 900,
    }


def test_there_may_be_no_lease(api: cluster.Cluster) -> None:
    assert api.lease(NAMESPACE, LEASE.name) is None


def test_an_update_leaves_what_others_wrote(server: ApiServer, api: cluster.Cluster) -> None:
    server.put_lease(LEASE.name, holderIdentity="node-2", strategy="OldestEmulationVersion")
    found = api.lease(NAMESPACE, LEASE.name)
    assert found is not None

    api.write_lease(NAMESPACE, replace(found, holder="", transitions=3))

    assert server.lease(LEASE.name) == {"strategy": "OldestEmulationVersion", "leaseTransitions": 3}
    assert (
        server.get("coordination.k8s.io/v1", "Lease", LEASE.name, NAMESPACE)["metadata"]["uid"]
        == f"uid-of-{LEASE.name}"
    )


def test_who_writes_a_lease_that_has_changed_since_meets_a_conflict(server: ApiServer, api: cluster.Cluster) -> None:
    read = api.write_lease(NAMESPACE, LEASE)
    server.put_lease(LEASE.name, holderIdentity="node-2")

    sentence = failure(lambda: api.write_lease(NAMESPACE, read), cluster.Conflict)

    assert "did not write the Lease kae-operator/kae-driver-tls-1 (409)" in sentence
    assert server.lease(LEASE.name)["holderIdentity"] == "node-2"


def test_who_makes_a_lease_that_is_there_meets_a_conflict(server: ApiServer, api: cluster.Cluster) -> None:
    server.put_lease(LEASE.name, holderIdentity="node-2")

    failure(lambda: api.write_lease(NAMESPACE, LEASE), cluster.Conflict)

    assert server.lease(LEASE.name) == {"holderIdentity": "node-2"}


def test_who_writes_a_lease_that_was_deleted_meets_a_conflict(server: ApiServer, api: cluster.Cluster) -> None:
    read = api.write_lease(NAMESPACE, LEASE)
    server.delete("coordination.k8s.io/v1", "Lease", LEASE.name, NAMESPACE)

    failure(lambda: api.write_lease(NAMESPACE, read), cluster.Conflict)

    assert server.leases() == []


def test_a_lease_that_may_not_be_seen_is_refused_in_a_sentence(server: ApiServer, api: cluster.Cluster) -> None:
    server.state.forbidden = {f"leases/{NAMESPACE}/{LEASE.name}"}

    sentence = failure(lambda: api.lease(NAMESPACE, LEASE.name), cluster.Refused)

    assert sentence == (
        f"The API server at {server.address} did not show the Lease kae-operator/kae-driver-tls-1, "
        "as the credentials do not allow it (403): leases "
        '"kae-driver-tls-1" is forbidden: User "kae-driver" cannot do that.'
    )


@pytest.mark.parametrize(
    ("metadata", "going"), [({}, False), ({"deletionTimestamp": "2026-01-02T03:04:05Z"}, True), (None, True)]
)
def test_a_daemon_set_goes_when_it_is_deleted_or_being_deleted(
    server: ApiServer, api: cluster.Cluster, metadata: dict[str, str] | None, going: bool
) -> None:
    if metadata is not None:
        server.put_daemon_set(f"{NAMESPACE}/kae-driver-tls", **metadata)

    assert api.daemon_set_is_going(NAMESPACE, "kae-driver-tls") is going


def test_the_daemon_set_is_unknown_without_an_answer_of_kubernetes(server: ApiServer, api: cluster.Cluster) -> None:
    key = f"daemonsets/{NAMESPACE}/kae-driver-tls"
    answers = []
    for status in (200, 301, 404, 500, 503):
        server.state.broken[key] = (status, {"message": "a proxy on the way"})
        answers.append(api.daemon_set_is_going(NAMESPACE, "kae-driver-tls"))
    server.state.broken.clear()
    server.state.forbidden = {key}
    answers.append(api.daemon_set_is_going(NAMESPACE, "kae-driver-tls"))
    server.state.garbled = "404 page not found"
    answers.append(api.daemon_set_is_going(NAMESPACE, "kae-driver-tls"))
    server.down()
    answers.append(api.daemon_set_is_going(NAMESPACE, "kae-driver-tls"))
    server.up()

    assert answers == [None] * 8


def test_an_api_server_that_comes_back_is_asked_again(server: ApiServer, api: cluster.Cluster) -> None:
    api.evict("default", "nginx-0")
    server.down()
    failure(lambda: api.evict("default", "nginx-0"))
    server.up()

    assert api.evict("default", "nginx-0").outcome is cluster.Outcome.GONE


def test_an_api_server_that_hangs_is_not_waited_for(server: ApiServer, impatient: cluster.Cluster) -> None:
    server.state.deaf = True

    sentence = failure(lambda: impatient.evict("default", "nginx-0"))

    assert sentence == f"The API server at {server.address} cannot be reached: it does not answer in time."


def test_nothing_is_asked_twice(server: ApiServer, impatient: cluster.Cluster) -> None:
    server.state.deaf = True
    failure(lambda: impatient.lease(NAMESPACE, LEASE.name))
    failure(lambda: impatient.write_lease(NAMESPACE, LEASE))
    server.state.deaf = False
    server.state.broken[f"leases/{NAMESPACE}/{LEASE.name}"] = (503, {"message": "etcd is down"})
    failure(lambda: impatient.lease(NAMESPACE, LEASE.name), cluster.Refused)

    assert [request.partition(" ")[0] for request in server.state.requests] == ["GET", "POST", "GET"]


def test_what_is_no_json_is_refused_with_its_first_words(server: ApiServer, api: cluster.Cluster) -> None:
    server.state.garbled = f"Bad\n gateway {'x' * 1000}"
    server.state.broken[f"leases/{NAMESPACE}/{LEASE.name}"] = (502, {})

    sentence = failure(lambda: api.lease(NAMESPACE, LEASE.name), cluster.Refused)

    assert "kae-driver-tls-1 (502): Bad gateway xxx" in sentence
    assert len(sentence) < 600


@pytest.fixture
def pod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ApiServer]:
    """A server, and the environment and files that the kubelet would give to a pod; the token is `first`."""
    monkeypatch.delenv("KUBECONFIG", raising=False)
    with apiserver.serving(tmp_path, tls=True) as serving:
        monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
        monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(serving.port))
        (tmp_path / "token").write_text("first")
        shutil.copy(tmp_path / "server.crt", tmp_path / "ca.crt")
        serving.state.token = "first"  # noqa: S105 - of a stand-in
        yield serving


def test_in_a_pod_its_service_account_is_used(pod: ApiServer, tmp_path: Path) -> None:
    api = cluster.Cluster(service_account=tmp_path)

    answers = [api.evict("default", "nginx-0")]
    (tmp_path / "token").write_text("second")
    pod.state.token = "second"  # noqa: S105 - of a stand-in
    answers.append(api.evict("default", "nginx-0"))
    api.close()

    assert answers == [cluster.EvictionAnswer(outcome=cluster.Outcome.GONE)] * 2


def test_outside_a_pod_and_without_kubeconfig_there_is_no_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    api = cluster.Cluster(service_account=tmp_path)

    sentence = failure(lambda: api.evict("default", "nginx-0"))

    assert sentence == "The pod's service account cannot be used: service host/port is not set."


def test_a_list_of_kubeconfigs_is_a_failure_that_asks_for_one_file(server: ApiServer) -> None:
    files = f"{server.kubeconfig}:{server.kubeconfig}"
    api = cluster.Cluster(Path(files))

    sentence = failure(lambda: api.evict("default", "nginx-0"))

    assert sentence == f"'{files}' does not exist: --kubeconfig names one file, not a list."


def test_the_kubeconfigs_of_the_environment_may_be_several(server: ApiServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", f"nowhere:{server.kubeconfig}")

    assert outcome(cluster.Cluster()) is cluster.Outcome.GONE


def test_the_client_is_imported_only_when_something_is_asked(repository_root: Path) -> None:
    program = (
        "import sys; from installer.drain import cluster, device_users, leases; cluster.Cluster(); "
        "sys.exit(bool({'kubernetes', 'grpc', 'urllib3', 'yaml'} & set(sys.modules)))"
    )

    done = subprocess.run([sys.executable, "-c", program], cwd=repository_root, check=False, timeout=60)

    assert done.returncode == 0
