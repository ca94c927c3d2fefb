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
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from concurrent import futures
from dataclasses import dataclass
from pathlib import Path

from tests import tools
from tests.vm import kernels, kmod_images
from tests.vm.kernels import HERE

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
    "xz": "xz-utils",
    "zstd": "zstd",
}
MODULES = ("uacce", "hisi_qm", "hisi_hpre", "hisi_sec2", "hisi_zip")

_HELPERS = [
    Path("tests/fuse.py"),
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
    """What happens: see `stub_has` in modules/kae/."""

    module: str = "none"
    """Where it happens."""

    suffix: str = ""
    """A part of the version that srcversion does not tell."""

    @property
    def says(self) -> str:
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
    """The kernel that guests run, unless they are told to run another one."""

    kernels: Mapping[str, Path]
    """The kernels that can be started, by release: the newest, and the one before."""

    root: Path
    payload: Path


def obstacles() -> Iterator[str]:
    if platform.machine() != "x86_64":
        yield f"The machine is an x86-64 one, whose modules are compiled natively; this is {platform.machine()}."
    elif os.geteuid() != 0:
        yield "The machine's disk is made by root: run the tests of tests/vm as root."
    else:
        yield from tools.packages((*DEBIAN.items(), *((name, name) for name in kernels.missing())))


def make(folder: Path) -> Artifacts:
    """Make what machines need; the payload, with the sources as they are now, goes to a folder."""
    releases = kernels.releases()
    release = releases[0]
    with _lock():
        trees = [_kept("kernel", name, functools.partial(kernels.unpack, name)) for name in releases]
        buses = [
            _kept("bus", name + _digest(HERE / "bus"), functools.partial(kernels.build, name, HERE / "bus"))
            for name in releases
        ]
        stubs = f"{release}{DRIVERS}{_digest(HERE / 'modules/kae')}"
        drivers = _kept("drivers", stubs, functools.partial(_compile_drivers, release))
        others = f"{releases}{_digest(HERE / 'modules')}{_digest(HERE / 'kmod_images.py')}"
        kmods = _kept("kmods", others, functools.partial(kmod_images.make, releases))
        script = HERE / "guest/image.sh"
        pieces = f"{releases}{_digest(HERE / 'guest')}{_digest(HERE / 'bus')}"
        arguments = [str(path) for pair in zip(trees, buses, strict=True) for path in pair]
        image = _kept("image", pieces, lambda out: kernels.run("sh", str(script), str(out), *arguments))
        locks = [REPOSITORY / program / "requirements.lock" for program in ("installer", "device_plugin")]
        site = _kept("site", "".join(map(_digest, locks)), functools.partial(_install_packages, locks))
    payload = folder / "payload.ext4"
    _pack(payload, site, drivers, kmods)
    started = {name: image / f"vmlinuz-{name}" for name in releases}
    return Artifacts(release=release, kernels=started, root=image / "root.ext4", payload=payload)


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
    files = sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]
    return hashlib.sha256(b"".join(file.name.encode() + file.read_bytes() for file in files)).hexdigest()


def _compile_drivers(release: str, out: Path) -> None:
    def compile_driver(driver: Driver) -> None:
        # In a header and not by a flag: srcversion is a digest of the sources alone.
        names = {"VERSION": driver.version, "FAULT": driver.fault, "FAULT_MODULE": driver.module}
        text = "".join(f'#define STUB_{name} "{value}"\n' for name, value in names.items())
        words = (f"STUB_SUFFIX={driver.suffix}",)
        kernels.build(release, HERE / "modules/kae", out / driver.name, *words, files={"variant.h": text})

    with futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(compile_driver, DRIVERS.values()))


def _install_packages(locks: list[Path], out: Path) -> None:
    platforms = [f"manylinux{name}_x86_64" for name in ("2014", "_2_17", "_2_26", "_2_27", "_2_28", "_2_34")]
    accepted = itertools.chain.from_iterable(("--platform", name) for name in platforms)
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--target", str(out))
    asked = itertools.chain.from_iterable(("-r", str(lock)) for lock in locks)
    kernels.run(*pip, "--only-binary", ":all:", "--require-hashes", *_PYTHON, *accepted, *asked)


def _pack(payload: Path, site: Path, drivers: Path, kmods: Path) -> None:
    """Write the disk for /payload: project/, site/, images/ (the installers' roots) and `kmod_images`' kmods/."""
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
            shutil.copytree(drivers / driver, image / "lib/modules" / kernels.releases()[0])
            (image / "kae/lib").mkdir(parents=True)
            (image / "kae/lib/libwd.so.2").write_text(f"{driver}\n")
        kernels.run("cp", "-a", str(kmods), str(tree / "kmods"))  # With its hard links.
        disk(tree, payload)


def disk(tree: Path, out: Path) -> None:
    """Write a disk with the content of a folder, which a guest knows by the file's name: /dev/disk/by-label/<name>."""
    used = sum(path.lstat().st_size for path in tree.rglob("*"))
    kinds = ("-t", "ext4", "-O", "^has_journal", "-L", out.stem)
    kernels.run("mke2fs", "-q", *kinds, "-d", str(tree), str(out), f"{used // (1 << 20) * 5 // 4 + 64}M")
