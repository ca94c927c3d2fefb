"""enabledCleanup: the driver goes with its DaemonSet, and with nothing less."""

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from installer import cli
from installer.host import chroot
from runtime import driver_config, logs, signals
from tests import waits
from tests.installer import homes, settings
from tests.installer import kernel as behind
from tests.installer.machines import Machine
from tests.kube.apiserver import ApiServer

DAEMON_SET = "kae-operator/kae-driver-tls"
DEADLINE_S = 20


class Pod:
    """An installer as its pod runs it, in this process; what the pod is sent is `stop`."""

    def __init__(self, machine: Machine, image: Path, stated: driver_config.Config) -> None:
        """Says how it is to be called."""
        self.host = behind.Host(machine.root, inside=True)
        self.folder = image.parent / "program"
        self.folder.mkdir()
        (image.parent / "config.json").write_text(settings.text(stated))
        self._arguments = [
            *("--config", str(image.parent / "config.json"), "--host-root", str(machine.root)),
            *("--image-root", str(image), "--program-dir", str(self.folder)),
            *("--kubeconfig", str(image.parent / "kubeconfig")),
        ]

    def run(self, meanwhile: Callable[[], object]) -> int:
        """Runs it; `meanwhile` happens when the host is ready, and is to end it. The exit code."""
        waiting = threading.Thread(target=self._await_ready, args=(meanwhile,))
        waiting.start()
        code = cli.main(self._arguments)
        waiting.join(DEADLINE_S)
        return code

    def _await_ready(self, meanwhile: Callable[[], object]) -> None:
        waits.until((self.folder / "ready").exists)
        meanwhile()


@pytest.fixture
def pod(machine: Machine, image: Path, monkeypatch: pytest.MonkeyPatch) -> Pod:
    """A pod whose policy has enabledCleanup; log and signals stay this process' own."""
    made = Pod(machine, image, settings.config(enabled_cleanup=True, drain=driver_config.Drain(timeout_seconds=60)))
    monkeypatch.setattr(chroot, "Host", lambda *_, **__: made.host)
    monkeypatch.setattr(signals, "set_on_signals", lambda _: None)
    monkeypatch.setattr(logs, "start", lambda _: None)
    return made


@pytest.mark.parametrize("daemon_set", [None, {"deletionTimestamp": "2026-01-02T03:04:05Z"}], ids=["gone", "going"])
def test_the_driver_goes_when_its_daemon_set_is_gone_or_going(
    daemon_set: dict[str, str] | None, pod: Pod, machine: Machine, server: ApiServer
) -> None:
    def end() -> None:
        if daemon_set is not None:
            server.put_daemon_set(DAEMON_SET, **daemon_set)
        pod.host.stop.set()

    code = pod.run(end)

    assert (code, machine.loaded()) == (0, {})
    assert not machine.host.path(homes.KAE.changing).exists()


@pytest.mark.parametrize("why", ["it is wanted", "nobody may ask", "nobody answers", "a proxy answers"])
def test_the_driver_stays_unless_its_daemon_set_surely_goes(
    why: str, pod: Pod, machine: Machine, server: ApiServer
) -> None:
    def end() -> None:
        if why == "it is wanted":
            server.put_daemon_set(DAEMON_SET)
        elif why == "nobody may ask":
            server.state.forbidden.add(f"daemonsets/{DAEMON_SET}")
        elif why == "nobody answers":
            server.down()
        else:
            server.state.broken[f"daemonsets/{DAEMON_SET}"] = (404, {"message": "no such page"})
        pod.host.stop.set()

    code = pod.run(end)

    assert (code, settings.versions(machine)) == (0, {"2.0.1"})
    if why == "nobody answers":
        server.up()


def test_the_driver_stays_where_the_policy_does_not_ask_for_a_cleanup(
    machine: Machine, image: Path, server: ApiServer, pod: Pod
) -> None:
    (image.parent / "config.json").write_text(settings.text(settings.config()))

    code = pod.run(pod.host.stop.set)

    assert (code, settings.versions(machine)) == (0, {"2.0.1"})
    assert not any("daemonsets" in request for request in server.state.requests)


def test_the_next_signal_ends_a_cleanup_that_waits_for_holders(pod: Pod, machine: Machine, server: ApiServer) -> None:
    def end_twice() -> None:
        machine.hold(4711, "hisi_hpre-0")
        pod.host.stop.set()
        waits.until(lambda: machine.host.path(homes.KAE.changing).exists())
        pod.host.stop.set()

    code = pod.run(end_twice)

    assert (code, settings.versions(machine)) == (0, {"2.0.1"})
    assert not machine.host.path(homes.KAE.changing).exists()
    assert not server.lease(settings.MINE).get("holderIdentity")
