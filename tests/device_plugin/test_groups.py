"""Resources of the class char: how globs become devices, what they are called, and when they are healthy."""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from device_plugin import plugin, report
from device_plugin.host import resources
from device_plugin.kubelet.service import Refusal
from runtime import device_plugin_config as config
from tests.device_plugin import hosts, settings
from tests.device_plugin.functions import NODES

NPU = "example.com/npu"
FIRST, SECOND = "0000:81:00.0", "0000:c1:00.0"


def entry(*parts: Mapping[str, Any]) -> config.DeviceGroup:
    return msgspec.convert({"paths": parts}, config.DeviceGroup)


def char(*entries: config.DeviceGroup, **changes: Any) -> config.Config:
    return settings.settings(config.Char(name=NPU, groups=entries, **changes))


def host_with(root: Path, *names: str) -> hosts.Host:
    """A machine with device nodes of these names, each of other numbers."""
    host = hosts.Host(root)
    for name, (target, _) in zip(names, NODES * len(names), strict=False):
        (host.dev / name).parent.mkdir(parents=True, exist_ok=True)
        (host.dev / name).symlink_to(f"/dev/{target}")
    return host


def known_by_pci(host: hosts.Host, address: str, number: int, numa_node: int = 0) -> None:
    """Says in sysfs that the n-th kind of node belongs to a PCI function."""
    folder = host.sysfs / f"devices/pci0000:80/{address}"
    (folder / "npu/npu7").mkdir(parents=True, exist_ok=True)
    (folder / "numa_node").write_text(f"{numa_node}\n")
    link = host.sysfs / "dev/char" / NODES[number][1]
    link.parent.mkdir(parents=True, exist_ok=True)
    link.unlink(missing_ok=True)
    link.symlink_to(folder / "npu/npu7")


def given(node: plugin.Plugin, *ids: str) -> list[tuple[str, str, str]]:
    """Host path, container path and permissions of the nodes that a container gets."""
    answer = asyncio.run(node.allocate(NPU, ids))
    return [(device.host_path, device.container_path, device.permissions) for device in answer.devices]


def same(*names: str) -> list[tuple[str, str]]:
    """Device nodes of a device that have the same paths in containers."""
    return [(f"/dev/{name}", f"/dev/{name}") for name in names]


def optional(path: str) -> Mapping[str, Any]:
    return {"path": path, "optional": True}


# generic-device-plugin at 179b1fe, deviceplugin/path.go and README.md: what its users rely on, in our words.
POINTS: Mapping[
    str, tuple[Sequence[str], Sequence[Sequence[Mapping[str, Any]]], Sequence[Sequence[tuple[str, str]]]]
] = {
    "a path without a glob is one device": (["video0"], [[{"path": "/dev/video0"}]], [same("video0")]),
    "each match of a glob is a device, in the order of the names": (
        ["ttyUSB1", "ttyUSB0", "ttyUSB10"],
        [[{"path": "/dev/ttyUSB*"}]],
        [same("ttyUSB0"), same("ttyUSB1"), same("ttyUSB10")],
    ),
    "a path in the container may be another one, and is the same for each match": (
        ["ttyUSB0", "ttyUSB1"],
        [[{"path": "/dev/ttyUSB*", "as": "/dev/serial0"}]],
        [[("/dev/ttyUSB0", "/dev/serial0")], [("/dev/ttyUSB1", "/dev/serial0")]],
    ),
    "with a slash at its end it is a folder, in which the node keeps its name": (
        ["ttyUSB0", "ttyUSB1"],
        [[{"path": "/dev/ttyUSB*", "as": "/dev/serial/"}]],
        [[("/dev/ttyUSB0", "/dev/serial/ttyUSB0")], [("/dev/ttyUSB1", "/dev/serial/ttyUSB1")]],
    ),
    "paths of one group are given together, the n-th match of each": (
        ["snd/pcm0", "snd/pcm1", "snd/control0", "snd/control1"],
        [[{"path": "/dev/snd/pcm*"}, {"path": "/dev/snd/control*"}]],
        [same("snd/pcm0", "snd/control0"), same("snd/pcm1", "snd/control1")],
    ),
    "the shortest glob decides how many devices there are": (
        ["a0", "a1", "a2", "b0", "b1"],
        [[{"path": "/dev/a*"}, {"path": "/dev/b*"}]],
        [same("a0", "b0"), same("a1", "b1")],
    ),
    "without a match of one path there is no device": (["b0"], [[{"path": "/dev/a0"}, {"path": "/dev/b0"}]], []),
    "an optional path without a match is left out": (
        ["b0"],
        [[optional("/dev/a0"), optional("/dev/b0")]],
        [same("b0")],
    ),
    "of optional paths alone, none of which matches, there is no device": ([], [[optional("/dev/a0")]], []),
    "an optional path with matches counts as any other": (
        ["a0", "b0", "b1"],
        [[optional("/dev/a*"), {"path": "/dev/b*"}]],
        [same("a0", "b0")],
    ),
    "a node with a limit may be in so many devices": (
        ["a0", "b0", "b1", "b2"],
        [[{"path": "/dev/a0", "limit": 10}, {"path": "/dev/b*"}]],
        [same("a0", "b0"), same("a0", "b1"), same("a0", "b2")],
    ),
    "several matches with a limit take turns": (
        ["a0", "a1", "b0", "b1", "b2"],
        [[{"path": "/dev/a*", "limit": 2}, {"path": "/dev/b*"}]],
        [same("a0", "b0"), same("a1", "b1"), same("a0", "b2")],
    ),
    "a limit makes no more devices than there are matches of some path": (
        ["a0"],
        [[{"path": "/dev/a0", "limit": 10}]],
        [same("a0")],
    ),
    "several groups are devices of one resource": (
        ["ttyUSB0", "ttyACM0"],
        [[{"path": "/dev/ttyUSB*"}], [{"path": "/dev/ttyACM*"}]],
        [same("ttyUSB0"), same("ttyACM0")],
    ),
    "a node that two groups find alike is one device": (
        ["ttyUSB0"],
        [[{"path": "/dev/ttyUSB*"}], [{"path": "/dev/tty*"}]],
        [same("ttyUSB0")],
    ),
    "globs know classes of characters, and single ones": (
        ["npu0", "npu1", "npu9", "npux"],
        [[{"path": "/dev/npu[0-1]"}], [{"path": "/dev/np?x"}]],
        [same("npu0"), same("npu1"), same("npux")],
    ),
    "a glob may be in a folder's name": (
        ["card0/npu", "card1/npu"],
        [[{"path": "/dev/card*/npu"}]],
        [same("card0/npu"), same("card1/npu")],
    ),
}


@pytest.mark.parametrize(("names", "entries", "expected"), POINTS.values(), ids=POINTS)
def test_groups_are_found_as_generic_device_plugin_finds_them(
    tmp_path: Path,
    names: Sequence[str],
    entries: Sequence[Sequence[Mapping[str, Any]]],
    expected: Sequence[Sequence[tuple[str, str]]],
) -> None:
    host = host_with(tmp_path, *names)

    found = resources.walk(settings.where(host), [entry(*parts) for parts in entries])

    assert [[(node.path, node.container) for node in group.nodes] for group in found] == list(map(list, expected))
    assert len({group.id for group in found}) == len(found)


def test_each_device_has_its_shares_and_permissions(tmp_path: Path) -> None:
    node = settings.looked(
        host_with(tmp_path, "fuse"), char(entry({"path": "/dev/fuse", "permissions": "rwm"}), shares=3)
    )

    assert list(settings.told(node, NPU)) == ["/dev/fuse", "/dev/fuse::1", "/dev/fuse::2"]
    assert given(node, "/dev/fuse::2") == [("/dev/fuse", "/dev/fuse", "rwm")]
    assert given(node, "/dev/fuse", "/dev/fuse::1") == [("/dev/fuse", "/dev/fuse", "rwm")]


def test_a_device_is_known_by_its_pci_address_and_keeps_its_link(tmp_path: Path) -> None:
    host = host_with(tmp_path, "npu0", "npu1")
    known_by_pci(host, FIRST, 0)
    known_by_pci(host, SECOND, 1, numa_node=1)
    stated = char(entry({"path": "/dev/npu*", "as": "/dev/npu"}))
    node = settings.looked(host, stated)

    assert [(each.id, each.numa_node) for each in node.device_lists[NPU].replicas] == [(FIRST, 0), (SECOND, 1)]
    ((link, inside, _),) = given(node, SECOND)
    assert (str(Path(link).readlink()), inside) == ("/dev/npu1", "/dev/npu")

    known_by_pci(host, SECOND, 0, numa_node=1)
    known_by_pci(host, FIRST, 1)
    asyncio.run(node.look())
    assert settings.told(node, NPU) == {SECOND: True, FIRST: True}
    assert str(Path(link).readlink()) == "/dev/npu0"

    (host.dev / "npu0").unlink()
    asyncio.run(node.look())
    assert settings.told(node, NPU) == {FIRST: True}
    assert not Path(link).is_symlink()


def test_several_nodes_of_one_function_are_devices_of_their_own(tmp_path: Path) -> None:
    host = host_with(tmp_path, "npu0", "npu1")
    for number in (0, 1):
        known_by_pci(host, FIRST, number)
    node = settings.looked(host, char(entry({"path": "/dev/npu*"})))

    assert list(settings.told(node, NPU)) == [f"{FIRST}#npu0", f"{FIRST}#npu1"]
    assert [inside for _, inside, _ in given(node, f"{FIRST}#npu0", f"{FIRST}#npu1")] == ["/dev/npu0", "/dev/npu1"]


def test_the_id_of_a_node_that_goes_does_not_pass_to_the_next_of_its_function(tmp_path: Path) -> None:
    host = host_with(tmp_path, "npu0", "npu1", "npu2")
    for number in range(3):
        known_by_pci(host, FIRST, number)
    node = settings.looked(host, char(entry({"path": "/dev/npu*"})))

    (host.dev / "npu0").unlink()
    asyncio.run(node.look())

    healthy = [name for name, is_healthy in settings.told(node, NPU).items() if is_healthy]
    assert healthy == [f"{FIRST}#npu1", f"{FIRST}#npu2"]


def test_what_is_no_device_node_is_unhealthy(tmp_path: Path) -> None:
    host = host_with(tmp_path, "npu0")
    (host.dev / "npu1").write_text("")
    node = settings.looked(host, char(entry({"path": "/dev/npu*"})))

    assert settings.told(node, NPU) == {"/dev/npu0": True, "/dev/npu1": False}
    with pytest.raises(
        Refusal, match=r"Device /dev/npu1 of example\.com/npu is unhealthy: /dev/npu1 is no device node\."
    ):
        given(node, "/dev/npu1")


def test_a_node_whose_major_number_no_driver_has_is_unhealthy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    host = host_with(tmp_path, "npu0")
    monkeypatch.setattr(resources, "_majors", lambda: frozenset({"char/239", "block/1"}))

    (found,) = resources.walk(settings.where(host), [entry({"path": "/dev/npu0"})])

    assert not found.nodes[0].served


def test_the_kernel_names_the_major_numbers_of_this_machine() -> None:
    assert "char/1" in resources._majors()


def test_devices_stay_known_and_unhealthy_while_the_installer_changes_their_driver(tmp_path: Path) -> None:
    host = host_with(tmp_path, "npu0", "npu1")
    known_by_pci(host, FIRST, 0)
    node = settings.looked(host, char(entry({"path": "/dev/npu*"})))
    ((link, _, _),) = given(node, FIRST)

    host.set_driver_changing("upgrade")
    (host.dev / "npu0").unlink()
    asyncio.run(node.look())
    asyncio.run(node.look())
    assert settings.told(node, NPU) == {"/dev/npu1": False, FIRST: False}
    assert not Path(link).is_symlink()

    host.set_driver_changing(None)
    asyncio.run(node.look())
    assert settings.told(node, NPU) == {"/dev/npu1": True}


def test_two_devices_at_one_path_of_a_container_are_refused(tmp_path: Path) -> None:
    node = settings.looked(host_with(tmp_path, "npu0", "npu1"), char(entry({"path": "/dev/npu*", "as": "/dev/npu"})))

    with pytest.raises(
        Refusal, match=r"/dev/npu of the container would be two things of example\.com/npu: ask for one"
    ):
        given(node, "/dev/npu0", "/dev/npu1")


def test_a_node_that_two_devices_share_is_given_once(tmp_path: Path) -> None:
    stated = char(entry({"path": "/dev/npu*"}, {"path": "/dev/control", "limit": 8}))
    node = settings.looked(host_with(tmp_path, "npu0", "npu1", "control"), stated)

    assert sorted(inside for _, inside, _ in given(node, "/dev/npu0", "/dev/npu1")) == [
        "/dev/control",
        "/dev/npu0",
        "/dev/npu1",
    ]


def test_a_device_that_went_after_the_last_look_is_refused(tmp_path: Path) -> None:
    host = host_with(tmp_path, "npu0")
    node = settings.looked(host, char(entry({"path": "/dev/npu*"})))
    (host.dev / "npu0").unlink()

    with pytest.raises(Refusal, match=r"Device /dev/npu0 of example\.com/npu is not there\."):
        given(node, "/dev/npu0")
    assert settings.told(node, NPU) == {}


def test_containers_prefer_devices_of_one_numa_node(tmp_path: Path) -> None:
    host = host_with(tmp_path, "npu0", "npu1", "npu2")
    known_by_pci(host, FIRST, 0)
    known_by_pci(host, SECOND, 1, numa_node=1)
    node = settings.looked(host, char(entry({"path": "/dev/npu*"})))

    loads = node.loads(NPU)
    assert {name: load.numa_node for name, load in loads.items()} == {FIRST: 0, SECOND: 1, "/dev/npu2": None}


def test_the_list_shows_the_nodes_of_each_device(tmp_path: Path) -> None:
    host = host_with(tmp_path, "npu0", "control")
    known_by_pci(host, FIRST, 0)
    stated = char(entry({"path": "/dev/npu*"}, {"path": "/dev/control", "limit": 8}))

    made = asyncio.run(report.current(settings.where(host), stated))

    table = report.as_table(made)
    assert f"{FIRST}  example.com/npu  char    -         /dev/npu0 /dev/control  0 " in table
    assert '"nodes": [\n        "/dev/npu0",\n        "/dev/control"\n      ]' in report.as_json(made)
