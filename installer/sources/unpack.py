"""Module files as kmod's tools take them: plain, or compressed by gzip, xz or zstd (depmod(8), modprobe(8)).

They are stored plain, as not every host's modprobe decompresses; the signature of a module is inside.
"""

import gzip
import lzma
import shutil
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path

from installer.host import chroot
from runtime import errors

_OPENERS: Mapping[str, Callable[[Path], gzip.GzipFile | lzma.LZMAFile]] = {".gz": gzip.GzipFile, ".xz": lzma.LZMAFile}
_ZSTD = ".zst"
"""Python 3.11 has no zstd, so the host's program is used."""

SUFFIXES = tuple(f".ko{suffix}" for suffix in (*_OPENERS, _ZSTD))


def module(host: chroot.Host, source: Path, absolute: str) -> None:
    """Write a module file to a path of the host, decompressed; raise `Failure` if that is impossible."""
    if source.suffix == ".ko":
        host.copy(source, absolute)
    elif source.suffix == _ZSTD:
        _by_the_host(host, source, absolute)
    else:
        with host.fresh(absolute) as fresh:
            try:
                with _OPENERS[source.suffix](source) as packed, fresh.open("xb") as plain:
                    shutil.copyfileobj(packed, plain, 1 << 20)
            except (lzma.LZMAError, gzip.BadGzipFile, EOFError, zlib.error) as error:
                raise errors.Failure(f"'{source}' cannot be decompressed: {error}.") from error


def _by_the_host(host: chroot.Host, source: Path, absolute: str) -> None:
    if not host.has("zstd"):
        raise errors.Failure(
            f"'{source}' is compressed by zstd, and the host has no program zstd: install it, or put the module into"
            " the image plain."
        )
    packed = f"{absolute}{_ZSTD}"
    host.copy(source, packed)
    host.run("zstd", "--decompress", "--quiet", "--force", "--rm", packed, "-o", absolute)
