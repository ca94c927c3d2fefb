"""PCI functions of a fake host as a test states them, and the texts that the kernel would show of them.

Shapes: Documentation/ABI/testing/sysfs-bus-pci and sysfs-driver-uacce of the Linux kernel, uacce.c of
kunpengcompute/KAE (attributes that only KAE has, flags 2 and 128), and listings in KAE's documents.
"""

from dataclasses import dataclass
from typing import Literal

from compiler import kae

OWN = "own"
"""Stands for the driver of a function's kind."""

NODES = (("null", "1:3"), ("zero", "1:5"), ("full", "1:7"), ("random", "1:8"), ("urandom", "1:9"))
"""Device nodes that every machine has and anybody may open, with numbers; Documentation/admin-guide/devices.txt."""

_CLASSES = {"hpre": "0x100000", "sec": "0x100000", "zip": "0x120000"}
_ALGORITHMS = {"hpre": ("rsa", "dh"), "sec": ("cipher", "digest", "aead"), "zip": ("zlib", "gzip")}
"""Of queue management version 2, the Kunpeng 920's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """A PCI function: what it is, and how it is when it appears."""

    address: str
    kind: kae.Kind
    physical: bool = True
    numa: int = 0
    queues: int = 256
    """All of them free at first."""
    algorithms: tuple[str, ...] = ()
    """None: those of the Kunpeng 920."""
    api: str = "hisi_qm_v2"
    flags: int = 128
    revision: int = 0x21
    layout: Literal["KAE 1", "KAE 2"] = "KAE 2"
    driver: str | None = OWN
    uacce: bool = True
    """False: its driver was loaded with uacce_mode=0 and serves the kernel alone."""
    isolate: int | None = 0
    """None: the kernel has no such attribute."""
    parent: str = ""
    """Its parent below /sys/devices, such as pci0000:78/0000:78:00.0; by default below the bus before its own."""

    @property
    def path(self) -> str:
        """Its folder in sysfs."""
        domain, bus, _ = self.address.split(":")
        before = f"{int(bus, 16) - 1:02x}"
        parent = self.parent or f"pci{domain}:{before}/{domain}:{before}:00.0"
        return f"devices/{parent}/{self.address}"

    @property
    def device(self) -> str:
        return self.kind.pf if self.physical else self.kind.vf

    @property
    def entry_prefix(self) -> str:
        """The prefix of its entries' names; KAE 1 has hisi_sec where KAE 2 has hisi_sec2."""
        return self.kind.module.rstrip("2") if self.layout == "KAE 1" else self.kind.module


def pci_files(function: Function) -> dict[str, str]:
    """The attributes of a PCI function that no driver is bound to."""
    files = {
        "vendor": f"0x{kae.VENDOR}\n",
        "device": f"0x{function.device}\n",
        "class": f"{_CLASSES.get(function.kind.name, '0x100000')}\n",
        "revision": f"0x{function.revision:02x}\n",
        "numa_node": f"{function.numa}\n",
        "driver_override": "(null)\n",
        "uevent": pci_event(function, None),
    }
    if function.physical:
        files |= {"sriov_numvfs": "0\n", "sriov_totalvfs": f"{kae.MAX_VFS}\n"}
    return files


def pci_event(function: Function, driver: str | None) -> str:
    lines = [f"DRIVER={driver}"] if driver else []
    number = _CLASSES.get(function.kind.name, "0x100000").removeprefix("0x")
    lines += [
        f"PCI_CLASS={number}",
        f"PCI_ID={kae.VENDOR.upper()}:{function.device.upper()}",
        f"PCI_SLOT_NAME={function.address}",
    ]
    return "".join(f"{line}\n" for line in lines)


def entry_files(function: Function, name: str, numbers: str) -> dict[str, str]:
    """The files of a function's entry in the class uacce."""
    major, _, minor = numbers.partition(":")
    own = {"dev": f"{numbers}\n", "uevent": f"MAJOR={major}\nMINOR={minor}\nDEVNAME={name}\n"}
    # Bytes on a kernel with pages of 4 KiB: queue elements of 64 bytes in HPRE, 128 in SEC and ZIP.
    regions = {"region_mmio_size": 8192, "region_dus_size": 86016 if function.kind.name == "hpre" else 151552}
    attributes = {
        "api": function.api,
        "flags": function.flags,
        "available_instances": function.queues,
        "algorithms": "\n".join(function.algorithms or _ALGORITHMS.get(function.kind.name, ("none",))),
        "node_id": function.numa,
        "numa_distance": 10,
        **({"id": 0, "dev_state": 0} if function.layout == "KAE 1" else regions),
    }
    if function.isolate is not None:
        attributes |= {"isolate": function.isolate, "isolate_strategy": 0}
    folder = "attrs/" if function.layout == "KAE 1" else ""
    return own | {f"{folder}{key}": f"{value}\n" for key, value in attributes.items()}
