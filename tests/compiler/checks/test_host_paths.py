"""Paths of a host that no recipe gives to pods, as they stand, behind links, and by globs."""

from typing import Any

import pytest

from compiler import pipeline
from compiler.diagnostics import Diagnostic
from tests.builders import document, judge, raw


def judged(**resource: Any) -> list[Diagnostic]:
    """Return the findings on a recipe with a resource that has this too."""
    own = {"name": "example.com/npu", "class": "char", "groups": [{"paths": [{"path": "/dev/npu*"}]}], **resource}
    spec = {"title": "An NPU", "match": {"all": {}}, "devicePlugin": {"resources": [own]}}
    given = [document(raw("Recipe", "net", spec), "recipes/net/recipe.yaml")]
    return list(pipeline.judged(given, judge(), [item.file for item in given]).findings)


def mounted(path: str) -> list[Diagnostic]:
    return judged(inject=[{"mounts": [{"path": path}]}])


@pytest.mark.parametrize(
    ("path", "taken"),
    [
        *(("/etc", "/etc/kubernetes"), ("/etc/*", "/etc/kubernetes"), ("/var", "/var/lib/kubelet")),
        *(("/var/lib/kubelet/pods", "/var/lib/kubelet"), ("/run/crio/crio.sock", "/run/crio")),
        *(("/run/docker.s?ck", "/run/docker.sock"), ("/etc/ssh/ssh_host_*", "/etc/ssh"), ("/root", "/root")),
        *(("/etc/sh[a-z]dow", "/etc/shadow*"), ("/home", "/home/*/.kube"), ("/home/ann", "/home/*/.kube")),
        *(("/dev/mapper", "/dev/mapper"), ("/dev", "/dev/tpm*"), ("/sysroot/ostree", "/sysroot")),
        *(("/ostree/deploy/os/etc/shadow", "/ostree"), ("/run/user/0/podman/podman.sock", "/run/user/*/podman")),
        *(("/etc/shadow-", "/etc/shadow*"), ("/dev/cpu/0/msr", "/dev/cpu"), ("/dev/openeuler/root", "/dev/openeuler*")),
        *(("/proc/kcore", "/proc"), ("/var/lib/containerd/io.containerd.content.v1.content", "/var/lib/containerd")),
    ],
)
def test_a_path_a_folder_around_it_or_a_glob_of_what_is_refused_is_refused(path: str, taken: str) -> None:
    (finding,) = mounted(path)

    assert (finding.code, finding.message) == ("privilege-refused", f"A recipe may not mount '{path}'.")
    assert finding.notes[0].startswith(f"'{taken}' holds ")


@pytest.mark.parametrize(
    ("path", "link"),
    [
        *(("/var/run/containerd/containerd.sock", "/var/run"), ("/var/r?n/crio", "/var/run"), ("/var/run", "/var/run")),
        *(
            ("/var/*/docker.sock", "/var/run"),
            ("/var/run/isulad.sock", "/var/run"),
            ("/var/roothome/keys", "/var/roothome"),
            ("/var/home/ann", "/var/home"),
            ("/lib/systemd/system", "/lib"),
        ),
    ],
)
def test_a_link_to_what_is_refused_is_refused(path: str, link: str) -> None:
    (finding,) = mounted(path)

    assert finding.code == "privilege-refused"
    assert finding.notes[0].startswith(f"'{link}' is a link to ")


def test_what_a_resource_requires_counts_as_mounted() -> None:
    assert [finding.code for finding in judged(requires=["/opt/npu", "/var/run/docker.sock"])] == ["privilege-refused"]


@pytest.mark.parametrize(
    "path",
    [
        *("/opt/net", "/var/log/net", "/var/lib/net", "/run/net.sock", "/etc/libibverbs.d", "/usr/lib64/libnet*.so"),
        *("/dev/hugepages", "/dev/infiniband", "/home/ann/data", "/var/runtime", "/run/contain"),
    ],
)
def test_what_leads_to_nothing_of_the_host_is_mounted(path: str) -> None:
    assert mounted(path) == []


@pytest.mark.parametrize(
    ("refused", "names"),
    [
        (True, ("*", "?*", "[a-z]*", "*/by-id")),
        (True, ("sda", "s*", "sd[b-z]", "nvme0n1", "n*", "vda1", "dm-0", "mapper/root", "disk/by-id/*", "block/8:0")),
        (True, ("mem", "m?m", "kmem", "port", "md0", "tpm0", "sg1", "mmcblk0", "char/1:1")),
        (False, ("npu*", "npu/*", "n?u*", "nvidia*", "davinci*", "hisi_hdc", "hdcdrv", "sgx_enclave", "mei0")),
        (False, ("dri/render*", "infiniband/*", "onload", "fuse", "kfd", "xdma0_*", "memory_pool")),
    ],
)
def test_no_glob_offers_disks_memory_or_any_device_of_the_host(refused: bool, names: tuple[str, ...]) -> None:
    for name in names:
        node = {"path": f"/dev/{name}"}

        found = judged(groups=[{"paths": [node]}], inject=[{"nodes": [node]}])

        assert (name, [finding.code for finding in found]) == (name, ["privilege-refused"] * 2 * refused)
