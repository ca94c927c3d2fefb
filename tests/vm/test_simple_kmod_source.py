"""The modules of simple-kmod's own source: SIMPLE_KMOD_SOURCE names a checkout; without it these tests are skipped."""

from pathlib import Path

import pytest

from tests import tools
from tests.installer import stacks
from tests.vm import artifacts, conftest, host, kernels, kmod_images, pods
from tests.vm.pods import SIMPLE

IMAGES = "/mnt/images"

MENDED = {
    "struct file_operations myops": "struct proc_ops myops",
    ".owner = THIS_MODULE,": "",
    ".read =": ".proc_read =",
    ".write =": ".proc_write =",
}
"""Since Linux 5.6 a file in /proc wants struct proc_ops, which the source does not know."""


@pytest.fixture
def images(parts: artifacts.Artifacts, tmp_path: Path) -> Path:
    source = tools.require_setting("SIMPLE_KMOD_SOURCE", "a checkout of simple-kmod")
    text = Path(source, "simple-procfs-kmod.c").read_text()
    for old, new in MENDED.items():
        text = text.replace(old, new)
    roots = tmp_path / "images"
    for version, release in ((version, release) for version in ("1.0", "1.1") for release in parts.kernels):
        folder = roots / f"simple-kmod-{version}-{release}/opt/lib/modules" / release
        flags = f'EXTRA_CFLAGS=-DKMODVER=\\"{version}\\"'
        kernels.build(release, Path(source), folder, flags, files={"simple-procfs-kmod.c": text})
    kmod_images.add_cp(*roots.iterdir())
    artifacts.disk(roots, tmp_path / "images.ext4")
    return tmp_path / "images.ext4"


def test_the_installer_brings_the_modules_of_the_source_to_two_kernels(
    images: Path, boot: conftest.Boot, parts: artifacts.Artifacts
) -> None:
    drive = f"file={images},if=none,id=images,format=raw,readonly=on"
    machine = boot(extra=("-drive", drive, "-device", "nvme-ns,bus=disks,nsid=3,drive=images"))

    for release in parts.kernels:
        if release != machine.guest.release:
            machine.boot_kernel(release)
        machine.guest.run(f"mkdir -p {IMAGES} && mount -o ro /dev/disk/by-label/images {IMAGES}")
        for version in ("1.0", "1.1"):
            said = install(machine, version)

            assert said.state == "Ready", said
            assert machine.loaded(SIMPLE) == dict.fromkeys(SIMPLE, version)
            assert machine.guest.read("/sys/module/simple_procfs_kmod/parameters/number") == "7\n"

    assert install(machine, "1.1", state="Absent").state == "Ready"
    assert machine.loaded(SIMPLE) == {}
    assert machine.files() == []


def install(machine: host.Host, version: str, **fields: str) -> host.Said:
    image = f"{IMAGES}/simple-kmod-{version}-{machine.guest.release}"
    with pods.running(machine, pods.config(stacks.KMOD, version, **fields), {"modules": image}) as installer:
        return installer.wait_for_rest()
