"""Files of the fake host, by paths below its root.

On os alone, as importing pathlib, json or typing takes as long as a whole call of modprobe.
"""

# See above why not pathlib:
# ruff: noqa: PTH101, PTH102, PTH103, PTH104, PTH106, PTH108, PTH112, PTH114, PTH115, PTH118, PTH120, PTH123, PTH208
# ruff: noqa: PTH211

import errno
import os
from _thread import get_native_id

TYPE_CHECKING = False  # As typing's, which is not imported.
if TYPE_CHECKING:
    from typing import Any

_JSON_WORDS: dict[str, object] = {"true": True, "false": False, "null": None, "__builtins__": {}}

_COMPILED: "dict[str, Any]" = {}
"""The code of texts that were read: compiling takes longer than the rest of a reading."""


class Disk:
    """The host's files; paths are relative to its root, such as sys/module. What is written appears whole."""

    def __init__(self, root: str) -> None:
        self.root = root

    def at(self, path: str) -> str:
        """Return the real path of a path of the host: a folder in /etc, /lib or /var/lib may be an absolute link."""
        path = path.lstrip("/")
        if path.startswith(("etc/", "lib/", "var/lib/")):
            parts = path.split("/")
            depth = 3 if parts[0] == "var" else 2
            folder = os.path.join(self.root, *parts[:depth])
            if os.path.islink(folder) and (target := os.readlink(folder)).startswith("/"):
                path = os.path.join(target.lstrip("/"), *parts[depth:])
        return os.path.join(self.root, path)

    def data(self, path: str) -> bytes | None:
        """A file's content; None where there is none."""
        try:
            with open(self.at(path), "rb") as file:
                return file.read()
        except OSError:
            return None

    def text(self, path: str) -> str:
        """A file's text without the white space around it; empty where there is none."""
        return (self.data(path) or b"").decode().strip()

    def number(self, path: str) -> int:
        """The number in a file; 0 where there is none."""
        return int(self.text(path) or 0)

    def value(self, path: str, default: "Any") -> "Any":
        """Return the value of a file of JSON or of Python literals; the default where there is none."""
        text = self.text(path)
        if not text:
            return default
        if text not in _COMPILED:
            _COMPILED[text] = compile(text, path, "eval")
        return eval(_COMPILED[text], dict(_JSON_WORDS))  # noqa: S307 - written by tests, and json is slow

    def write(self, path: str, text: str, mode: int = 0o644) -> None:
        """Gives a file its text, in folders that are made where they are missing."""
        place, built = self.at(path), self._aside()
        with open(built, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(built, mode)
        self._move(built, place)

    def keep(self, path: str, value: "Any") -> None:
        """Writes what `value` reads."""
        self.write(path, repr(value) + "\n")

    def change(self, path: str, text: str) -> None:
        """As `write`, where it says something else."""
        if self.text(path) != text.strip() or not self.exists(path):
            self.write(path, text)

    def add_folder(self, path: str, files: dict[str, str], links: dict[str, str]) -> None:
        """Makes a folder appear with files (name and text) and links (name and what is written in the link)."""
        built = self._aside()
        os.mkdir(built)
        for name, text in files.items():
            if "/" in name:
                os.makedirs(os.path.dirname(os.path.join(built, name)), exist_ok=True)
            with open(os.path.join(built, name), "w", encoding="utf-8") as file:
                file.write(text)
        for name, target in links.items():
            os.symlink(target, os.path.join(built, name))
        self._move(built, self.at(path))

    def link(self, path: str, target: str) -> None:
        """Makes a link to another path of the host, written relative as the kernel's are."""
        place = self.at(path)
        os.makedirs(os.path.dirname(place), exist_ok=True)
        os.symlink(os.path.relpath(self.at(target), os.path.dirname(place)), place)

    def lead(self, path: str) -> str:
        """Return the target of a link; empty where there is none."""
        try:
            return os.readlink(self.at(path))
        except OSError:
            return ""

    def names(self, folder: str) -> list[str]:
        """Return the names in a folder, sorted; empty where there is no folder."""
        try:
            return sorted(os.listdir(self.at(folder)))
        except OSError:
            return []

    def exists(self, path: str) -> bool:
        """Return whether a path exists, including a link without a target."""
        return os.path.lexists(self.at(path))

    def remove(self, path: str) -> None:
        """Removes a file, a link, or a folder with all that is in it; it need not be there."""
        place = self.at(path)
        if not os.path.isdir(place) or os.path.islink(place):
            if os.path.lexists(place):
                os.unlink(place)
            return
        for top, folders, files in os.walk(place, topdown=False):
            for name in files:
                os.unlink(os.path.join(top, name))
            for name in folders:
                inner = os.path.join(top, name)
                (os.unlink if os.path.islink(inner) else os.rmdir)(inner)
        os.rmdir(place)

    def files_below(self, folder: str) -> list[str]:
        """The paths of all files below a folder, relative to it, in order."""
        place = self.at(folder)
        return sorted(
            os.path.relpath(os.path.join(top, name), place) for top, _, names in os.walk(place) for name in names
        )

    def copy_to(self, root: str) -> None:
        """Copies all files with their modes, and all links, into a new folder: a third of the time of shutil's."""
        os.mkdir(root)
        with os.scandir(self.root) as entries:
            for entry in entries:
                place = f"{root}/{entry.name}"
                if entry.is_symlink():
                    os.symlink(os.readlink(entry.path), place)
                elif entry.is_dir():
                    Disk(entry.path).copy_to(place)
                else:
                    self._copy_file(entry.path, place)

    @staticmethod
    def _copy_file(source: str, place: str) -> None:
        read = os.open(source, os.O_RDONLY)
        written = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        known = os.fstat(read)
        os.sendfile(written, read, 0, known.st_size)
        os.fchmod(written, known.st_mode)
        os.close(read)
        os.close(written)

    def _aside(self) -> str:
        path = f"fake/.{get_native_id()}"  # Of a process' first thread, as all programs are, it is the process' own.
        self.remove(path)  # Of a program that was killed, and had the same number.
        return self.at(path)

    @staticmethod
    def _move(built: str, place: str) -> None:
        try:
            os.rename(built, place)
        except FileNotFoundError:
            os.makedirs(os.path.dirname(place), exist_ok=True)
            os.rename(built, place)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            beside = f"{place}.fake"  # The folder is a mount.
            if os.path.lexists(beside):  # Of one that was full.
                os.unlink(beside)
            Disk._copy_file(built, beside)
            os.unlink(built)
            os.rename(beside, place)
