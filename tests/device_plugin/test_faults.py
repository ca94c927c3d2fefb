import contextlib
import os
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from grpc import aio

from runtime import errors, files
from tests import effort
from tests.device_plugin import faults

pytestmark = pytest.mark.long


@pytest.fixture
def rig(short_path: Path) -> faults.Rig:
    # How soon is measured by `make faults`; here other tests take the processors.
    return faults.Rig(short_path, seed=1, quiet_s=20)


@contextlib.asynccontextmanager
async def settled(rig: faults.Rig) -> AsyncIterator[None]:
    async with rig.kubelet:
        await rig.start()
        await rig.settle()
        yield
        await rig.stop()


@pytest.mark.seeded
async def test_after_each_fault_the_kubelet_sees_exactly_the_right_devices(rig: faults.Rig) -> None:
    count = effort.examples(gate=12, long=150)
    await rig.run(count)

    assert rig.counts["  allocated"] > count // 6


async def test_a_folder_in_the_place_of_a_socket_is_left_alone(rig: faults.Rig, short_path: Path) -> None:
    sockets = short_path / "kubelet/plugins_registry/kae"
    (sockets / "hpre-00000000.sock/theirs").mkdir(parents=True)

    async with settled(rig):
        (first, *_) = sorted(filter(Path.is_socket, sockets.iterdir()))
        first.unlink()
        (first / "theirs").mkdir(parents=True)
        await rig.kubelet.until(lambda: len(set(filter(Path.is_socket, sockets.iterdir()))) == 3)
        await rig.settle()

    assert sorted(path.parent for path in sockets.rglob("theirs")) == sorted([first, sockets / "hpre-00000000.sock"])


async def test_a_lock_that_is_removed_is_taken_anew(rig: faults.Rig, short_path: Path) -> None:
    lock = short_path / "run/kae/device-plugin.lock"

    async with settled(rig):
        lock.unlink()
        rig.some_change()
        await rig.kubelet.until(lambda: files.is_locked(lock))
        await rig.settle()


async def test_a_plugin_whose_lock_cannot_be_made_anew_ends(rig: faults.Rig, short_path: Path) -> None:
    lock = short_path / "run/kae/device-plugin.lock"

    async with rig.kubelet:
        await rig.start()
        await rig.settle()
        lock.unlink()
        lock.mkdir()
        rig.some_change()
        with pytest.raises(errors.Failure, match=r"device-plugin.lock' cannot be made: Is a directory\.$"):
            await rig.kubelet.until(rig.ended)


async def test_a_plugin_whose_lock_another_one_has_taken_ends(rig: faults.Rig, short_path: Path) -> None:
    lock = short_path / "run/kae/device-plugin.lock"

    async with rig.kubelet:
        await rig.start()
        await rig.settle()
        lock.unlink()
        with contextlib.closing(files.Lock(lock)) as other:
            assert other.acquire()
            rig.some_change()
            with pytest.raises(
                errors.Failure, match=r"device-plugin.lock' was removed, and another device plugin has it"
            ):
                await rig.kubelet.until(rig.ended)


async def test_a_plugin_whose_mounted_folder_of_sockets_was_deleted_ends(rig: faults.Rig, short_path: Path) -> None:
    folder = short_path / "kae"
    folder.mkdir()
    # As a mount does, an open folder stays when it is deleted.
    mounted = os.open(folder, os.O_PATH)
    (short_path / "kubelet/plugins_registry/kae").rmdir()
    (short_path / "kubelet/plugins_registry/kae").symlink_to(f"/proc/self/fd/{mounted}")

    await rig.start()
    await rig.kubelet.until(lambda: len(list(folder.iterdir())) == 3)
    shutil.rmtree(folder)
    rig.some_change()
    with pytest.raises(
        errors.Failure, match=r"plugins_registry/kae' was deleted on the host; a restart mounts the new"
    ):
        await rig.kubelet.until(rig.ended)
    os.close(mounted)


async def test_a_socket_removed_while_it_is_made_is_replaced(rig: faults.Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[aio.Server] = []

    def server() -> aio.Server:
        """A server whose first start meets a kubelet that empties its folder."""
        found = make()
        start = found.start

        async def started() -> None:
            await start()
            if not made:
                made.append(found)
                rig.kubelet.wipe()

        monkeypatch.setattr(found, "start", started)
        return found

    make = aio.server
    monkeypatch.setattr(aio, "server", server)
    async with settled(rig):
        pass

    assert len(made) == 1
