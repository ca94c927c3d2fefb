"""Read sysfs in a process of its own, which `reader` starts: `python -m device_plugin.host.reading_process`.

The kernel may let a reader of an attribute wait while it resets or removes the device, at worst for ever, and who waits
in state D (proc(5)) cannot be ended, not even by SIGKILL: its process keeps every descriptor until then. So this one
has none but sockets to the plugin, whose own end then frees its lock and its connections at once. Here each walk is a
thread: one that waits for ever takes 50 KiB, where a process would take 2 MiB.
"""

import contextlib
import os
import socket
import threading
import traceback

import msgspec

from device_plugin import served
from device_plugin.host import paths, resources, sysfs
from runtime import device_plugin_config as config
from runtime import pci

BUS = "bus"
"""Asks for the addresses on the PCI bus."""

LIBRARIES = "libraries"
"""Asks for what the host's KAE libraries lack: they may be on a network file system."""

RESOURCE = "resource "
"""Before the name of a resource, asks for what the host has of it: files may be on such a file system, too."""


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """What a walk reads: addresses of PCI functions, `BUS`, `LIBRARIES` and resources, one after the other."""

    where: paths.Paths
    kinds: tuple[served.Kind, ...]
    resources: tuple[config.AnyResource, ...]
    names: list[str]


class Answer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What was found at one name; nothing, if nothing is there."""

    function: sysfs.Function | None = None
    stranger: sysfs.Stranger | None = None
    addresses: list[str] = []
    lacks: list[str] = []
    on_host: resources.OnHost | None = None
    error: str | None = None
    """The traceback of a bug."""


_REQUESTS = msgspec.json.Decoder(Request, dec_hook=lambda kind, text: kind(text))


def serve(control: socket.socket) -> None:
    """Do every walk whose socket comes over this one (SCM_RIGHTS of unix(7)), until its other end is closed.

    On the socket of a walk the request is a line of JSON, and so is each answer, in the order of the names. Then may
    come the index of the name that is its last one.
    """
    control.sendall(b"+")
    while descriptors := socket.recv_fds(control, 1, 1)[1]:
        threading.Thread(target=_walk, args=(socket.socket(fileno=descriptors[0]),), daemon=True).start()


def _walk(connection: socket.socket) -> None:
    with contextlib.suppress(ConnectionError), connection, connection.makefile("rb") as lines:
        request = _REQUESTS.decode(lines.readline())
        last = len(request.names)
        for index, name in enumerate(request.names):
            with contextlib.suppress(BlockingIOError):
                last = int(connection.recv(16, socket.MSG_DONTWAIT) or -1)
            if index > last:
                return
            connection.sendall(msgspec.json.encode(_answer(request, name)) + b"\n")


def _answer(request: Request, name: str) -> Answer:
    try:
        if name == BUS:
            return Answer(addresses=pci.addresses(request.where.sysfs))
        if name == LIBRARIES:
            return Answer(lacks=resources.missing_libraries(request.where, request.resources))
        if name.startswith(RESOURCE):
            wanted = name.removeprefix(RESOURCE)
            (resource,) = (each for each in request.resources if each.name == wanted)
            return Answer(on_host=resources.read(request.where, resource))
        found = sysfs.read(request.where, request.kinds, name)
    except Exception:
        return Answer(error=traceback.format_exc())
    return Answer(stranger=found) if isinstance(found, sysfs.Stranger) else Answer(function=found)


if __name__ == "__main__":
    serve(socket.socket(fileno=0))
    # Without waiting for threads, which may wait for ever.
    os._exit(0)
