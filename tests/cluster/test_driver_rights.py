"""A driver installer's rights on the real API server: Leases in its node's name, and evictions on its own node."""

import contextlib
import itertools
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from compiler.kube import lease_objects
from installer.drain import cluster, device_holders, device_users, leases
from runtime import driver_config
from tests.cluster.control import access, manifests, pods
from tests.cluster.control import api as apis
from tests.cluster.control import control_plane as control_planes
from tests.cluster.local import waiting

OWN = manifests.NAMESPACE
CORE, APPS = "/api/v1", f"/apis/apps/v1/namespaces/{OWN}/daemonsets"
NODE_A, NODE_B = "rights-a", "rights-b"
LEASES = ("kae-driver-tls-1", "kae-driver-tls-2")
LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{OWN}/leases/{LEASES[0]}"
"""The only Lease of the claims below."""
_CACHED_S = 1
"""Long enough for the guard, which sees pods through a watch, to know a label."""

GUARD = "A KAE driver installer may evict only pods of the node that it runs on."
GUARD_OF_LEASES = "may take and give back Leases only in the name of the node that it runs on"


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    api: cluster.Cluster
    """The installer's own client."""
    raw: apis.Api


@dataclass(frozen=True, slots=True, kw_only=True)
class Installers:
    plane: control_planes.ControlPlane
    on_a: Caller
    on_b: Caller
    unbound: Caller


@pytest.fixture(scope="module")
def installers(
    control_plane: control_planes.ControlPlane, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Installers]:
    driver = {"version": "2.0.1", "enabledCleanup": True, "rollout": {"maxParallel": 2}}
    policy = manifests.document("KAEPolicy", "tls", {"driver": driver})
    documents = {"policies/tls.yaml": policy, "policies/test.yaml": manifests.cluster()}
    folder = manifests.compiled(tmp_path_factory.mktemp("project"), documents)
    components = ("namespace", "driver", "guard")
    compiled = [item.data for item in manifests.of(folder / "output/test") if item.component in components]
    nodes = [_node(name) for name in (NODE_A, NODE_B)]
    with contextlib.ExitStack() as stack:
        stack.callback(control_plane.delete, *compiled, *nodes)
        stack.callback(control_plane.api.request, "DELETE", f"/api/v1/namespaces/{OWN}/pods?gracePeriodSeconds=0")
        control_plane.apply(*compiled, *nodes)
        namespace = pods.Namespace(name=OWN, plane=control_plane)
        namespace.apply(
            *(_pod(f"installer-{name}", name, serviceAccountName="kae-driver-tls") for name in (NODE_A, NODE_B))
        )
        bound = (f"installer-{NODE_A}", f"installer-{NODE_B}", "")
        callers = [stack.enter_context(_caller(namespace, tmp_path_factory.mktemp("caller"), pod)) for pod in bound]
        made = Installers(plane=control_plane, on_a=callers[0], on_b=callers[1], unbound=callers[2])
        # Rights and guard come into force by watches of the API server.
        waiting.until("the guard", lambda: _is_guarded(made))
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


def test_a_pod_of_another_node_is_guarded_whatever_its_labels(installers: Installers, workload: pods.Namespace) -> None:
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

    assert former.outcome is cluster.Outcome.GONE
    assert spared
    assert present.outcome is cluster.Outcome.ACCEPTED
    assert _is_going(workload, "on-a")


def test_a_pod_that_is_not_there_is_gone(installers: Installers, workload: pods.Namespace) -> None:
    answer = installers.on_a.api.evict(workload.name, "nobody")

    assert answer == cluster.EvictionAnswer(outcome=cluster.Outcome.GONE)


def test_a_budget_is_respected_and_named(installers: Installers, workload: pods.Namespace) -> None:
    workload.spare("on-a", "web")

    answer = installers.on_a.api.evict(workload.name, "on-a")

    reason = "The disruption budget web needs 1 healthy pods and has 1 currently."
    assert answer == cluster.EvictionAnswer(outcome=cluster.Outcome.NOT_NOW, reason=reason)
    assert not _is_going(workload, "on-a")


def test_two_budgets_for_a_pod_are_refused_in_the_api_servers_words(
    installers: Installers, workload: pods.Namespace
) -> None:
    for name in ("one", "two"):
        workload.spare("on-a", name)

    with pytest.raises(cluster.Refused, match=r"\(500\): This pod has more than one PodDisruptionBudget"):
        installers.on_a.api.evict(workload.name, "on-a")

    assert not _is_going(workload, "on-a")


def test_a_drain_waits_for_the_budget_until_its_deadline(installers: Installers, workload: pods.Namespace) -> None:
    workload.spare("on-a", "web")

    ended = _drain(installers.on_a, workload)

    note = f"The pod {workload.name}/on-a is not evicted: The disruption budget web needs 1 healthy pods and has 1"
    assert isinstance(ended, device_holders.Holders)
    assert ended.notes == (f"{note} currently.",)
    assert not _is_going(workload, "on-a")


def test_a_drain_goes_on_when_the_budget_allows_it(installers: Installers, workload: pods.Namespace) -> None:
    workload.spare("on-a", "web")

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

    assert taken == [True, False]
    assert given
    assert [before[name] for name in ("holderIdentity", "leaseDurationSeconds")] == [NODE_A, 900]
    assert before["acquireTime"] == after["spec"]["acquireTime"]
    assert before["renewTime"] < after["spec"]["renewTime"]
    assert list(after["metadata"]["annotations"]) == [lease_objects.SWAP]
    assert "holderIdentity" not in left["spec"]
    assert "annotations" not in left["metadata"]
    assert other.take()
    assert other.give_back()


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


def test_a_lease_of_a_node_in_a_swap_is_taken_over_by_nobody_and_freed_by_a_person(installers: Installers) -> None:
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


@pytest.mark.parametrize("name", ["kube-scheduler", "kae-driver-vm-1", "kae-driver-tls-x-1"])
def test_an_installer_creates_only_leases_of_its_policy(installers: Installers, name: str) -> None:
    foreign = lease_objects.Lease(name=name, holder=NODE_A)

    with pytest.raises(cluster.Forbidden, match="may take only the Leases of its policy"):
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
    daemon_set = installers.plane.api.get(path)
    installers.plane.api.request("PATCH", path, {"metadata": {"finalizers": ["example.com/hold"]}})
    installers.plane.api.request("DELETE", path)
    going = ask(OWN, name)
    installers.plane.api.request("PATCH", path, {"metadata": {"finalizers": None}})
    waiting.until("the end of the DaemonSet", lambda: installers.plane.api.get(path) is None)
    gone = ask(OWN, name)
    metadata = {key: daemon_set["metadata"][key] for key in ("name", "namespace", "labels")}
    fresh = {key: daemon_set[key] for key in ("apiVersion", "kind", "spec")}
    installers.plane.apply({**fresh, "metadata": metadata})

    assert [there, going, gone] == [False, True, True]
    assert ask(OWN, "kae-driver-vm") is None
    assert ask("kube-system", name) is None


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", f"{CORE}/nodes/{NODE_A}", None),
        ("PATCH", f"{CORE}/nodes/{NODE_A}", {"spec": {"taints": [{"key": "a", "effect": "NoExecute"}]}}),
        ("GET", f"{CORE}/pods", None),
        ("DELETE", f"{CORE}/namespaces/{OWN}/pods/installer-{NODE_A}", None),
        ("POST", f"{CORE}/namespaces/{OWN}/pods/installer-{NODE_A}/exec?command=id", None),
        ("GET", f"{CORE}/namespaces/{OWN}/secrets/any", None),
        ("POST", f"{CORE}/namespaces/{OWN}/serviceaccounts/kae-driver-tls/token", {"spec": {}}),
        ("GET", LEASE.removesuffix(f"/{LEASES[0]}"), None),
        ("GET", LEASE.replace("tls", "vm"), None),
        ("PATCH", LEASE, {"spec": {"holderIdentity": "x"}}),
        ("DELETE", LEASE, None),
        ("GET", f"/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{NODE_A}", None),
        ("GET", f"{APPS}/kae-driver-vm", None),
        ("PATCH", f"{APPS}/kae-driver-tls", {"spec": {}}),
        ("POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", {"metadata": {"name": "x"}}),
        ("DELETE", "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings/kae-driver", None),
    ],
)
def test_everything_outside_of_its_rights_is_refused(
    method: str, path: str, body: dict[str, Any] | None, installers: Installers
) -> None:
    assert installers.on_a.raw.request(method, path, body).status == 403


def test_the_rights_are_these_and_no_others(installers: Installers) -> None:
    everywhere = {("create", "pods/eviction", "")}

    assert access.rules(installers.on_a.raw, "default") == everywhere
    assert access.rules(installers.on_a.raw, OWN) == {
        *everywhere,
        *((verb, "leases.coordination.k8s.io", name) for verb, name in itertools.product(("get", "update"), LEASES)),
        # RBAC cannot hold a creation to a name.
        ("create", "leases.coordination.k8s.io", ""),
        ("get", "daemonsets.apps", "kae-driver-tls"),
    }


def _node(name: str) -> Mapping[str, Any]:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "spec": {"unschedulable": True}}


def _pod(name: str, node: str, **spec: object) -> dict[str, Any]:
    # There is no kubelet that could confirm its end, or keep the node from being lost.
    stays = {"terminationGracePeriodSeconds": 0, "tolerations": [{"operator": "Exists"}]}
    return pods.pod(name, "localhost/none", ["none"], nodeName=node, **stays, **spec)


@contextlib.contextmanager
def _caller(namespace: pods.Namespace, folder: Path, pod: str) -> Iterator[Caller]:
    token = access.bound_token(namespace, "kae-driver-tls", pod)
    with contextlib.closing(cluster.Cluster(access.kubeconfig(namespace.plane, folder, token=token))) as own:
        yield Caller(api=own, raw=namespace.plane.api.with_token(token))


def _claim(caller: Caller, node: str) -> leases.Claim:
    """A claim to the first Lease, whose thread renews as good as never."""
    return leases.Claim(caller.api, driver_config.Leases(namespace=OWN, names=LEASES[:1]), node, renew_s=3600)


def _free(made: Installers) -> None:
    """Remove the Lease that an earlier test has left."""
    made.plane.kubectl("delete", "lease", "-n", OWN, LEASES[0], "--ignore-not-found", "--wait=true")


def _tried(caller: Caller, namespace: str, pod: str) -> apis.Answer:
    """Return what would be answered to an eviction; nothing is done."""
    path = f"/api/v1/namespaces/{namespace}/pods/{pod}/eviction?dryRun=All"
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod, "namespace": namespace}}
    return caller.raw.request("POST", path, body)


def _is_guarded(made: Installers) -> bool:
    own = _tried(made.on_a, OWN, f"installer-{NODE_A}")
    other = _tried(made.on_a, OWN, f"installer-{NODE_B}")
    rights = {"namespace": OWN, "verb": "get", "group": "coordination.k8s.io", "resource": "leases"}
    lease = lease_objects.body(lease_objects.Lease(name="kae-driver-none", holder="none"))
    named = made.on_a.raw.request("POST", LEASE.removesuffix(f"/{LEASES[0]}") + "?dryRun=All", lease)
    refused = [answer.body.get("message", "") for answer in (other, named) if answer.status == 403]
    words = zip((GUARD, GUARD_OF_LEASES), refused, strict=False)
    is_allowed = own.status == 201 and access.may(made.on_a.raw, **rights, name=LEASES[0])
    return is_allowed and len(refused) == 2 and all(guard in message for guard, message in words)


def _wait_until_known(caller: Caller, namespace: pods.Namespace, pod: str) -> None:
    """A pod that was made in the same moment may be unknown to the guard."""
    waiting.until("the pod", lambda: _tried(caller, namespace.name, pod).status == 403)


def _is_going(namespace: pods.Namespace, name: str) -> bool:
    pod = namespace.pod(name)
    return pod is None or "deletionTimestamp" in pod["metadata"]


def _drain(caller: Caller, namespace: pods.Namespace, when_waiting: Any = None) -> device_holders.Holders | None:
    """Drain the pod on node A by a clock that goes a second a pause."""
    now = itertools.count()
    pauses = itertools.count()
    pod = device_holders.Holder(
        text=f"pod {namespace.name}/on-a (container main: 0000:79:00.0)", pod=f"{namespace.name}/on-a"
    )

    def pause(_: float) -> None:
        if next(pauses) == 3 and when_waiting is not None:
            when_waiting()

    return device_users.Drain(
        find=lambda: device_holders.Holders(holders=() if _is_going(namespace, "on-a") else (pod,)),
        evict=caller.api.evict,
        check=lambda: None,
        deadline_s=200,
        enabled=True,
        stop=threading.Event(),
        clock=now.__next__,
        pause=pause,
    ).run()
