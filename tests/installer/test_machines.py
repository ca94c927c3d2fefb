"""The fake machine behaves as kernel, udev and initramfs do."""

import dataclasses
import errno
import os
from pathlib import Path

import pytest

from installer.host import chroot
from runtime import errors
from tests import tools
from tests.installer import kernel, layouts, machines, modulefiles
from tests.installer.machines import Machine

PF, ENTRY = "0000:79:00.0", "hisi_hpre-0"
MODE_0666 = 'SUBSYSTEM=="uacce", MODE="0666"\n'


@pytest.fixture
def bare(tmp_path: Path) -> Machine:
    """No driver but the kernel's own, and nothing loaded."""
    return Machine(tmp_path / "host")


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """KAE's driver is installed and loaded."""
    return machines.with_kae(tmp_path / "host")


def refusal(machine: Machine, *command: str) -> tuple[int, str]:
    with pytest.raises(chroot.CommandFailed) as caught:
        machine.host.run(*command)
    return caught.value.code, caught.value.said


def attribute(machine: Machine, path: str) -> str:
    return (machine.root / "sys" / path).read_text().strip()


def number_of_vfs(address: str = PF) -> str:
    return f"/sys/bus/pci/devices/{address}/sriov_numvfs"


def test_virtual_functions_come_with_entries_and_go_with_the_module(machine: Machine) -> None:
    machine.host.write_attribute(f"/sys/class/uacce/{ENTRY}/device/sriov_numvfs", "8")
    added = machine.vfs(PF)
    (entry,) = (entry for entry, address in machine.entries().items() if address == added[7])
    queues = attribute(machine, f"class/uacce/{entry}/available_instances")

    machine.host.run("modprobe", "-r", "hisi_hpre")

    assert (added[0], added[7]) == ("0000:79:00.1", "0000:79:01.0")
    assert queues == "96"
    assert machine.vfs(PF) == ()
    assert not (machine.root / f"sys/bus/pci/devices/{added[0]}").exists()
    assert attribute(machine, f"bus/pci/devices/{PF}/sriov_numvfs") == "0"


@pytest.mark.parametrize(("before", "text", "number"), [(2, "3", errno.EBUSY), (0, "64", errno.ERANGE)])
def test_the_kernel_refuses_another_number_of_functions(machine: Machine, before: int, text: str, number: int) -> None:
    machine.host.write_attribute(number_of_vfs(), str(before))

    with pytest.raises(errors.Failure, match=os.strerror(number)):
        machine.host.write_attribute(number_of_vfs(), text)

    assert len(machine.vfs(PF)) == before


def test_virtual_functions_in_use_stay_and_keep_their_module(machine: Machine) -> None:
    machine.host.write_attribute(number_of_vfs(), "2")
    machine.pass_through(machine.vfs(PF)[0])

    with pytest.raises(errors.Failure, match=os.strerror(errno.EPERM)):
        machine.host.write_attribute(number_of_vfs(), "0")

    assert refusal(machine, "modprobe", "-r", "hisi_hpre")[1] == "modprobe: FATAL: Module hisi_hpre is in use."


def test_an_attribute_that_is_not_there_cannot_be_written(machine: Machine) -> None:
    with pytest.raises(errors.Failure, match=os.strerror(errno.ENOENT)):
        machine.host.write_attribute("/sys/bus/pci/devices/0000:01:00.0/sriov_numvfs", "1")


def test_without_an_smmu_kaes_driver_serves_without_it(tmp_path: Path) -> None:
    machine = machines.with_kae(tmp_path, smmu=False)

    assert attribute(machine, f"class/uacce/{ENTRY}/flags") == "2"
    assert attribute(machine, f"class/uacce/{ENTRY}/api") == "hisi_qm_v2_noiommu"


def test_the_kernels_own_entries_lack_the_attributes_of_kae(bare: Machine) -> None:
    bare.host.run("modprobe", "hisi_hpre", "uacce_mode=1")

    assert attribute(bare, f"class/uacce/{ENTRY}/flags") == "1"
    assert not (bare.root / f"sys/class/uacce/{ENTRY}/numa_distance").exists()


def test_the_attributes_of_kae_1_lie_in_a_folder_of_their_own(tmp_path: Path) -> None:
    (first, *_) = layouts.two_sockets()
    function = dataclasses.replace(first, layout="KAE 1", queues=64)

    machine = machines.with_kae(tmp_path, functions=[function])

    (entry,) = machine.entries()
    assert attribute(machine, f"class/uacce/{entry}/attrs/flags") == "128"
    assert machine.entries() == {entry: function.address}


def test_the_driver_enables_virtual_functions_by_its_parameter(bare: Machine) -> None:
    bare.add_driver("2.0.1")

    bare.host.run("modprobe", "hisi_hpre", "uacce_mode=2", "pf_q_num=256", "vfs_num=4")

    assert len(bare.vfs(PF)) == 4
    assert len(bare.entries()) == 10


def test_nodes_can_be_real_ones(tmp_path: Path) -> None:
    tools.require_root("it makes device nodes")
    machine = machines.with_kae(tmp_path, mknod=True)
    machine.hold(4711, ENTRY)
    node = machine.root / f"dev/{ENTRY}"

    assert node.is_char_device()
    assert machine.nodes()[ENTRY] == 0o600
    assert (machine.root / "proc/4711/fd/3").stat().st_rdev == node.stat().st_rdev


def test_another_host_object_of_the_same_folder_meets_the_same_kernel(machine: Machine) -> None:
    other = kernel.Host(machine.root)

    other.write_attribute(number_of_vfs(), "1")
    other.run("modprobe", "-r", "hisi_zip")

    assert len(machine.vfs(PF)) == 1
    assert "hisi_zip" not in machine.loaded()


def test_new_nodes_are_for_root_alone_without_a_rule(machine: Machine) -> None:
    assert set(machine.nodes().values()) == {0o600}


def test_a_rule_holds_for_new_nodes_and_for_old_ones_once_triggered(machine: Machine) -> None:
    machine.host.write("/etc/udev/rules.d/70-kae.rules", MODE_0666)
    untouched = set(machine.nodes().values())
    machine.host.run("udevadm", "control", "--reload")
    machine.host.run("udevadm", "trigger", "--subsystem-match=uacce")
    triggered = set(machine.nodes().values())
    machine.host.remove("/etc/udev/rules.d/70-kae.rules")
    machine.host.write("/etc/udev/rules.d/70-zip.rules", 'KERNEL=="hisi_zip-*", SUBSYSTEM=="uacce", MODE="0660"\n')
    machine.unload()

    machine.load()

    assert (untouched, triggered) == ({0o600}, {0o666})
    assert machine.nodes()["hisi_zip-4"] == 0o660
    assert machine.nodes()[ENTRY] == 0o600


def test_a_dead_driver_loads_without_entries(machine: Machine) -> None:
    machine.unload()
    machine.let_die("hisi_hpre")

    machine.host.run("modprobe", "hisi_hpre")

    assert "hisi_hpre" in machine.loaded()
    assert machine.entries() == {}
    assert (machine.root / "sys/class/uacce").is_dir()


def test_a_reboot_loads_what_udev_finds_with_the_options_of_the_disk(machine: Machine) -> None:
    machine.host.write_attribute(number_of_vfs(), "2")
    machine.hold(4711, ENTRY)
    machine.host.write("/run/kae/driver-changing", "{}")
    machine.set_options(uacce_mode=2, pf_q_num=512)
    boot = (machine.root / "proc/sys/kernel/random/boot_id").read_text()

    machine.reboot()

    assert (machine.root / "proc/sys/kernel/random/boot_id").read_text() != boot
    assert set(machine.loaded()) == set(modulefiles.DRIVER)
    assert machine.parameters("hisi_zip")["pf_q_num"] == 512
    assert len(machine.entries()) == 6
    assert list((machine.root / "run").iterdir()) == []
    assert not (machine.root / "proc/4711").exists()


def test_a_reboot_brings_back_the_driver_of_the_initramfs(machine: Machine) -> None:
    machine.capture_initramfs()
    machine.add_driver("2.0.2", "updates/kae")

    machine.reboot()
    trapped = machine.loaded()["hisi_hpre"]
    machine.capture_initramfs()
    machine.reboot()

    assert trapped == modulefiles.identity("hisi_hpre", "2.0.1")
    assert machine.loaded()["hisi_hpre"] == modulefiles.identity("hisi_hpre", "2.0.2")


def test_a_reboot_without_options_leaves_the_kernels_own_driver_without_entries(bare: Machine) -> None:
    bare.reboot()

    assert set(bare.loaded()) == set(modulefiles.DRIVER)
    assert bare.entries() == {}


def test_a_reboot_loads_nothing_that_a_file_forbids(machine: Machine) -> None:
    machine.host.write("/etc/modprobe.d/no-zip.conf", "blacklist hisi_zip\n")

    machine.reboot()

    assert set(machine.loaded()) == set(modulefiles.DRIVER) - {"hisi_zip"}


def test_a_reboot_into_another_kernel_finds_modules_there_that_refuse_kaes_mode(machine: Machine) -> None:
    machine.add_kernel("6.6.0-28.0.0.34.oe2403.aarch64")

    machine.reboot("6.6.0-28.0.0.34.oe2403.aarch64")

    assert machine.kernel == "6.6.0-28.0.0.34.oe2403.aarch64"
    assert list(machine.loaded()) == ["uacce", "hisi_qm"]


def test_looking_at_a_machine_changes_no_file(machine: Machine) -> None:
    before = machine.files()

    machine.host.run("modinfo", "hisi_hpre")
    machine.host.run("modprobe", "hisi_hpre")

    assert machine.files() == before
    assert f"usr/lib/modules/{machines.KERNEL}/extra/hisi_hpre.ko" in before
    assert not any(path.split("/")[0] in machines.VOLATILE for path in before)
