"""The announcement of a change: while it exists, the device plugin allocates no device."""

import contextlib
import json
from collections.abc import Container
from datetime import UTC, datetime

from installer import paths
from installer.host import chroot, pci
from runtime import errors


def announce(host: chroot.Host, reason: str) -> None:
    """Write the announcement; raise `Failure` if it cannot be written."""
    since = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    host.write(paths.CHANGING, f"{json.dumps({'reason': reason, 'since': since})}\n")


def close(host: chroot.Host, current: tuple[pci.Function, ...], among: Container[str]) -> None:
    """Give the device nodes of these PCI addresses mode 0, which the record of the change restores.

    It keeps users other than root from opening a node. It keeps out neither root with CAP_DAC_OVERRIDE nor a container
    that has a node of its own: a runtime copies the mode into a container, so no pod may be given a device any more.
    """
    for function in current:
        if function.entry is not None and function.entry.mode is not None and function.address in among:
            with contextlib.suppress(errors.Failure):  # A node may vanish at any time.
                host.permit(f"/dev/{function.entry.name}", 0)


def withdraw(host: chroot.Host) -> None:
    """Remove the announcement; raise `Failure` if it stays."""
    host.remove(paths.CHANGING)
