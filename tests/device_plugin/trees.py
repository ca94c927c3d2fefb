"""Changes to a fake sysfs that no reader sees half done: things are built aside, and moved into place or away."""

import itertools
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType


class Tree:
    """A folder of files and links, and a folder beside it where they are built.

    Paths are those within the tree, such as `devices/pci0000:78`. Links are written relative, as the kernel's are.
    """

    def __init__(self, root: Path, aside: Path) -> None:
        """Both folders are made, and must be on one file system."""
        self.root = root
        self._aside = aside
        self._counter = itertools.count()
        root.mkdir(parents=True, exist_ok=True)
        aside.mkdir(parents=True, exist_ok=True)

    def add_folder(
        self,
        path: str,
        files: Mapping[str, str],
        links: Mapping[str, str] = MappingProxyType({}),
        literal: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Makes a folder appear with files (name -> text), links (name -> path) and links of a given text."""
        built = self._place()
        built.mkdir()
        for folder in {name.rpartition("/")[0] for name in files if "/" in name}:
            (built / folder).mkdir(parents=True)
        for name, text in files.items():
            (built / name).write_text(text)
        for name, target in links.items():
            (built / name).symlink_to(os.path.relpath(target, path))
        for name, text in literal.items():
            (built / name).symlink_to(text)
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        built.rename(self.root / path)

    def remove_folder(self, path: str) -> None:
        """Makes a folder disappear with all that is in it."""
        gone = self._place()
        (self.root / path).rename(gone)
        shutil.rmtree(gone)

    def remove_if_empty(self, path: str) -> None:
        if not any((self.root / path).iterdir()):
            (self.root / path).rmdir()

    def write(self, path: str, text: str) -> None:
        """Gives a file, new or not, its text."""
        built = self._place()
        built.write_text(text)
        built.replace(self.root / path)

    def link(self, path: str, target: str) -> None:
        """Makes a link appear, in a folder that is made where it is missing."""
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).symlink_to(os.path.relpath(target, str(Path(path).parent)))

    def remove(self, path: str) -> None:
        """Makes a file or link disappear; it need not be there."""
        (self.root / path).unlink(missing_ok=True)

    def _place(self) -> Path:
        return self._aside / str(next(self._counter))
