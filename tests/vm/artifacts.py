"""What a machine is made of: kernel, stub modules, root disk, and a payload with the programs of this checkout.

All but the payload is made once and kept below ~/.cache/kae-vm (KAE_VM_CACHE), by a digest of what it is made from.
"""

import contextlib
import fcntl
import functools
import hashlib
import itertools
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from concurrent import futures
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parents[1]

DEBIAN: Mapping[str, str] = {
    "depmod": "kmod",
    "gcc": "gcc",
    "make": "make",
    "mke2fs": "e2fsprogs",
    "mmdebstrap": "mmdebstrap",
    "qemu-img": "qemu-utils",
    "qemu-system-x86_64": "qemu-system-x86",
    "setpriv": "util-linux",
    "strip": "binutils",
}
"""The commands that Debian's packages bring, and which package brings each."""

HEADERS = "linux-headers-cloud-amd64"
"""The package that depends on the headers of the newest kernel that apt offers; the guest runs that kernel."""

MODULES = ("uacce", "hisi_qm", "hisi_hpre", "hisi_sec2", "hisi_zip")

_HELPERS = [
    Path("tests/installer/podresources.py"),
    *(Path(f"tests/device_plugin/{name}.py") for name in ("connections", "containers", "kubelets", "registrations")),
]
"""Stand-ins for the kubelet, which tests run in the guest."""

_PYTHON = ("--python-version", "3.11", "--implementation", "cp")
"""The guest's, that of Debian 12."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Driver:
    """A build of the stub modules, which tests name by the folder of its image: /payload/images/<name>."""

    name: str
    version: str
    fault: str = "none"
    """What happens: see `stub_has` in modules/."""

    module: str = "none"
    """Where it happens."""

    suffix: str = ""
    """A part of the version that srcversion does not tell."""

    @property
    def says(self) -> str:
        """Return what /sys/module/*/version says."""
        return self.version + self.suffix


DRIVERS = {
    driver.name: driver
    for driver in (
        Driver(name="2.0.1", version="2.0.1"),
        Driver(name="2.0.2", version="2.0.2"),
        Driver(name="twin", version="2.0.1", suffix=".1"),
        Driver(name="probe", version="2.0.3", fault="probe", module="hisi_zip"),
        Driver(name="init", version="2.0.3", fault="init", module="hisi_zip"),
        Driver(name="panic", version="2.0.4", fault="panic", module="hisi_zip"),
        Driver(name="oops", version="2.0.5", fault="oops", module="hisi_zip"),
        Driver(name="hang", version="2.0.6", fault="hang", module="hisi_zip"),
        Driver(name="start", version="2.0.7", fault="start", module="uacce"),
    )
}
"""`twin` has the srcversion of 2.0.1, `probe` gives no device an entry, `init` ends with Input/output error, `panic`,
`oops` and `hang` do so while the module is loaded, and with `start` no queue can be started."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifacts:
    """Read only, and shared by machines at work side by side."""

    release: str
    kernel: Path
    root: Path
    payload: Path


def obstacles() -> Iterator[str]:
    """Yield what keeps a machine from being made here: sentences, each of which says what to do."""
    if platform.machine() != "x86_64":
        yield f"The machine is an x86-64 one, whose modules are compiled natively; this is {platform.machine()}."
    elif os.geteuid() != 0:
        yield "The machine's disk is made by root: run the tests of tests/vm as root."
    else:
        packages = {package for command, package in DEBIAN.items() if shutil.which(command) is None}
        packages |= {HEADERS} if _release() is None else set()
        if packages:
            names = " ".join(sorted(packages))
            yield f"Debian packages are missing: apt-get install --no-install-recommends {names}"


def make(folder: Path) -> Artifacts:
    """Make what machines need; the payload, with the sources as they are now, goes to a folder.

    Raises:
        AssertionError: A tool failed, with what it said.
    """
    release = _release() or ""
    with _lock():
        kernel = _kept("kernel", release, functools.partial(_unpack_kernel, release))
        bus = _kept("bus", release + _digest(HERE / "bus"), lambda out: _compile(release, "bus", out))
        stubs = f"{release}{DRIVERS}{_digest(HERE / 'modules')}"
        drivers = _kept("drivers", stubs, functools.partial(_compile_drivers, release))
        script = HERE / "guest/image.sh"
        pieces = f"{release}{_digest(HERE / 'guest')}{_digest(HERE / 'bus')}"
        arguments = (str(kernel), str(bus / "kunpeng_pci.ko"))
        image = _kept("image", pieces, lambda out: _run("sh", str(script), str(out), *arguments))
        locks = [REPOSITORY / program / "requirements.lock" for program in ("installer", "device_plugin")]
        site = _kept("site", "".join(map(_digest, locks)), functools.partial(_install_packages, locks))
    payload = folder / "payload.ext4"
    _pack(payload, site, drivers, release)
    return Artifacts(release=release, kernel=image / "vmlinuz", root=image / "root.ext4", payload=payload)


def headers(release: str) -> Path:
    """Return the folder of a kernel's headers."""
    return Path(f"/usr/src/linux-headers-{release}")


def _release() -> str | None:
    """Return the newest of the kernels whose headers are here."""
    makefiles = Path("/usr/src").glob("linux-headers-6.1.*-cloud-amd64/Makefile")
    names = (path.parent.name for path in makefiles)
    newest = max(names, key=lambda name: [int(number) for number in re.findall(r"\d+", name)], default="")
    return newest.removeprefix("linux-headers-") or None


@contextlib.contextmanager
def _lock() -> Iterator[None]:
    cache = _cache()
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _cache() -> Path:
    return Path(os.environ.get("KAE_VM_CACHE") or Path.home() / ".cache/kae-vm")


def _kept(name: str, inputs: str, make_in: Callable[[Path], object]) -> Path:
    """Return the folder made from these inputs; it is made aside, and moved in when it is whole."""
    folder = _cache() / f"{name}-{hashlib.sha256(inputs.encode()).hexdigest()[:12]}"
    if not folder.exists():
        with tempfile.TemporaryDirectory(dir=_cache()) as fresh:
            made = Path(fresh) / name
            made.mkdir()
            make_in(made)
            made.rename(folder)
    return folder


def _digest(path: Path) -> str:
    files = sorted(found for found in path.rglob("*") if found.is_file()) if path.is_dir() else [path]
    return hashlib.sha256(b"".join(file.name.encode() + file.read_bytes() for file in files)).hexdigest()


def _unpack_kernel(release: str, out: Path) -> None:
    _run("apt-get", "-qq", "download", f"linux-image-{release}", cwd=out)
    for package in out.glob("*.deb"):
        _run("dpkg-deb", "-x", str(package), str(out))
        package.unlink()


def _compile_drivers(release: str, out: Path) -> None:
    with futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(lambda driver: _compile(release, "modules", out / driver.name, driver), DRIVERS.values()))


def _compile(release: str, sources: str, out: Path, driver: Driver | None = None) -> None:
    with tempfile.TemporaryDirectory() as work:
        shutil.copytree(HERE / sources, work, dirs_exist_ok=True)
        suffix = ""
        if driver is not None:
            # In a header and not by a flag: srcversion is a digest of the sources alone.
            names = {"VERSION": driver.version, "FAULT": driver.fault, "FAULT_MODULE": driver.module}
            text = "".join(f'#define STUB_{name} "{value}"\n' for name, value in names.items())
            (Path(work) / "variant.h").write_text(text)
            suffix = driver.suffix
        _run("make", "-s", "-C", str(headers(release)), f"M={work}", f"STUB_SUFFIX={suffix}", "modules")
        out.mkdir(exist_ok=True)
        for module in Path(work).glob("*.ko"):
            _run("strip", "-g", "-o", str(out / module.name), str(module))


def _install_packages(locks: list[Path], out: Path) -> None:
    platforms = [f"manylinux{name}_x86_64" for name in ("2014", "_2_17", "_2_26", "_2_27", "_2_28", "_2_34")]
    accepted = itertools.chain.from_iterable(("--platform", name) for name in platforms)
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--target", str(out))
    asked = itertools.chain.from_iterable(("-r", str(lock)) for lock in locks)
    _run(*pip, "--only-binary", ":all:", "--require-hashes", *_PYTHON, *accepted, *asked)


def _pack(payload: Path, site: Path, drivers: Path, release: str) -> None:
    """Write the disk that a guest mounts at /payload: project/, site/, and images/, the roots of installers' images."""
    with tempfile.TemporaryDirectory() as work:
        tree = Path(work)
        ignored = shutil.ignore_patterns("__pycache__")
        for name in ("compiler", "device_plugin", "installer", "runtime"):
            shutil.copytree(REPOSITORY / name, tree / "project" / name, ignore=ignored)
        for helper in _HELPERS:
            (tree / "project" / helper.parent).mkdir(parents=True, exist_ok=True)
            shutil.copy(REPOSITORY / helper, tree / "project" / helper)
        shutil.copytree(site, tree / "site", ignore=ignored)
        for driver in DRIVERS:
            image = tree / "images" / driver / "opt"
            shutil.copytree(drivers / driver, image / "lib/modules" / release)
            (image / "kae/lib").mkdir(parents=True)
            (image / "kae/lib/libwd.so.2").write_text(f"{driver}\n")
        disk(tree, payload)


def disk(tree: Path, out: Path) -> None:
    """Write a disk with the content of a folder, which a guest knows by the file's name: /dev/disk/by-label/<name>."""
    used = sum(path.lstat().st_size for path in tree.rglob("*"))
    kinds = ("-t", "ext4", "-O", "^has_journal", "-L", out.stem)
    _run("mke2fs", "-q", *kinds, "-d", str(tree), str(out), f"{used // (1 << 20) * 5 // 4 + 64}M")


def _run(*command: str, cwd: Path | None = None) -> None:
    done = subprocess.run(command, check=False, cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert done.returncode == 0, f"{command} ended with {done.returncode}:\n{done.stdout}{done.stderr}"
