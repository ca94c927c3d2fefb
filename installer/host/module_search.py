"""The order in which depmod prefers copies of a module (depmod.d(5))."""

from collections.abc import Collection

from installer.host import chroot
from runtime import readings

_FOLDERS = ("/usr/lib/depmod.d", "/usr/local/lib/depmod.d", "/run/depmod.d", "/etc/depmod.d")
"""A file replaces one of the same name in an earlier folder."""

_BUILT_IN = "built-in"
"""The folders of the kernel itself, and every folder that `search` does not name."""


def rivals(host: chroot.Host, kernel: str, names: Collection[str], home: str) -> dict[str, str]:
    """Return the files that depmod may prefer to those in the folder `home` below /lib/modules/<kernel>, by module.

    Of two folders of one rank depmod takes the file that it reads last (depmod_module_is_higher_priority of kmod's
    tools/depmod.c), so both are possible. The installer's own files are no rivals.
    """
    lines = _lines(host)
    order = [word for line in lines if line[0] == "search" for word in line[1:]] or ["updates", _BUILT_IN]
    forced = {(line[1].replace("-", "_"), line[3]) for line in lines if line[0] == "override" and len(line) == 4}
    best = _rank(home, order)
    tops = {"updates", *order, *(folder for _, folder in forced)}
    if _rank("kernel", order) <= best:
        tops.add("kernel")
    found = {}
    base = host.resolved("/lib/modules") / kernel
    for path in sorted(path for top in tops for path in (base / top).rglob("*.ko*")):
        name, folder = path.name.partition(".ko")[0].replace("-", "_"), str(path.parent.relative_to(base))
        own = folder == host.own.updates or f"{folder}/".startswith(f"{home}/")
        if name in names and not own and ((name, folder) in forced or _rank(folder, order) <= best):
            found[name] = f"/lib/modules/{kernel}/{folder}/{path.name}"
    return found


def _rank(folder: str, order: list[str]) -> int:
    ranks = [number for number, part in enumerate(order) if f"{folder}/".startswith(f"{part}/")]
    return min(ranks, default=order.index(_BUILT_IN) if _BUILT_IN in order else len(order))


def _lines(host: chroot.Host) -> list[list[str]]:
    files = {
        name: folder for folder in _FOLDERS for name in readings.names(host.path(folder)) if name.endswith(".conf")
    }
    texts = (readings.text(host.resolved(f"{folder}/{name}")) or "" for name, folder in sorted(files.items()))
    return [line.split() for text in texts for line in text.splitlines() if line.split()]
