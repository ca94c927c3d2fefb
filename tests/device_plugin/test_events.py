"""Events that wake the plugin: only relevant ones, and only from the kernel."""

import asyncio
import errno
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import inotify_simple
import pytest

from device_plugin.host import events
from tests import tools

_DEVICES = Path("/sys/bus/pci/devices")
"""Root may write there, unless a container shows it sysfs for reading only."""


def may_speak() -> bool:
    """Return whether this process has CAP_NET_ADMIN, number 12 of linux/capability.h."""
    status = Path("/proc/self/status").read_text()
    return bool(int(status.partition("CapEff:")[2].split()[0], 16) >> 12 & 1)


_DEADLINE_S = 2.0


def uevent(action: str, path: str, **values: str) -> bytes:
    lines = [f"{action}@{path}", f"ACTION={action}", f"DEVPATH={path}", *(f"{k}={v}" for k, v in values.items())]
    return b"".join(line.encode() + b"\0" for line in lines)


@pytest.mark.parametrize("subsystem", ["pci", "uacce"])
def test_devices_of_the_bus_and_of_the_class_concern_us(subsystem: str) -> None:
    assert events.concerns(uevent("add", "/devices/pci0000:78/x", SUBSYSTEM=subsystem, SEQNUM="4"), 0)


@pytest.mark.parametrize("path", ["/module/hisi_hpre", "/bus/pci/drivers/hisi_sec2"])
def test_drivers_that_come_and_go_concern_us(path: str) -> None:
    assert events.concerns(uevent("remove", path, SUBSYSTEM="module"), 0)


@pytest.mark.parametrize(
    "message",
    [
        uevent("change", "/devices/virtual/block/loop0", SUBSYSTEM="block"),
        uevent("add", "/module/nf_tables", SUBSYSTEM="module"),
        uevent("add", "/devices/virtual/net/hisi0", SUBSYSTEM="net"),
        uevent("add", "/devices/x", SUBSYSTEM="pci_bus"),
        uevent("add", "/devices/x", SUBSYSTEMS="pci"),
        b"add@/devices/x\0SUBSYSTEM",
        b"SUBSYSTEM=pci",
        b"\xff\xfe\0\0=\0==",
        b"",
    ],
)
def test_everything_else_does_not(message: bytes) -> None:
    assert not events.concerns(message, 0)


@pytest.mark.parametrize("sender", [1, 4711, 2**32 - 1])
def test_a_process_is_not_believed(sender: int) -> None:
    message = uevent("add", "/devices/pci0000:78/x", SUBSYSTEM="uacce")

    assert events.concerns(message, 0)
    assert not events.concerns(message, sender)


@asynccontextmanager
async def listening() -> AsyncIterator[asyncio.Event]:
    """Set whenever the kernel tells of something."""
    told = asyncio.Event()
    heard = events.KernelEvents(asyncio.get_running_loop(), told.set)
    try:
        yield told
    finally:
        heard.close()


async def test_the_kernels_own_event_of_a_real_device_is_heard() -> None:
    real = next((path for path in sorted(_DEVICES.glob("*/uevent")) if os.access(path, os.W_OK)), None)
    if real is None:
        tools.skip("The uevent file of a PCI device that this user may write is needed.")
    async with listening() as told:
        # The kernel says "change" of the device, and nothing changes.
        real.write_text("change")

        await asyncio.wait_for(told.wait(), _DEADLINE_S)


async def test_a_process_that_speaks_to_the_kernels_group_is_heard_by_others_and_not_by_us() -> None:
    if not may_speak():
        tools.skip("CAP_NET_ADMIN is needed: it speaks to the kernel's multicast group.")
    loop = asyncio.get_running_loop()
    with (
        socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, 15) as witness,
        socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, 15) as liar,
    ):
        witness.bind((0, 1))
        witness.setblocking(False)
        lie = uevent("add", "/devices/no/such/device", SUBSYSTEM="uacce", LIE=str(os.getpid()))
        async with listening() as told:
            liar.sendto(lie, (0, 1))
            async with asyncio.timeout(_DEADLINE_S):
                while await loop.sock_recv(witness, 65536) != lie:
                    told.clear()
            # What has arrived there has arrived here: one more turn of the loop reads it.
            await asyncio.sleep(0)
            await asyncio.sleep(0)

            assert not told.is_set()


@asynccontextmanager
async def watching(folder: Path, prefix: str = "") -> AsyncIterator[tuple[events.FolderEvents, asyncio.Event]]:
    """Set whenever something happens in a folder."""
    told = asyncio.Event()
    folders = events.FolderEvents(asyncio.get_running_loop(), told.set)
    folders.watch(folder, prefix)
    try:
        yield folders, told
    finally:
        folders.close()


async def heard(told: asyncio.Event) -> None:
    """Waits for the next call, and forgets it."""
    await asyncio.wait_for(told.wait(), _DEADLINE_S)
    told.clear()


async def test_names_that_come_and_go_are_heard(tmp_path: Path) -> None:
    async with watching(tmp_path) as (_, told):
        (tmp_path / "a").touch()
        await heard(told)
        (tmp_path / "a").rename(tmp_path / "b")
        await heard(told)
        (tmp_path / "b").unlink()
        await heard(told)


async def test_names_that_begin_otherwise_are_not_heard(tmp_path: Path) -> None:
    async with watching(tmp_path, "hisi") as (_, told):
        (tmp_path / "tty7").touch()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert not told.is_set()

        (tmp_path / "hisi_hpre-0").touch()
        await heard(told)


async def test_used_up_inotify_instances_are_told_once_and_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def used_up() -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    with monkeypatch.context() as patch:
        patch.setattr(inotify_simple, "INotify", used_up)
        folders = events.FolderEvents(asyncio.get_running_loop(), (told := asyncio.Event()).set)
        folders.watch(tmp_path)
        folders.watch(tmp_path / "nothing")
    assert [record.getMessage() for record in caplog.records] == [
        "Folders cannot be watched (Too many open files), so what changes in them is only seen at the next scan: raise"
        " fs.inotify.max_user_instances or fs.inotify.max_user_watches of the node."
    ]
    folders.watch(tmp_path)
    (tmp_path / "a").touch()
    await heard(told)
    folders.close()


async def test_used_up_watches_are_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def used_up(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(inotify_simple.INotify, "add_watch", used_up)
    async with watching(tmp_path) as (folders, _):
        folders.watch(tmp_path)

    (record,) = caplog.records
    assert record.getMessage().startswith("Folders cannot be watched (No space left on device), so")


async def test_a_folder_that_takes_anothers_place_is_watched_once_it_is_looked_at(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    async with watching(folder) as (folders, told):
        folder.rename(tmp_path / "old")
        folder.mkdir()
        folders.watch(folder)

        (folder / "a").touch()
        await heard(told)


async def test_a_deleted_folder_is_heard_of_and_one_that_is_not_there_passed_over(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    async with watching(folder) as (folders, told):
        folders.watch(tmp_path / "nothing")
        folder.rmdir()
        await heard(told)
        folders.watch(folder)

        folder.mkdir()
        folders.watch(folder)
        told.clear()
        (folder / "a").touch()
        await heard(told)
