"""Real root file systems, with real rpm, dnf, createrepo_c and kmod: a small Debian below, one overlay for each test.

A root costs an overlay mount. Whatever is mounted below `watched` folders is unmounted by a process of its own once
the test run has ended, however it ended.
"""

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests import tools
from tests.cluster.local import machine
from tests.cluster.nodes import images

PACKAGES = ("createrepo-c", "dnf", "gpg", "gpg-agent", "kmod", "python3", "rpm")
"""The packages of the roots beyond Debian's essential ones; gpg-agent only signs packages."""

COMMANDS = {"chroot": "coreutils", "mmdebstrap": "mmdebstrap", "mount": "mount", "tar": "tar"}


def obstacles() -> Iterator[str]:
    if os.geteuid() != 0:
        yield "The host's tests need root: its root file system is real, and entered by chroot."
    yield from tools.packages(COMMANDS.items())


def debian() -> Path:
    """The folder of the Debian that all roots share, which nobody writes to; made once, then kept."""
    archive = images.debian_root(PACKAGES)
    folder = archive.with_suffix("")
    if not folder.exists():
        # Of this process alone, as another test run may unpack the same.
        fresh = folder.with_suffix(f".{os.getpid()}")
        try:
            fresh.mkdir()
            command = ("tar", "--extract", "--numeric-owner", "--file", str(archive), "--directory", str(fresh))
            subprocess.run(command, check=True, timeout=300)
            fresh.rename(folder)
        except OSError:
            if not folder.exists():
                raise
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
    return folder


@contextlib.contextmanager
def opened(folder: Path, *below: Path) -> Iterator[Path]:
    """A root upon these layers, the upper ones first; what is written lies in `layer(folder)`, for a later root."""
    root, work = folder / "root", folder / "work"
    for part in (root, work, layer(folder)):
        part.mkdir(parents=True)
    options = f"lowerdir={':'.join(map(str, below))},upperdir={layer(folder)},workdir={work}"
    subprocess.run(("mount", "-t", "overlay", "overlay", "-o", options, str(root)), check=True, timeout=30)
    try:
        yield root
    finally:
        machine.unmount(root)


def layer(folder: Path) -> Path:
    return folder / "layer"


@contextlib.contextmanager
def in_memory(folder: Path) -> Iterator[None]:
    """Keeps what is written below a folder in memory: rpm's database waits for the disk many times over."""
    subprocess.run(("mount", "-t", "tmpfs", "tmpfs", str(folder)), check=True, timeout=30)
    try:
        yield
    finally:
        machine.unmount(folder)


@contextlib.contextmanager
def watched(folder: Path) -> Iterator[None]:
    """Unmounts whatever is mounted at or below this folder when this process leaves here, also by dying."""
    keeper = subprocess.Popen(
        (sys.executable, "-m", "tests.host.roots", str(folder)),
        stdin=subprocess.PIPE,
        cwd=Path(__file__).resolve().parents[2],
        start_new_session=True,  # Ctrl-C is not meant for it.
    )
    try:
        yield
    finally:
        keeper.communicate(timeout=300)
    assert keeper.returncode == 0, "The host's roots were not unmounted."


def main() -> None:
    """Waits until standard input ends, as it does when the owner does, and unmounts what lies below the argument."""
    sys.stdin.read()
    machine.unmount(Path(sys.argv[1]))


if __name__ == "__main__":
    main()
