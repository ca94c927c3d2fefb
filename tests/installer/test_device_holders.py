"""Device holders: from a real gRPC server, from real processes, and from the process folders of a fake host."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from installer.drain import device_holders
from installer.host import chroot, pci
from runtime import errors
from runtime.api import podresources_v1_pb2 as pb
from tests.installer import homes, podresources

HPRE, SEC = "openfuyao.com/kae.hpre", "openfuyao.com/kae.sec"
RESOURCES = (HPRE, SEC)
API = Path("runtime") / "api"
GENERATED = tuple(f"podresources_v1{ending}" for ending in ("_pb2.py", "_pb2.pyi"))

UID = "0a1b2c3d-1111-2222-3333-444455556666"
KUBEPODS = "/kubepods.slice/kubepods-burstable.slice"
SYSTEMD = f"0::{KUBEPODS}/kubepods-burstable-pod{UID.replace('-', '_')}.slice/cri-containerd-ab.scope\n"
CGROUPFS = f"12:cpu:/kubepods/besteffort/pod{UID}/{'c' * 64}\n0::/\n"
CRIO_SYSTEMD = SYSTEMD.replace("cri-containerd-ab.scope", f"crio-{'c' * 64}.scope/container")
CRIO_CGROUPFS = CGROUPFS.replace("c" * 64, f"crio-{'c' * 64}")
STATIC = f"0::/kubepods/burstable/pod{'9' * 32}/{'c' * 64}\n"

# /dev/full, as any machine has one; Documentation/admin-guide/devices.txt.
ENTRY = pci.Entry(name="hisi_hpre-2", numbers="1:7", mode=0o666)
OTHER = pci.Entry(name="hisi_zip-4", numbers="239:4", mode=0o666)


READERS = (device_holders._opened, device_holders._mapped)


@pytest.fixture
def host(tmp_path: Path) -> chroot.Host:
    (tmp_path / "proc").mkdir()
    return chroot.Host(tmp_path, homes.KAE)


@pytest.fixture
def kubelet(host: chroot.Host) -> Iterator[podresources.Kubelet]:
    with podresources.serving(host.root) as serving:
        yield serving


def process(host: chroot.Host, pid: int, comm: str = "openssl", cgroup: str = "0::/user.slice\n") -> Path:
    """A process of the host, without open files; its folder of these."""
    folder = host.root / f"proc/{pid}"
    (folder / "fd").mkdir(parents=True)
    (folder / "comm").write_text(f"{comm}\n")
    (folder / "cgroup").write_text(cgroup)
    return folder / "fd"


def opened(host: chroot.Host, pid: int, comm: str = "openssl", cgroup: str = "0::/user.slice\n") -> None:
    """A process that has the entry's node open."""
    (process(host, pid, comm, cgroup) / "5").symlink_to("/dev/full")


def texts(found: device_holders.Holders) -> list[str]:
    return [holder.text for holder in found.holders]


def uids(found: device_holders.Holders) -> list[str]:
    return [holder.uid for holder in found.holders if holder.pod]


def test_pods_that_hold_a_device_of_the_resources_are_named(host: chroot.Host, kubelet: podresources.Kubelet) -> None:
    kubelet.give("web/nginx-1", "web", HPRE, "0000:7b:00.0", "0000:79:00.0")
    kubelet.give("default/nginx-0", "web", HPRE, "0000:79:00.0")
    kubelet.give("default/nginx-0", "side", SEC, "0000:76:00.0::3", "0000:76:00.0::1")
    kubelet.give("default/gpu", "main", "example.com/gpu", "0000:01:00.0")
    kubelet.pods["default/plain"] = [pb.ContainerResources(name="main")]

    found = device_holders.find(host, RESOURCES, ())

    assert [holder.pod for holder in found.holders] == ["default/nginx-0", "web/nginx-1"]
    assert texts(found) == [
        "pod default/nginx-0 (container web: 0000:79:00.0; container side: 0000:76:00.0)",
        "pod web/nginx-1 (container web: 0000:79:00.0, 0000:7b:00.0)",
    ]
    assert found.notes == ()


def test_pods_that_hold_a_device_by_a_claim_are_named(host: chroot.Host, kubelet: podresources.Kubelet) -> None:
    kubelet.prepare("default/nginx-0", "web", "kae.openfuyao.com", "hpre-0000-79-00-0", "zip-0000-75-00-0")
    kubelet.prepare("default/gpu", "main", "gpu.example.com", "gpu-0")

    found = device_holders.find(host, RESOURCES, ())

    assert texts(found) == ["pod default/nginx-0 (container web: hpre-0000-79-00-0, zip-0000-75-00-0)"]


def test_a_claim_of_another_recipe_is_none_of_this_one(tmp_path: Path) -> None:
    host = chroot.Host(tmp_path, homes.own("intel-qat"))
    (tmp_path / "proc").mkdir()
    with podresources.serving(tmp_path) as kubelet:
        kubelet.prepare("default/kae", "web", "kae.openfuyao.com", "hpre-0000-79-00-0")
        kubelet.prepare("default/qat", "web", "kae-intel-qat.openfuyao.com", "sym-0000-6b-00-0")

        found = device_holders.find(host, ("intel.com/qat",), ())

    assert texts(found) == ["pod default/qat (container web: sym-0000-6b-00-0)"]


def test_a_pod_listed_twice_holds_what_either_entry_says(host: chroot.Host, monkeypatch: pytest.MonkeyPatch) -> None:
    listed = podresources.Kubelet.listed

    def twice(self: podresources.Kubelet, *arguments: Any) -> Any:
        answer = listed(self, *arguments)
        answer.pod_resources.add(namespace="default", name="nginx-0")
        return answer

    monkeypatch.setattr(podresources.Kubelet, "listed", twice)
    with podresources.serving(host.root) as kubelet:
        kubelet.give("default/nginx-0", "web", HPRE, "0000:79:00.0")
        found = device_holders.find(host, RESOURCES, ())

    assert texts(found) == ["pod default/nginx-0 (container web: 0000:79:00.0)"]


def test_a_host_on_which_nobody_holds_anything(host: chroot.Host, kubelet: podresources.Kubelet) -> None:
    process(host, 1, "systemd")

    assert device_holders.find(host, RESOURCES, (ENTRY,)) == device_holders.Holders()
    assert kubelet.asked == 1


def test_a_missing_socket_is_noted_and_processes_are_found_all_the_same(host: chroot.Host) -> None:
    opened(host, 4711)

    found = device_holders.find(host, RESOURCES, (ENTRY,))

    assert texts(found) == ["process 4711 (openssl)"]
    assert found.notes == (
        "The kubelet's socket '/var/lib/kubelet/pod-resources/kubelet.sock' is not there, so only processes were"
        " looked for.",
    )


def test_a_missing_socket_in_a_pod_is_a_failure(host: chroot.Host, monkeypatch: pytest.MonkeyPatch) -> None:
    # As on a node whose kubelet has another --root-dir.
    monkeypatch.setenv(device_holders.IN_POD, "10.96.0.1")

    with pytest.raises(errors.Failure) as raised:
        device_holders.find(host, RESOURCES, ())

    assert str(raised.value) == (
        "The kubelet's socket '/var/lib/kubelet/pod-resources/kubelet.sock' is not there, so it is unknown which pods"
        " hold devices. Name the kubelet's root folder in the policy's kubeletDir, or start the kubelet."
    )


def test_a_socket_at_which_nobody_answers_is_a_failure_as_pods_may_hold_devices(host: chroot.Host) -> None:
    with podresources.serving(host.root):
        pass
    path = host.path(str(device_holders.KUBELET / device_holders.SOCKET))
    path.touch()

    with pytest.raises(errors.Failure) as raised:
        device_holders.find(host, RESOURCES, ())

    assert str(raised.value) == (
        "The kubelet does not say which pods hold devices: nobody answers at"
        " '/var/lib/kubelet/pod-resources/kubelet.sock'."
    )


def test_a_kubelet_that_refuses_is_a_failure_with_its_words(host: chroot.Host, kubelet: podresources.Kubelet) -> None:
    kubelet.failure = grpc.StatusCode.RESOURCE_EXHAUSTED

    with pytest.raises(errors.Failure, match="RESOURCE_EXHAUSTED, as the test says"):
        device_holders.find(host, RESOURCES, ())


def test_a_kubelet_that_hangs_is_not_waited_for(
    host: chroot.Host, kubelet: podresources.Kubelet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device_holders, "DEADLINE_S", 0.2)
    kubelet.latency_s = 30

    with pytest.raises(errors.Failure, match=r"no answer at '.*' within 0\.2 seconds"):
        device_holders.find(host, RESOURCES, ())


def test_an_answer_larger_than_grpc_takes_by_itself_is_read(host: chroot.Host, kubelet: podresources.Kubelet) -> None:
    kubelet.give("default/big", "main", "example.com/many", *(f"device-{'x' * 1000}-{n}" for n in range(6000)))
    kubelet.give("default/nginx-0", "web", HPRE, "0000:79:00.0")

    assert texts(device_holders.find(host, RESOURCES, ())) == ["pod default/nginx-0 (container web: 0000:79:00.0)"]


def test_a_kubelet_whose_folder_is_a_link_to_another_disk_is_found(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "var/lib").mkdir(parents=True)
    (root / "data/kubelet").mkdir(parents=True)
    # Absolute, as the host sees it.
    (root / "var/lib/kubelet").symlink_to("/data/kubelet")
    other = tmp_path / "other"
    with podresources.serving(other) as kubelet:
        kubelet.give("default/nginx-0", "web", HPRE, "0000:79:00.0")
        (root / "data/kubelet/pod-resources").symlink_to(other / "var/lib/kubelet/pod-resources")

        found = device_holders.find(chroot.Host(root, homes.KAE), RESOURCES, ())

    assert texts(found) == ["pod default/nginx-0 (container web: 0000:79:00.0)"]


def test_a_host_with_a_long_path_is_no_hindrance(tmp_path: Path) -> None:
    root = tmp_path / ("x" * 120)
    with podresources.serving(root) as kubelet:
        kubelet.give("default/nginx-0", "web", HPRE, "0000:79:00.0")

        found = device_holders.find(chroot.Host(root, homes.KAE), RESOURCES, ())

    assert len(found.holders) == 1


def test_a_real_process_that_has_a_device_open_is_found_and_ends() -> None:
    program = "import sys; file = open('/dev/full'); sys.stdout.write('open'); sys.stdout.flush(); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdin is not None
        child.stdout.read(4)
        during = device_holders.find(chroot.Host(Path("/"), homes.KAE), (), (ENTRY, OTHER))
        child.stdin.close()
        child.wait()
    after = device_holders.find(chroot.Host(Path("/"), homes.KAE), (), (ENTRY, OTHER))

    (mine,) = [
        found for found in during.holders if isinstance(found, device_holders.Process) and found.pid == child.pid
    ]
    assert mine.name.startswith("python")
    assert child.pid not in {found.pid for found in after.holders if isinstance(found, device_holders.Process)}


def test_processes_are_told_by_the_numbers_of_what_they_opened(host: chroot.Host, tmp_path: Path) -> None:
    opened(host, 10, "openssl")
    (process(host, 9, "uadk_tool") / "3").symlink_to("/dev/full")
    (process(host, 11, "sh") / "0").symlink_to("/dev/null")
    (process(host, 12, "editor") / "4").symlink_to("socket:[4711]")
    elsewhere = tmp_path / "hisi_hpre-2"
    elsewhere.symlink_to("/dev/full")
    (process(host, 13, "chrooted") / "4").symlink_to(elsewhere)
    plain = tmp_path / "dev"
    plain.mkdir()
    (plain / "hisi_hpre-2").touch()
    (process(host, 14, "cp") / "4").symlink_to(plain / "hisi_hpre-2")
    # The numbers of whatever is no device.
    none = pci.Entry(name="hisi_sec2-9", numbers="0:0", mode=None)

    assert texts(device_holders.find(host, (), (ENTRY, OTHER, none))) == [
        "process 9 (uadk_tool)",
        "process 10 (openssl)",
        "process 13 (chrooted)",
    ]


def test_files_on_other_file_systems_are_never_read(host: chroot.Host, monkeypatch: pytest.MonkeyPatch) -> None:
    for pid, target in enumerate(("/mnt/nfs/dev/hpre.c", "/dev/full", "/srv/chroot/dev/hisi_hpre-2"), 10):
        (process(host, pid) / "3").symlink_to(target)
    mapping = process(host, 13).parent
    (mapping / "map_files").mkdir()
    (mapping / "map_files/f000-12000").symlink_to("/mnt/nfs/dev/hpre.c")
    (mapping / "maps").write_text("f000-12000 r--p 00000000 00:35 312     /mnt/nfs/dev/hpre.c\n")
    read: list[str] = []
    numbers = device_holders._numbers

    def watched(path: str) -> str:
        read.append(str(Path(path).readlink()))
        return numbers(path)

    monkeypatch.setattr(device_holders, "_numbers", watched)

    found = [tuple(device_holders._users(host, {"1:7": ENTRY.name}, nodes)) for nodes in READERS]

    assert [[holder.pid for holder in holders] for holders in found] == [[11], []]
    assert read == ["/dev/full", "/srv/chroot/dev/hisi_hpre-2"]


def test_without_entries_no_process_is_looked_at(host: chroot.Host) -> None:
    opened(host, 4711)

    assert device_holders.find(host, (), ()).holders == ()


def test_a_process_that_vanishes_while_it_is_read_holds_nothing(host: chroot.Host) -> None:
    (process(host, 20) / "3").symlink_to("/dev/hisi_hpre-2-that-is-gone")
    opened(host, 21)
    (host.root / "proc/21/comm").unlink()
    (host.root / "proc/22").mkdir()
    (host.root / "proc/self").symlink_to("22")

    assert device_holders.find(host, (), (ENTRY,)).holders == ()


def test_a_process_without_cgroup_is_one_of_the_host(host: chroot.Host) -> None:
    opened(host, 4711)
    (host.root / "proc/4711/cgroup").unlink()

    assert texts(device_holders.find(host, (), (ENTRY,))) == ["process 4711 (openssl)"]


@pytest.mark.parametrize("cgroup", [SYSTEMD, CGROUPFS, CRIO_SYSTEMD, CRIO_CGROUPFS])
def test_a_process_of_a_named_pod_is_the_pods(host: chroot.Host, kubelet: podresources.Kubelet, cgroup: str) -> None:
    kubelet.give("default/nginx-0", "web", HPRE, "0000:79:00.0")
    host.path(f"{device_holders.LOGS}/default_nginx-0_{UID}").mkdir(parents=True)
    opened(host, 4711, "nginx", cgroup)

    assert texts(device_holders.find(host, RESOURCES, (ENTRY,))) == [
        "pod default/nginx-0 (container web: 0000:79:00.0)"
    ]


def test_a_pod_that_the_kubelet_does_not_name_is_a_pod_too(host: chroot.Host, kubelet: podresources.Kubelet) -> None:
    kubelet.give("web/nginx-0", "web", HPRE, "0000:79:00.0")
    host.path(f"{device_holders.LOGS}/default_agent-x_{UID}").mkdir(parents=True)
    opened(host, 4711, "agent", SYSTEMD)
    opened(host, 4712, "worker", SYSTEMD)

    found = device_holders.find(host, RESOURCES, (ENTRY,))

    assert texts(found) == [
        "pod default/agent-x (process 4711, agent; process 4712, worker)",
        "pod web/nginx-0 (container web: 0000:79:00.0)",
    ]


def test_the_uid_of_a_pod_is_that_of_logs_and_folder(host: chroot.Host, kubelet: podresources.Kubelet) -> None:
    former = UID.replace("0a1b", "ffff")
    for uid in (UID, former):
        host.path(f"{device_holders.LOGS}/default_nginx-0_{uid}").mkdir(parents=True)
    kubelet.give("default/nginx-0", "web", HPRE, "0000:79:00.0")
    unknown = uids(device_holders.find(host, RESOURCES, ()))
    pods = host.path(str(device_holders.KUBELET / "pods"))
    (pods / UID).mkdir(parents=True)
    known = uids(device_holders.find(host, RESOURCES, ()))
    (pods / former).mkdir()

    assert (unknown, known, uids(device_holders.find(host, RESOURCES, ()))) == ([""], [UID], [""])


def test_a_static_pod_has_no_uid_that_the_api_server_knows(host: chroot.Host, kubelet: podresources.Kubelet) -> None:
    host.path(f"{device_holders.LOGS}/kube-system_etcd-node-1_{'9' * 32}").mkdir(parents=True)
    host.path(str(device_holders.KUBELET / "pods" / ("9" * 32))).mkdir(parents=True)
    kubelet.give("kube-system/etcd-node-1", "etcd", HPRE, "0000:79:00.0")

    assert uids(device_holders.find(host, RESOURCES, ())) == [""]


def test_a_static_pod_is_recognised_by_its_hash(host: chroot.Host) -> None:
    host.path(f"{device_holders.LOGS}/kube-system_etcd-node-1_{'9' * 32}").mkdir(parents=True)
    opened(host, 4711, "etcd", STATIC)

    assert texts(device_holders.find(host, (), (ENTRY,))) == ["pod kube-system/etcd-node-1 (process 4711, etcd)"]


def test_a_pod_without_logs_is_named_by_its_process(host: chroot.Host) -> None:
    opened(host, 4711, "agent", SYSTEMD)

    assert texts(device_holders.find(host, (), (ENTRY,))) == [f"process 4711 (agent) of the pod {UID}"]


@pytest.mark.parametrize(("comm", "shown"), [(b"\xff\x01x\n", "\N{REPLACEMENT CHARACTER}?x"), (b"\n", "?")])
def test_a_name_that_is_no_word_does_no_harm(host: chroot.Host, comm: bytes, shown: str) -> None:
    opened(host, 4711)
    (host.root / "proc/4711/comm").write_bytes(comm)

    assert texts(device_holders.find(host, (), (ENTRY,))) == [f"process 4711 ({shown})"]


def test_no_descriptor_is_left_open(host: chroot.Host, kubelet: podresources.Kubelet) -> None:
    device_holders.find(host, RESOURCES, ())
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - names alone

    for _ in range(5):
        device_holders.find(host, RESOURCES, ())

    assert kubelet.asked == 6
    assert len(os.listdir("/proc/self/fd")) <= before + 2  # noqa: PTH208 - names alone


def test_what_is_checked_in_is_what_the_generator_makes(repository_root: Path, tmp_path: Path) -> None:
    # The command at the head of the .proto.
    outputs = [f"--{language}_out={tmp_path}" for language in ("python", "pyi")]
    command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{repository_root}", *outputs]
    subprocess.run([*command, str(API / "podresources_v1.proto")], check=True, cwd=repository_root, timeout=60)

    for name in GENERATED:
        assert (repository_root / API / name).read_bytes() == (tmp_path / API / name).read_bytes()
