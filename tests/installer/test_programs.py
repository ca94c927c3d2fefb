"""Programs that come after the driver: their pods go before a change, and those that follow wait for its proof."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from installer.host import record
from tests.installer import homes, incidents, layouts, machines, podresources, settings, stacks
from tests.installer.machines import Machine
from tests.kube.apiserver import ApiServer

pytestmark = pytest.mark.long

NODE, NAMESPACE = "node-1", "kae-operator"
LABEL = {"device.openfuyao.com/after": "onload-driver"}
PROGRAMS = stacks.ONLOAD | {"programs": "device.openfuyao.com/after=onload-driver"}
CHANGING = homes.own("onload").changing


@pytest.fixture(autouse=True)
def node(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NODE_NAME", NODE)


def pod(name: str, uid: str = "1", node: str = NODE, **labels: str) -> dict[str, Any]:
    """A pod of the programs' namespace."""
    metadata = {"namespace": NAMESPACE, "name": name, "uid": f"{name}-{uid}", "labels": labels}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"nodeName": node}}


def pods(server: ApiServer) -> list[str]:
    """The pods that are there."""
    return sorted(key[3] for key in server.state.objects if key[1] == "Pod")


@pytest.fixture
def driven(machine: Machine, server: ApiServer, tmp_path: Path) -> Iterator[Callable[..., settings.Installer]]:
    """A host with Onload 8.1, and installers of other versions for it, whose time for a drain is a second."""
    made: list[settings.Installer] = []

    def upgrade(version: str = "8.2", **changes: Any) -> settings.Installer:
        image = stacks.onload(tmp_path / version, version)
        stated = PROGRAMS | {"driver_version": version} | changes
        made.append(settings.installer(machine, image, server.kubeconfig, **stated))
        return made[-1]

    with podresources.serving(machine.root):
        upgrade("8.1").settle()
        yield upgrade
    for one in made:
        one.parts.close()


def test_pods_of_this_node_that_come_after_the_driver_go_before_the_unload(
    driven: Callable[..., settings.Installer], machine: Machine, server: ApiServer
) -> None:
    others = (
        pod("cplane-there", node="node-2", **LABEL),
        pod("plugin"),
        pod("cplane-kae", **dict.fromkeys(LABEL, "x")),
    )
    server.put(pod("cplane-here", **LABEL), *others)
    seen: list[tuple[bool, set[str | None]]] = []

    def again(key: str) -> None:
        # As the DaemonSet does.
        seen.append((machine.host.path(CHANGING).exists(), settings.versions(machine)))
        server.put(pod("cplane-new", "2", **LABEL))

    server.state.when_deleted = again

    shown = driven().settle()

    assert shown.ready, shown.reason
    assert server.state.deleted == [f"{NAMESPACE}/cplane-here"]
    assert seen == [(True, {"8.1"})]
    assert pods(server) == ["cplane-kae", "cplane-new", "cplane-there", "plugin"]
    assert settings.versions(machine) == {"8.2"}


def test_a_pod_that_does_not_end_keeps_the_driver(
    driven: Callable[..., settings.Installer], machine: Machine, server: ApiServer
) -> None:
    server.put(pod("cplane", **LABEL))
    server.state.ending.add(f"{NAMESPACE}/cplane")
    machine.calls()

    shown = driven().settle()

    assert shown.state == "Blocked"
    assert shown.reason == (
        "After 1 s: Pods of programs that come after the driver are still there: cplane. The driver stays as it was."
    )
    assert server.state.deleted == [f"{NAMESPACE}/cplane"]
    assert settings.changes_made(machine) == []
    assert not machine.host.path(CHANGING).exists()
    assert record.read(machine.host).change is None


@pytest.mark.parametrize("verb", ["list", "delete"])
def test_without_the_right_nothing_is_unloaded_and_the_reason_says_so(
    verb: str, driven: Callable[..., settings.Installer], machine: Machine, server: ApiServer
) -> None:
    server.put(pod("cplane", **LABEL))
    server.state.forbidden.add(f"{verb} pods")

    shown = driven().settle()

    assert shown.state == "Blocked"
    assert "The pods of programs that come after the driver cannot be taken away: The API server" in shown.reason
    assert "forbidden" in shown.reason
    assert settings.versions(machine) == {"8.1"}


def test_a_pod_that_has_the_name_of_one_that_went_stays(
    driven: Callable[..., settings.Installer], server: ApiServer
) -> None:
    server.put(pod("cplane", **LABEL))
    server.state.when_deleted = lambda _: server.put(pod("cplane", "2", **LABEL))  # type: ignore[assignment]

    assert driven().settle().ready
    assert server.state.deleted == [f"{NAMESPACE}/cplane"]


def test_a_recipe_without_such_a_program_asks_for_no_pods(
    driven: Callable[..., settings.Installer], server: ApiServer
) -> None:
    server.put(pod("cplane", **LABEL))
    server.state.requests.clear()

    assert driven(programs="").settle().ready
    assert not [request for request in server.state.requests if "/pods" in request]


def hold(machine: Machine, name: str) -> None:
    """A process of a pod has /dev/onload open, as /proc and the kubelet's folders tell."""
    uid = "11111111-2222-4333-8444-555555555555"
    layouts.put(machine.root / "proc/4711/comm", b"onload_cp_serve\n")
    layouts.put(machine.root / "proc/4711/cgroup", f"0::/kubepods/pod{uid}/x\n".encode())
    (machine.root / "proc/4711/fd").mkdir(parents=True)
    (machine.root / "proc/4711/fd/3").symlink_to(machine.root / "dev/onload")
    (machine.root / f"var/log/pods/{NAMESPACE}_{name}_{uid}").mkdir(parents=True)
    (machine.root / f"var/lib/kubelet/pods/{uid}").mkdir(parents=True)


def test_a_repair_waits_for_no_program_that_the_installer_takes_away(
    driven: Callable[..., settings.Installer], machine: Machine, server: ApiServer
) -> None:
    hold(machine, "cplane")
    server.put(pod("cplane", **LABEL))
    incidents.flip(next(machine.host.path(f"/lib/modules/{machines.KERNEL}/updates/kae-onload").glob("onload.ko")))
    told = driven("8.1").parts.report()

    assert told.holders == ()
    names = [step.name for step in told.steps]
    assert names.index("announce-change") + 1 == names.index("take-programs") == names.index("drain-devices") - 1

    server.delete("v1", "Pod", "cplane", NAMESPACE)

    told = driven("8.1").parts.report()
    assert told.holders == (f"pod {NAMESPACE}/cplane (process 4711, onload_cp_serve)",)
    assert [step.name for step in told.steps][:1] == ["spare-users"]
