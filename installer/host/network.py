"""The interfaces of a driver's modules that carry the node's own traffic, which an unload of the modules would end.

Whatever is unsure counts as carried: a node without its network cannot even be repaired through the API server.

The layout of sysfs: Documentation/ABI/testing/sysfs-class-net and netdev_adjacent_sysfs_add of the kernel's
net/core/dev.c, which makes lower_* and upper_* links for bonds, bridges, VLANs, macvlans and VRFs. The routes are those
of the host's first process, as the installer may have a network of its own: rt_cache and fib formats of
net/ipv4/fib_trie.c (fib_route_seq_show), net/ipv6/route.c (rt6_info_route) and net/ipv6/addrconf.c (if6_seq_show).
"""

import ipaddress
import os
import socket
import struct
from collections.abc import Collection, Iterator
from pathlib import Path

from installer.host import chroot
from runtime import driver_config, readings

NODE = "NODE_ADDRESSES"
"""The environment variable with the node's addresses, separated by commas, as of status.hostIP of the pod."""

_Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_UP, _REJECT = 0x1, 0x200  # RTF_UP and RTF_REJECT of linux/route.h


def carrying(host: chroot.Host, settings: driver_config.Config, names: Collection[str] = ()) -> Iterator[str]:
    """Yield a sentence for each interface of a network module that carries, or may carry, the node's own traffic.

    Of `names`, the modules that a change may unload, those that the config does not have count as network modules:
    the policy dropped them, or others brought them along, and no rule tells of them any more.
    """
    if settings.network_force:
        return
    checked = {module.name: {module.name, *module.replaces} for module in settings.modules if module.network}
    checked |= {name: {name} for name in names if name not in settings.all_modules}
    for module, drivers in checked.items():
        folders = {name: _folder(host) / name / "device/driver/module" for name in _interfaces(host)}
        driven = [name for name, link in folders.items() if readings.link_name(link) in drivers]
        for interface, why in _carriers(host, driven):
            yield (
                f"Interface {interface} of module {module} {why}: move the node's traffic to another card, or set"
                " driver.network.force in the policy."
            )


def _interfaces(host: chroot.Host) -> list[str]:
    return sorted(name for name in readings.names(_folder(host)) if (_folder(host) / name).is_dir())


def _folder(host: chroot.Host) -> Path:
    return host.resolved("/sys/class/net")


def _carriers(host: chroot.Host, interfaces: list[str]) -> Iterator[tuple[str, str]]:
    """Yield those of these interfaces that carry the node's traffic, and why."""
    if not interfaces:
        return
    carried, unsure = _carried(host)
    for top, what in carried:
        reached, lost = _below(host, top)
        through = "" if top in interfaces else f" through {top}"
        hit = [name for name in interfaces if name in reached]
        yield from ((name, f"carries {what}{through}") for name in hit)
        if not hit and lost:
            unsure.append(f"{what} is on {lost}, and what is below that is unknown")
    if unsure:
        yield from ((name, f"may carry the node's traffic, as {'; '.join(unsure)}") for name in interfaces)


def _carried(host: chroot.Host) -> tuple[list[tuple[str, str]], list[str]]:
    """Return the interfaces with a default route or an address of the node, and sentences about what is unsure."""
    unsure: list[str] = []
    proc = host.resolved("/proc/1/net")
    routes, addresses = _routes(proc), _addresses(proc)
    if routes is None:
        return [], [f"the host's routes cannot be read ('{proc / 'route'}')"]
    found = [(name, "the default route") for name, net in routes if net.prefixlen == 0]
    nodes = [text.strip() for text in os.environ.get(NODE, "").split(",") if text.strip()]
    if not nodes:
        unsure.append("the node's addresses are unknown (NODE_ADDRESSES is not set)")
    for text in nodes:
        try:
            address = ipaddress.ip_address(text)
        except ValueError:
            unsure.append(f"'{text}' of NODE_ADDRESSES is no address")
            continue
        on = [name for name, own in addresses if own == address]
        on += [name for name, net in routes if net.prefixlen and address in net]
        found += [(name, f"the node's address {address}") for name in on]
        if not on:
            unsure.append(f"no interface is known to have the node's address {address}")
    return list(dict.fromkeys(found)), unsure


def _routes(proc: Path) -> list[tuple[str, _Network]] | None:
    """Return default routes and directly connected networks with their interfaces; None if they cannot be read."""
    old, new = readings.text(proc / "route"), readings.text(proc / "ipv6_route") or ""
    try:
        return None if old is None else [*_routes_4(old), *_routes_6(new)]
    except ValueError:
        return None


def _routes_4(text: str) -> Iterator[tuple[str, ipaddress.IPv4Network]]:
    for line in text.splitlines()[1:]:
        name, target, gateway, flags, _, _, _, mask, *_ = line.split()
        # In the host's byte order, as the kernel prints a __be32 as a number.
        network, bits = (socket.inet_ntoa(struct.pack("=I", int(word, 16))) for word in (target, mask))
        if int(flags, 16) & (_UP | _REJECT) == _UP and (int(mask, 16) == 0 or int(gateway, 16) == 0):
            yield name, ipaddress.IPv4Network(f"{network}/{bits}", strict=False)


def _routes_6(text: str) -> Iterator[tuple[str, ipaddress.IPv6Network]]:
    for line in text.splitlines():
        _, prefix, *_, flags, name = line.split()
        if int(prefix, 16) == 0 and int(flags, 16) & (_UP | _REJECT) == _UP and name != "lo":
            yield name, ipaddress.IPv6Network("::/0")


def _addresses(proc: Path) -> list[tuple[str, ipaddress.IPv6Address]]:
    lines = (line.split() for line in (readings.text(proc / "if_inet6") or "").splitlines())
    return [(line[-1], ipaddress.IPv6Address(bytes.fromhex(line[0]))) for line in lines if line]


def _below(host: chroot.Host, top: str) -> tuple[set[str], str]:
    """Return an interface and those below it, and one of these that has neither a device nor anything below it."""
    every, reached, waiting, lost = _interfaces(host), set[str](), [top], ""
    while waiting:
        name = waiting.pop()
        if name in reached:
            continue
        reached.add(name)
        links = readings.names(_folder(host) / name)
        lower = [link.removeprefix("lower_") for link in links if link.startswith("lower_")]
        lower += [other for other in every if name in _above(host, other)]
        waiting += lower
        # Such as the port of an Open vSwitch, a tunnel, or the loopback with the address of a routing daemon.
        if not lower and "device" not in links:
            lost = name
    return reached, lost


def _above(host: chroot.Host, interface: str) -> set[str]:
    folder = _folder(host) / interface
    upper = {link.removeprefix("upper_") for link in readings.names(folder) if link.startswith("upper_")}
    return upper | {master for master in (readings.link_name(folder / "master"),) if master is not None}
