"""Images of kernel modules as KMM has them: /opt/lib/modules/<kernel>/, and no other program than cp.

Each is a folder with an image's root: <name>-<kernel>/.
KMM's documentation asks no more of an image (docs/mkdocs/documentation/kmod_image.md).
"""

import itertools
import os
import shutil
import tempfile
from collections.abc import Sequence
from concurrent import futures
from dataclasses import dataclass
from pathlib import Path

from tests.vm import kernels

_SOURCES = kernels.HERE / "modules"


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    name: str
    sources: str
    version: str
    words: tuple[str, ...] = ()
    """For make."""
    packer: tuple[str, ...] = ()
    """The program that compresses each module, in place of the plain file."""

    def build(self, release: str, out: Path) -> None:
        modules = out / "opt/lib/modules" / release
        kernels.build(release, _SOURCES / self.sources, modules, f"KMODVER={self.version}", *self.words)
        for module in sorted(modules.glob("*.ko")) if self.packer else ():
            kernels.run(*self.packer, str(module))
        kernels.run("depmod", "-b", str(out / "opt"), release)


_XZ = ("xz", "--check=crc32")
"""The kernel's own decompressor knows no other check of xz (Documentation/staging/xz.rst)."""

_ZSTD = ("zstd", "-q", "--rm")

_STRANGER = ("STRANGER=1", "KBUILD_MODPOST_WARN=1")

IMAGES = (
    Image(name="simple-kmod-1.0", sources="simple-kmod", version="1.0"),
    Image(name="simple-kmod-1.1", sources="simple-kmod", version="1.1", packer=_XZ),
    Image(name="simple-kmod-1.2", sources="simple-kmod", version="1.2", words=_STRANGER),
    Image(name="onload-module-8.1", sources="onload", version="8.1"),
    Image(name="onload-module-8.2", sources="onload", version="8.2", packer=_ZSTD),
    Image(name="onload-module-8.3", sources="onload", version="8.3", words=_STRANGER),
)
"""Versions .1 and .2 are sound; the last of each has a module that no kernel takes."""

IN_TREE = Image(name="in-tree", sources="onload", version="5.3", words=("IN_TREE=1",))
"""The network driver that a kernel has by itself."""

USER_SPACE = ("8.1", "8.2", "8.3")


def make(releases: Sequence[str], out: Path) -> None:
    """Make all images; simple-kmod-mixed has the modules of one kernel in the folder of the other."""
    with futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        pairs = itertools.product((*IMAGES, IN_TREE), releases)
        list(pool.map(lambda pair: pair[0].build(pair[1], out / f"{pair[0].name}-{pair[1]}"), pairs))
    newest, earlier = releases
    mixed = out / f"simple-kmod-mixed-{newest}/opt/lib/modules"
    shutil.copytree(out / f"simple-kmod-1.0-{earlier}/opt/lib/modules/{earlier}", mixed / newest)
    for version in USER_SPACE:
        _user_space(out / f"onload-user-{version}", version)
    add_cp(*out.iterdir())


def add_cp(*roots: Path) -> None:
    """Put a program cp that needs no library into images' roots of one file system."""
    with tempfile.TemporaryDirectory(dir=roots[0].parent) as work:
        kernels.run("apt-get", "-qq", "download", "busybox-static", cwd=Path(work))
        for package in Path(work).glob("*.deb"):
            kernels.run("dpkg-deb", "-x", str(package), work)
        for root in roots:
            (root / "payload").mkdir()  # A runtime makes what is mounted.
            (root / "bin").mkdir()
            (root / "bin/cp").hardlink_to(Path(work) / "bin/busybox")  # Two megabytes.


def _user_space(root: Path, version: str) -> None:
    libraries, programs = (root / "opt/onload/usr" / name for name in ("lib64", "bin"))
    libraries.mkdir(parents=True)
    (libraries / f"libonload.so.{version}").write_text(f"{version}\n")
    (libraries / "libonload.so").symlink_to(f"libonload.so.{version}")
    programs.mkdir()
    (programs / "onload").write_text(f"#!/bin/sh\necho {version}\n")
    (programs / "onload").chmod(0o755)
