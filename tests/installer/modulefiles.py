"""Module files of a KAE driver: small, and valid for kmod's depmod and modinfo and for the fake kernel.

A file says everything as NUL separated key=value, the way a kernel module does in its section .modinfo: name, version,
srcversion, vermagic, depends, intree, alias, parm. Two keys are our own: `kmi` stands for the symbol versions (a
module fits only a dependency of the same kmi), `range` says what a parameter takes, as name:default:least:most:step.
"""

import functools
import hashlib
import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from compiler import kae

IN_TREE = "in-tree"
"""The version that stands for the kernel's own driver, whose modules name none."""

DEPENDS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "uacce": (),
        "hisi_qm": ("uacce",),
        **{kind.module: ("hisi_qm",) for kind in kae.KINDS},
        "hisi_acc_vfio_pci": ("hisi_qm",),
        "hisi_migration": ("hisi_qm",),
        "spcrypt": ("hisi_qm",),
    }
)
"""Every module of the driver, in the order of loading; then two for virtual machines, seldom loaded, and a stranger."""

DRIVER = (*kae.BASE_MODULES, *(kind.module for kind in kae.KINDS))
"""The modules that a driver always has, in the order of loading."""

_OWN_QUEUES = MappingProxyType({"hisi_sec2": 256})
_DEFAULTS = MappingProxyType({"ctx_q_num": 2})
"""The defaults of the parameters: pf_q_num where it is not 64, and those that are not 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleFile:
    """A file of one module."""

    name: str
    version: str
    """IN_TREE for the kernel's own."""
    kernel: str
    kmi: str = ""
    """The version, where nothing else is said."""

    @property
    def srcversion(self) -> str:
        """The digest of the sources that the module would have been made of."""
        return hashlib.sha256(f"{self.name} {self.version}".encode()).hexdigest()[:23].upper()

    def told(self) -> tuple[tuple[str, str], ...]:
        """Return the MODULE_INFO entries of the module's source in order; they are the same for every kernel."""
        in_tree = self.version == IN_TREE
        own = (("intree", "Y"),) if in_tree else (("version", self.version),)
        alias = tuple(("alias", text) for text in _aliases(self.name))
        return (("license", "GPL"), *own, ("kmi", self.kmi or self.version), *alias, *_parameters(self.name, in_tree))

    def plain(self) -> bytes:
        """The shortest file that the fake programs read."""
        made = (
            ("depends", ",".join(DEPENDS[self.name])),
            ("srcversion", self.srcversion),
            ("name", self.name),
            ("vermagic", f"{self.kernel} SMP mod_unload modversions aarch64"),
        )
        return b"".join(f"{key}={value}\0".encode() for key, value in (*self.told(), *made))

    def elf(self) -> bytes:
        """An ELF object with the same in .modinfo, and symbols by which real depmod finds dependencies."""
        return packed(self.plain(), self.name, DEPENDS[self.name])


@functools.cache
def driver(version: str, kernel: str, *names: str) -> Mapping[str, bytes]:
    """The files of a driver by name, such as hisi_qm.ko; its five modules where none are named."""
    made = (ModuleFile(name=name, version=version, kernel=kernel) for name in names or DRIVER)
    return MappingProxyType({f"{module.name}.ko": module.elf() for module in made})


def identity(name: str, version: str) -> tuple[str | None, str]:
    """Return version (none for the kernel's own) and srcversion in /sys/module of a loaded module of that version."""
    module = ModuleFile(name=name, version=version, kernel="")
    return (None if version == IN_TREE else version), module.srcversion


def _aliases(name: str) -> Iterator[str]:
    for kind in kae.KINDS:
        if kind.module == name:
            for device in (kind.pf, kind.vf):
                yield f"pci:v0000{kae.VENDOR.upper()}d0000{device.upper()}sv*sd*bc*sc*i*"


def _parameters(name: str, in_tree: bool) -> Iterator[tuple[str, str]]:
    for module in kae.MODULES:
        for parameter, takes in module.parameters.items() if module.name == name else ():
            default = _OWN_QUEUES.get(name, 64) if parameter == "pf_q_num" else _DEFAULTS.get(parameter, 0)
            # Mode 2 is KAE's own: mode_set of the kernel's uacce answers -EINVAL (drivers/crypto/hisilicon/qm.c).
            least, most = takes["minimum"], 1 if in_tree and parameter == "uacce_mode" else takes["maximum"]
            yield "parm", f"{parameter}:from {least} to {most} (uint)"
            yield "range", f"{parameter}:{default}:{least}:{most}:{takes.get('multipleOf', 1)}"


# Offsets and numbers of the System V ABI's ELF-64 object file format; EM_AARCH64 is 183.
_HEADER = struct.Struct("<4sBBB9xHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_PROGBITS, _SYMTAB, _STRTAB, _ABSOLUTE, _GLOBAL = 1, 2, 3, 0xFFF1, 0x10


def packed(modinfo: bytes, name: str, depends: Iterable[str]) -> bytes:
    """An ELF object with these entries in .modinfo, and symbols by which real depmod finds dependencies."""
    exported, needed = f"{name}_calls", tuple(f"{other}_calls" for other in depends)
    names, table = _strings(f"__crc_{exported}", exported, *needed)
    symbols = _SYMBOL.pack(0, 0, 0, 0, 0, 0)
    for symbol, place in table.items():
        symbols += _SYMBOL.pack(place, _GLOBAL, 0, 0 if symbol in needed else _ABSOLUTE, 1, 0)
    # The fake programs split the file at NULs, so one stands before the first key.
    contents = {
        ".modinfo": (_PROGBITS, b"\0" + modinfo),
        "__ksymtab_strings": (_PROGBITS, f"{exported}\0".encode()),
        ".symtab": (_SYMTAB, symbols),
        ".strtab": (_STRTAB, names),
    }
    titles, places = _strings(*contents, ".shstrtab")
    contents[".shstrtab"] = (_STRTAB, titles)
    headers, body = _SECTION.pack(*[0] * 10), b""
    for name, (sort, data) in contents.items():
        # Of a table of symbols: the section of its strings, and the first global symbol.
        link, info, entry = (4, 1, _SYMBOL.size) if sort == _SYMTAB else (0, 0, 0)
        start = _HEADER.size + len(body)
        headers += _SECTION.pack(places[name], sort, 0, 0, start, len(data), link, info, 8, entry)
        body += data + b"\0" * (-len(data) % 8)
    count = len(contents) + 1
    after = _HEADER.size + len(body)
    shape = (_HEADER.size, 0, 0, _SECTION.size, count, count - 1)
    return _HEADER.pack(b"\x7fELF", 2, 1, 1, 1, 183, 1, 0, 0, after, 0, *shape) + body + headers


def _strings(*texts: str) -> tuple[bytes, dict[str, int]]:
    data, places = b"\0", {}
    for text in texts:
        places[text] = len(data)
        data += text.encode() + b"\0"
    return data, places
