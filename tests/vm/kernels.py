"""The kernels that guests run, from Debian's packages, and the modules that are compiled for them."""

import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

HERE = Path(__file__).resolve().parent

NEWEST = "linux-headers-cloud-amd64"
"""The package that depends on the headers of the newest kernel that apt offers."""

_HEADERS = "linux-headers-"
_NAMES = f"{_HEADERS}6.1.*-cloud-amd64"


def releases() -> tuple[str, ...]:
    """Return the two newest kernels whose headers are here, the newest first; fewer where fewer are here."""
    names = {path.parent.name for path in Path("/usr/src").glob(f"{_NAMES}/Makefile")}
    return tuple(name.removeprefix(_HEADERS) for name in sorted(names, key=_age, reverse=True)[:2])


def missing() -> tuple[str, ...]:
    here = releases()
    if not here:
        return (NEWEST, f"{_HEADERS}<an earlier kernel>-cloud-amd64")
    return () if len(here) > 1 else (_earlier(here[0]),)


def headers(release: str) -> Path:
    return Path(f"/usr/src/{_HEADERS}{release}")


def unpack(release: str, out: Path) -> None:
    run("apt-get", "-qq", "download", f"linux-image-{release}", cwd=out)
    for package in out.glob("*.deb"):
        run("dpkg-deb", "-x", str(package), str(out))
        package.unlink()


def build(release: str, sources: Path, out: Path, *words: str, files: Mapping[str, str] | None = None) -> None:
    """Compile the modules of a folder for a kernel, with words for make and further files, into another folder."""
    with tempfile.TemporaryDirectory() as work:
        shutil.copytree(sources, work, dirs_exist_ok=True)
        for name, text in (files or {}).items():
            (Path(work) / name).write_text(text)
        run("make", "-s", "-C", str(headers(release)), f"M={work}", *words, "modules")
        out.mkdir(parents=True, exist_ok=True)
        for module in Path(work).glob("*.ko"):
            run("strip", "-g", "-o", str(out / module.name), str(module))


def run(*command: str, cwd: Path | None = None) -> None:
    done = subprocess.run(command, check=False, cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert done.returncode == 0, f"{command} ended with {done.returncode}:\n{done.stdout}{done.stderr}"


def _earlier(release: str) -> str:
    """Return the package with the headers of the kernel that apt offers before another one."""
    offered = subprocess.run(("apt-cache", "pkgnames", _HEADERS), check=False, capture_output=True, text=True)
    names = [name for name in offered.stdout.split() if Path(name).match(_NAMES) and _age(name) < _age(release)]
    return max(names, key=_age, default=f"{_HEADERS}<a kernel before {release}>")


def _age(name: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", name)]
