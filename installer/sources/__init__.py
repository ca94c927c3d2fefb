"""The sources of drivers: one module for each, behind one interface.

A source fills a folder of the store and does not touch the running driver, so that a missing mirror, header or
signature fails before any pod is evicted.
"""

import gzip
import lzma
import shutil
import zlib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Protocol

import msgspec

from installer import change_steps, paths
from installer.host import chroot, digests, kmod, rpm
from runtime import driver_config, errors, readings

CREDENTIALS = "run/credentials"
"""The folder in the container with the keys of the Secret of the repositories."""


IMAGE_PACKAGES = "opt/packages"
"""The repository in the image, for hosts without a network."""

_OPENERS: Mapping[str, Callable[[Path], gzip.GzipFile | lzma.LZMAFile]] = {".gz": gzip.GzipFile, ".xz": lzma.LZMAFile}
_ZSTD = ".zst"
"""Python 3.11 has no zstd, so the host's program is used."""

_PACKED = tuple(f".ko{suffix}" for suffix in (*_OPENERS, _ZSTD))
"""The ends of the names of compressed modules, as kmod's tools take them (depmod(8), modprobe(8))."""


class Context(msgspec.Struct, frozen=True, kw_only=True):
    """The inputs of a source."""

    host: chroot.Host
    image: Path
    """The image's root, / except in tests: /opt/lib/modules and /opt/src/<recipe> are below it."""
    settings: driver_config.Config
    kernel: str
    """The release of the host's running kernel, as `uname -r` prints it."""
    payloads: Path = Path("/payload")
    """The folder with a folder of files for each payload of the config."""

    @property
    def brought(self) -> dict[str, list[Path]]:
        """Return the folders with user-space files, by the names that their files have in a driver's tree."""
        # Without payloads they are in the image, which may have none.
        payloads = [self.payloads / payload.name for payload in self.settings.payloads]
        found = {}
        for file in self.settings.files:
            below = file.from_.lstrip("/")
            name = paths.part(self.settings.home.files, file.to)
            found[name] = [
                payload / below
                for payload in payloads
                # A link of the payload may lead out of it, to files of this image or of the host.
                if (payload / below).is_dir() and (payload / below).resolve().is_relative_to(payload.resolve())
            ]
            if not payloads:
                found[name] = [self.image / below]
        return found


def repositories(context: Context, stated: driver_config.Repositories) -> rpm.Repositories:
    """Return the repositories of a source, with the user of its Secret; raise `Failure` if a key of it is unusable."""
    if stated.credentials_secret is None:
        return rpm.Repositories(stated.repositories)
    user = {}
    for key in ("username", "password"):
        user[key] = (readings.text(context.image / CREDENTIALS / key) or "").strip()
        if not user[key] or "\n" in user[key] or "$" in user[key]:
            raise errors.Failure(
                f"The Secret '{stated.credentials_secret}' has no key '{key}' with one line of ASCII without '$', which"
                " dnf takes for a variable: correct it, as the repositories of the driver's source are read with it."
            )
    return rpm.Repositories(stated.repositories, **user)


def bring_packages(context: Context, stated: driver_config.Repositories) -> None:
    """Copy the repository in the image to where the host's dnf reads it, if the source asks for it."""
    # It goes with the rest of a staging.
    folder = context.image / IMAGE_PACKAGES
    if not stated.is_in_image:
        return
    if not (folder / "repodata/repomd.xml").is_file():
        raise errors.Failure(
            f"The image has no repository at /{IMAGE_PACKAGES}, for which '{driver_config.IMAGE_PACKAGES}' stands:"
            " build one that has, or name another repository."
        )
    for path in digests.files(folder):
        context.host.copy(path, f"{paths.PACKAGES}/{path.relative_to(folder)}")


def module_files(folder: Path) -> list[Path]:
    """Return the module files below a folder, plain and compressed."""
    return [path for path in sorted(folder.rglob("*.ko*")) if path.name.endswith((".ko", *_PACKED))]


def place(context: Context, files: Iterable[Path], folder: str, lacking: str) -> None:
    """Copy the modules to load into a folder of the store, each plain and with the kernel's name.

    Where the class brings them along, others that they need come, too, as far as these are among `files` and not left
    to the kernel. `lacking` is the message of the `Failure` for modules to load that are not, in which {} stands for
    their names.
    """
    modules: dict[str, Path] = {}
    for path in files:
        name, other = kmod.name_of(path.name), modules.get(kmod.name_of(path.name), path)
        if context.settings.brings_along and not digests.same(path, other):
            raise errors.Failure(f"Module {name} is there twice, as '{other}' and as '{path}': keep one of them.")
        modules[name] = path
    waiting = list(context.settings.names)
    if missing := [name for name in waiting if name not in modules]:
        raise errors.Failure(lacking.format(", ".join(missing)))
    placed: set[str] = set()
    while waiting:
        name = waiting.pop(0)
        if name in modules and name not in {*placed, *context.settings.left_out}:
            placed.add(name)
            target = f"{folder}/modules/{name}.ko"
            _unpack(context.host, modules[name], target)
            waiting += kmod.depends(context.host, target) if context.settings.brings_along else ()


def _unpack(host: chroot.Host, source: Path, absolute: str) -> None:
    """Write a module file to a path of the host, decompressed: not every host's modprobe does that."""
    if source.suffix == ".ko":
        host.copy(source, absolute)
    elif source.suffix == _ZSTD:
        if not host.has("zstd"):
            raise errors.Failure(
                f"'{source}' is compressed by zstd, and the host has no program zstd: install it, or put the module"
                " into the image plain."
            )
        there = f"{absolute}{_ZSTD}"
        host.copy(source, there)
        host.run("zstd", "--decompress", "--quiet", "--force", "--rm", there, "-o", absolute)
    else:
        with host.fresh(absolute) as fresh:
            try:
                with _OPENERS[source.suffix](source) as packed, fresh.open("xb") as plain:
                    shutil.copyfileobj(packed, plain, 1 << 20)
            except (lzma.LZMAError, gzip.BadGzipFile, EOFError, zlib.error) as error:
                raise errors.Failure(f"'{source}' cannot be decompressed: {error}.") from error


class Source(Protocol):
    """A source of drivers."""

    def fingerprint(self) -> str:
        """Return a text that identifies the content to stage, apart from the config."""

    def lacks(self) -> str:
        """Return what it has not for the kernel, as far as that is known without a download; empty for nothing."""

    def steps(self, folder: str) -> tuple[change_steps.Step, ...]:
        """Return the steps that fill an empty folder of the host, modules/*.ko and packages/*.rpm, or say why not."""
