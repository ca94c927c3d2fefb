"""The content of /lib/modules and /etc/modprobe.d: module files, modules.dep, options."""

from tests.installer.fakes import disk

_ORDER = ("updates", "extra", "", "weak-updates")
"""Which copy of a module wins, as /etc/depmod.d/dist.conf of openEuler says; the empty one is every other folder."""

_LETTERS = b"abcdefghijklmnopqrstuvwxyz"

_OPTION_FOLDERS = ("usr/lib/modprobe.d", "run/modprobe.d", "etc/modprobe.d")
"""modprobe.d(5): a file of a later one replaces the file of the same name."""


_KNOWN: dict[bytes, dict[str, list[str]]] = {}
"""The values of module files that were read: a host has the same ones again and again."""


def modinfo(data: bytes) -> dict[str, list[str]]:
    """Return the values of a module file by key, which nobody changes; see tests/installer/modulefiles.py."""
    if data not in _KNOWN:
        _KNOWN[data] = _parsed(data)
    return _KNOWN[data]


def _parsed(data: bytes) -> dict[str, list[str]]:
    values: dict[str, list[str]] = {}
    for part in data.split(b"\0"):
        before, equals, value = part.partition(b"=")
        # In an object of a compiler, code may stand right before the first key.
        key = before[len(before.rstrip(_LETTERS)) :].decode()
        if equals and key:
            values.setdefault(key, []).append(value.decode(errors="replace"))
    return values


def module_name(path: str) -> str:
    """The module's name that a file name stands for."""
    return path.rpartition("/")[2].removesuffix(".ko").replace("-", "_")


class Index:
    """The modules of one kernel release."""

    def __init__(self, host: disk.Disk, release: str) -> None:
        self.folder = f"lib/modules/{release}"
        self._host = host

    def write(self) -> None:
        """Does what depmod -a does."""
        chosen: dict[str, tuple[int, str]] = {}
        for path in self._host.files_below(self.folder):
            if path.endswith(".ko"):
                top = path.partition("/")[0]
                rank = _ORDER.index(top if top in _ORDER else "")
                chosen[module_name(path)] = min(chosen.get(module_name(path), (rank, path)), (rank, path))
        paths = {name: path for name, (_, path) in chosen.items()}
        needs = {name: [n for n in self._depends(path) if n in paths] for name, path in paths.items()}
        lines = (
            f"{path}:{''.join(f' {paths[need]}' for need in _closure(name, needs))}\n" for name, path in paths.items()
        )
        self._host.write(f"{self.folder}/modules.dep", "".join(lines))

    def exists(self) -> bool:
        """Return whether the release has a folder."""
        return self._host.exists(self.folder)

    def found(self, name: str) -> list[str]:
        """The paths of a module and of what it needs, itself first, as modules.dep says; none where it does not."""
        wanted = name.replace("-", "_")
        for line in self._host.text(f"{self.folder}/modules.dep").splitlines():
            path, _, needs = line.partition(":")
            if module_name(path) == wanted:
                return [f"{self.folder}/{each}" for each in (path, *needs.split())]
        return []

    def aliased(self, modalias: str) -> list[str]:
        """The modules that say that they serve a device."""
        lines = self._host.text(f"{self.folder}/modules.dep").splitlines()
        paths = [line.partition(":")[0] for line in lines]
        return [module_name(path) for path in paths if serves(self._info(path).get("alias", []), modalias)]

    def _depends(self, path: str) -> list[str]:
        return [name for text in self._info(path).get("depends", []) for name in text.split(",") if name]

    def _info(self, path: str) -> dict[str, list[str]]:
        return modinfo(self._host.data(f"{self.folder}/{path}") or b"")


def serves(aliases: list[str], modalias: str) -> bool:
    """Return whether one of a module's aliases fits a device; parts after vendor and device are not compared."""
    return any(alias.startswith(modalias) for alias in aliases)


class Options:
    """The lines of the files in modprobe.d."""

    def __init__(self, host: disk.Disk) -> None:
        files = {name: folder for folder in _OPTION_FOLDERS for name in host.names(folder) if name.endswith(".conf")}
        texts = (host.text(f"{folder}/{name}") for name, folder in sorted(files.items()))
        self._lines = [words for text in texts for line in text.splitlines() if (words := _words(line))]

    def of(self, module: str) -> list[str]:
        """The options of a module, the last word last."""
        found = (words[2:] for words in self._lines if words[0] == "options" and words[1:2] == [module])
        return [word for words in found for word in words]

    def forbids(self, module: str) -> bool:
        """Return whether modprobe.d forbids udev to load a module by itself."""
        return ["blacklist", module] in self._lines


def _words(line: str) -> list[str]:
    """The words of a line, of which one may hold blanks between quotation marks, as the kernel's next_arg takes it."""
    import shlex  # noqa: PLC0415 - slow to import, and seldom needed

    return shlex.split(line) if '"' in line else line.split()


def _closure(name: str, needs: dict[str, list[str]]) -> list[str]:
    found: list[str] = []
    waiting = list(needs[name])
    while waiting:
        need = waiting.pop(0)
        if need not in found:
            found.append(need)
            waiting += needs[need]
    return found
