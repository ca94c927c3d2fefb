"""KAE's own driver, in an image of the recipe: the installer loads its modules on a real kernel, and removes them.

KAE_DRIVER_SOURCE names the folder KAEKernelDriver of a checkout of KAE. Nothing here answers as its devices do: the
guest's have neither memory nor interrupts, so KAE's driver refuses them, and only with uacce_mode=0, which gives no
device an entry, the installer has nothing against that.
"""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from installer import sources
from installer.host import chroot
from installer.sources import build
from tests import tools
from tests.images import inputs, kaesource, stores
from tests.installer import homes, settings
from tests.vm import artifacts, conftest, host, kernels

ENGINES = ("hisi_hpre", "hisi_sec2", "hisi_zip")
IMAGE = "/mnt/kae"


@pytest.fixture(scope="module")
def image(parts: artifacts.Artifacts, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the image holds, with modules for the guest's kernel and another one."""
    kaesource.checkout()
    tools.require_cluster(tools.packages((name, name) for name in stores.COMMANDS))
    with stores.opened() as store:
        # Of the installer's image the recipe takes nothing; the guest has the program from elsewhere.
        store.take(inputs.base(), stores.named("kae-driver-installer"))
        return kaesource.copied(store, kaesource.build(store), tmp_path_factory.mktemp("image"))


@pytest.fixture
def compiled(parts: artifacts.Artifacts, image: Path, tmp_path: Path) -> Path:
    """The image's source, as the installer compiles it for the guest's kernel, in the place of the image's modules."""
    root = chroot.Host(_host_with_headers(tmp_path / "host", parts.release), homes.KAE)
    wanted = settings.config(source=settings.BUILD)
    assert wanted.source.build is not None
    context = sources.Context(host=root, image=image, settings=wanted, kernel=parts.release)
    for step in build.Build(context, wanted.source.build).steps("/var/lib/kae/drivers/kae"):
        step.act()
    modules = root.path("/var/lib/kae/drivers/kae/modules")
    shutil.copytree(modules, tmp_path / "compiled/opt/lib/modules" / parts.release)
    return tmp_path / "compiled"


def _host_with_headers(root: Path, release: str) -> Path:
    headers = kernels.headers(release)
    shutil.copytree(headers, root / headers.relative_to("/"), symlinks=True)
    # As packages of openEuler have it; Debian writes the version without its own part, 6.1.192.
    (root / headers.relative_to("/") / "include/config/kernel.release").write_text(release)
    (root / "usr/lib").mkdir()
    for programs in Path("/usr/lib").glob("linux-kbuild-*"):
        (root / "usr/lib" / programs.name).symlink_to(programs)
    (root / f"lib/modules/{release}").mkdir(parents=True)
    (root / f"lib/modules/{release}/build").symlink_to(headers)
    return root


def booted(boot: conftest.Boot, image: Path, folder: Path) -> host.Host:
    artifacts.disk(image, folder / "image.ext4")
    drive = f"file={folder}/image.ext4,if=none,id=image,format=raw,readonly=on"
    machine = boot(extra=("-drive", drive, "-device", "nvme-ns,bus=disks,nsid=3,drive=image"))
    machine.guest.run(f"mkdir {IMAGE} && mount -o ro /dev/disk/by-label/image {IMAGE}")
    return machine


def install(machine: host.Host, uacce_mode: int) -> host.Said:
    told, config = {"parameters": {"uacce_mode": uacce_mode, "pf_q_num": 256}}, host.config()
    modules = [module | (told if module["name"] in ENGINES else {}) for module in config["modules"]]
    wanted = config | {"driverVersion": kaesource.VERSION, "modules": modules}
    machine.guest.write(host.CONFIG, json.dumps(wanted))
    installer = machine.begin(IMAGE)
    said = installer.wait_for_rest()
    installer.stop()
    return said


def loaded(machine: host.Host) -> set[str]:
    lines = machine.guest.ask("grep -E '^(uacce|hisi_)' /proc/modules").output.splitlines()
    return {line.split()[0] for line in lines}


def faults(machine: host.Host) -> Iterator[str]:
    return (line for line in machine.guest.kernel_log().splitlines() if "BUG:" in line or "Oops" in line)


def assert_clean(machine: host.Host) -> None:
    """Assert that nothing of a driver is on the host, and that its kernel has no fault."""
    assert loaded(machine) == set()
    assert machine.files() == []
    assert [*faults(machine)] == []


def test_the_installer_loads_the_modules_of_the_image_and_removes_them(
    image: Path, boot: conftest.Boot, tmp_path: Path
) -> None:
    machine = booted(boot, image, tmp_path)

    said = install(machine, uacce_mode=0)

    assert said.state == "Ready", said
    assert loaded(machine) == set(artifacts.MODULES)
    assert {f"{name}.ko" for name in artifacts.MODULES} <= {Path(path).name for path in machine.files()}
    assert machine.guest.ask("test -f /opt/kae/lib/libwd.so").code == (0 if kaesource.has_libraries() else 1)
    removed = machine.command("remove", IMAGE)
    assert removed.code == 0, removed.output
    assert_clean(machine)


def test_devices_that_the_driver_refuses_fail_the_installation_which_leaves_nothing(
    image: Path, boot: conftest.Boot, tmp_path: Path
) -> None:
    machine = booted(boot, image, tmp_path)

    said = install(machine, uacce_mode=2)

    assert said.state == "Failed", said
    assert "device has an entry" in said.message
    assert "The host is back in its previous state." in said.message
    assert_clean(machine)


def test_the_source_in_the_image_gives_modules_that_load(compiled: Path, boot: conftest.Boot, tmp_path: Path) -> None:
    machine = booted(boot, compiled, tmp_path)

    said = install(machine, uacce_mode=0)

    assert said.state == "Ready", said
    assert loaded(machine) == set(artifacts.MODULES)
    assert [*faults(machine)] == []
