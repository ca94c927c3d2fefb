"""Small source trees of KAE's libraries, which the real autotools configure: uadk, and the OpenSSL engine upon it."""

from pathlib import Path

PACKAGES = (
    *("autoconf", "automake", "binutils", "gcc", "libc6-dev", "libelf1", "libnuma-dev", "libssl-dev", "libtool"),
    *("make", "pkg-config"),
)
"""What compiles them, and kernel modules."""

_CONFIGURE = """\
AC_INIT([{name}], [1.0])
AM_INIT_AUTOMAKE([foreign subdir-objects])
AC_CONFIG_MACRO_DIRS([m4])
AC_PROG_CC
AM_PROG_AR
LT_INIT
{checks}
AC_OUTPUT
"""
_UADK_MAKEFILE = """\
lib_LTLIBRARIES = libwd.la libhisi_zip.la
libwd_la_SOURCES = wd.c
libwd_la_LDFLAGS = -version-number 2:4:0
libwd_la_LIBADD = -lnuma
libhisi_zip_la_SOURCES = zip.c
libhisi_zip_la_LDFLAGS = -version-number 2:4:0
pkginclude_HEADERS = wd.h
pkgconfigdir = $(libdir)/pkgconfig
pkgconfig_DATA = libwd.pc
SUBDIRS = . sample
"""
_UADK_PC = """\
prefix=@prefix@
exec_prefix=@exec_prefix@
libdir=@libdir@
Name: libwd
Description: none
Version: 2.4
Libs: -L${libdir} -lwd
"""
# KAE's own asks for OpenSSL 1.1 in this way, and compiles nothing with another one.
_ENGINE_CHECKS = """\
AC_ARG_ENABLE([kae], [], [], [enable_kae=no])
PKG_CHECK_MODULES([WD], [libwd])
PKG_CHECK_MODULES(libcrypto, libcrypto {wanted}, [with_crypto=yes], [with_crypto=no])
AM_CONDITIONAL([READY], [test "$enable_kae$with_crypto" = yesyes])
AC_CONFIG_FILES([Makefile src/Makefile])
"""
_ENGINE_MAKEFILE = """\
lib_LTLIBRARIES = kae.la
kae_la_SOURCES = e_uadk.c
kae_la_LDFLAGS = -module -version-number 2:0:2
kae_la_LIBADD = $(WD_LIBS)
"""


def write_uadk(folder: Path) -> None:
    """Write a uadk whose sample does not compile."""
    files = "AC_CONFIG_FILES([Makefile libwd.pc sample/Makefile])"
    _write(folder / "configure.ac", _CONFIGURE.format(name="uadk", checks=files))
    _write(folder / "Makefile.am", _UADK_MAKEFILE)
    _write(folder / "sample/Makefile.am", "noinst_PROGRAMS = sample\nsample_SOURCES = sample.c\n")
    _write(folder / "sample/sample.c", "#error\n")
    _write(folder / "libwd.pc.in", _UADK_PC)
    _write(folder / "wd.h", "int wd_do(void);\n")
    _write(folder / "wd.c", '#include <numa.h>\n#include "wd.h"\nint wd_do(void) { return numa_available(); }\n')
    _write(folder / "zip.c", "int zip_do(void) { return 0; }\n")
    _write(folder / "LICENSE", "Apache License\n")


def write_engine(folder: Path, wanted: str) -> None:
    """Write an engine that is compiled with the versions of libcrypto that pkg-config finds, as in `>= 1.1`."""
    _write(folder / "configure.ac", _CONFIGURE.format(name="engine", checks=_ENGINE_CHECKS.format(wanted=wanted)))
    _write(folder / "Makefile.am", "if READY\nSUBDIRS = src\nendif\n")
    _write(folder / "src/Makefile.am", _ENGINE_MAKEFILE)
    source = "#include <openssl/engine.h>\n#include <uadk/wd.h>\nint bind(void);\nint bind(void) { return wd_do(); }\n"
    _write(folder / "src/e_uadk.c", source)
    _write(folder / "LICENSE", "Apache License\n")


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
