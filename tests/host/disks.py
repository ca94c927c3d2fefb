"""Disks of a host of their own, in memory, which tests fill, or make read-only, and pods that use its devices."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.cluster.local import machine as mounts
from tests.installer import incidents, machines, podresources
from tests.kube import apiserver

MIB = 1 << 20


@contextmanager
def used(machine: machines.Machine, folder: Path) -> Iterator[tuple[incidents.Users, incidents.Crew]]:
    """A pod that uses a device of the host, and installers that find an API server."""
    with (
        apiserver.serving(folder) as server,
        podresources.serving(machine.root) as kubelet,
        incidents.Crew(machine, server) as crew,
    ):
        users = incidents.Users(kubelet, server)
        users.come(incidents.POD)
        yield users, crew


@contextmanager
def disk(machine: machines.Machine, absolute: str, mebibytes: int, inodes: int = 0) -> Iterator[Path]:
    """A disk of its own for a folder of the host, with all that lies there, and perhaps few inodes."""
    folder = machine.host.path(absolute).resolve()
    content = folder.with_name(f".{folder.name}.content")
    shutil.copytree(folder, content, symlinks=True)
    options = f"size={mebibytes}m,nr_inodes={inodes},mode=755"
    subprocess.run(("mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)), check=True, timeout=30)
    try:
        shutil.copytree(content, folder, symlinks=True, dirs_exist_ok=True)
        yield folder
    finally:
        mounts.unmount(folder)
        shutil.rmtree(content)


def take_inodes(folder: Path, leave: int = 0) -> None:
    """Others make files until so many inodes are free."""
    others = folder / "of others"
    others.mkdir(exist_ok=True)
    for number in range(os.statvfs(folder).f_favail - leave):
        (others / str(number)).touch()


def fill(folder: Path, leave: int = 0) -> None:
    """Others fill a disk."""
    free = shutil.disk_usage(folder).free - leave
    with (folder / "of others").open("wb") as file:
        while free > 0:
            try:
                file.write(bytes(min(free, MIB)))
                file.flush()
            except OSError:
                return
            free -= MIB


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    remount(folder, "ro")
    try:
        yield
    finally:
        remount(folder, "rw")


def remount(folder: Path, mode: str) -> None:
    subprocess.run(("mount", "-o", f"remount,{mode}", str(folder)), check=True)
