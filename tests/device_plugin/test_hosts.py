"""The fake host shows what the kernel shows, and changes as the kernel does."""

import os
import stat
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import tools
from tests.device_plugin import hosts, kernel, machines

HPRE, SEC = "0000:79:00.0", "0000:76:00.0"


def listed(host: hosts.Host) -> dict[str, str]:
    """The entries of the class uacce, and the PCI function that each belongs to."""
    folder = host.sysfs / "class/uacce"
    return {entry.name: (entry / "device").resolve().name for entry in sorted(folder.iterdir())}


@pytest.mark.parametrize("machine", machines.MACHINES.values(), ids=machines.MACHINES)
def test_every_link_leads_somewhere_inside_the_fake_sysfs(
    machine: Callable[[Path], hosts.Host], tmp_path: Path
) -> None:
    host = machine(tmp_path)

    links = [path for path in host.sysfs.rglob("*") if path.is_symlink()]

    assert links
    assert [path for path in links if not path.resolve(strict=True).is_relative_to(host.sysfs)] == []


def test_entries_are_numbered_in_the_order_of_probing(tmp_path: Path) -> None:
    host = machines.bare_metal(tmp_path)

    assert listed(host) == {
        "hisi_hpre-2": "0000:79:00.0",
        "hisi_hpre-3": "0000:b9:00.0",
        "hisi_sec2-0": "0000:76:00.0",
        "hisi_sec2-1": "0000:b6:00.0",
        "hisi_zip-4": "0000:75:00.0",
        "hisi_zip-5": "0000:b5:00.0",
    }


def test_a_device_node_is_a_character_device_of_the_numbers_that_the_entry_says(tmp_path: Path) -> None:
    host = machines.bare_metal(tmp_path)

    for address, state in host.states().items():
        found = host.node(address).stat()
        said = (host.sysfs / f"class/uacce/{state.entry}/dev").read_text()
        assert stat.S_ISCHR(found.st_mode)
        assert f"{os.major(found.st_rdev)}:{os.minor(found.st_rdev)}\n" == said


def test_renumbering_leaves_no_entry_its_number(tmp_path: Path) -> None:
    host = machines.bare_metal(tmp_path)
    before = host.states()

    host.renumber()

    after = host.states()
    assert after.keys() == before.keys()
    assert [address for address in before if before[address].entry == after[address].entry] == []
    assert listed(host) == {state.entry: address for address, state in after.items()}


def test_the_only_entry_gets_the_next_number(tmp_path: Path) -> None:
    host = machines.virtual_machine(tmp_path)

    host.renumber()

    assert listed(host) == {"hisi_hpre-1": "0000:02:00.0"}


def test_an_unplugged_function_takes_its_virtual_functions_along_and_comes_back_without_them(tmp_path: Path) -> None:
    host = machines.eight_vfs(tmp_path)

    host.unplug(HPRE)

    assert not [address for address in host.states() if address.startswith("0000:79:")]
    assert not list((host.sysfs / "bus/pci/devices").glob("0000:79:*"))
    host.replug(HPRE)
    assert [address for address in host.states() if address.startswith("0000:79:")] == [HPRE]
    assert (host.sysfs / "bus/pci/devices" / HPRE / "sriov_numvfs").read_text() == "0\n"


def test_virtual_functions_and_their_physical_one_are_linked_both_ways(tmp_path: Path) -> None:
    host = machines.bare_metal(tmp_path)

    host.set_vfs(HPRE, 8)

    folder = host.sysfs / "bus/pci/devices" / HPRE
    vfs = [(folder / f"virtfn{index}").resolve() for index in range(8)]
    assert [vf.name for vf in vfs] == [*(f"0000:79:00.{number}" for number in range(1, 8)), "0000:79:01.0"]
    assert {(vf / "physfn").resolve().name for vf in vfs} == {HPRE}
    assert [file.read_text() for vf in vfs for file in vf.glob("uacce/*/available_instances")] == ["96\n"] * 8
    with pytest.raises(ValueError, match="already enabled"):
        host.set_vfs(HPRE, 4)


def test_a_function_that_is_passed_to_a_guest_has_a_driver_and_no_entry(tmp_path: Path) -> None:
    host = machines.bare_metal(tmp_path)

    host.unbind(HPRE)
    host.bind(HPRE, "vfio-pci")

    folder = host.sysfs / "bus/pci/devices" / HPRE
    assert (folder / "driver").resolve().name == "vfio-pci"
    assert not (folder / "uacce").exists()
    assert HPRE not in listed(host).values()


def test_the_kernel_tells_of_every_step_of_an_unbinding(tmp_path: Path) -> None:
    told: list[kernel.Event] = []
    host = machines.bare_metal(tmp_path, tell=told.append)
    told.clear()

    host.unbind(HPRE)

    path = "/devices/pci0000:78/0000:78:00.0/0000:79:00.0"
    assert [event.message().split(b"\0")[0].decode() for event in told] == [
        f"remove@{path}/uacce/hisi_hpre-2",
        f"unbind@{path}",
    ]


def test_an_entry_that_is_listed_has_all_its_attributes_whatever_is_going_on(tmp_path: Path) -> None:
    host = machines.bare_metal(tmp_path)
    torn: list[str] = []
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            torn.extend(path.name for path in (host.sysfs / "class/uacce").iterdir() if lacks_attributes(path))

    reader = threading.Thread(target=read)
    reader.start()
    try:
        for _ in range(20):
            host.renumber()
            host.unplug(SEC)
            host.replug(SEC)
    finally:
        done.set()
        reader.join()

    assert torn == []


def test_a_binding_can_stop_where_the_entry_is_listed_without_attributes_and_node(tmp_path: Path) -> None:
    host = machines.bare_metal(tmp_path)
    host.unbind(HPRE)

    host.half_bind(HPRE, number=2)

    assert lacks_attributes(host.sysfs / "class/uacce/hisi_hpre-2")
    assert listed(host)["hisi_hpre-2"] == HPRE
    assert not host.node(HPRE).exists()


def lacks_attributes(entry: Path) -> bool:
    """Return whether an entry lacks an attribute and is nevertheless still listed."""
    try:
        opened = os.open(entry, os.O_DIRECTORY)
    except FileNotFoundError:
        return False
    try:
        with os.scandir(opened) as found:
            whole = {"api", "dev", "isolate"} <= {file.name for file in found}
        # Another entry may have got the name in the meantime.
        return not whole and os.path.samestat(os.fstat(opened), entry.stat())
    except FileNotFoundError:
        return False
    finally:
        os.close(opened)


def test_device_nodes_can_be_nodes_of_their_own(tmp_path: Path) -> None:
    tools.require_root("it makes device nodes")
    host = machines.bare_metal(tmp_path, mknod=True)

    node = host.node(HPRE)

    assert not node.is_symlink()
    assert stat.S_ISCHR(node.stat().st_mode)
