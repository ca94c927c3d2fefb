"""A driver installer's rights on the real API server: Leases in its node's name, and evictions on its own node.

The objects are the compiler's. The nodes have no kubelet: rights and budgets need none.
"""

import contextlib
import itertools
import json
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from compiler.kube import client, credentials, lease_objects
from installer import config
from installer.drain import cluster, device_holders, eviction, leases, processes
from tests import in_process, project
from tests.cluster.control import control_plane as control_planes
from tests.cluster.control import manifests, pods
from tests.cluster.local import waiting

OWN = "kae-operator"
NODE_A, NODE_B = "rights-a", "rights-b"
LEASES = ("kae-driver-tls-1", "kae-driver-tls-2")
LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{OWN}/leases/{LEASES[0]}"
"""The only Lease of the claims below."""
_CACHED_S = 1
"""Long enough for the guard, which sees pods through a watch, to know a label."""

GUARD = "A KAE driver installer may evict only pods of the node that it runs on."
GUARD_OF_LEASES = "may take and give back Leases only in the name of the node that it runs on"

_POLICY = """\
apiVersion: device.openfuyao.com/v1alpha1
kind: KAEPolicy
metadata:
  name: tls
spec:
  driver: {version: 2.0.1, enabledCleanup: true, rollout: {maxParallel: 2}}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Somebody with a token."""

    api: cluster.Cluster
    http: client.Connection

    def close(self) -> None:
        self.api.close()
        self.http.close()

    def asks(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> int:
        """Return the status of the answer."""
        return self.http.ask(client.Request(method=method, action="ask", path=path, body=body)).status

    def may(self, **attributes: str) -> bool:
        """Return what the API server says of a right, as `kubectl auth can-i` asks for it."""
        body = {"spec": {"resourceAttributes": attributes}}
        path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        reply = self.http.ask(client.Request(method="POST", action="review a right", path=path, body=body))
        assert reply.status == 201, reply
        return bool(reply.body["status"]["allowed"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Installers:
    """The compiled rights and guard in force, and who speaks by them."""

    plane: control_planes.ControlPlane
    on_a: Caller
    on_b: Caller
    unbound: Caller


@pytest.fixture(scope="module")
def installers(
    control_plane: control_planes.ControlPlane, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Installers]:
    folder = project.write(
        tmp_path_factory.mktemp("project"), {"policies/tls.yaml": _POLICY, "policies/test.yaml": manifests.CLUSTER}
    )
    answer = in_process.kae(folder, "compile")
    assert answer.code == 0, answer.err
    output = folder / "output/test"
    compiled = [*output.glob("namespace/*.yaml"), *output.glob("driver/*.yaml"), *output.glob("guard/*.yaml")]
    with contextlib.ExitStack() as stack:
        stack.callback(_remove, control_plane)
        _apply(control_plane, *(yaml.safe_load(path.read_text()) for path in sorted(compiled, key=_namespace_first)))
        _apply(control_plane, *(_node(name) for name in (NODE_A, NODE_B)))
        namespace = pods.Namespace(name=OWN, plane=control_plane)
        namespace.apply(
            *(_pod(f"installer-{name}", name, serviceAccountName="kae-driver") for name in (NODE_A, NODE_B))
        )
        callers = [
            _caller(namespace, folder / f"{pod or 'unbound'}.kubeconfig", pod)
            for pod in (f"installer-{NODE_A}", f"installer-{NODE_B}", "")
        ]
        for caller in callers:
            stack.callback(caller.close)
        made = Installers(plane=control_plane, on_a=callers[0], on_b=callers[1], unbound=callers[2])
        # Rights and guard come into force by watches of the API server.
        waiting.until("the guard", lambda: _is_guarded(made), timeout_s=30)
        yield made


@pytest.fixture
def workload(namespace: pods.Namespace) -> Iterator[pods.Namespace]:
    """A namespace with a pod on each node, both of which run as far as the API server knows."""
    namespace.apply(_pod("on-a", NODE_A), _pod("on-b", NODE_B))
    running = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}
    path = f"/api/v1/namespaces/{namespace.name}/pods"
    for name in ("on-a", "on-b"):
        assert namespace.plane.api.request("PATCH", f"{path}/{name}/status", running).status == 200
    yield namespace
    namespace.plane.api.request("DELETE", f"{path}?gracePeriodSeconds=0")


def test_an_installer_evicts_a_pod_of_its_own_node(installers: Installers, workload: pods.Namespace) -> None:
    answer = installers.on_a.api.evict(workload.name, "on-a")

    assert answer == cluster.EvictionAnswer(outcome=cluster.Outcome.ACCEPTED)
    assert _is_going(workload, "on-a")
    assert not _is_going(workload, "on-b")


def test_an_installer_evicts_no_pod_of_another_node(installers: Installers, workload: pods.Namespace) -> None:
    _wait_until_known(installers.on_a, workload, "on-b")

    answer = installers.on_a.api.evict(workload.name, "on-b")

    assert answer.outcome is cluster.Outcome.FORBIDDEN
    assert answer.reason.endswith(GUARD)
    assert not _is_going(workload, "on-b")
    assert installers.on_b.api.evict(workload.name, "on-b").outcome is cluster.Outcome.ACCEPTED


def test_a_pod_of_another_node_is_guarded_whatever_its_labels_are(
    installers: Installers, workload: pods.Namespace
) -> None:
    labels = (
        "device.openfuyao.com/none=",
        "device.openfuyao.com/none=true",
        "app-",
        "app.kubernetes.io/name=kae-driver",
    )
    _wait_until_known(installers.on_a, workload, "on-b")
    answers = []
    for label in labels:
        workload.kubectl("label", "--overwrite", "pod", "on-b", label)
        time.sleep(_CACHED_S)
        answers.append(installers.on_a.api.evict(workload.name, "on-b"))

    assert [answer.outcome for answer in answers] == [cluster.Outcome.FORBIDDEN] * len(labels)
    assert all(answer.reason.endswith(GUARD) for answer in answers)
    assert not _is_going(workload, "on-b")


def test_a_token_that_is_bound_to_no_pod_evicts_nobody(installers: Installers, workload: pods.Namespace) -> None:
    for name in ("on-a", "on-b"):
        _wait_until_known(installers.unbound, workload, name)

    answers = [installers.unbound.api.evict(workload.name, name) for name in ("on-a", "on-b")]

    assert [answer.outcome for answer in answers] == [cluster.Outcome.FORBIDDEN] * 2
    assert not any(_is_going(workload, name) for name in ("on-a", "on-b"))


def test_another_pod_of_the_name_is_not_evicted_in_place_of_the_one_with_the_uid(
    installers: Installers, workload: pods.Namespace
) -> None:
    pod = workload.pod("on-a")
    assert pod is not None

    former = installers.on_a.api.evict(workload.name, "on-a", "00000000-0000-4000-8000-000000000000")
    spared = not _is_going(workload, "on-a")
    present = installers.on_a.api.evict(workload.name, "on-a", pod["metadata"]["uid"])

    assert (former.outcome, spared, present.outcome) == (cluster.Outcome.GONE, True, cluster.Outcome.ACCEPTED)
    assert _is_going(workload, "on-a")


def test_a_pod_that_is_not_there_is_gone(installers: Installers, workload: pods.Namespace) -> None:
    answer = installers.on_a.api.evict(workload.name, "nobody")

    assert answer == cluster.EvictionAnswer(outcome=cluster.Outcome.GONE)


def test_a_budget_is_respected_and_named(installers: Installers, workload: pods.Namespace) -> None:
    _apply_budget(workload, "web")

    answer = installers.on_a.api.evict(workload.name, "on-a")

    reason = "The disruption budget web needs 1 healthy pods and has 1 currently."
    assert answer == cluster.EvictionAnswer(outcome=cluster.Outcome.NOT_NOW, reason=reason)
    assert not _is_going(workload, "on-a")


def test_two_budgets_for_a_pod_are_refused_in_the_api_servers_words(
    installers: Installers, workload: pods.Namespace
) -> None:
    _apply_budget(workload, "one")
    _apply_budget(workload, "two")

    with pytest.raises(cluster.Refused, match=r"\(500\): This pod has more than one PodDisruptionBudget"):
        installers.on_a.api.evict(workload.name, "on-a")

    assert not _is_going(workload, "on-a")


def test_a_drain_waits_for_the_budget_until_its_deadline(installers: Installers, workload: pods.Namespace) -> None:
    _apply_budget(workload, "web")

    ended = _drain(installers.on_a, workload)

    note = f"The pod {workload.name}/on-a is not evicted: The disruption budget web needs 1 healthy pods and has 1"
    assert isinstance(ended, device_holders.Holders)
    assert ended.notes == (f"{note} currently.",)
    assert not _is_going(workload, "on-a")


def test_a_drain_goes_on_when_the_budget_allows_it(installers: Installers, workload: pods.Namespace) -> None:
    _apply_budget(workload, "web")

    ended = _drain(
        installers.on_a, workload, when_waiting=lambda: workload.kubectl("delete", "pdb", "--all", "--wait=true")
    )

    assert ended is None
    assert _is_going(workload, "on-a")
    assert not _is_going(workload, "on-b")


def test_a_right_is_taken_renewed_and_given_back(installers: Installers) -> None:
    mine, other = _claim(installers.on_a, NODE_A), _claim(installers.on_b, NODE_B)

    taken = [mine.take(), other.take()]
    before = installers.plane.api.get(LEASE)["spec"]
    mine.renew(swap=True)
    after = installers.plane.api.get(LEASE)
    given = mine.give_back()
    left = installers.plane.api.get(LEASE)

    assert (taken, given) == ([True, False], True)
    assert [before[name] for name in ("holderIdentity", "leaseDurationSeconds")] == [NODE_A, 900]
    assert before["acquireTime"] == after["spec"]["acquireTime"]
    assert before["renewTime"] < after["spec"]["renewTime"]
    assert list(after["metadata"]["annotations"]) == [lease_objects.SWAP]
    assert ("holderIdentity" in left["spec"], left["metadata"].get("annotations")) == (False, None)
    assert (other.take(), other.give_back()) == (True, True)


def test_a_lease_is_written_in_the_name_of_the_own_node_alone(installers: Installers) -> None:
    _free(installers)

    with pytest.raises(cluster.Forbidden, match=GUARD_OF_LEASES):
        _claim(installers.on_a, NODE_B).take()
    with pytest.raises(cluster.Forbidden, match=GUARD_OF_LEASES):
        _claim(installers.unbound, NODE_A).take()

    assert installers.plane.api.get(LEASE) is None


def test_a_lease_of_another_node_is_not_freed_and_an_expired_one_is_taken_over(installers: Installers) -> None:
    _free(installers)
    assert _claim(installers.on_b, NODE_B).take()
    held = lease_objects.parse(installers.plane.api.get(LEASE))

    with pytest.raises(cluster.Forbidden, match=GUARD_OF_LEASES):
        installers.on_a.api.write_lease(OWN, replace(held, holder=""))
    with pytest.raises(cluster.Forbidden, match=GUARD_OF_LEASES):
        installers.on_a.api.write_lease(OWN, replace(held, swap="2026-01-02T03:04:05Z"))
    taken = installers.on_a.api.write_lease(OWN, replace(held, holder=NODE_A))

    assert taken.holder == NODE_A


def test_a_lease_of_a_node_that_is_in_a_swap_is_taken_over_by_no_other_one_and_freed_by_a_person(
    installers: Installers,
) -> None:
    _free(installers)
    theirs = _claim(installers.on_b, NODE_B)
    assert theirs.take()
    theirs.renew(swap=True)
    theirs.close()
    held = lease_objects.parse(installers.plane.api.get(LEASE))

    for taking in (replace(held, holder=NODE_A), replace(held, holder=NODE_A, swap="")):
        with pytest.raises(cluster.Forbidden, match="The holder of this Lease is in a swap of its driver"):
            installers.on_a.api.write_lease(OWN, taking)
    installers.plane.kubectl("delete", "lease", "-n", OWN, LEASES[0])

    assert _claim(installers.on_a, NODE_A).take()


def test_an_installer_creates_only_leases_of_drivers(installers: Installers) -> None:
    foreign = lease_objects.Lease(name="kube-scheduler", holder=NODE_A)

    with pytest.raises(cluster.Forbidden, match="may create only the Leases of its policies"):
        installers.on_a.api.write_lease(OWN, foreign)


def test_a_lease_that_was_stolen_is_not_written_over(installers: Installers) -> None:
    _free(installers)
    right = _claim(installers.on_a, NODE_A)
    assert right.take()
    installers.plane.api.request("PATCH", LEASE, {"spec": {"holderIdentity": "thief"}})

    right.renew()

    assert right.name is None
    assert installers.plane.api.get(LEASE)["spec"]["holderIdentity"] == "thief"


def test_an_installer_sees_whether_its_own_daemon_set_goes_and_no_other(installers: Installers) -> None:
    ask, name = installers.on_a.api.daemon_set_is_going, "kae-driver-tls"
    there = ask(OWN, name)
    path = f"/apis/apps/v1/namespaces/{OWN}/daemonsets/{name}"
    found = installers.plane.api.get(path)
    installers.plane.api.request("PATCH", path, {"metadata": {"finalizers": ["example.com/hold"]}})
    installers.plane.api.request("DELETE", path)
    going = ask(OWN, name)
    installers.plane.api.request("PATCH", path, {"metadata": {"finalizers": None}})
    waiting.until("the end of the DaemonSet", lambda: installers.plane.api.get(path) is None, timeout_s=20)
    gone = ask(OWN, name)
    _apply(installers.plane, {key: found[key] for key in ("apiVersion", "kind", "spec")} | {"metadata": _named(found)})

    assert (there, going, gone) == (False, True, True)
    assert ask(OWN, "kae-driver-vm") is None
    assert ask("kube-system", name) is None


def test_everything_outside_of_its_rights_is_refused(installers: Installers, workload: pods.Namespace) -> None:
    core, apps = "/api/v1", "/apis/apps/v1"
    own, lent = f"{core}/namespaces/{OWN}", f"/apis/coordination.k8s.io/v1/namespaces/{OWN}/leases"
    theirs = f"{core}/namespaces/{workload.name}"
    taint = {"spec": {"taints": [{"key": "a", "effect": "NoExecute"}]}}
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "kae-driver-vm-1"}}
    requests: list[tuple[str, str, dict[str, Any] | None]] = [
        ("GET", f"{core}/nodes", None),
        ("GET", f"{core}/nodes/{NODE_A}", None),
        ("PATCH", f"{core}/nodes/{NODE_A}", taint),
        ("DELETE", f"{core}/nodes/{NODE_A}", None),
        ("GET", f"{core}/pods", None),
        ("GET", f"{theirs}/pods", None),
        ("GET", f"{theirs}/pods/on-a", None),
        ("GET", f"{theirs}/pods/on-a/log", None),
        ("DELETE", f"{theirs}/pods/on-a", None),
        ("DELETE", f"{theirs}/pods", None),
        ("POST", f"{theirs}/pods", _pod("more", NODE_A)),
        ("POST", f"{theirs}/pods/on-a/exec?command=id", None),
        ("POST", f"{theirs}/pods/on-a/ephemeralcontainers", {}),
        ("GET", f"{own}/secrets", None),
        ("GET", f"{own}/secrets/any", None),
        ("GET", f"{own}/configmaps", None),
        ("POST", f"{own}/serviceaccounts/kae-driver/token", {"spec": {}}),
        ("GET", lent, None),
        ("GET", f"{lent}/kae-driver-vm-1", None),
        ("PUT", f"{lent}/kae-driver-vm-1", lease),
        ("PATCH", f"{lent}/{LEASES[0]}", {"spec": {"holderIdentity": "x"}}),
        ("DELETE", f"{lent}/{LEASES[0]}", None),
        ("POST", lent.replace(OWN, "kube-system"), lease),
        ("GET", lent.replace(OWN, "kube-node-lease") + f"/{NODE_A}", None),
        ("GET", f"{apps}/namespaces/{OWN}/daemonsets", None),
        ("GET", f"{apps}/namespaces/{OWN}/daemonsets/kae-driver-vm", None),
        ("PATCH", f"{apps}/namespaces/{OWN}/daemonsets/kae-driver-tls", {"spec": {}}),
        ("DELETE", f"{apps}/namespaces/{OWN}/daemonsets/kae-driver-tls", None),
        ("POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", {"metadata": {"name": "x"}}),
        ("DELETE", "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings/kae-driver", None),
    ]

    answers = {f"{method} {path}": installers.on_a.asks(method, path, body) for method, path, body in requests}

    assert {request: status for request, status in answers.items() if status != 403} == {}
    assert len(answers) == 30


def test_the_rights_are_these_and_no_others(installers: Installers) -> None:
    verbs = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")
    things = (
        ("", "nodes", "", NODE_A),
        ("", "nodes", "status", NODE_A),
        ("", "nodes", "proxy", NODE_A),
        ("", "pods", "", "any"),
        ("", "pods", "eviction", "any"),
        ("", "pods", "exec", "any"),
        ("", "pods", "log", "any"),
        ("", "pods", "binding", "any"),
        ("", "secrets", "", "any"),
        ("", "configmaps", "", "any"),
        ("", "events", "", "any"),
        ("", "services", "", "any"),
        ("", "namespaces", "", "any"),
        ("", "serviceaccounts", "token", "kae-driver"),
        ("coordination.k8s.io", "leases", "", LEASES[0]),
        ("coordination.k8s.io", "leases", "", LEASES[1]),
        ("coordination.k8s.io", "leases", "", "kae-driver-tls-3"),
        ("coordination.k8s.io", "leases", "", "kae-driver-vm-1"),
        ("apps", "daemonsets", "", "kae-driver-tls"),
        ("apps", "daemonsets", "", "kae-driver-vm"),
        ("apps", "deployments", "", "any"),
        ("policy", "poddisruptionbudgets", "", "any"),
        ("rbac.authorization.k8s.io", "clusterroles", "", "any"),
        ("admissionregistration.k8s.io", "validatingadmissionpolicies", "", "kae-driver"),
        ("nfd.k8s-sigs.io", "nodefeatures", "", NODE_A),
    )

    allowed = {
        (namespace, verb, "/".join(filter(None, (resource, sub))), name)
        for namespace, verb, (group, resource, sub, name) in itertools.product((OWN, "default"), verbs, things)
        if installers.on_a.may(
            namespace=namespace, verb=verb, group=group, resource=resource, subresource=sub, name=name
        )
    }

    names = (*LEASES, "kae-driver-tls-3", "kae-driver-vm-1")
    assert allowed == {
        (OWN, "create", "pods/eviction", "any"),
        ("default", "create", "pods/eviction", "any"),
        *((OWN, verb, "leases", name) for verb, name in itertools.product(("get", "update"), LEASES)),
        # RBAC cannot hold a creation to a name.
        *((OWN, "create", "leases", name) for name in names),
        (OWN, "get", "daemonsets", "kae-driver-tls"),
    }


def _apply(plane: control_planes.ControlPlane, *objects: Mapping[str, Any]) -> None:
    plane.kubectl("apply", "-f", "-", text=json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))


def _remove(plane: control_planes.ControlPlane) -> None:
    plane.api.request("DELETE", f"/api/v1/namespaces/{OWN}/pods?gracePeriodSeconds=0")
    guard = ("validatingadmissionpolicybindings", "validatingadmissionpolicies")
    for kind in (*guard, "clusterrolebindings", "clusterroles"):
        plane.kubectl("delete", kind, "kae-driver", "kae-driver-leases", "--ignore-not-found", "--wait=true")
    plane.kubectl("delete", "node", NODE_A, NODE_B, "--ignore-not-found", "--wait=true")
    plane.kubectl("delete", "namespace", OWN, "--ignore-not-found", "--wait=true")


def _namespace_first(path: Path) -> tuple[bool, str]:
    return path.parent.name != "namespace", str(path)


def _named(found: Mapping[str, Any]) -> dict[str, Any]:
    return {key: found["metadata"][key] for key in ("name", "namespace", "labels")}


def _node(name: str) -> Mapping[str, Any]:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "spec": {"unschedulable": True}}


def _pod(name: str, node: str, **spec: object) -> dict[str, Any]:
    # There is no kubelet that could confirm its end.
    return pods.pod(name, "localhost/none", ["none"], nodeName=node, terminationGracePeriodSeconds=0, **spec)


def _caller(namespace: pods.Namespace, path: Path, pod: str) -> Caller:
    bound = ("--bound-object-kind", "Pod", "--bound-object-name", pod) if pod else ()
    token = namespace.kubectl("create", "token", "kae-driver", *bound).strip()
    instance = namespace.plane.instance
    server = {"server": f"https://{instance.address}", "certificate-authority": str(instance.state / "pki/ca.crt")}
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "test", "cluster": server}],
        "users": [{"name": "test", "user": {"token": token}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        "current-context": "test",
    }
    path.write_text(json.dumps(document))
    return Caller(
        api=cluster.Cluster(path),
        http=client.Connection(credentials.of_file(path), "kae-test"),
    )


def _claim(caller: Caller, node: str) -> leases.Claim:
    """A claim to the first Lease, whose thread renews as good as never."""
    return leases.Claim(caller.api, config.Leases(namespace=OWN, names=LEASES[:1]), node, renew_s=3600)


def _free(made: Installers) -> None:
    """Remove the Lease that an earlier test has left."""
    made.plane.kubectl("delete", "lease", "-n", OWN, LEASES[0], "--ignore-not-found", "--wait=true")


def _tried(caller: Caller, namespace: str, pod: str) -> client.Answer:
    """Return what would be answered to an eviction; nothing is done."""
    path = f"/api/v1/namespaces/{namespace}/pods/{pod}/eviction?dryRun=All"
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod, "namespace": namespace}}
    return caller.http.ask(client.Request(method="POST", action="evict a pod", path=path, body=body))


def _is_guarded(made: Installers) -> bool:
    own = _tried(made.on_a, OWN, f"installer-{NODE_A}")
    other = _tried(made.on_a, OWN, f"installer-{NODE_B}")
    rights = made.on_a.may(namespace=OWN, verb="get", group="coordination.k8s.io", resource="leases", name=LEASES[0])
    lease = lease_objects.body(lease_objects.Lease(name="kae-driver-none", holder="none"))
    path = LEASE.removesuffix(f"/{LEASES[0]}") + "?dryRun=All"
    named = made.on_a.http.ask(client.Request(method="POST", action="create a Lease", path=path, body=lease))
    guarded = other.message.endswith(GUARD) and GUARD_OF_LEASES in named.message
    return rights and own.status == 201 and (other.status, named.status) == (403, 403) and guarded


def _wait_until_known(caller: Caller, namespace: pods.Namespace, pod: str) -> None:
    """A pod that was made in the same moment may be unknown to the guard."""
    waiting.until("the pod", lambda: _tried(caller, namespace.name, pod).status == 403, timeout_s=20)


def _is_going(namespace: pods.Namespace, name: str) -> bool:
    found = namespace.pod(name)
    return found is None or "deletionTimestamp" in found["metadata"]


def _apply_budget(namespace: pods.Namespace, name: str) -> None:
    """A budget that spares the pod on node A, and is in force."""
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "on-a"}}}
    namespace.apply(
        {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": name}, "spec": spec}
    )
    path = f"/apis/policy/v1/namespaces/{namespace.name}/poddisruptionbudgets/{name}"

    def counted() -> bool:
        return bool(namespace.plane.api.get(path).get("status", {}).get("currentHealthy") == 1)

    waiting.until(f"the budget {name}", counted, timeout_s=30)


def _drain(caller: Caller, namespace: pods.Namespace, when_waiting: Any = None) -> device_holders.Holders | None:
    """Drain the pod on node A by a clock that goes a second a pause."""
    now = itertools.count()
    pauses = itertools.count()
    pod = processes.Holder(
        text=f"pod {namespace.name}/on-a (container main: 0000:79:00.0)", pod=f"{namespace.name}/on-a"
    )

    def pause(_: float) -> None:
        if next(pauses) == 3 and when_waiting is not None:
            when_waiting()

    return eviction.Drain(
        find=lambda: device_holders.Holders(holders=() if _is_going(namespace, "on-a") else (pod,)),
        evict=caller.api.evict,
        check=lambda: None,
        deadline_s=200,
        enabled=True,
        stop=threading.Event(),
        clock=now.__next__,
        pause=pause,
    ).run()
