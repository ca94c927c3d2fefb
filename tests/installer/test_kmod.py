"""The fake programs do what kmod's do, in the words of kmod 30."""

import os
from concurrent import futures
from pathlib import Path

import pytest

from installer.host import chroot
from runtime import process
from tests.installer import layouts, machines, modulefiles
from tests.installer.machines import Machine

PF, ENTRY = "0000:79:00.0", "hisi_hpre-0"


@pytest.fixture
def bare(tmp_path: Path) -> Machine:
    """No driver but the kernel's own, and nothing loaded."""
    return Machine(tmp_path / "host", spawn=True)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """KAE's driver is installed and loaded."""
    return machines.with_kae(tmp_path / "host", spawn=True)


def refusal(machine: Machine, *command: str) -> tuple[int, str]:
    with pytest.raises(chroot.CommandFailed) as caught:
        machine.host.run(*command)
    return caught.value.code, caught.value.said


def attribute(machine: Machine, path: str) -> str:
    return (machine.root / "sys" / path).read_text().strip()


def test_a_module_is_loaded_after_what_it_needs_with_the_options_of_its_file(machine: Machine) -> None:
    machine.unload()

    machine.host.run("modprobe", "hisi_hpre")

    assert list(machine.loaded()) == ["uacce", "hisi_qm", "hisi_hpre"]
    assert machine.loaded()["hisi_hpre"] == modulefiles.identity("hisi_hpre", "2.0.1")
    assert machine.parameters("hisi_hpre") == {"pf_q_num": 256, "uacce_mode": 2, "vfs_num": 0}
    assert machine.entries() == {"hisi_hpre-0": "0000:79:00.0", "hisi_hpre-1": "0000:b9:00.0"}


def test_loading_what_is_loaded_changes_nothing(machine: Machine) -> None:
    before = machine.entries()

    assert machine.host.run("modprobe", "hisi_hpre", "pf_q_num=2") == ""

    assert machine.entries() == before
    assert machine.parameters("hisi_hpre")["pf_q_num"] == 256


def test_entries_are_numbered_over_all_kinds_from_the_lowest_free_number(machine: Machine) -> None:
    machine.host.run("modprobe", "-r", "hisi_sec2")
    machine.host.write_attribute(f"/sys/bus/pci/devices/{PF}/sriov_numvfs", "3")

    names = {"hisi_hpre-0", "hisi_hpre-1", "hisi_hpre-2", "hisi_hpre-3", "hisi_hpre-6", "hisi_zip-4", "hisi_zip-5"}
    assert set(machine.entries()) == names


def test_an_entry_shows_what_the_driver_makes_of_its_function(machine: Machine) -> None:
    assert attribute(machine, f"class/uacce/{ENTRY}/available_instances") == "256"
    assert attribute(machine, f"class/uacce/{ENTRY}/flags") == "128"
    assert attribute(machine, f"class/uacce/{ENTRY}/device/uevent").startswith("DRIVER=hisi_hpre\n")
    assert (machine.root / f"sys/bus/pci/devices/{PF}/driver").readlink().name == "hisi_hpre"


def test_a_module_that_is_nowhere_is_not_found(bare: Machine) -> None:
    words = f"Module hisi_rde not found in directory /lib/modules/{machines.KERNEL}"

    assert refusal(bare, "modprobe", "hisi_rde") == (1, f"modprobe: FATAL: {words}")
    assert refusal(bare, "modprobe", "-r", "hisi_rde") == (1, "modprobe: FATAL: Module hisi_rde not found.")
    assert refusal(bare, "modinfo", "hisi_rde") == (1, "modinfo: ERROR: Module hisi_rde not found.")
    assert refusal(bare, "rmmod", "hisi_rde") == (1, "rmmod: ERROR: Module hisi_rde is not currently loaded")


def test_a_file_that_depmod_saw_and_is_gone_is_an_unknown_symbol_to_modprobe(machine: Machine) -> None:
    machine.unload()
    (machine.root / f"lib/modules/{machines.KERNEL}/extra/uacce.ko").unlink()

    code, said = refusal(machine, "modprobe", "uacce")

    words = "could not insert 'uacce': Unknown symbol in module, or unknown parameter (see dmesg)"
    assert (code, said) == (1, f"modprobe: ERROR: {words}")


def test_a_module_of_another_kernel_has_the_wrong_format(bare: Machine) -> None:
    for name, content in modulefiles.driver("2.0.1", "6.6.0").items():
        layouts.put(bare.root / f"lib/modules/{machines.KERNEL}/updates/{name}", content)
    bare.host.run("depmod", "-a", machines.KERNEL)

    code, said = refusal(bare, "modprobe", "hisi_qm")

    assert (code, said) == (1, "modprobe: ERROR: could not insert 'hisi_qm': Exec format error")


def test_a_module_does_not_fit_a_loaded_one_of_another_driver(bare: Machine) -> None:
    bare.load("uacce")
    bare.add_driver("2.0.1")

    code, said = refusal(bare, "modprobe", "hisi_qm")

    assert (code, said) == (1, "modprobe: ERROR: could not insert 'hisi_qm': Invalid argument")


@pytest.mark.parametrize("option", ["uacce_mode=3", "pf_q_num=1", "pf_q_num=1025", "pf_q_num=many"])
def test_a_value_that_a_parameter_does_not_take_is_invalid(machine: Machine, option: str) -> None:
    machine.host.run("modprobe", "-r", "hisi_zip")

    code, said = refusal(machine, "modprobe", "hisi_zip", option)

    assert (code, said) == (1, "modprobe: ERROR: could not insert 'hisi_zip': Invalid argument")
    assert "hisi_zip" not in machine.loaded()


def test_the_kernels_own_driver_does_not_take_mode_2(bare: Machine) -> None:
    code, said = refusal(bare, "modprobe", "hisi_hpre", "uacce_mode=2")

    assert (code, said) == (1, "modprobe: ERROR: could not insert 'hisi_hpre': Invalid argument")


@pytest.mark.parametrize(("smmu", "mode", "entries"), [(True, 0, 0), (True, 1, 2), (False, 1, 0)])
def test_the_kernels_own_driver_gives_entries_in_mode_1_with_an_smmu(
    tmp_path: Path, smmu: bool, mode: int, entries: int
) -> None:
    machine = Machine(tmp_path, smmu=smmu)

    machine.host.run("modprobe", "hisi_hpre", f"uacce_mode={mode}")

    assert len(machine.entries()) == entries
    assert machine.loaded()["hisi_hpre"] == modulefiles.identity("hisi_hpre", modulefiles.IN_TREE)


def test_an_unknown_parameter_is_ignored_by_today_s_kernels(machine: Machine) -> None:
    machine.unload()

    machine.host.run("modprobe", "hisi_hpre", "turbo=1")

    assert "turbo" not in machine.parameters("hisi_hpre")


def test_an_unknown_parameter_is_refused_by_old_kernels(tmp_path: Path) -> None:
    machine = Machine(tmp_path, refuse_unknown=True)

    code, said = refusal(machine, "modprobe", "hisi_hpre", "turbo=1")

    words = "could not insert 'hisi_hpre': Unknown symbol in module, or unknown parameter (see dmesg)"
    assert (code, said) == (1, f"modprobe: ERROR: {words}")


def test_a_module_that_others_need_stays(machine: Machine) -> None:
    assert refusal(machine, "modprobe", "-r", "hisi_qm") == (1, "modprobe: FATAL: Module hisi_qm is in use.")
    words = "Module hisi_qm is in use by: hisi_hpre hisi_sec2 hisi_zip"
    assert refusal(machine, "rmmod", "hisi_qm") == (1, f"rmmod: ERROR: {words}")


def test_a_module_for_virtual_machines_pins_what_it_stands_on(bare: Machine) -> None:
    bare.load("hisi_acc_vfio_pci")

    assert refusal(bare, "rmmod", "hisi_qm")[1] == "rmmod: ERROR: Module hisi_qm is in use by: hisi_acc_vfio_pci"
    assert bare.host.run("modprobe", "-r", "hisi_acc_vfio_pci") == ""
    assert bare.loaded() == {}


def test_removal_by_modprobe_takes_along_what_nobody_needs_any_more(machine: Machine) -> None:
    machine.host.run("modprobe", "-r", "hisi_sec2")
    machine.host.run("modprobe", "-r", "hisi_hpre")
    kept = list(machine.loaded())

    machine.host.run("modprobe", "-r", "hisi_zip")

    assert kept == ["uacce", "hisi_qm", "hisi_zip"]
    assert machine.loaded() == {}
    assert not (machine.root / "sys/class/uacce").exists()
    assert machine.host.run("modprobe", "-r", "uacce") == ""


def test_removal_by_rmmod_takes_the_module_alone(machine: Machine) -> None:
    machine.host.run("rmmod", "hisi_hpre")

    assert list(machine.loaded()) == ["uacce", "hisi_qm", "hisi_sec2", "hisi_zip"]
    assert {name.partition("-")[0] for name in machine.nodes()} == {"hisi_sec2", "hisi_zip"}
    assert not (machine.root / f"sys/bus/pci/devices/{PF}/driver").exists()


def test_a_modules_remove_hangs_while_a_process_has_one_of_its_nodes_open(machine: Machine) -> None:
    machine.hold(4711, ENTRY)
    shown = attribute(machine, "module/hisi_hpre/refcnt"), attribute(machine, "module/uacce/refcnt")
    with pytest.raises((process.Unkillable, process.TooSlow)):
        machine.host.run("rmmod", "hisi_hpre", timeout_s=1)
    state, again = machine.state_of("hisi_hpre"), refusal(machine, "rmmod", "hisi_hpre")
    machine.release(4711)

    # An open node counts for uacce twice, beside hisi_qm, and not for the driver.
    assert shown == ("0", "3")
    assert (state, again[1]) == ("going", "rmmod: ERROR: could not remove module hisi_hpre: Device or resource busy")
    assert "hisi_hpre" not in machine.loaded()


def test_an_open_node_is_told_by_its_numbers(machine: Machine) -> None:
    machine.hold(4711, ENTRY, comm="nginx", cgroup="0::/kubepods.slice")
    (opened,) = (machine.root / "proc/4711/fd").iterdir()

    status = opened.stat()

    assert f"{os.major(status.st_rdev)}:{os.minor(status.st_rdev)}" == attribute(machine, f"class/uacce/{ENTRY}/dev")
    assert (machine.root / "proc/4711/comm").read_text() == "nginx\n"


def test_a_module_stays_while_something_else_uses_it(machine: Machine) -> None:
    machine.pin("hisi_zip")

    assert refusal(machine, "modprobe", "-r", "hisi_zip")[1] == "modprobe: FATAL: Module hisi_zip is in use."


@pytest.mark.parametrize(
    ("folders", "winner"), [(("extra", "updates/kae"), "updates/kae"), (("extra",), "extra"), (("weak-updates",), None)]
)
def test_depmod_prefers_updates_then_extra_then_the_kernels_own(
    bare: Machine, folders: tuple[str, ...], winner: str | None
) -> None:
    for number, folder in enumerate(folders):
        bare.add_driver(f"2.0.{number}", folder)

    path = bare.host.run("modinfo", "-k", machines.KERNEL, "-n", "hisi_zip")

    expected = f"{winner}/hisi_zip.ko" if winner else "kernel/drivers/crypto/hisilicon/zip/hisi_zip.ko"
    assert path == f"/lib/modules/{machines.KERNEL}/{expected}\n"


def test_depmod_of_a_kernel_without_folder_fails(bare: Machine) -> None:
    code, said = refusal(bare, "depmod", "-a", "6.6.0")

    assert code == 1
    assert said.startswith("depmod: ERROR: could not open directory /lib/modules/6.6.0: No such file or directory")


def test_modinfo_tells_a_field_by_name_and_by_path(machine: Machine) -> None:
    by_name = machine.host.run("modinfo", "-k", machines.KERNEL, "-F", "srcversion", "hisi_qm")
    path = f"/lib/modules/{machines.KERNEL}/extra/hisi_qm.ko"

    assert by_name == f"{modulefiles.identity('hisi_qm', '2.0.1')[1]}\n"
    assert machine.host.run("modinfo", "-F", "vermagic", path).split()[0] == machines.KERNEL
    assert machine.host.run("modinfo", "hisi_qm").startswith(f"filename:       {path}\n")


def test_lsmod_shows_the_table(machine: Machine) -> None:
    lines = machine.host.run("lsmod").splitlines()

    assert lines[0] == "Module                  Size  Used by"
    assert lines[4] == "hisi_qm               262144  3 hisi_zip,hisi_sec2,hisi_hpre"
    assert len(lines) == 6


def test_a_program_that_the_host_does_not_have_is_not_taken_from_elsewhere(bare: Machine) -> None:
    assert refusal(bare, "ls")[0] == 127
    assert bare.host.has("modprobe")


def test_a_planned_failure_comes_as_often_as_it_is_said(machine: Machine) -> None:
    machine.unload()
    machine.calls()
    words = "modprobe: ERROR: could not insert 'hisi_hpre': No such device"
    machine.fail("modprobe hisi_hpre", words, times=1)

    assert refusal(machine, "modprobe", "hisi_hpre") == (1, words)
    assert machine.host.run("modprobe", "hisi_hpre") == ""
    assert machine.calls() == ["modprobe hisi_hpre", "modprobe hisi_hpre"]


def test_programs_that_run_at_once_wait_for_each_other(machine: Machine) -> None:
    machine.unload()
    kinds = ("hisi_hpre", "hisi_sec2", "hisi_zip")

    with futures.ThreadPoolExecutor(len(kinds)) as threads:
        said = list(threads.map(lambda name: machine.host.run("modprobe", name), kinds))

    assert said == ["", "", ""]
    assert len(machine.entries()) == 6
    assert set(machine.loaded()) == set(modulefiles.DRIVER)


def test_what_a_killed_program_began_is_undone_by_the_next(machine: Machine) -> None:
    machine.host.write("/fake/unfinished", "hisi_hpre")
    machine.host.remove(f"/sys/class/uacce/{ENTRY}")
    machine.host.remove(f"/dev/{ENTRY}")
    shown = machine.host.run("lsmod")

    machine.host.run("modprobe", "hisi_hpre")

    assert "hisi_hpre" not in shown
    assert len(machine.entries()) == 6
    assert set(machine.nodes()) == set(machine.entries())
