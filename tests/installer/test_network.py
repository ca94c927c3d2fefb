"""A module whose interfaces carry the node's own traffic stays: routes and interfaces as Linux 6.1 shows them."""

from pathlib import Path

import pytest

from installer.host import network
from tests.installer import layouts, settings, stacks
from tests.installer.machines import Machine

NODE = "192.0.2.7"
DEFAULT = ("00000000", "010200C0", "00000000")
OWN = ("000200C0", "00000000", "00FFFFFF")
HEAD = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n"


@pytest.fixture(autouse=True)
def address(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pod knows the node's address."""
    monkeypatch.setenv(network.NODE, NODE)


@pytest.fixture
def host(machine: Machine) -> Machine:
    """A host with the card eth0 of sfc, and eth1 of another module with the default route and the node's address."""
    for name, module in (("eth0", "sfc"), ("eth1", "virtio_net")):
        card(machine, name, module)
    routes(machine, ("eth1", *DEFAULT), ("eth1", *OWN))
    return machine


def card(machine: Machine, name: str, module: str) -> None:
    """Add an interface with a device of a module's driver."""
    device = machine.root / f"sys/devices/{name}"
    (device / f"net/{name}").mkdir(parents=True)
    (machine.root / f"sys/bus/pci/drivers/of-{module}").mkdir(parents=True, exist_ok=True)
    (device / "driver").symlink_to(f"../../bus/pci/drivers/of-{module}")
    link = machine.root / f"sys/bus/pci/drivers/of-{module}/module"
    link.unlink(missing_ok=True)
    link.symlink_to(f"../../../../module/{module}")
    (device / f"net/{name}/device").symlink_to("../..")
    _show(machine, name, f"sys/devices/{name}/net/{name}")


def made(machine: Machine, name: str, *lower: str, upper: bool = True) -> None:
    """Add an interface without a device, perhaps over others."""
    folder = machine.root / f"sys/devices/virtual/net/{name}"
    folder.mkdir(parents=True)
    _show(machine, name, f"sys/devices/virtual/net/{name}")
    for other in lower:
        if upper:
            (folder / f"lower_{other}").symlink_to(f"../{other}")
        else:
            (machine.root / f"sys/class/net/{other}").resolve().joinpath("master").symlink_to(f"../{name}")


def _show(machine: Machine, name: str, place: str) -> None:
    shown = machine.root / f"sys/class/net/{name}"
    shown.parent.mkdir(parents=True, exist_ok=True)
    shown.symlink_to(f"../../../{place}")


def routes(machine: Machine, *lines: tuple[str, str, str, str]) -> None:
    """Write the table of IPv4 routes of the host: interface, destination, gateway and mask, as the kernel has them."""
    text = "".join(
        f"{name}\t{target}\t{gateway}\t0003\t0\t0\t0\t{mask}\t0\t0\t0\n" for name, target, gateway, mask in lines
    )
    layouts.put(machine.root / "proc/1/net/route", (HEAD + text).encode())


def said(machine: Machine) -> list[str]:
    """The sentences about Onload's modules, without what to do."""
    found = network.carrying(machine.host, settings.config(**stacks.ONLOAD))
    return [text.partition(": move the node's traffic")[0] for text in found]


def test_an_interface_beside_the_node_s_traffic_is_no_obstacle(host: Machine) -> None:
    assert said(host) == []


def test_a_default_route_and_the_node_s_address_are_obstacles(host: Machine) -> None:
    routes(host, ("eth0", *DEFAULT), ("eth0", *OWN))

    assert said(host) == [
        "Interface eth0 of module sfc carries the default route",
        f"Interface eth0 of module sfc carries the node's address {NODE}",
    ]


@pytest.mark.parametrize("linked", [True, False])
def test_bonds_bridges_and_vlans_are_looked_through(linked: bool, host: Machine) -> None:
    card(host, "eth2", "sfc")
    made(host, "bond0", "eth0", "eth2", upper=linked)
    made(host, "bond0.7", "bond0")
    made(host, "br0", "bond0.7")
    routes(host, ("eth1", *DEFAULT), ("br0", *OWN))

    assert said(host) == [
        f"Interface {name} of module sfc carries the node's address {NODE} through br0" for name in ("eth0", "eth2")
    ]


def test_a_default_route_of_ipv6_is_one(host: Machine) -> None:
    zeros = "0" * 32
    lines = (
        f"{zeros} 00 {zeros} 00 fd000000000000000000000000000001 00000400 00000003 00000000 00000003     eth0\n"
        f"{zeros} 00 {zeros} 00 {zeros} ffffffff 00000001 00000000 00200200       lo\n"
    )
    layouts.put(host.root / "proc/1/net/ipv6_route", lines.encode())

    assert said(host) == ["Interface eth0 of module sfc carries the default route"]


def test_an_address_of_ipv6_is_on_its_interface(host: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(network.NODE, f"{NODE}, fd00::2")
    layouts.put(host.root / "proc/1/net/if_inet6", b"fd000000000000000000000000000002 04 40 00 82     eth0\n")

    assert said(host) == ["Interface eth0 of module sfc carries the node's address fd00::2"]


@pytest.mark.parametrize(
    ("addresses", "why"),
    [
        ("", "the node's addresses are unknown (NODE_ADDRESSES is not set)"),
        ("10.9.9.9", "no interface is known to have the node's address 10.9.9.9"),
        ("here", "'here' of NODE_ADDRESSES is no address"),
    ],
)
def test_unknown_addresses_are_obstacles(
    addresses: str, why: str, host: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(network.NODE, addresses)

    assert said(host) == [f"Interface eth0 of module sfc may carry the node's traffic, as {why}"]


def test_a_port_of_open_vswitch_is_unsure(host: Machine) -> None:
    made(host, "br-ex")
    routes(host, ("br-ex", *DEFAULT), ("eth1", *OWN))

    assert said(host) == [
        "Interface eth0 of module sfc may carry the node's traffic, as the default route is on br-ex, and what is below"
        " that is unknown"
    ]


@pytest.mark.parametrize("content", [None, b"Iface\nnonsense of another kernel\n"])
def test_routes_that_cannot_be_read_are_unsure(content: bytes | None, host: Machine) -> None:
    (host.root / "proc/1/net/route").unlink()
    if content is not None:
        layouts.put(host.root / "proc/1/net/route", content)

    (text,) = said(host)
    assert text.startswith("Interface eth0 of module sfc may carry the node's traffic, as the host's routes cannot be")


def test_a_host_without_interfaces_of_the_module_asks_for_nothing(machine: Machine) -> None:
    card(machine, "eth1", "virtio_net")

    assert said(machine) == []


def test_the_swap_is_blocked_until_the_policy_forces_it(host: Machine, tmp_path: Path) -> None:
    stacks.add_own_sfc(host)
    before = host.loaded()
    routes(host, ("eth0", *DEFAULT), ("eth1", *OWN))
    image = stacks.onload(tmp_path, "8.1")

    shown = settings.installer(host, image, **stacks.ONLOAD).settle()

    assert shown.state == "Blocked"
    assert shown.reason == (
        "Interface eth0 of module sfc carries the default route: move the node's traffic to another card, or set"
        " driver.network.force in the policy."
    )
    assert host.loaded() == before
    settings.installed(host, image, **stacks.ONLOAD | {"network_force": True})
    assert settings.versions(host) == {"8.1"}


def test_a_missing_module_is_loaded_beside_one_that_carries_the_node(host: Machine, tmp_path: Path) -> None:
    image = stacks.onload(tmp_path, "8.1")
    settings.installed(host, image, **stacks.ONLOAD)
    routes(host, ("eth0", *DEFAULT), ("eth0", *OWN))
    host.reboot()
    host.load("sfc")

    settings.installed(host, image, **stacks.ONLOAD)

    assert host.loaded()["onload"][0] == "8.1"


def test_a_module_that_the_policy_drops_stays_while_it_carries_the_node(host: Machine, tmp_path: Path) -> None:
    image = stacks.onload(tmp_path, "8.1")
    settings.installed(host, image, **stacks.ONLOAD)
    before = host.loaded()
    routes(host, ("eth0", *DEFAULT), ("eth1", *OWN))

    shown = settings.installer(host, image, **stacks.ONLOAD | stacks.WITHOUT_SFC).settle()

    assert shown.state == "Blocked"
    assert shown.reason.endswith(
        "Interface eth0 of module sfc carries the default route: move the node's traffic to another card, or set"
        " driver.network.force in the policy."
    )
    assert host.loaded() == before
