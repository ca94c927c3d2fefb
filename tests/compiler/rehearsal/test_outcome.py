"""What happened to pods, beside what was foretold."""

from typing import Any

from compiler.changes.objects import Ref
from compiler.changes.pods import Fates, PodChange
from compiler.rehearsal import outcome
from compiler.views import rehearsal

DRIVER = Ref(kind="DaemonSet", namespace="kae-operator", name="kae-driver-tls")
MASTER = Ref(kind="Deployment", namespace="kae-operator", name="nfd-master")


def pod(node: str, uid: str, *, owner: str = "kae-driver-tls", is_bound: bool = True, is_ending: bool = False) -> Any:
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    affinity = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchFields": [field]}]}}
    metadata = {
        "name": f"{owner}-{uid}",
        "namespace": "kae-operator",
        "uid": uid,
        "ownerReferences": [{"kind": "DaemonSet", "name": owner}],
    }
    spec = {"affinity": {"nodeAffinity": affinity}, **({"nodeName": node} if is_bound else {})}
    return {"metadata": {**metadata, **({"deletionTimestamp": "now"} if is_ending else {})}, "spec": spec}


def replica(uid: str, template: str) -> Any:
    metadata = {
        "name": uid,
        "namespace": "kae-operator",
        "uid": uid,
        "labels": {"pod-template-hash": template},
        "ownerReferences": [{"kind": "ReplicaSet", "name": f"nfd-master-{template}"}],
    }
    return {"metadata": metadata, "spec": {}}


def test_a_pod_of_another_identity_on_its_node_is_replaced() -> None:
    was = outcome.pods([pod("a", "1"), pod("b", "2"), pod("c", "3")])
    now = outcome.pods([pod("a", "1"), pod("b", "4"), pod("d", "5", is_bound=False), pod("c", "3", is_ending=True)])

    assert outcome.fates(was, now) == {DRIVER: {"b": "replaced", "c": "deleted", "d": "created"}}


def test_a_deployment_is_replaced_with_its_template_and_not_with_the_node_of_a_pod() -> None:
    was = outcome.pods([replica("1", "aa")])

    assert outcome.fates(was, outcome.pods([replica("2", "aa")])) == {}
    assert outcome.fates(was, outcome.pods([replica("2", "bb")])) == {MASTER: {outcome.ALL: "replaced"}}
    assert outcome.fates(was, {}) == {MASTER: {outcome.ALL: "deleted"}}


def test_what_was_foretold_and_what_happened_are_compared_node_by_node() -> None:
    changes = [
        PodChange(ref=DRIVER, nodes=Fates(created=("a",), replaced=("b", "c"))),
        PodChange(ref=MASTER, replicas=1, fate="replaced"),
        PodChange(ref=Ref(kind="Deployment", namespace="", name="none"), replicas=0, fate="created"),
    ]
    happened: outcome.Fates = {DRIVER: {"a": "created", "b": "replaced", "d": "deleted"}, MASTER: {"": "replaced"}}
    rows = outcome.rows(outcome.foretold(changes), happened)

    assert [(row.ref.name, row.fate, row.is_equal) for row in rows] == [
        ("kae-driver-tls", "created", True),
        ("kae-driver-tls", "replaced", False),
        ("kae-driver-tls", "deleted", False),
        ("nfd-master", "replaced", True),
    ]


def played(**fields: Any) -> outcome.Outcome:
    row = outcome.Row(ref=DRIVER, fate="replaced", foretold=("a",), happened=("a",))
    return outcome.Outcome(**{"cluster": "east", "nodes": 2, "rows": (row,), **fields})


def test_an_object_that_is_refused_and_a_rollout_that_halts_are_a_difference() -> None:
    assert played().is_equal
    assert not played(refused=("DaemonSet a/b: no",)).is_equal
    assert not played(halted="DaemonSet a/b").is_equal


def test_the_answer_names_the_nodes_of_a_difference() -> None:
    row = outcome.Row(ref=DRIVER, fate="replaced", foretold=("a", "b"), happened=("b", "c"))
    text = "\n".join(rehearsal.lines([played(rows=(row,), halted="Pod x/y", left_out=("PodMonitor",))]))

    assert "cluster east: 2 hollow nodes, NOT as `kae diff` says" in text
    assert "only foretold: a; only rehearsed: c" in text
    assert "halted: Pod x/y does not get done" in text
    assert "does not know the kind: PodMonitor" in text
    assert not rehearsal.data([played(rows=(row,))])["equal"]


def test_nothing_to_rehearse_is_said() -> None:
    assert [*rehearsal.lines([])] == [rehearsal.NOTHING]
