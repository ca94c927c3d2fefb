"""A quiet node: once the driver is right, nothing in its pod has a right on the node, and what is lost is repaired.

Times and memory go to standard output: `pytest -rP` shows them.
"""

import contextlib
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from compiler.status import drift
from tests.cluster.control import objects as kinds
from tests.cluster.control import pods
from tests.cluster.local import waiting
from tests.cluster.nodes import driver_node, driver_pods
from tests.cluster.nodes import images as image_store
from tests.cluster.nodes import node as nodes
from tests.cluster.nodes.driver_pods import EMPTY, NEW, OLD, Deployed
from tests.installer import kernel, machines, settings
from tests.installer.fakes import kernel as fake_kernel

ADDRESS = "0000:79:00.0"
FUNCTION = f"/sys/bus/pci/devices/{ADDRESS}/sriov_numvfs"
CALL = "import ctypes, os, sys; c = ctypes.CDLL(None, use_errno=True)"
NOT_PERMITTED, DENIED, READ_ONLY = "Operation not permitted", "Permission denied", "Read-only file system"

TRIED = {
    "load a module": (f"{CALL}; print(c.syscall(175, b'x', 1, b''), os.strerror(ctypes.get_errno()))", NOT_PERMITTED),
    "mount": (
        f"{CALL}; print(c.mount(b'none', b'/run/report', b'tmpfs', 0, None), os.strerror(ctypes.get_errno()))",
        NOT_PERMITTED,
    ),
    "enter the node's namespaces": (
        f"{CALL}; print(c.unshare(0x20000), os.strerror(ctypes.get_errno()))",
        NOT_PERMITTED,
    ),
    "become root": ("import os; os.setuid(0)", NOT_PERMITTED),
    "make a device node": ("import os; os.mknod('/run/report/mem', 0o20666, os.makedev(1, 1))", NOT_PERMITTED),
    "enter the host's root": ("import os; os.chroot('/host')", NOT_PERMITTED),
    "change a parameter": ("open('/host/sys/module/hisi_zip/parameters/pf_q_num', 'w')", READ_ONLY),
    "make virtual functions": (f"open('/host{FUNCTION}', 'w')", READ_ONLY),
    "change what the installer left": ("open('/run/program/left.json', 'w')", READ_ONLY),
    "change its own program": ("open('/app/installer/loop.py', 'w')", READ_ONLY),
    "read the host's files": ("print(open('/host/etc/passwd'))", "No such file"),
    "read a token": ("import os; print(os.listdir('/var/run/secrets/kubernetes.io'))", "No such file"),
    "see processes but its own": ("import os; print(open('/proc/1/cmdline').read().count('installer'))", "1"),
    "write to its own folder": ("open('/run/report/x', 'w').write('x'); print('written')", "written"),
}
"""What a shell in the reporter tries, as a program, and how it ends."""


@pytest.fixture(scope="module")
def deployed(
    node: nodes.Node, images: image_store.Images, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Deployed]:
    driver = {"drain": {"timeoutSeconds": 60}, "metrics": {"enabled": True}}
    folder = tmp_path_factory.mktemp("quiet")
    with driver_pods.deployed(node, images, folder, driver, kubernetesVersion="1.36") as made:
        yield made


@pytest.fixture
def settled(deployed: Deployed) -> str:
    """A pod that found its host right: what it repairs is no repair a moment after another."""
    deployed.namespace.kubectl("delete", "pod", deployed.install(OLD), "--wait=true")
    return deployed.install(OLD)


def python(deployed: Deployed, name: str, program: str, container: str = "reporter") -> str:
    """Run a program in a container of a pod; return the last line that it prints, to both outputs."""
    script = 'python -c "$0" 2>&1 || true'
    said = deployed.namespace.kubectl("exec", name, "-c", container, "--", "sh", "-c", script, program)
    return (said.strip().splitlines() or [""])[-1]


def running(pod: Any) -> Mapping[str, str]:
    """Return the ids of the running containers of a pod."""
    statuses = (*pod["status"]["initContainerStatuses"], *pod["status"]["containerStatuses"])
    return {one["name"]: one["containerID"].rpartition("/")[2] for one in statuses if "running" in one["state"]}


def processes(container: str) -> list[Path]:
    """Return the folder in /proc of each process of a container."""
    running = in_group(container)
    assert running, container
    return running


def in_group(name: str) -> list[Path]:
    """Return the folder in /proc of each process in a control group with this name in its path."""
    processes = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            processes += [path] if name in (path / "cgroup").read_text() else []
        except OSError:
            continue  # It has ended.
    return processes


def status_of(process: Path) -> Mapping[str, str]:
    """Return what the kernel says of a process."""
    lines = (line.partition(":") for line in (process / "status").read_text().splitlines())
    return {key: value.strip() for key, _, value in lines}


def until_repaired(deployed: Deployed, name: str, since_s: float) -> float:
    """Return the seconds until the driver is right and the same pod is Ready again, after one round more."""
    uid, rounds = _rounds(deployed, name)

    def is_repaired() -> bool:
        pod = deployed.namespace.pod(name)
        return kinds.condition(pod) == "True" and _rounds(deployed, name) == (uid, rounds + 1)

    waiting.until("the repair", is_repaired, timeout_s=120, explain=lambda: "\n".join(deployed.namespace.events(name)))
    return time.monotonic() - since_s


def _rounds(deployed: Deployed, name: str) -> tuple[str, int]:
    pod = deployed.namespace.pod(name)
    counts = {one["name"]: one["restartCount"] for one in pod["status"]["initContainerStatuses"]}
    return pod["metadata"]["uid"], counts["installer"]


def test_nothing_with_a_right_is_left(deployed: Deployed) -> None:
    name = deployed.install(OLD)
    pod = deployed.namespace.pod(name)

    assert settings.versions(deployed.machine) == {OLD}
    assert running(pod).keys() == {"reporter", "pause"}
    memory = {}
    for container, ident in running(pod).items():
        found = [status_of(process) for process in processes(ident)]
        memory[container] = sum(int(one["VmRSS"].split()[0]) for one in found)
        for one in found:
            assert one["Uid"].split() == one["Gid"].split() == ["65534"] * 4
            assert {one[key] for key in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {"0" * 16}
            assert (one["NoNewPrivs"], one["Seccomp"]) == ("1", "2")
        for process in processes(ident):
            mounts = [line.split() for line in (process / "mountinfo").read_text().splitlines()]
            of_host = [words for words in mounts if words[4].startswith("/host")]
            assert all(words[5].startswith("ro,") for words in of_host)
            assert len(of_host) == (4 if container == "reporter" else 0)
    sys.stdout.write(f"memory, KiB: {memory}\n")


@pytest.mark.parametrize("what", TRIED)
def test_a_shell_in_the_reporter_tries(what: str, deployed: Deployed) -> None:
    program, answer = TRIED[what]

    assert answer in python(deployed, deployed.install(OLD), program)


ASK = "open('/run/report/asked', 'w').write(open('/run/program/ended').read() + 'Me.\\n')"
"""A program in the reporter that asks for the pod's start, as the reporter does."""


def test_a_shell_in_the_reporter_starts_the_installer_over(deployed: Deployed, settled: str) -> None:
    before = _rounds(deployed, settled)

    python(deployed, settled, ASK)

    waiting.until("another round", lambda: _rounds(deployed, settled) == (before[0], before[1] + 1), timeout_s=60)
    waiting.until("a Ready pod", lambda: kinds.condition(deployed.namespace.pod(settled)) == "True", timeout_s=60)


def test_a_shell_in_the_reporter_ends_no_installer_that_is_at_work(deployed: Deployed) -> None:
    deployed.install(OLD)
    name = deployed.apply(EMPTY)
    deployed.namespace.wait_for_event(name, "The image holds no modules for the running kernel")
    before = _rounds(deployed, name)

    python(deployed, name, "open('/run/report/asked', 'w').write('None\\nMe.\\n')")
    time.sleep(10)

    assert _rounds(deployed, name) == before
    assert "installer" in running(deployed.namespace.pod(name))


def test_modules_that_a_person_unloads_are_loaded_again(deployed: Deployed, settled: str) -> None:
    began_s = time.monotonic()
    deployed.machine.unload()

    took_s = until_repaired(deployed, settled, began_s)

    sys.stdout.write(f"rmmod: {took_s:.1f} s\n")
    assert settings.versions(deployed.machine) == {OLD}
    assert python(deployed, settled, "print(open('/run/report/ready').read())").endswith("is loaded and verified.")


def test_a_parameter_that_a_load_by_hand_has_changed_is_taken_back(deployed: Deployed, settled: str) -> None:
    began_s = time.monotonic()
    settings.break_parameter(deployed.machine)

    took_s = until_repaired(deployed, settled, began_s)

    sys.stdout.write(f"parameter: {took_s:.1f} s\n")
    assert deployed.machine.parameters("hisi_zip")["pf_q_num"] == 256


@contextlib.contextmanager
def virtual_functions(machine: machines.Machine) -> Iterator[None]:
    """The fake kernel makes and removes virtual functions also where a pod writes to sriov_numvfs."""
    over = threading.Event()

    def follow() -> None:
        while not over.wait(0.01):
            for attribute in (machine.root / "sys/bus/pci/devices").glob("*/sriov_numvfs"):
                with kernel.locked(machine.root):
                    address, wanted = attribute.parent.name, attribute.read_text().strip()
                    if wanted.isdecimal() and int(wanted) != len(machine.vfs(address)):
                        fake_kernel.Kernel(str(machine.root)).set_vfs(address, int(wanted))

    thread = threading.Thread(target=follow)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def test_virtual_functions_that_a_person_takes_away_are_made_again(deployed: Deployed) -> None:
    with virtual_functions(deployed.machine):
        deployed.namespace.kubectl("delete", "pod", deployed.install(OLD, sriov={"hpre": 2}), "--wait=true")
        name = deployed.install(OLD, sriov={"hpre": 2})  # It has repaired nothing.
        made = len(deployed.machine.vfs(ADDRESS))
        began_s = time.monotonic()
        deployed.machine.host.write_attribute(FUNCTION, "0")

        took_s = until_repaired(deployed, name, began_s)

        assert (made, len(deployed.machine.vfs(ADDRESS))) == (2, 2)
        deployed.install(OLD)
    sys.stdout.write(f"virtual functions: {took_s:.1f} s\n")


def test_another_kernel_gets_its_driver_after_a_boot(deployed: Deployed, settled: str) -> None:
    pod = deployed.namespace.pod(settled)
    of_pod = [process for word in ("-", "_") for process in in_group(pod["metadata"]["uid"].replace("-", word))]
    began_s = time.monotonic()
    deployed.machine.reboot(settings.OTHER_KERNEL)
    for process in of_pod:  # As a boot ends the pod's sandbox, too.
        os.kill(int(process.name), signal.SIGKILL)

    def is_right() -> bool:
        ready = kinds.condition(deployed.namespace.pod(settled)) == "True"
        return ready and settings.versions(deployed.machine) == {OLD}

    waiting.until("the driver of the other kernel", is_right, timeout_s=180)

    sys.stdout.write(f"another kernel: {time.monotonic() - began_s:.1f} s\n")
    assert deployed.machine.kernel == settings.OTHER_KERNEL


def test_a_person_has_the_installer_look(deployed: Deployed, settled: str) -> None:
    began_s = time.monotonic()

    said = deployed.run(settled, "retry")

    assert said == "The installer starts over within seconds.\n"
    sys.stdout.write(f"retry: {until_repaired(deployed, settled, began_s):.1f} s\n")


def test_status_and_plan_are_answered_without_rights(deployed: Deployed) -> None:
    name = deployed.install(OLD)

    status, plan = (deployed.run(name, command) for command in ("status", "plan"))

    assert f"Driver    {OLD} from prebuilt" in status
    assert plan.startswith(f"The driver {OLD} is loaded and verified.\n")


def test_every_metric_is_the_reporters(deployed: Deployed) -> None:
    name = deployed.install(OLD)
    ask = "from urllib import request; print(request.urlopen('http://127.0.0.1:9511/metrics').read().decode())"

    found = deployed.namespace.run(name, "python", "-c", ask).splitlines()

    assert [line for line in found if line.startswith("kae_driver_state{") and not line.endswith(" 0.0")] == [
        'kae_driver_state{state="Ready"} 1.0'
    ]
    assert [line for line in found if line.startswith('kae_driver_changes_total{result="succeeded"}')]
    assert [line for line in found if f'version="{OLD}"' in line]


def test_an_installer_that_cannot_end_says_why_and_keeps_the_driver(deployed: Deployed) -> None:
    deployed.install(OLD)

    name = deployed.apply(EMPTY)
    reason = f"The image holds no modules for the running kernel {deployed.machine.kernel}; it has: none."
    deployed.namespace.wait_for_event(name, reason)

    assert kinds.condition(deployed.namespace.pod(name)) == "False"
    assert settings.versions(deployed.machine) == {OLD}
    assert reason in deployed.run(name, "status")
    installers = ("exec", name, "-c", "installer", "--", "python", "-m", "installer")
    assert f"The installed driver is prebuilt {OLD}" in deployed.namespace.kubectl(*installers, "plan")
    assert deployed.namespace.kubectl(*installers, "retry") == "The installer tries again within a minute.\n"


def test_a_new_version_drains_its_users_by_the_installers_token(
    deployed: Deployed, node: nodes.Node, namespace: pods.Namespace
) -> None:
    deployed.install(OLD)

    with driver_node.holding(deployed.kubelet, namespace, node) as holder:
        new = deployed.apply(NEW)
        namespace.wait_for_end(holder)
        before = settings.versions(deployed.machine)
    deployed.namespace.wait_for_ready(new)

    assert before == {OLD}
    assert settings.versions(deployed.machine) == {NEW}


def test_the_api_server_keeps_every_field(deployed: Deployed) -> None:
    deployed.namespace.plane.apply(deployed.daemon_set)
    metadata = deployed.daemon_set["metadata"]
    path = f"/apis/apps/v1/namespaces/{metadata['namespace']}/daemonsets/{metadata['name']}"

    assert drift.changes(deployed.daemon_set, deployed.namespace.plane.api.get(path)) == ()


@pytest.fixture
def without_the_gate(node: nodes.Node) -> Iterator[None]:
    """The kubelet starts no pod over, though the API server keeps the fields."""
    file = node.plane.instance.state / "kubelet.json"
    text = file.read_text()

    def restart(configuration: str) -> None:
        file.write_text(configuration)
        node.kubelet.stop()
        node.kubelet.start()

    restart(json.dumps({**json.loads(text), "featureGates": {"RestartAllContainersOnContainerExits": False}}))
    yield
    restart(text)
    waiting.until("a Ready node", node.is_ready, programs=(node.kubelet,))


def test_a_kubelet_without_the_feature_refuses_the_pod_and_says_so(deployed: Deployed, without_the_gate: None) -> None:
    del without_the_gate
    deployed.apply(OLD)

    deployed.namespace.wait_for_event("", "PodFeatureUnsupported: Pod requires node features that are not available")
    assert not any(kinds.condition(pod) == "True" for pod in deployed.namespace.staying())


def test_a_pod_that_goes_goes_at_once(deployed: Deployed) -> None:
    deployed.install(OLD)
    began_s = time.monotonic()

    deployed.delete()

    sys.stdout.write(f"deletion: {time.monotonic() - began_s:.1f} s\n")
    assert time.monotonic() - began_s < 30
    assert settings.versions(deployed.machine) == {OLD}
