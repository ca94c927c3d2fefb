"""The actions and the output of kmod's programs and of udevadm, as kmod 30 prints it."""

import errno
import os

from tests.installer.fakes import disk, index, kernel, udev

# tools/modprobe.c: what does not stand here is strerror's.
_NOT_INSERTED = {
    errno.EEXIST: "Module already in kernel",
    errno.ENOENT: "Unknown symbol in module, or unknown parameter (see dmesg)",
}


class Failed(Exception):  # noqa: N818 - what a program says is no error of ours
    """A program ends with an exit code and a text on stderr; `said` is what it had printed before."""

    def __init__(self, text: str, code: int = 1, said: str = "") -> None:
        super().__init__(text)
        self.text = text
        self.code = code
        self.said = said


class Programs:
    """The programs of a host below a folder; each answers with what it prints, or raises `Failed`."""

    def __init__(self, root: str) -> None:
        self.host = disk.Disk(root)
        self.kernel = kernel.Kernel(root)
        self._index = index.Index(self.host, self.kernel.release)

    def run(self, program: str, arguments: list[str]) -> str:
        """Run a program and return its stdout."""
        return {
            "modprobe": self._modprobe,
            "rmmod": self._rmmod,
            "depmod": self._depmod,
            "modinfo": self._modinfo,
            "udevadm": self._udevadm,
        }[program](arguments)

    def load(self, name: str, options: list[str], files: disk.Disk | None = None) -> None:
        """Loads a module with what it needs; the files may be those of another root, as an initramfs is one."""
        origin = files or self.host
        known, configured = index.Index(origin, self.kernel.release), index.Options(origin)
        paths = known.found(name)
        if not paths:
            raise Failed(f"modprobe: FATAL: Module {name} not found in directory /lib/modules/{self.kernel.release}")
        try:
            for path in reversed(paths):
                needed = index.module_name(path)
                if not self.kernel.has(needed):
                    own = options if path == paths[0] else []
                    where = os.path.relpath(origin.at(path), self.host.root)
                    self.kernel.insert(where, [*configured.of(needed), *own])
        except OSError as error:
            why = _NOT_INSERTED.get(error.errno or 0, error.strerror)
            raise Failed(f"modprobe: ERROR: could not insert '{name}': {why}") from error

    def load_for_devices(self, files: disk.Disk) -> None:
        """Does what udev does at boot: loads for every function the modules whose aliases fit, and says nothing."""
        known, configured = index.Index(files, self.kernel.release), index.Options(files)
        for address in self.kernel.devices.addresses():
            for name in known.aliased(self.kernel.devices.modalias(address)):
                if not configured.forbids(name):
                    try:
                        self.load(name, [], files)
                    except Failed:
                        continue

    def _modprobe(self, arguments: list[str]) -> str:
        flags = {word for word in arguments if word.startswith("-")}
        words = [word for word in arguments if not word.startswith("-")]
        if strange := flags - {"-r", "--remove", "-q", "--quiet", "-v", "--verbose", "-a", "--all"}:
            raise Failed(f"modprobe: unrecognized option '{min(strange)}'")
        if not words:
            raise Failed("modprobe: ERROR: missing parameters. See -h.")
        try:
            if flags & {"-r", "--remove"}:
                for name in words:
                    self._remove(name)
            elif flags & {"-a", "--all"}:
                for name in words:
                    self.load(name, [])
            else:
                self.load(words[0], words[1:])
        except Failed as failed:
            # Of a module that is not there, -q says nothing.
            if flags & {"-q", "--quiet"} and "not found" in failed.text:
                raise Failed("") from failed
            raise
        return ""

    def _remove(self, name: str, *, quiet: bool = False) -> None:
        paths = self._index.found(name)
        if not paths:
            raise Failed(f"modprobe: FATAL: Module {name} not found.")
        module = index.module_name(paths[0])
        if not self.kernel.has(module):
            return
        if self.kernel.references(module):
            if quiet:
                return
            raise Failed(f"modprobe: FATAL: Module {module} is in use.")
        self.kernel.remove(module)
        # What nobody needs any more goes too, rmmod_do_module in tools/modprobe.c.
        for path in paths[1:]:
            self._remove(index.module_name(path), quiet=True)

    def _rmmod(self, arguments: list[str]) -> str:
        names = [index.module_name(word) for word in arguments if not word.startswith("-")]
        if not names:
            raise Failed("rmmod: ERROR: missing module name.")
        for name in names:
            if not self.kernel.has(name):
                raise Failed(f"rmmod: ERROR: Module {name} is not currently loaded")
            # Those of sysfs, which are by name.
            if holders := sorted(self.kernel.holders(name)):
                raise Failed(f"rmmod: ERROR: Module {name} is in use by: {' '.join(holders)}")
            if self.kernel.references(name):
                raise Failed(f"rmmod: ERROR: Module {name} is in use")
            if self.host.text(f"sys/module/{name}/initstate") == "going":
                raise Failed(f"rmmod: ERROR: could not remove module {name}: Device or resource busy")
            self.kernel.remove(name)
        return ""

    def _depmod(self, arguments: list[str]) -> str:
        words = [word for word in arguments if not word.startswith("-")]
        known = index.Index(self.host, words[0] if words else self.kernel.release)
        if not known.exists():
            where = f"/{known.folder}"
            raise Failed(
                f"depmod: ERROR: could not open directory {where}: No such file or directory\n"
                "depmod: FATAL: could not search modules: No such file or directory"
            )
        known.write()
        return ""

    def _modinfo(self, arguments: list[str]) -> str:
        release, field, names = _modinfo_words(arguments, self.kernel.release)
        if not names:
            raise Failed("modinfo: ERROR: missing module or filename.")
        said = unknown = ""
        for name in names:
            is_file = self.host.exists(name) and name.endswith(".ko")
            paths = [name] if is_file else index.Index(self.host, release).found(name)
            if not paths:
                unknown = unknown or f"modinfo: ERROR: Module {name} not found."
                continue
            filename = f"/{paths[0].lstrip('/')}"
            if field == "filename":
                said += f"{filename}\n"
                continue
            data = self.host.data(paths[0])
            if data is None:
                raise Failed(
                    f"modinfo: ERROR: could not get modinfo from '{name}': No such file or directory", said=said
                )
            said += _shown({"filename": [filename]} | index.modinfo(data), field)
        if unknown:
            raise Failed(unknown, said=said)
        return said

    def _udevadm(self, arguments: list[str]) -> str:
        verb, words = (arguments or [""])[0], arguments[1:]
        if verb == "trigger":
            matches = [word.partition("=")[2] for word in words if word.startswith("--subsystem-match=")]
            actions = [word.partition("=")[2] for word in words if word.startswith("--action=")]
            if not matches or "uacce" in matches:
                udev.apply(self.host, actions[-1] if actions else "change")
        elif verb not in ("control", "settle"):
            raise Failed("udevadm: missing or unknown command")
        return ""


def _modinfo_words(arguments: list[str], release: str) -> tuple[str, str, list[str]]:
    field, names = "", []
    waiting = list(arguments)
    while waiting:
        word = waiting.pop(0)
        if word in ("-n", "--filename"):
            field = "filename"
        elif word in ("-F", "--field"):
            field = waiting.pop(0)
        elif word in ("-k", "--set-version"):
            release = waiting.pop(0)
        else:
            names.append(word)
    return release, field, names


def _shown(info: dict[str, list[str]], field: str) -> str:
    if field:
        return "".join(f"{value}\n" for value in info.get(field, []))
    return "".join(f"{key + ':':<16}{value}\n" for key, values in info.items() for value in values)
