"""`list` on every ready-made host: what people and programs see, kept in tests/device_plugin/listings/."""

import asyncio
import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from device_plugin import plugin, report
from device_plugin.host import paths
from runtime import device_plugin_config as config
from runtime import files
from tests import project
from tests.device_plugin import hosts, machines, settings
from tests.device_plugin.functions import Function

HERE = Path(__file__).parent / "listings"
A, B, SEC = "0000:79:00.0", "0000:b9:00.0", "0000:76:00.0"
NOBODY = "No device plugin is at work on this node; this is what one would tell the kubelet."
Machine = Callable[[Path], hosts.Host]


def driver_changing(root: Path) -> hosts.Host:
    """A device is isolated, and the installer is at work."""
    host = machines.one_isolated(root)
    host.set_driver_changing("upgrade")
    return host


def passed_on(root: Path) -> hosts.Host:
    """A virtual function of two is for a guest, and one has no driver."""
    host = machines.bare_metal(root)
    host.set_vfs(A, 2)
    host.unbind("0000:79:00.1")
    host.bind("0000:79:00.1", "vfio-pci")
    host.unbind(B)
    return host


def broken(root: Path) -> hosts.Host:
    """Everything that can be wrong with an entry, one device each."""
    host = machines.bare_metal(root)
    host.unbind(A)
    host.half_bind(A, number=2)
    host.remove_node(B)
    host.node(SEC).unlink()
    host.node(SEC).symlink_to("/dev/urandom")
    host.set_isolate("0000:b6:00.0", -1)
    host.set_isolate("0000:75:00.0", 1)
    host.unplug("0000:b5:00.0")
    host.add(Function(address="0000:b5:00.0", kind=machines.KIND["zip"], uacce=False, numa=-1))
    return host


MACHINES: dict[str, Machine] = {
    "bare-metal": machines.bare_metal,
    "new-920": machines.new_920,
    "virtual-machine": machines.virtual_machine,
    "eight-vfs": machines.eight_vfs,
    "kae-1": machines.kae_1,
    "smmu-off": machines.smmu_off,
    "nothing-loaded": machines.nothing_loaded,
    "one-isolated": machines.one_isolated,
    "driver-changing": driver_changing,
    "passed-on": passed_on,
    "broken": broken,
    "no-device": hosts.Host,
}
EVERY = pytest.mark.parametrize("name", MACHINES)


def reported(name: str, root: Path, stated: config.Config | None = None) -> report.Report:
    return listed_now(settings.where(MACHINES[name](root)), stated or settings.settings())


def listed_now(where: paths.Paths, stated: config.Config) -> report.Report:
    return asyncio.run(report.current(where, stated))


@contextlib.contextmanager
def working(where: paths.Paths) -> Iterator[None]:
    """A device plugin is at work: it has the lock."""
    with contextlib.closing(files.Lock(where.lock)) as lock:
        assert lock.acquire()
        yield


@EVERY
def test_people_get_a_table_and_programs_get_json(name: str, tmp_path: Path) -> None:
    made = reported(name, tmp_path)

    table, data = (f"{text.replace(str(tmp_path), '')}\n" for text in (report.as_table(made), report.as_json(made)))

    assert table == project.expected(HERE / f"{name}.txt", table)
    assert data == project.expected(HERE / f"{name}.json", data)
    assert all(line == line.rstrip() for line in table.splitlines())


def test_every_listing_is_of_a_machine() -> None:
    assert {path.name for path in HERE.iterdir()} == {f"{name}{end}" for name in MACHINES for end in (".txt", ".json")}


@EVERY
def test_what_is_listed_adds_up(name: str) -> None:
    data = json.loads((HERE / f"{name}.json").read_text("utf-8"))

    for resource in data["resources"]:
        ours = [device for device in data["devices"] if device["resource"] == resource["name"]]
        healths = [device["health"] for device in ours]
        assert resource["capacity"] == len(ours) - healths.count("Withheld")
        assert resource["allocatable"] == healths.count("Healthy")
        assert all(bool(device["reasons"]) == (device["health"] != "Healthy") for device in ours)


def test_without_masks_the_node_in_containers_has_the_kernels_name(tmp_path: Path) -> None:
    stated = settings.settings(settings.uacce(mask_sysfs=False))

    listed = json.loads(report.as_json(reported("kae-1", tmp_path, stated)))

    assert {device["containerNode"] for device in listed["devices"]} == {device["node"] for device in listed["devices"]}


def test_a_device_on_a_node_that_the_machine_does_not_have_is_told_with_its_node(tmp_path: Path) -> None:
    host = hosts.Host(tmp_path, numa_nodes=1)
    for address, numa in ((A, 0), (B, 1), ("0000:c9:00.0", -1)):
        host.add(Function(address=address, kind=machines.KIND["hpre"], numa=numa))

    found = listed_now(settings.where(host), settings.settings(settings.uacce()))

    assert found.notes[1:] == (
        f"The kubelet is told no NUMA node for openfuyao.com/kae.hpre, as {B} is on node 1, which is not below"
        " /sys/devices/system/node and 0000:c9:00.0 has none.",
    )


def test_the_list_is_what_the_kubelet_was_told_not_what_the_host_is_now(tmp_path: Path) -> None:
    host = machines.one_isolated(tmp_path)
    where, stated = settings.where(host), settings.settings(settings.uacce(shares=4))
    node = plugin.Plugin(where, stated)

    with working(where):
        asyncio.run(node.look())
        host.set_isolate(A, 0)
        host.unplug(B)
        listed = listed_now(where, stated)

    told = node.device_lists["openfuyao.com/kae.hpre"].replicas
    assert listed.offered == (("openfuyao.com/kae.hpre", 2, 4, len(told), sum(share.healthy for share in told)),)
    isolated = "The kernel has isolated it after hardware errors."
    assert [(row.function.address, row.health, row.why) for row in listed.rows] == [
        (A, "Unhealthy", (isolated,)),
        (B, "Healthy", ()),
    ]
    assert NOBODY not in listed.notes


def test_without_a_plugin_at_work_the_list_is_of_the_host_and_says_so(tmp_path: Path) -> None:
    host = machines.one_isolated(tmp_path)
    where, stated = settings.where(host), settings.settings(settings.uacce())
    asyncio.run(plugin.Plugin(where, stated).look())
    host.set_isolate(A, 0)

    listed = listed_now(where, stated)

    assert [row.health for row in listed.rows] == ["Healthy", "Healthy"]
    assert listed.notes[0] == NOBODY


@pytest.mark.parametrize("content", ['{"rows": [', '{"devices": []}', "[]", ""])
def test_a_report_of_another_version_is_not_taken_for_the_absence_of_a_plugin(content: str, tmp_path: Path) -> None:
    where = settings.where(machines.bare_metal(tmp_path))
    where.report.write_text(content)

    with working(where):
        listed = listed_now(where, settings.settings(settings.uacce()))

    assert [row.health for row in listed.rows] == ["Healthy", "Healthy"]
    assert listed.notes[0] == (
        f"'{where.report}' is of another version of the device plugin, which is at work; this is what this one would"
        " tell the kubelet."
    )


def test_an_accelerator_that_no_kind_serves_is_noted(tmp_path: Path) -> None:
    found = reported("bare-metal", tmp_path, settings.settings(settings.uacce("hpre"), settings.uacce("zip")))

    assert [note for note in found.notes if "is of no kind" in note] == [
        f"{SEC} (19e5:a255, hisi_sec2-0) is of no kind that policy 'tls' serves.",
        "0000:b6:00.0 (19e5:a255, hisi_sec2-1) is of no kind that policy 'tls' serves.",
    ]
