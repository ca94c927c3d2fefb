"""The pace of a fleet whose hosts move between pools of one policy, in what the compiler writes.

Real installers are started for the pods of the real DaemonSet controller; the kubelet is hollow. How long it took goes
to standard output: `pytest -rP` shows it.
"""

import contextlib
import dataclasses
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from compiler import kae
from installer.host import record
from tests.cluster.control import control_plane as control_planes
from tests.cluster.control import manifests, pods
from tests.cluster.local import waiting
from tests.cluster.nodes import driver_node
from tests.cluster.simulated import calibration, hollow_kubelet
from tests.host import roots
from tests.installer import crashes, homes, machines, podresources

NODES = tuple(f"fleet-{number:02}" for number in range(20))
POLICY = "fleet"
FIRST, BAD, GOOD = "2.0.1", "2.0.4", "2.0.5"
WAVES = {"repaired": BAD, "one-a": "2.0.2", "one-b": "2.0.2", "two-a": "2.0.3", "two-b": "2.0.3"}
"""The driver's version in each wave. All nodes begin in the rest."""

_POOL = "device.openfuyao.com/pool"
_LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{driver_node.NAMESPACE}/leases"


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    announced: frozenset[str]
    swapping: frozenset[str]
    """Nodes between begin-change and end-change."""
    lent: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    folder: Path
    parallel: int
    """Hosts that may swap at a time."""
    waves: Mapping[str, str]
    versions: Mapping[str, str]

    def compiled(self) -> dict[str, dict[str, Any]]:
        waves = [{"name": name, "nodes": self._nodes(name), "version": self.versions[name]} for name in self.versions]
        # All installers may go at once: nothing but Leases keeps hosts from swapping together.
        pace = {"maxUnavailable": "100%", "minReadySeconds": 0}
        rollout = {"maxParallel": self.parallel, **pace, "waves": waves}
        driver = {"version": FIRST, "drain": {"timeoutSeconds": 60}, "rollout": rollout}
        # The hollow kubelet starts installers that stay.
        objects = driver_node.compiled(self.folder, {"kubernetesVersion": "1.35"}, **{POLICY: driver})
        return {f"{item['kind']} {item['metadata']['name']}": item for item in objects}

    def rules(self) -> list[Any]:
        return [item.data for item in manifests.of(self.folder / "output/test") if item.kind == "NodeFeatureRule"]

    def _nodes(self, wave: str) -> list[str]:
        """Return the nodes of a wave; nodes that do not exist yet are left out."""
        return [node for node, name in self.waves.items() if name == wave] or [f"none-in-{wave}"]


@dataclass(slots=True, kw_only=True)
class Fleet:
    policy: Policy
    objects: Mapping[str, Mapping[str, Any]]
    nodes: Mapping[str, hollow_kubelet.Node]
    kubelet: hollow_kubelet.Kubelet
    users: pods.Namespace

    def merge(self, policy: Policy) -> list[str]:
        """Compile a policy, label the nodes as NFD would, and apply the changed objects; return them."""
        before, self.policy, self.objects = self.objects, policy, policy.compiled()
        self.label()
        changed = {title: item for title, item in self.objects.items() if before.get(title) != item}
        if changed:
            self.users.plane.apply(*changed.values())
        assert before.keys() == self.objects.keys()
        return list(changed)

    def let_swap(self, parallel: int) -> None:
        """Make the policy let so many hosts swap at a time, and wait until all installers know; no host moves."""
        self.merge(dataclasses.replace(self.policy, parallel=parallel))

        def is_known() -> bool:
            leases = [driver_node.config_of(pod)["leases"]["names"] for pod in self._installers()]
            told = [status for status, _ in self.told(self.nodes).values()]
            return {len(names) for names in leases} == {parallel} and told == ["True"] * len(self.nodes)

        self.wait_until(f"installers for {parallel} at a time", is_known)

    def label(self) -> None:
        """Give the nodes the labels that the policy's rules say, and the one that it selects by."""
        rules = self.policy.rules()
        for name, node in self.nodes.items():
            functions = tuple({"vendor": kae.VENDOR, "device": kind.pf} for kind in kae.KINDS)
            by_rules = driver_node.labels_of(rules, name, node.machine.kernel, functions)
            labels = {driver_node.POOL: POLICY, **by_rules}
            self.users.plane.api.ask("PATCH", f"/api/v1/nodes/{name}", {"metadata": {"labels": labels}})

    def pools(self) -> dict[str, str]:
        return {pod["spec"]["nodeName"]: pod["metadata"]["labels"][_POOL] for pod in self._installers()}

    def hold(self, nodes: Collection[str]) -> None:
        made = [pods.pod(f"on-{node}", "localhost/none", ["none"], nodeName=node) for node in nodes]
        self.users.apply(*made)
        self.wait_until("users", lambda: all(self.nodes[node].resources.pods for node in nodes))

    def used(self) -> frozenset[str]:
        return frozenset(name for name, node in self.nodes.items() if node.resources.pods)

    def versions(self, nodes: Collection[str]) -> set[str | None]:
        return {version for name in nodes for version, _ in self.nodes[name].machine.loaded().values()}

    def told(self, nodes: Collection[str]) -> dict[str, tuple[str, str]]:
        """Return the condition Ready of the installers that are to stay, and its words, by node."""
        return {
            pod["spec"]["nodeName"]: (entry["status"], entry.get("message", ""))
            for pod in self._installers()
            for entry in pod["status"].get("conditions", ())
            if pod["spec"]["nodeName"] in nodes and entry["type"] == "Ready"
        }

    def saying(self, nodes: Collection[str], words: str) -> frozenset[str]:
        return frozenset(
            node for node, (status, said) in self.told(nodes).items() if status != "True" and words in said
        )

    def wait_for(self, nodes: Collection[str], version: str) -> None:
        """Wait until all these nodes have this driver, all is said and done, and the installers are Ready."""

        def settled() -> bool:
            if not all(self.versions([node]) == {version} for node in nodes) or self.changing():
                return False
            told = self.told(nodes)
            return len(told) == len(nodes) and {status for status, _ in told.values()} == {"True"} and not self.lent()

        self.wait_until(f"driver {version}", settled)

    def wait_until(self, what: str, probe: Callable[[], object]) -> None:
        waiting.until(what, probe, programs=(self.kubelet,), explain=self._explain)

    def changing(self) -> dict[str, bool]:
        """Return the nodes whose devices are withdrawn; true where the change has begun."""
        hosts = {name: node.machine.host for name, node in self.nodes.items()}
        known = {name: record.read(host).change is not None for name, host in hosts.items()}
        announced = [name for name, host in hosts.items() if host.path(homes.KAE.changing).exists()]
        return {name: begun for name, begun in known.items() if begun or name in announced}

    def lent(self) -> frozenset[str]:
        holders = (item["spec"].get("holderIdentity") for item in self.users.plane.api.get(_LEASES)["items"])
        return frozenset(filter(None, holders))

    def moment(self) -> Moment:
        """Return the present moment: values that are equal before and after the Leases held while these were read."""
        while True:
            before, lent = self.changing(), self.lent()
            if self.changing() == before:
                swapping = frozenset(name for name, begun in before.items() if begun)
                return Moment(announced=frozenset(before), swapping=swapping, lent=lent)

    def _installers(self) -> list[Any]:
        """Return the installers' pods that are to stay; other tests may have left pods in their namespace."""
        every = self.users.plane.api.get(f"/api/v1/namespaces/{driver_node.NAMESPACE}/pods")["items"]
        installers = [pod for pod in every if pod["spec"].get("serviceAccountName", "").startswith("kae-driver-")]
        return [pod for pod in installers if "deletionTimestamp" not in pod["metadata"] and pod["spec"].get("nodeName")]

    def _explain(self) -> str:
        told = self.told(self.nodes)
        return "\n".join(f"{node}: {self.versions([node])}, {told.get(node)}" for node in self.nodes)


@pytest.fixture(scope="module")
def fleet(control_plane: control_planes.ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    folder = control_plane.instance.state / "fleet"
    folder.mkdir()
    policy = Policy(folder=tmp_path_factory.mktemp("project"), parallel=2, waves={}, versions=WAVES)
    objects = policy.compiled()
    with contextlib.ExitStack() as stack:
        # What is mounted below the cluster's state goes with it, however this process ends.
        stack.enter_context(roots.in_memory(folder))
        nodes = {name: stack.enter_context(_node(folder / name)) for name in NODES}
        any_machine = nodes[NODES[0]].machine
        for version in {FIRST, *WAVES.values(), GOOD}:
            any_machine.add_image(folder / version, version)
        crashes.spoil(folder / BAD, any_machine.kernel)
        stack.enter_context(driver_node.applied(control_plane, list(objects.values())))
        kubelet = hollow_kubelet.Kubelet(control_plane, folder, nodes)
        stack.enter_context(kubelet.working())
        users = stack.enter_context(pods.namespace(control_plane))
        made = Fleet(policy=policy, objects=objects, nodes=nodes, kubelet=kubelet, users=users)
        made.label()
        made.wait_for(NODES, FIRST)
        yield made


@contextlib.contextmanager
def _node(folder: Path) -> Iterator[hollow_kubelet.Node]:
    with roots.opened(folder, roots.debian()) as root, podresources.serving(root) as resources:
        yield hollow_kubelet.Node(machine=machines.Machine(root, chroot=True), resources=resources)


@contextlib.contextmanager
def watched(fleet: Fleet) -> Iterator[list[Moment]]:
    """The moments from here on, as many as can be had."""
    moments: list[Moment] = []
    with waiting.Repeated("the watch", lambda: moments.append(fleet.moment())).working():
        yield moments


@pytest.mark.parametrize(("waves", "parallel"), [(("one-a", "one-b"), 1), (("two-a", "two-b"), 2)])
def test_hosts_that_move_to_two_waves_at_once_swap_as_many_at_a_time_as_they_may(
    fleet: Fleet, waves: tuple[str, str], parallel: int
) -> None:
    targets = {node: waves[number % 2] for number, node in enumerate(NODES)}
    spared, budget = NODES[7], f"spare-{parallel}"
    fleet.let_swap(parallel)
    fleet.hold(NODES)
    fleet.users.spare(f"on-{spared}", budget)
    began_s, began = time.monotonic(), time.time()

    with watched(fleet) as moments:
        changed = fleet.merge(dataclasses.replace(fleet.policy, waves=targets))
        fleet.wait_until("a refusal", lambda: f"The disruption budget {budget} needs" in fleet.kubelet.log(spared))
        kept = fleet.used()
        fleet.users.kubectl("delete", "poddisruptionbudget", budget)
        fleet.wait_for(NODES, WAVES[waves[0]])

    took_s = time.monotonic() - began_s
    known = [calibration.measured(fleet.kubelet.log(node), began) for node in NODES]
    said = calibration.simulated(known, parallel)
    sys.stdout.write(f"{parallel} at a time: {took_s:.0f} s, {said}, {len(moments)} moments\n")
    # By the durations of these very steps; a machine with other work to do may take longer in between.
    assert said.p5_s / 1.5 < took_s < said.p95_s * 1.5
    assert said.p95_s <= 2 * said.p5_s
    assert sum(each.evictions for each in known) == len(NODES)
    assert (said.evictions, said.most_away) == (frozenset({len(NODES)}), frozenset({parallel}))
    # A swap may fall between two looks.
    assert 1 <= max(len(moment.swapping) for moment in moments) <= parallel
    # The spared one is announced all the time, and the others beside it one after the other.
    assert max(len(moment.announced) for moment in moments) == parallel
    assert all(moment.swapping <= moment.announced <= moment.lent for moment in moments)
    assert spared in kept
    assert fleet.used() == frozenset()
    assert fleet.pools() == targets
    assert changed == []


def test_a_host_whose_new_driver_does_not_load_halts_the_others_until_a_repair(fleet: Fleet) -> None:
    nodes = NODES[:5]
    before = fleet.versions(nodes)
    waves = {**fleet.policy.waves, **dict.fromkeys(nodes, "repaired")}
    fleet.let_swap(1)
    fleet.hold(nodes)

    with watched(fleet) as moments:
        fleet.merge(dataclasses.replace(fleet.policy, waves=waves))
        fleet.wait_until("a failure", lambda: fleet.saying(nodes, "is back in its previous state"))
        asked = {node: fleet.nodes[node].resources.asked for node in nodes}
        (failed,) = fleet.saying(nodes, "is back in its previous state")
        others = [node for node in nodes if node != failed]
        fleet.wait_until("turns", lambda: all(fleet.nodes[node].resources.asked > asked[node] + 1 for node in others))
        turn = "It is not this host's turn"
        fleet.wait_until("their words", lambda: fleet.saying(nodes, turn) == frozenset(others))
        lent, used, versions = fleet.lent(), fleet.used(), fleet.versions(nodes)
        began = len(moments)
        changed = fleet.merge(dataclasses.replace(fleet.policy, versions={**WAVES, "repaired": GOOD}))
        fleet.wait_for(nodes, GOOD)

    simulated = calibration.halted(len(nodes), parallel=1)
    assert (simulated.evictions, sum(simulated.lost)) == (len(nodes) - len(used), len(lent))
    assert lent == frozenset({failed})
    assert used == frozenset(others)
    assert versions == before
    assert {node for moment in moments[:began] for node in moment.swapping} <= {failed}
    assert max(len(moment.swapping) for moment in moments) == 1
    assert fleet.used() == frozenset()
    assert changed == [f"DaemonSet kae-driver-{POLICY}--repaired"]
