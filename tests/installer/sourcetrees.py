"""Small source trees: a driver's, and the part of a kernel-devel package that compiles it.

They are real C for a real compiler and make. The modules tell the same as `modulefiles`; what modpost and the
kernel's headers would add (name, vermagic, srcversion) the fake kernel-devel adds.
"""

from pathlib import Path

from tests.installer import modulefiles

_DRIVER_MAKEFILE = """\
KERNEL_PATH ?= /lib/modules/$(shell uname -r)/build

all:
\t$(MAKE) -C $(KERNEL_PATH) M=$(CURDIR) modules

clean:
\trm -f $(CURDIR)/*.ko

.PHONY: all clean
"""

_KERNEL_MAKEFILE = """\
include $(M)/Kbuild

modules: $(patsubst %.o,$(M)/%.ko,$(obj-m))

$(M)/%.ko: $(M)/%.c include/linux/module.h include/generated/utsrelease.h
\tsrcversion=$$(md5sum < $< | cut -c 1-23 | tr a-f A-F); \\
\t$(CC) -c -O1 -Wall -Werror -ffreestanding -Iinclude -DKBUILD_MODNAME='"$*"' -DSRCVERSION="\\"$$srcversion\\"" -o $@ $<

.PHONY: modules
"""

_MODULE_HEADER = """\
#pragma once
#include <generated/utsrelease.h>
#define JOINED(a, b) a##b
#define NAMED(a, b) JOINED(a, b)
#define MODULE_INFO(tag, text) \\
\tstatic const char NAMED(info, __COUNTER__)[] \\
\t__attribute__((section(".modinfo"), used, aligned(1))) = #tag "=" text
#define EXPORT_SYMBOL(name) \\
\tstatic const char NAMED(symbol, __COUNTER__)[] \\
\t__attribute__((section("__ksymtab_strings"), used, aligned(1))) = #name; \\
\t__asm__(".globl __crc_" #name "\\n.set __crc_" #name ", 1")
MODULE_INFO(name, KBUILD_MODNAME);
MODULE_INFO(srcversion, SRCVERSION);
MODULE_INFO(vermagic, UTS_RELEASE " SMP mod_unload modversions aarch64");
"""


def write_driver(folder: Path, version: str) -> None:
    """Writes the source of a driver, as `make KERNEL_PATH=<kernel's build folder>` compiles it."""
    _write(folder / "Makefile", _DRIVER_MAKEFILE)
    objects = " ".join(f"{name}.o" for name in modulefiles.DRIVER)
    _write(folder / "Kbuild", f"obj-m := {objects}\n")
    for name in modulefiles.DRIVER:
        _write(folder / f"{name}.c", _source(name, version))


def write_kernel_devel(folder: Path, release: str) -> None:
    """Writes what the package kernel-devel of a release holds in /usr/src/kernels/<release>."""
    _write(folder / "Makefile", _KERNEL_MAKEFILE)
    _write(folder / "include/generated/utsrelease.h", f'#define UTS_RELEASE "{release}"\n')
    _write(folder / "include/config/kernel.release", f"{release}\n")
    _write(folder / "include/linux/module.h", _MODULE_HEADER)


def _source(name: str, version: str) -> str:
    module = modulefiles.ModuleFile(name=name, version=version, kernel="")
    needs = modulefiles.DEPENDS[name]
    told = (*module.told(), ("depends", ",".join(needs)))
    lines = [
        "#include <linux/module.h>",
        *(f'MODULE_INFO({key}, "{text}");' for key, text in told),
        *(f"int {need}_calls(void);" for need in needs),
        f"int {name}_calls(void);",
        f"int {name}_calls(void) {{ return {' + '.join(f'{need}_calls()' for need in needs) or '0'}; }}",
        f"EXPORT_SYMBOL({name}_calls);",
    ]
    return "".join(f"{line}\n" for line in lines)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
