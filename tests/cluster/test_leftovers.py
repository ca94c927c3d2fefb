"""However the owner of a cluster ends, nothing of the cluster stays: here with a second cluster beside the first."""

import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.control import control_plane
from tests.cluster.local import cgroups, instances, machine, ownership, programs, waiting

ROOT = Path(__file__).resolve().parents[2]
SECOND = instances.Instance(number=(instances.configured().number + 1) % 256)

IDLE = """
import pathlib, signal, subprocess
from tests.cluster.local import cgroups, ownership, instances, processes, waiting
from tests.cluster.nodes import plugin_node

instance = instances.configured()
with ownership.of(instance), processes.Program(instance, "sleep", ["sleep", "600"]):
    (instance.state / "mounted").mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", str(instance.state / "mounted")], check=True)
    devices = plugin_node.DeviceFolder(instance, instance.state / "sys", instance.state / "dev")
    pathlib.Path("/dev/hisi_left-0").touch()
    waiting.until("sleep", lambda: cgroups.processes(instance.cgroup))
    print("ready", flush=True)
    signal.pause()
"""

BUSY = """
import signal
from tests.cluster.control import control_plane, pods
from tests.cluster.local import ownership, instances
from tests.cluster.nodes import containers, node

own = instances.configured()
with ownership.of(own), control_plane.running(own) as plane, node.running(plane), pods.namespace(plane) as made:
    made.apply(pods.pod("pod", containers.PAUSE, ["/pause"]))
    made.wait_for_ready("pod")
    print("ready", flush=True)
    signal.pause()
"""


@contextlib.contextmanager
def owner(program: str) -> Iterator[subprocess.Popen[str]]:
    environment = {**os.environ, "KAE_CLUSTER_NUMBER": str(SECOND.number), "PYTEST_XDIST_WORKER": "gw0"}
    command = (sys.executable, "-c", program)
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            yield process
        finally:
            process.kill()


def keeper(process: subprocess.Popen[str]) -> int:
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    words = {child: Path(f"/proc/{child}/cmdline").read_bytes() for child in children}
    return next(int(child) for child, line in words.items() if b"tests.cluster.local.ownership" in line)


def name_of(process: int) -> str:
    try:
        return Path(f"/proc/{process}/comm").read_text().strip()
    except OSError:
        return ""


def traces(instance: instances.Instance) -> list[str]:
    network = subprocess.run(("ip", "-oneline", "address"), check=True, capture_output=True, text=True).stdout
    return [
        *(f"process {process}" for process in cgroups.processes(instance.cgroup)),
        *(f"cgroup {path}" for path in Path("/sys/fs/cgroup").glob(f"**/{instance.cgroup}")),
        *(f"mount {path}" for path in machine.mounts(instance.state)),
        *(f"device {path}" for path in Path("/dev").glob("hisi_left-*")),
        *(f"state {path}" for path in (instance.state,) if path.exists()),
        *re.findall(rf"198\.1[89]\.{instance.number}\.\d+", network),
    ]


def wait_for_no_traces() -> None:
    waiting.until("no traces", lambda: not traces(SECOND), explain=lambda: "\n".join(traces(SECOND)))


@pytest.mark.usefixtures("instance")
@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=lambda end: end.name)
def test_nothing_stays_of_a_cluster_whose_owner_is_ended(end: signal.Signals) -> None:
    with owner(IDLE) as process:
        while_it_ran = traces(SECOND)
        process.send_signal(end)
        process.wait(timeout=300)

        wait_for_no_traces()

    kinds = {trace.split()[0] for trace in while_it_ran}
    assert kinds == {"process", "cgroup", "mount", "device", "state", SECOND.address}


@pytest.mark.usefixtures("instance")
def test_the_next_run_clears_what_is_left_when_the_keeper_was_killed_too() -> None:
    with owner(BUSY) as process:
        os.kill(keeper(process), signal.SIGKILL)
        process.kill()
        process.wait(timeout=300)
    left = set(cgroups.processes(SECOND.cgroup))
    names = set(map(name_of, left))

    with ownership.of(SECOND), control_plane.running(SECOND) as plane:
        among_us = left.intersection(cgroups.processes(SECOND.cgroup))
        is_ready = plane.api.is_ready()

    assert names >= {"etcd", "kube-apiserver", "kubelet", "containerd", "containerd-shim", "pause"}
    assert is_ready
    assert not among_us
    wait_for_no_traces()


def test_a_program_of_another_version_counts_as_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pause = programs.SETS[-1]
    monkeypatch.setenv("KAE_CLUSTER_BIN", str(tmp_path))
    (tmp_path / "pause").touch()
    programs.stamp_file("pause").write_text(pause.stamp())

    assert pause.lacking() == ()

    programs.stamp_file("pause").write_text("of another go.mod")

    assert pause.lacking() == ("pause",)
