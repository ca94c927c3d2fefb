"""Nodes of the class char by their PCI function: a device has nodes of one, whatever the numbers in their names."""

import tempfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import hypothesis
import msgspec
import pytest
from hypothesis import strategies

from device_plugin.host import resources
from runtime import device_plugin_config as config
from tests import effort
from tests.device_plugin import hosts, settings

BMC, GPU, OTHER = "0000:02:00.0", "0000:03:00.0", "0000:81:00.0"
CARDS, RENDERS = "/dev/dri/card*", "/dev/dri/renderD*"


class Host:
    """A machine whose nodes have numbers that no other machine has to have."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._host = hosts.Host(root)
        self._numbers: dict[str, str] = {}
        monkeypatch.setattr(resources, "numbers", lambda _, path: self._numbers.get(path, ""))

    def add(self, name: str, function: str | None = None) -> None:
        """Add a node below /dev, of a PCI function or of none."""
        self._numbers[f"/dev/{name}"] = numbers = f"char/226:{len(self._numbers)}"
        node = self._host.dev / name
        node.parent.mkdir(parents=True, exist_ok=True)
        node.write_text("")
        device = self._host.sysfs / "devices" / (f"pci0000:00/{function}" if function else "virtual") / name
        device.mkdir(parents=True)
        link = self._host.sysfs / "dev" / numbers
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(device)

    def bind(self, function: str, vendor: str, driver: str | None = None) -> None:
        """Say a function's vendor, and which driver it is bound to."""
        folder = self._host.sysfs / "devices/pci0000:00" / function
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "vendor").write_text(f"0x{vendor}\n")
        if driver is not None:
            (folder / "driver").symlink_to(f"../../../bus/pci/drivers/{driver}")

    def devices(self, *parts: Mapping[str, Any], **filters: str) -> dict[str, list[str]]:
        """The nodes of each device below /dev, by its id."""
        group = msgspec.convert({"paths": parts, **filters}, config.DeviceGroup)
        found = resources.walk(settings.where(self._host), [group])
        return {one.id: [node.path.removeprefix("/dev/") for node in one.nodes] for one in found}


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    """A server with a BMC, which has no render node, and two GPUs."""
    made = Host(tmp_path, monkeypatch)
    made.add("dri/card0", BMC)
    for number, function in ((1, GPU), (2, OTHER)):
        made.add(f"dri/card{number}", function)
        made.add(f"dri/renderD{127 + number}", function)
    made.bind(BMC, "1a03", "ast")
    made.bind(GPU, "8086", "xe")
    made.bind(OTHER, "1002", "amdgpu")
    return made


def test_the_card_of_a_bmc_is_never_paired_with_the_render_node_of_a_gpu(host: Host) -> None:
    assert host.devices({"path": CARDS}, {"path": RENDERS}) == {
        GPU: ["dri/card1", "dri/renderD128"],
        OTHER: ["dri/card2", "dri/renderD129"],
    }


def test_an_optional_node_is_missing_where_the_function_has_none(host: Host) -> None:
    assert host.devices({"path": CARDS}, {"path": RENDERS, "optional": True}) == {
        BMC: ["dri/card0"],
        GPU: ["dri/card1", "dri/renderD128"],
        OTHER: ["dri/card2", "dri/renderD129"],
    }


def test_nodes_of_no_function_and_of_a_limit_are_walked_beside_the_devices(host: Host) -> None:
    host.add("kfd")
    host.add("dma_heap/a")
    host.add("dma_heap/b")
    parts = ({"path": "/dev/kfd", "limit": 128}, {"path": CARDS}, {"path": "/dev/dma_heap/*"}, {"path": RENDERS})

    assert host.devices(*parts) == {
        GPU: ["kfd", "dri/card1", "dma_heap/a", "dri/renderD128"],
        OTHER: ["kfd", "dri/card2", "dma_heap/b", "dri/renderD129"],
    }


@pytest.mark.parametrize("limits", [(2, 1), (1, 2), (2, 2), (3, 2)])
@pytest.mark.parametrize(("filters", "found"), [({}, [GPU, OTHER]), ({"vendor": "8086"}, [GPU])])
def test_a_limit_pairs_no_nodes_of_two_functions(
    limits: tuple[int, int], filters: dict[str, str], found: list[str], host: Host
) -> None:
    parts = ({"path": path, "limit": limit} for path, limit in zip((CARDS, RENDERS), limits, strict=True))
    nodes = {GPU: ["dri/card1", "dri/renderD128"], OTHER: ["dri/card2", "dri/renderD129"]}

    assert host.devices(*parts, **filters) == {function: nodes[function] for function in found}


def test_a_limit_shares_a_node_among_the_nodes_of_its_function(host: Host) -> None:
    host.add("dri/renderD140", GPU)

    assert host.devices({"path": CARDS, "limit": 2}, {"path": RENDERS}, vendor="8086") == {
        f"{GPU}#renderD128": ["dri/card1", "dri/renderD128"],
        f"{GPU}#renderD140": ["dri/card1", "dri/renderD140"],
    }


@pytest.mark.parametrize(("limits", "count"), [((2, 2), 2), ((4, 2), 2), ((4, 4), 4), ((2, 1), 1)])
def test_no_node_is_in_more_devices_than_its_limit(limits: tuple[int, int], count: int, host: Host) -> None:
    for number in range(9):
        host.add(f"dma_heap/{number}")
    parts = ({"path": path, "limit": limit} for path, limit in zip((CARDS, RENDERS), limits, strict=True))

    devices = host.devices(*parts, {"path": "/dev/dma_heap/*"}, vendor="8086")

    assert [nodes[:2] for nodes in devices.values()] == [["dri/card1", "dri/renderD128"]] * count


def test_one_node_with_a_limit_is_shared_by_the_devices_of_all_functions(host: Host) -> None:
    host.add("manager", OTHER)
    manager = {"path": "/dev/manager", "limit": 64}

    assert host.devices(manager, {"path": RENDERS}, vendor="8086") == {GPU: ["manager", "dri/renderD128"]}
    assert host.devices(manager, vendor="1002") == {OTHER: ["manager"]}
    assert host.devices(manager, vendor="8086") == {}


@pytest.mark.parametrize(
    ("filters", "found"),
    [
        ({}, [BMC, GPU, OTHER, "/dev/dri/card9"]),
        ({"vendor": "8086"}, [GPU]),
        ({"driver": "amdgpu"}, [OTHER]),
        ({"vendor": "8086", "driver": "xe"}, [GPU]),
        ({"vendor": "8086", "driver": "i915"}, []),
        ({"vendor": "10de"}, []),
    ],
)
def test_a_group_is_of_one_vendor_and_driver(filters: dict[str, str], found: list[str], host: Host) -> None:
    host.add("dri/card9")

    assert list(host.devices({"path": CARDS}, **filters)) == found


def test_a_function_without_a_driver_is_of_no_driver(host: Host) -> None:
    host.add("dri/card3", "0000:c1:00.0")
    host.bind("0000:c1:00.0", "8086")

    assert list(host.devices({"path": CARDS}, vendor="8086")) == [GPU, "0000:c1:00.0"]
    assert list(host.devices({"path": CARDS}, vendor="8086", driver="xe")) == [GPU]


def test_a_filter_leaves_no_device_of_nodes_that_belong_to_no_function(host: Host) -> None:
    host.add("ttyUSB0")

    assert host.devices({"path": "/dev/ttyUSB*"}, vendor="8086") == {}


LIMITS = ((2, 1), (1, 2), (2, 2), (3, 2))

Layout = Sequence[tuple[str, str, int | None]]
"""Nodes: the word of their name, their number and their function."""

_NODES = strategies.lists(
    strategies.tuples(
        strategies.sampled_from(("card", "render")),
        strategies.integers(0, 20).map(str),
        strategies.none() | strategies.integers(0, 4),
    ),
    max_size=16,
    unique_by=lambda node: node[:2],
)


@hypothesis.given(nodes=_NODES, vendors=strategies.lists(strategies.sampled_from("ab"), min_size=5, max_size=5))
@hypothesis.settings(max_examples=effort.examples(gate=15, long=300))
def test_no_device_has_nodes_of_two_functions(nodes: Layout, vendors: Sequence[str]) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as monkeypatch:
        host = Host(Path(folder), monkeypatch)
        owners: dict[str, int | None] = {}
        for word, number, function in nodes:
            owners[f"{word}{number}"] = function
            host.add(f"{word}{number}", f"0000:0{function}:00.0" if function is not None else None)
        for function, vendor in enumerate(vendors):
            host.bind(f"0000:0{function}:00.0", vendor * 4)
        parts = ({"path": "/dev/card*"}, {"path": "/dev/render*"})
        limited = [tuple({**part, "limit": limit} for part, limit in zip(parts, pair, strict=True)) for pair in LIMITS]

        of_limits = [nodes for paths in limited for nodes in host.devices(*paths).values()]
        found = list(host.devices(*parts).values())
        of_a = list(host.devices(*parts, vendor="aaaa").values())

    own: dict[int | None, dict[str, list[str]]] = defaultdict(lambda: {"card": [], "render": []})
    for name, function in sorted(owners.items()):
        own[function][name.rstrip("0123456789")].append(name)
    pairs = {
        function: [list(pair) for pair in zip(words["card"], words["render"], strict=False)]
        for function, words in own.items()
    }
    # A path whose nodes are all of no function is walked beside the other's.
    if all(any(owners[name] is not None for name in owners if name.startswith(word)) for word in ("card", "render")):
        assert sorted(found) == sorted(pair for made in pairs.values() for pair in made)
        assert sorted(of_a) == sorted(
            pair
            for function, made in pairs.items()
            if function is not None and vendors[function] == "a"
            for pair in made
        )
    for device in (*found, *of_limits):
        assert len({owners[name] for name in device} - {None}) <= 1
