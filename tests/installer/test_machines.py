"""The fake machine behaves as kmod's programs, kernel, udev and initramfs do."""

import errno
import os
import subprocess
from concurrent import futures
from pathlib import Path

import pytest

from installer.host import chroot
from runtime import errors
from tests import tools
from tests.installer import kernel, machines, modulefiles
from tests.installer.machines import Machine

PF, ENTRY = "0000:79:00.0", "hisi_hpre-0"
NUMBER = f"/sys/bus/pci/devices/{PF}/sriov_numvfs"


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """KAE's driver is installed and loaded; programs are processes, as everywhere but in these tests."""
    made = machines.with_kae(tmp_path / "host")
    made.host = kernel.Host(made.root)
    return made


def refusal(machine: Machine, *command: str) -> str:
    with pytest.raises(chroot.CommandFailed) as caught:
        machine.host.run(*command)
    return caught.value.said


def test_programs_load_and_unload_in_the_words_of_kmod(machine: Machine) -> None:
    assert refusal(machine, "rmmod", "hisi_qm") == (
        "rmmod: ERROR: Module hisi_qm is in use by: hisi_hpre hisi_sec2 hisi_zip"
    )
    machine.host.run("rmmod", "hisi_hpre")
    unloaded = list(machine.loaded()), {name.partition("-")[0] for name in machine.nodes()}
    assert refusal(machine, "modprobe", "hisi_hpre", "pf_q_num=1") == (
        "modprobe: ERROR: could not insert 'hisi_hpre': Invalid argument"
    )
    machine.host.run("modprobe", "hisi_hpre")

    assert unloaded == (["uacce", "hisi_qm", "hisi_sec2", "hisi_zip"], {"hisi_sec2", "hisi_zip"})
    assert machine.loaded()["hisi_hpre"] == modulefiles.identity("hisi_hpre", "2.0.1")
    assert machine.parameters("hisi_hpre") == {"pf_q_num": 256, "uacce_mode": 2, "vfs_num": 0}
    assert machine.entries()[ENTRY] == PF


def test_programs_that_run_at_once_wait_for_each_other(machine: Machine) -> None:
    machine.unload()
    kinds = ("hisi_hpre", "hisi_sec2", "hisi_zip")

    with futures.ThreadPoolExecutor(len(kinds)) as threads:
        said = list(threads.map(lambda name: machine.host.run("modprobe", name), kinds))

    assert said == ["", "", ""]
    assert set(machine.loaded()) == set(modulefiles.DRIVER)


def test_virtual_functions_come_and_go_as_the_kernel_lets_them(machine: Machine) -> None:
    machine.host.write_attribute(NUMBER, "8")
    added = machine.vfs(PF)
    with pytest.raises(errors.Failure, match=os.strerror(errno.EBUSY)):
        machine.host.write_attribute(NUMBER, "3")
    machine.pass_through(added[0])
    with pytest.raises(errors.Failure, match=os.strerror(errno.EPERM)):
        machine.host.write_attribute(NUMBER, "0")
    machine.pass_through(added[0], "")

    machine.host.run("rmmod", "hisi_hpre")

    assert (added[0], added[7]) == ("0000:79:00.1", "0000:79:01.0")
    assert machine.vfs(PF) == ()


def test_a_reboot_loads_the_initramfs_and_what_udev_finds(machine: Machine) -> None:
    machine.capture_initramfs()
    machine.add_driver("2.0.2", "updates/kae")
    machine.hold(4711, ENTRY)
    machine.host.write("/etc/modprobe.d/no-zip.conf", "blacklist hisi_zip\n")

    machine.reboot()
    trapped = machine.loaded()
    machine.capture_initramfs()
    machine.reboot()

    assert trapped["hisi_hpre"] == modulefiles.identity("hisi_hpre", "2.0.1")
    assert machine.loaded()["hisi_hpre"] == modulefiles.identity("hisi_hpre", "2.0.2")
    assert set(machine.loaded()) == set(modulefiles.DRIVER) - {"hisi_zip"}
    assert not (machine.root / "proc/4711").exists()


def test_the_real_depmod_and_the_fake_one_find_the_same(machine: Machine) -> None:
    known = machine.root / f"lib/modules/{machine.kernel}/modules.dep"
    fake = sorted(known.read_text().splitlines())

    depmod = tools.require("depmod", "kmod")
    command = [depmod, "-b", str(machine.root), "-C", str(machine.root / "etc/depmod.d"), "-a", machine.kernel]
    said = subprocess.run(command, check=True, capture_output=True, text=True, timeout=30).stderr

    assert said == ""
    assert sorted(known.read_text().splitlines()) == fake
