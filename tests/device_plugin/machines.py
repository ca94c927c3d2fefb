"""Ready-made hosts, as they stand in racks or run as guests."""

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypedDict, Unpack

from compiler import kae
from tests.device_plugin import hosts, kernel
from tests.device_plugin.functions import Function

KIND: Mapping[str, kae.Kind] = MappingProxyType({kind.name: kind for kind in kae.KINDS})

_SOCKETS = (
    ("sec", "0000:76:00.0", "pci0000:74/0000:74:01.0", 0),
    ("sec", "0000:b6:00.0", "pci0000:b4/0000:b4:01.0", 1),
    ("hpre", "0000:79:00.0", "pci0000:78/0000:78:00.0", 0),
    ("hpre", "0000:b9:00.0", "pci0000:b8/0000:b8:00.0", 1),
    ("zip", "0000:75:00.0", "pci0000:74/0000:74:00.0", 0),
    ("zip", "0000:b5:00.0", "pci0000:b4/0000:b4:00.0", 1),
)
"""The devices of two sockets in the order of probing: KAE's documents show hisi_sec2-0 to hisi_zip-5 like this."""

_NEW_ALGORITHMS = {
    "hpre": ("rsa", "dh", "ecdh", "ecdsa", "sm2", "x25519", "x448"),
    "sec": ("cipher", "digest", "aead"),
    "zip": ("zlib", "gzip", "deflate", "lz77_zstd"),
}


class Options(TypedDict, total=False):
    """The options of a machine beyond those of `hosts.Host`."""

    mknod: bool
    tell: Callable[[kernel.Event], None]


def bare_metal(root: Path, **options: Unpack[Options]) -> hosts.Host:
    """A Kunpeng 920 with two sockets and a device of each kind in both."""
    return _two_sockets(root, {}, **options)


def new_920(root: Path, **options: Unpack[Options]) -> hosts.Host:
    """A new Kunpeng 920 with four NUMA nodes and a device of each kind in every one."""
    host = hosts.Host(root, numa_nodes=4, **options)
    for name, bus in (("sec", 0x30), ("hpre", 0x34), ("zip", 0x38)):
        for numa in range(4):
            host.add(
                Function(
                    address=f"0000:{bus + 0x20 * numa:02x}:00.0",
                    kind=KIND[name],
                    numa=numa,
                    algorithms=_NEW_ALGORITHMS[name],
                    api="hisi_qm_v3",
                    revision=0x30,
                )
            )
    return host


def virtual_machine(root: Path, **options: Unpack[Options]) -> hosts.Host:
    """A guest with one virtual function of an HPRE, whose firmware names no NUMA node."""
    host = hosts.Host(root, numa_nodes=1, **options)
    host.add(
        Function(
            address="0000:02:00.0",
            kind=KIND["hpre"],
            physical=False,
            numa=-1,
            queues=96,
            parent="pci0000:00/0000:00:02.1",
        )
    )
    return host


def eight_vfs(root: Path, **options: Unpack[Options]) -> hosts.Host:
    """A Kunpeng 920 with two sockets, and eight virtual functions on every device."""
    host = bare_metal(root, **options)
    for address in host.states():
        host.set_vfs(address, 8)
    return host


def kae_1(root: Path, **options: Unpack[Options]) -> hosts.Host:
    """A Kunpeng 920 with two sockets and KAE 1 on a kernel 4.19."""
    return _two_sockets(root, {"layout": "KAE 1"}, **options)


def smmu_off(root: Path, **options: Unpack[Options]) -> hosts.Host:
    """A Kunpeng 920 with two sockets whose firmware has the SMMU off."""
    return _two_sockets(root, {"api": "hisi_qm_v2_noiommu", "flags": 2}, **options)


def nothing_loaded(root: Path, **options: Unpack[Options]) -> hosts.Host:
    """A Kunpeng 920 with two sockets and no KAE driver."""
    host = _two_sockets(root, {"driver": None}, **options)
    host.unload()
    return host


def one_isolated(root: Path, **options: Unpack[Options]) -> hosts.Host:
    """A Kunpeng 920 with two sockets, where the kernel has isolated the first HPRE device."""
    host = bare_metal(root, **options)
    host.set_isolate("0000:79:00.0", 1)
    return host


def with_guests(root: Path) -> hosts.Host:
    """A Kunpeng 920 with three virtual functions of an HPRE, two of which are bound to vfio-pci."""
    host = bare_metal(root)
    host.set_vfs("0000:79:00.0", 3)
    host.lend("0000:79:00.1", 41)
    host.lend("0000:79:00.2", 42)
    return host


def with_onload(root: Path) -> hosts.Host:
    """A machine with device nodes and libraries of Onload, and things beside them."""
    host = hosts.Host(root)
    for name in ("onload", "onload_epoll"):
        (host.dev / name).symlink_to("/dev/null")
    (host.dev / "folder").mkdir()
    libraries = root / "opt/onload/usr/lib64"
    libraries.mkdir(parents=True)
    for name in ("libonload.so", "libonload_ext.so.2", "libother.so", ".libonload.so.swp"):
        (libraries / name).touch()
    return host


def _two_sockets(root: Path, differently: Mapping[str, Any], **options: Unpack[Options]) -> hosts.Host:
    host = hosts.Host(root, **options)
    # A network controller of the same vendor, as these processors have.
    host.add_foreign("0000:7d:00.0", kae.VENDOR, "a222")
    for name, address, parent, numa in _SOCKETS:
        host.add(Function(address=address, kind=KIND[name], parent=parent, numa=numa, **differently))
    return host
