"""Module files are real to kmod and to a compiler, where there are such programs."""

import shutil
import subprocess
from pathlib import Path

from tests import tools
from tests.installer import machines, modulefiles, sourcetrees
from tests.installer.fakes import index
from tests.installer.machines import Machine

RELEASE = machines.KERNEL


def test_both_forms_of_a_file_tell_the_same() -> None:
    module = modulefiles.ModuleFile(name="hisi_zip", version="2.0.1", kernel=RELEASE)

    assert index.modinfo(module.elf()) | {"elf": []} == index.modinfo(module.plain()) | {"elf": []}
    assert index.modinfo(module.plain())["depends"] == ["hisi_qm"]


def test_the_real_depmod_and_the_fake_one_find_the_same(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.add_driver("2.0.1", "updates/kae")
    known = tmp_path / f"lib/modules/{RELEASE}/modules.dep"
    fake = sorted(known.read_text().splitlines())

    depmod = tools.require("depmod", "kmod")
    command = [depmod, "-b", str(tmp_path), "-C", str(tmp_path / "etc/depmod.d"), "-a", RELEASE]
    said = subprocess.run(command, check=True, capture_output=True, text=True, timeout=30).stderr

    assert said == ""
    assert sorted(known.read_text().splitlines()) == fake


def test_a_compiled_driver_is_loaded_and_served(tmp_path: Path) -> None:
    tools.require("gcc", "gcc")
    make = tools.require("make", "make")
    machine = Machine(tmp_path / "host")
    machine.add_image(tmp_path / "image", "2.0.3")
    source, build = tmp_path / "image/opt/src/kae", tmp_path / "host/usr/src/kernels" / RELEASE
    sourcetrees.write_kernel_devel(build, RELEASE)
    command = [make, "-s", "-C", str(source), f"KERNEL_PATH={build}"]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    folder = tmp_path / f"host/lib/modules/{RELEASE}/updates/kae"
    folder.mkdir(parents=True)
    for path in source.glob("*.ko"):
        shutil.copy(path, folder)
    machine.host.run("depmod", "-a", RELEASE)

    machine.host.run("modprobe", "hisi_hpre", "uacce_mode=2")

    assert machine.loaded()["hisi_hpre"][0] == "2.0.3"
    assert list(machine.entries()) == ["hisi_hpre-0", "hisi_hpre-1"]
    assert (tmp_path / "image/opt/kae/lib/engines-1.1/kae.so").is_file()
