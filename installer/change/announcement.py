"""The announcement of a change: while it exists, the device plugin allocates no device, and device nodes are closed.

Mode 0 keeps users other than root from opening a node. It keeps out neither root with CAP_DAC_OVERRIDE nor a container
that has a node of its own. The announcement holds the modes, as its file and the nodes both end with the boot.
"""

import contextlib
import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

import msgspec

from installer import paths
from installer.host import chroot, pci
from runtime import errors


class _Announcement(msgspec.Struct):
    modes: dict[str, int] = {}


def announce(host: chroot.Host, reason: str, functions: Iterable[pci.Function]) -> None:
    """Write the announcement, then close the device nodes; raise `Failure` if it cannot be written."""
    modes = {
        function.entry.name: mode
        for function in functions
        if function.entry is not None and (mode := mode_of(function.entry, closed(host))) is not None
    }
    since = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    host.write(paths.CHANGING, f"{json.dumps({'reason': reason, 'since': since, 'modes': modes})}\n")
    for name in modes:
        with contextlib.suppress(errors.Failure):  # A node may vanish at any time.
            host.permit(f"/dev/{name}", 0)


def closed(host: chroot.Host) -> Mapping[str, int]:
    """Return the modes that closed device nodes had before, by entry."""
    with contextlib.suppress(OSError, msgspec.DecodeError):
        return msgspec.json.decode(host.path(paths.CHANGING).read_bytes(), type=_Announcement).modes
    return {}


def mode_of(entry: pci.Entry, closed: Mapping[str, int]) -> int | None:
    """Return the mode of an entry's device node, or the one that it had before it was closed."""
    return entry.mode or closed.get(entry.name, entry.mode)


def withdraw(host: chroot.Host) -> None:
    """Open the device nodes that are still closed, then remove the announcement; raise `Failure` if it stays."""
    for name, mode in closed(host).items():
        node = host.path(f"/dev/{name}")
        with contextlib.suppress(OSError):
            # A node that was made since has the mode that the udev rule gave it.
            if not node.stat().st_mode & 0o777:
                node.chmod(mode)
    host.remove(paths.CHANGING)
