"""KAE's own driver source: compiled by the source `build` against Debian's headers, loaded and unloaded.

KAE_DRIVER_SOURCE names the folder KAEKernelDriver of a checkout of KAE. Nothing here answers as its devices do, so the
guest has none.
"""

import os
import shutil
from pathlib import Path

import pytest

from installer import sources
from installer.host import chroot
from installer.sources import build
from tests.installer import settings
from tests.vm import artifacts, conftest

RECIPE = artifacts.REPOSITORY / "installer/driver-image/Makefile"


@pytest.fixture
def compiled(parts: artifacts.Artifacts, tmp_path: Path) -> Path:
    """The modules, as the installer compiles them for the guest's kernel."""
    source = os.environ.get("KAE_DRIVER_SOURCE")
    if not source:
        pytest.skip("KAE_DRIVER_SOURCE is not set: it names the folder KAEKernelDriver of a checkout of KAE.")
    tree = tmp_path / "image/opt/src/kae"
    shutil.copytree(source, tree / "KAEKernelDriver")
    shutil.copy(RECIPE, tree)
    root = chroot.Host(_host_with_headers(tmp_path / "host", parts.release))
    wanted = settings.config(source=settings.BUILD)
    assert wanted.source.build is not None
    context = sources.Context(host=root, image=tmp_path / "image", settings=wanted, kernel=parts.release)
    for step in build.Build(context, wanted.source.build).steps("/var/lib/kae/drivers/kae"):
        step.act()
    return root.path("/var/lib/kae/drivers/kae/modules")


def _host_with_headers(root: Path, release: str) -> Path:
    """Return a root whose kernel has the headers of this machine."""
    headers = artifacts.headers(release)
    shutil.copytree(headers, root / headers.relative_to("/"), symlinks=True)
    # As packages of openEuler have it; Debian writes the version without its own part, 6.1.192.
    (root / headers.relative_to("/") / "include/config/kernel.release").write_text(release)
    (root / "usr/lib").mkdir()
    for programs in Path("/usr/lib").glob("linux-kbuild-*"):
        (root / "usr/lib" / programs.name).symlink_to(programs)
    (root / f"lib/modules/{release}").mkdir(parents=True)
    (root / f"lib/modules/{release}/build").symlink_to(headers)
    return root


def test_the_modules_of_kae_are_compiled_loaded_and_unloaded(
    parts: artifacts.Artifacts, compiled: Path, boot: conftest.Boot, tmp_path: Path
) -> None:
    assert {path.stem for path in compiled.iterdir()} == set(artifacts.MODULES)
    artifacts.disk(compiled, tmp_path / "compiled.ext4")
    drive = f"file={tmp_path}/compiled.ext4,if=none,id=compiled,format=raw,readonly=on"
    second = ("-drive", drive, "-device", "nvme-ns,bus=disks,nsid=3,drive=compiled")
    guest = boot(extra=second, append="module_blacklist=kunpeng_pci").guest
    place = f"/lib/modules/{parts.release}/updates/kae"
    guest.run(f"mkdir -p {place} /mnt/compiled && mount -o ro /dev/disk/by-label/compiled /mnt/compiled")
    guest.run(f"cp /mnt/compiled/*.ko {place} && depmod")

    guest.run("for name in hisi_hpre hisi_sec2 hisi_zip; do modprobe $name uacce_mode=2 pf_q_num=256; done")
    loaded = guest.run("grep -E '^(uacce|hisi_)' /proc/modules")
    guest.run(f"rmmod {' '.join(reversed(artifacts.MODULES))}")

    assert {line.split()[0] for line in loaded.splitlines()} == set(artifacts.MODULES)
    assert guest.ask("grep -E '^(uacce|hisi_)' /proc/modules").output == ""
    log = guest.kernel_log()
    assert not [line for line in log.splitlines() if "BUG:" in line or "Oops" in line], log[-20000:]
