"""A fake host as the installer knows it, behind whose files stands a kernel.

Programs run as `fakes.kmod` with FAKE_ROOT, and nothing but what the fake host has can be run; or in this process,
which takes a thirtieth of the time; or by chroot, where the root is one that has programs.
"""

import contextlib
import errno
import fcntl
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from installer import paths
from installer.host import chroot
from runtime import process
from tests.installer import homes
from tests.installer.fakes import calls, disk, kernel

MAIN = (
    "import sys; from installer import cli; from installer.host import chroot; from tests.installer import kernel;"
    " chroot.Host = kernel.Host; sys.exit(cli.main())"
)
"""The installer's program as it is, save that the host's own programs run without chroot."""

_PROGRAM = Path(calls.__file__).resolve().with_name("kmod.py")
"""The target of the links of the fake programs."""


@contextlib.contextmanager
def locked(root: Path) -> Iterator[None]:
    """Keeps the fake programs out while a test changes what they see."""
    with (root / "fake/lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


class Host(chroot.Host):
    """The host below a folder that `machines.Machine` has filled, in this process or in another one."""

    def __init__(self, root: Path, own: paths.Own = homes.KAE, **options: Any) -> None:
        """With `inside`, programs run in this process, save slow ones; with `chroot`, they are those of the root."""
        self._inside = options.get("inside", False)
        folders = ":".join(str(root / folder) for folder in ("usr/sbin", "usr/bin", "fake/bin"))
        enter = None if options.get("chroot") else ("env", f"FAKE_ROOT={root}", f"PATH={folders}")
        super().__init__(root, own, enter, options.get("stop"))

    def run(self, *command: str, timeout_s: float = 120, finish: bool = False) -> str:
        """Run a program of the host, fake or real, and return its output."""
        if not self._inside or not self._is_fake(command[0]) or calls.takes_time(str(self.root), list(command)):
            return super().run(*command, timeout_s=timeout_s, finish=finish)
        try:
            code, out, text = calls.answer(str(self.root), list(command))
        except kernel.Hangs as error:
            raise process.Unkillable(
                f"'{' '.join(command)}' hangs in the kernel, and not even SIGKILL ends it."
            ) from error
        said = f"{out}{text}\n" if text else out
        if code:
            raise chroot.CommandFailed(command, code, said)
        return said

    def resolved(self, absolute: str) -> Path:
        """Return the local path of what a path leads to; a link to a device node of this machine stands for one."""
        if absolute.startswith("/dev/"):
            here = self.path(absolute)
            if here.is_symlink() and here.is_char_device():
                return here.resolve()
        return super().resolved(absolute)

    def _is_fake(self, program: str) -> bool:
        return self.path(f"/usr/sbin/{program}").resolve() == _PROGRAM

    def queue_outcomes(self, nodes: Sequence[str]) -> list[int]:
        """Return the errno that fake/queues has for a node, else 0."""
        refused: dict[str, int] = disk.Disk(str(self.root)).value("fake/queues", {})
        return [refused.get(node.rpartition("/")[2], 0) for node in nodes]

    def write_attribute(self, absolute: str, text: str) -> None:
        """Gives an attribute in sysfs a value, and does what the kernel does then: SR-IOV, else nothing.

        Raises:
            errors.Failure: There is no such attribute, or the kernel refuses the value.
        """
        with chroot.changing(absolute):
            self._store(self.path(absolute), text)

    def _store(self, attribute: Path, text: str) -> None:
        if not attribute.is_file():
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        if attribute.name != "sriov_numvfs":
            attribute.write_text(text)
            return
        if not text.strip().isdecimal():
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        with locked(self.root):
            kernel.Kernel(str(self.root)).set_vfs(attribute.parent.resolve().name, int(text))
