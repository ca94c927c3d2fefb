"""Reading sysfs in both layouts, while it changes, and where it is broken."""

import os
import random
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from compiler import kae
from device_plugin import served
from device_plugin.host import sysfs
from tests.device_plugin import hosts, machines, settings
from tests.device_plugin.functions import Function

HPRE, SEC = "0000:79:00.0", "0000:76:00.0"
NEEDED = ("api", "flags", "algorithms", "available_instances", "dev")
LAYOUTS = pytest.mark.parametrize("machine", [machines.bare_metal, machines.kae_1], ids=["KAE 2", "KAE 1"])
Machine = Callable[[Path], hosts.Host]


def attribute(host: hosts.Host, address: str, name: str) -> Path:
    """Return the path of an entry's attribute in either layout."""
    folder = host.sysfs / "bus/pci/devices" / address / "uacce" / str(host.states()[address].entry)
    return folder / name if (folder / name).exists() else folder / "attrs" / name


def test_a_physical_function_is_read_in_full(tmp_path: Path) -> None:
    host = machines.bare_metal(tmp_path)

    assert settings.function(host, HPRE) == sysfs.Function(
        address=HPRE,
        kind=settings.kind("hpre"),
        virtual=False,
        driver="hisi_hpre",
        numa_node=0,
        vfs=0,
        entry=sysfs.Entry(
            name="hisi_hpre-2",
            folder=f"devices/pci0000:78/0000:78:00.0/{HPRE}/uacce/hisi_hpre-2",
            node="hisi_hpre-2",
            node_numbers="1:7",
            node_state="there",
            missing=(),
            api="hisi_qm_v2",
            algorithms=("rsa", "dh"),
            isolated=0,
            free_queues=256,
        ),
    )


def test_both_layouts_say_the_same(tmp_path: Path) -> None:
    old = settings.entry(machines.kae_1(tmp_path / "old"), SEC)
    new = settings.entry(machines.bare_metal(tmp_path / "new"), SEC)

    assert old.name == "hisi_sec-0"
    assert new.name == "hisi_sec2-0"
    for name in ("missing", "api", "algorithms", "isolated", "free_queues"):
        assert getattr(old, name) == getattr(new, name)


@LAYOUTS
@pytest.mark.parametrize("name", NEEDED)
def test_a_half_made_entry_lacks_exactly_what_is_not_there(machine: Machine, name: str, tmp_path: Path) -> None:
    host = machine(tmp_path)
    attribute(host, HPRE, name).unlink()

    assert settings.entry(host, HPRE).missing == (name,)


@LAYOUTS
@pytest.mark.parametrize("content", [b"", b"many\n", b"\xff\xfe\n", b"0x10\n"])
def test_a_number_that_is_none_is_unknown(machine: Machine, content: bytes, tmp_path: Path) -> None:
    host = machine(tmp_path)
    attribute(host, HPRE, "available_instances").write_bytes(content)
    attribute(host, HPRE, "isolate").write_bytes(content)

    found = settings.entry(host, HPRE)

    assert (found.free_queues, found.isolated) == (None, None)


@pytest.mark.parametrize("stated", [0, 1, -1, None])
def test_isolation_is_told_as_the_kernel_tells_it(stated: int | None, tmp_path: Path) -> None:
    host = hosts.Host(tmp_path)
    host.add(Function(address=HPRE, kind=machines.KIND["hpre"], isolate=stated))

    assert settings.entry(host, HPRE).isolated == stated


@pytest.mark.parametrize("replace", [Path.touch, Path.mkdir])
def test_something_else_at_the_place_of_a_device_node_is_known(replace: Callable[[Path], None], tmp_path: Path) -> None:
    host = machines.bare_metal(tmp_path)
    host.node(HPRE).unlink()
    replace(host.node(HPRE))

    assert settings.entry(host, HPRE).node_state == "other"


def test_the_device_node_may_have_another_name_than_the_entry(tmp_path: Path) -> None:
    host = machines.bare_metal(tmp_path)
    attribute(host, HPRE, "uevent").write_text("MAJOR=1\nMINOR=7\nDEVNAME=uacce/hpre\n")
    (host.dev / "uacce").mkdir()
    host.node(HPRE).rename(host.dev / "uacce/hpre")

    found = settings.entry(host, HPRE)

    assert (found.node, found.node_state) == ("uacce/hpre", "there")


def test_the_nodes_of_the_machine_are_those_in_its_folder(tmp_path: Path) -> None:
    host = machines.new_920(tmp_path)
    for name in ("has_cpu", "nodes", "node", "node1x"):
        (host.sysfs / "devices/system/node" / name).mkdir()

    assert settings.scanned(host).numa_nodes == frozenset(range(4))


def test_functions_come_sorted_and_nothing_foreign_is_among_them(tmp_path: Path) -> None:
    host = machines.bare_metal(tmp_path)
    host.add_foreign("0000:01:00.0", "8086", kae.KINDS[0].pf)
    (host.sysfs / "bus/pci/devices/not-an-address").mkdir()

    found = settings.scanned(host)

    assert [item.address for item in found.functions] == sorted(host.states())
    assert found.strangers == ()
    assert found.uacce


def test_a_folder_that_is_no_sysfs_has_nothing(tmp_path: Path) -> None:
    host = hosts.Host(tmp_path)
    (host.sysfs / "bus/pci/devices").rmdir()

    assert settings.scanned(host).functions == ()


def meanwhile(file: Path, act: Callable[[], None]) -> threading.Thread:
    """Puts a pipe in a file's place: whoever reads it gets its text once something else has happened."""
    content = file.read_bytes()
    file.unlink()
    os.mkfifo(file)

    def write() -> None:
        # Opening waits for the reader.
        with file.open("wb") as pipe:
            act()
            pipe.write(content)

    thread = threading.Thread(target=write, daemon=True)
    thread.start()
    return thread


READ = ("vendor", "device", "numa_node", *(f"uacce/hisi_hpre-2/{name}" for name in (*NEEDED, "uevent")))


@pytest.mark.parametrize("name", READ)
def test_a_function_that_is_unplugged_while_it_is_read_is_not_there(name: str, tmp_path: Path) -> None:
    host = machines.bare_metal(tmp_path)
    thread = meanwhile(host.sysfs / "bus/pci/devices" / HPRE / name, lambda: host.unplug(HPRE))

    found = settings.scanned(host)

    thread.join(5)
    assert not thread.is_alive()
    assert [item.address for item in found.functions] == sorted(host.states())
    assert HPRE not in host.states()


@pytest.mark.parametrize("name", READ[3:])
def test_an_entry_that_goes_while_it_is_read_is_not_whole(name: str, tmp_path: Path) -> None:
    host = machines.bare_metal(tmp_path)
    thread = meanwhile(host.sysfs / "bus/pci/devices" / HPRE / name, lambda: host.unbind(HPRE))

    found = settings.entry(host, HPRE)

    thread.join(5)
    assert not thread.is_alive()
    assert found.missing or found.node_state == "missing"


def test_a_host_that_changes_all_the_time_can_be_read_all_the_time(tmp_path: Path) -> None:
    host = machines.bare_metal(tmp_path)
    known, before = set(host.states()), settings.scanned(host)
    done = threading.Event()

    def change() -> None:
        dice = random.Random(1)  # noqa: S311 - which device changes is no secret
        for _ in range(10):
            address = dice.choice(sorted(known))
            host.unplug(address)
            host.replug(address)
            host.renumber()
        done.set()

    thread = threading.Thread(target=change)
    thread.start()
    looks = 0
    while not done.is_set():
        assert {item.address for item in settings.scanned(host).functions} <= known
        looks += 1
    thread.join()

    assert looks > 1
    assert [item.address for item in settings.scanned(host).functions] == [item.address for item in before.functions]
    assert all(item.entry and not item.entry.missing for item in settings.scanned(host).functions)


def test_a_device_node_is_a_functions_own_until_the_entry_is_of_another_number(tmp_path: Path) -> None:
    host = machines.bare_metal(tmp_path)
    found = settings.function(host, HPRE)

    assert sysfs.is_current(settings.where(host), found)
    host.renumber()
    assert not sysfs.is_current(settings.where(host), found)


def test_a_group_is_a_functions_own_until_it_leaves_it(tmp_path: Path) -> None:
    host = machines.bare_metal(tmp_path)
    host.lend("0000:79:00.0", 7)
    where, kinds = settings.where(host), served.kinds(settings.settings(settings.vfio()))
    found = sysfs.read(where, kinds, "0000:79:00.0")

    assert isinstance(found, sysfs.Function)
    assert sysfs.is_current(where, found)
    (host.sysfs / "kernel/iommu_groups/7/devices/0000:79:00.0").unlink()
    assert not sysfs.is_current(where, found)
