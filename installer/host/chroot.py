"""Access to the host: files below its root, and its own programs, which run by chroot."""

import contextlib
import errno
import logging
import os
import posixpath
import shutil
import stat
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TypeVar

from installer import paths
from installer.host import root
from runtime import errors, files, killable, process, pulse, uacce

LOG = logging.getLogger(__name__)

Answer = TypeVar("Answer")

_ENVIRONMENT = {
    "PATH": process.PATH,
    "LC_ALL": "C",  # The installer parses their output.
    "HOME": "/root",
}

_WRITE_S = 120  # for an attribute of sysfs: many virtual functions take their time

_QUEUES_S = 30  # for one queue of each device

_QUOTED = 2000  # characters of a program's output that an error quotes


class CommandFailed(errors.Failure):
    """A program of the host or of the image ended with an error; `said` is its output, both streams in one."""

    def __init__(self, command: Sequence[str], code: int, said: str) -> None:
        self.command = tuple(command)
        self.code = code
        self.said = said.strip()
        last = self.said[-_QUOTED:].splitlines()
        super().__init__(f"'{' '.join(self.command)}' ended with {code}: {'; '.join(filter(None, last[-3:]))}")


class Host:
    """A host whose root is mounted at a folder; methods take its own absolute paths, and raise `errors.Failure`."""

    # `enter` is the prefix of commands that run in it: chroot, except in tests. Setting `stop` interrupts `run`.

    def __init__(
        self, root: Path, own: paths.Own, enter: Sequence[str] | None = None, stop: threading.Event | None = None
    ) -> None:
        self.root = root
        self.own = own
        self.stop = stop or threading.Event()
        self._finishes = False
        self._enter = ("chroot", str(root)) if enter is None else tuple(enter)

    @contextlib.contextmanager
    def finishing(self) -> Iterator[None]:
        """Return a context in which `stop` interrupts no program: half a change is worse than a late end."""
        self._finishes = True
        try:
            yield
        finally:
            self._finishes = False

    def path(self, absolute: str) -> Path:
        """Return the local path for reading what is at a host's path, which may be a link; see `root.local`."""
        pulse.beat(absolute)
        with changing(absolute):
            return root.local(self.root, absolute, last=False)

    def resolved(self, absolute: str) -> Path:
        """Return the local path for reading what a host's path leads to."""
        pulse.beat(absolute)
        with changing(absolute):
            return root.local(self.root, absolute)

    def nearest(self, folder: str) -> str:
        """Return a folder, or the nearest one above it that is there, without a slash at its end.

        Raises `Failure` for a link to what is not there: nobody knows what the folder holds.
        """
        while not self.resolved(folder or "/").exists():
            if self.path(folder).is_symlink():
                raise errors.Failure(f"'{folder}' on the host is a link to what is not there: mount that, or make it.")
            folder = posixpath.dirname(folder).rstrip("/")
        return folder

    def look(self, work: Callable[[], Answer]) -> Answer:
        """Return what only reads of the host return, or raise `killable.Hangs` where one hangs; `stop` ends it."""
        return killable.call(work, None if self._finishes else self.stop)

    @contextlib.contextmanager
    def held(self, absolute: str, *, made: bool = False) -> Iterator[Path]:
        """Return a context with the local path for a change, whose folder is held open; with `made` it is made before.

        Raises `OSError`, not followed is a link in the last part.
        """
        # The device plugin, which may be in a tenant's hands, renames and links there as it likes.
        pulse.beat(absolute)
        new = root.make(self.root, posixpath.dirname(absolute), foreign=paths.RUN) if made else ()
        with root.held(self.root, absolute, foreign=paths.RUN) as here:
            yield here
            for folder in new:
                files.sync(self.path(folder).parent)

    def run(self, *command: str, timeout_s: float = 120, finish: bool = False) -> str:
        """Run a program of the host, and return its output, both streams in one; `stop` ends it, but for `finish`."""
        # An error, also 127 for none, is `CommandFailed`; after `timeout_s` it is killed (`process.TooSlow`).
        stop = None if finish or self._finishes else self.stop
        return execute((*self._enter, *command), command, process.Limits(timeout_s=timeout_s, stop=stop))

    def has(self, program: str) -> bool:
        """Return whether the host has a program of this name."""
        folders = process.PATH.split(":")
        return any(os.access(self.resolved(f"{folder}/{program}"), os.X_OK) for folder in folders)

    def write(self, absolute: str, text: str, *, mode: int = 0o644) -> None:
        """Write a file atomically, also if the power fails."""
        # Its folder may be another program's: O_EXCL (open(2)) follows no link that was made in the last moment.
        with self.fresh(absolute) as fresh, fresh.open("x", encoding="utf-8") as file:
            os.fchmod(file.fileno(), mode)
            file.write(text)

    def copy(self, source: Path, absolute: str, *, mode: int = 0o644) -> None:
        """Copy a file or a link, which has to be there, atomically, also if the power fails."""
        if not os.path.lexists(source):
            raise errors.Failure(f"'{absolute}' on the host cannot be written: its copy '{source}' is not there.")
        with self.fresh(absolute) as fresh:
            if source.is_symlink():
                fresh.symlink_to(source.readlink())
                return
            with source.open("rb") as old, fresh.open("xb") as new:
                shutil.copyfileobj(old, new, 1 << 20)
                os.fchmod(new.fileno(), mode)

    def link(self, target: str, absolute: str) -> None:
        """Make a link to `target`, atomically in place of another link, but not of a folder."""
        with self.fresh(absolute) as fresh:
            fresh.symlink_to(target)

    @contextlib.contextmanager
    def fresh(self, absolute: str) -> Iterator[Path]:
        """Return the context of `files.replaced`, in a folder that exists; then all of it is on the disk."""
        with changing(absolute), self.held(absolute, made=True) as target:
            with files.replaced(target) as fresh:
                yield fresh
                if not fresh.is_symlink():
                    files.sync(fresh)
            files.sync(target.parent)

    def sync(self, paths: Iterable[Path]) -> None:
        """Write files, and the names in folders, to the disk; a link is a name in its folder."""
        for path in paths:
            pulse.beat(str(path))
            with changing(f"/{path.relative_to(self.root)}"):
                if not path.is_symlink():
                    files.sync(path)

    def write_attribute(self, absolute: str, text: str) -> None:
        """Write to an attribute of sysfs, on which the kernel acts at once; raise `Failure` with its refusal."""
        # By a child, as the write may wait in the kernel for ever.
        command = ("dd", "bs=64", "conv=notrunc,nocreat", "status=none", f"of={self.path(absolute)}")
        try:
            execute(command, (f"echo {text} > {absolute}",), process.Limits(timeout_s=_WRITE_S), stdin=text.encode())
        except CommandFailed as error:
            why = error.said.rpartition(": ")[2] or "no reason"
            raise errors.Failure(f"The kernel refuses '{text}' in '{absolute}': {why}.") from error

    def queue_outcomes(self, nodes: Sequence[str]) -> list[int]:
        """Return for each device node the errno with which it refuses a queue, as `uacce.outcome` does."""
        command = uacce.command([str(self.resolved(node)) for node in nodes])
        said = execute(command, ("the proof of queues", *nodes), process.Limits(timeout_s=_QUEUES_S))
        return [int(line) for line in said.split()]

    def permit(self, absolute: str, mode: int, group: int | None = None) -> None:
        """Set the mode of a file, which has to exist, and its group unless that is None; follow no link."""
        with changing(absolute), self.held(absolute) as path:
            descriptor = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                if stat.S_ISLNK(os.fstat(descriptor).st_mode):
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
                opened = Path(f"/proc/self/fd/{descriptor}")
                if group is not None:
                    os.chown(opened, -1, group)
                opened.chmod(mode)
            finally:
                os.close(descriptor)

    def link_nodes(self) -> None:
        """Have udev apply its rules to the device nodes that are there, as it does at each event and boot (udev(7))."""
        try:
            self.run("udevadm", "control", "--reload")
            self.run("udevadm", "trigger", "--subsystem-match=uacce")
        except (CommandFailed, process.TooSlow) as error:
            LOG.warning("udev makes the links to device nodes at the next boot only: %s", error)

    def remove_folder(self, absolute: str) -> None:
        """Remove a folder and its content, if it exists."""
        with changing(absolute), contextlib.suppress(FileNotFoundError), self.held(absolute) as path:
            shutil.rmtree(path)

    def empty(self, absolute: str) -> None:
        """Remove the files in a folder, if it exists, and what is in its place, which is not followed; folders stay."""
        with changing(absolute), contextlib.suppress(FileNotFoundError), self.held(absolute) as path:
            if not path.is_dir() or path.is_symlink():
                path.unlink()
            folder = os.open(path, os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                for name in os.listdir(folder):  # noqa: PTH208 - a descriptor has no path
                    with contextlib.suppress(IsADirectoryError):
                        os.unlink(name, dir_fd=folder)
            finally:
                os.close(folder)

    def remove(self, absolute: str) -> None:
        """Remove a file, if it exists, or an empty folder in its place."""
        with changing(absolute), contextlib.suppress(FileNotFoundError), self.held(absolute) as path:
            if path.is_dir() and not path.is_symlink():
                path.rmdir()
            else:
                path.unlink()

    def rename(self, absolute: str, other: str) -> None:
        """Rename a file or a folder, in place of what has the other name."""
        with changing(other), self.held(absolute) as here, self.held(other) as there:
            here.rename(there)


@contextlib.contextmanager
def changing(absolute: str) -> Iterator[None]:
    """Raise `errors.Failure` for an `OSError`, as for a path of the host that could not be changed."""
    try:
        yield
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise errors.Failure(f"The disk of '{absolute}' on the host is full.") from error
        raise errors.Failure(f"'{absolute}' on the host cannot be changed: {error.strerror}.") from error


@contextlib.contextmanager
def logged() -> Iterator[None]:
    """Log an `errors.Failure` and go on: the next action matters more than this one, unless the kernel hangs."""
    try:
        yield
    except process.Unkillable:
        raise
    except errors.Failure as failure:
        LOG.warning("%s", failure)


def execute(
    arguments: Sequence[str],
    shown: Sequence[str],
    limits: process.Limits,
    environment: Mapping[str, str] = MappingProxyType({}),
    stdin: bytes = b"",
) -> str:
    """Run a program as `Host.run` does; `shown` is the command in messages."""
    command = process.Command(
        arguments=arguments,
        environment={**_ENVIRONMENT, **environment},
        shown=" ".join(shown),
        merged=True,
        stdin=stdin,
    )
    ended = process.run(command, limits)
    said = ended.output.decode(errors="replace")
    if ended.code != 0:
        raise CommandFailed(shown, ended.code, said)
    return said
