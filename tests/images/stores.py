"""A store of images that is thrown away: what is built and run in it, the machine's own podman never sees."""

import fcntl
import json
import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests import tools
from tests.cluster.local import instances, programs, waiting
from tests.images import inputs

REGISTRY = "localhost"
VERSION, REVISION = "7.8.9", "c0ffee" * 7
"""What the images say that they are made from, as the copies of the sources lie in no repository."""

COMMANDS = ("make", "mmdebstrap", "podman", "runc")
"""The commands that a store needs. Each is the name of its Debian package, too."""

BASE = f"{REGISTRY}/kae-base:1"
LICENCES = "/usr/share/licenses/kae"
_UNCOMPILED = """
import importlib.util, pathlib, sysconfig
for top in ("/app", sysconfig.get_path("purelib")):
    for source in pathlib.Path(top).rglob("*.py"):
        compiled = pathlib.Path(importlib.util.cache_from_source(source))
        # Flags 1: with a hash of the source that nobody compares (PEP 552).
        if not compiled.exists() or compiled.read_bytes()[4:8] != b"\\1\\0\\0\\0":
            print(source)
"""
# Without CAP_SYS_RESOURCE no limit can be raised, which podman would do.
RUN = ("--network=none", "--ulimit=nofile=1024:1024", "--ulimit=nproc=1000:1000")
# As a DaemonSet asks the kubelet to run a program that needs no privilege.
_CONFINED = ("--read-only", "--read-only-tmpfs=false", "--cap-drop=all", "--security-opt=no-new-privileges")


def named(name: str, tag: str = "1") -> str:
    return f"{REGISTRY}/{name}:{tag}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """A store. Its methods raise AssertionError with what a program said that failed."""

    folder: Path

    @property
    def conf(self) -> Path:
        return self.folder / "storage.conf"

    def build(self, sources: Path, tag: str) -> None:
        """Runs `make images`, which builds every image, without any network and without a layer of an earlier build."""
        self.run_here("make", "--no-print-directory", f"--directory={sources}", "images", **_variables(tag))

    def build_compiler(self, tag: str) -> None:
        """Runs ci/images.sh for the image of kae, likewise."""
        self.run_here(str(inputs.ROOT / "ci/images.sh"), "kae-compiler", **_variables(tag))

    def build_driver(
        self, kae: Path, version: str, kernels: Sequence[str], headers: Sequence[Path] = (), *further: str
    ) -> str:
        """Runs `make driver-image` upon the image of the installer, without any network, and returns what it said.

        The folders of headers are in the stage that compiles at their own paths, or below /usr/src/kernels by their
        names. Further arguments are variables of make.
        """
        flags = ["--no-cache", "--network=none", "--quiet"]
        flags += [f"--volume={path}:{_seen(path)}:ro" for path in headers]
        return self.run_here(
            *("make", "--no-print-directory", f"--directory={inputs.ROOT}", "driver-image"),
            *(f"KAE={kae}", f"DRIVER_VERSION={version}", f"KERNELS={' '.join(kernels)}"),
            *(f"INSTALLER_IMAGE={named('kae-driver-installer')}", f"IMAGE_REGISTRY={REGISTRY}"),
            f"IMAGE_FLAGS={shlex.join(flags)}",
            *further,
        )

    def take(self, root: Path, name: str) -> None:
        self.run_here("podman", "import", "--quiet", str(root), name)

    def inspected(self, name: str) -> dict[str, Any]:
        (image,) = json.loads(self.run_here("podman", "image", "inspect", name))
        return dict(image)

    def uncompiled(self, name: str) -> list[str]:
        done = self.run(name, "python", "-c", _UNCOMPILED)
        assert done.returncode == 0, done.stderr
        return done.stdout.split()

    def licences(self, name: str) -> str:
        """Return the licences of others in an image; assert that its own is there."""
        own, others = (self.run(name, "cat", f"{LICENCES}/{file}").stdout for file in ("LICENSE", "THIRD_PARTY.txt"))
        assert own == (inputs.ROOT / "LICENSE").read_text("utf-8")
        return others

    def save(self, name: str, archive: Path, kind: str = "docker") -> None:
        """Writes an image as an archive of Docker, which containerd takes in sooner, or as OCI's."""
        self.run_here("podman", "save", "--quiet", f"--format={kind}-archive", f"--output={archive}", name)

    def run(
        self, name: str, *command: str, folder: Path | None = None, options: Sequence[str] = ()
    ) -> subprocess.CompletedProcess[str]:
        """Runs a command, which may fail, without network and capabilities; it sees the folder at its own path."""
        mounted = () if folder is None else (f"--volume={folder}:{folder}",)
        words = ("podman", "run", "--rm", *RUN, *_CONFINED, *mounted, *options)
        return self._run((*words, f"--entrypoint={command[0]}", name, *command[1:]))

    def run_here(self, *command: str, **variables: str) -> str:
        done = self._run(command, **variables)
        assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def _run(self, command: Sequence[str], **variables: str) -> subprocess.CompletedProcess[str]:
        # A podman that is killed leaves its temporary files behind.
        own = {"CONTAINERS_STORAGE_CONF": str(self.conf), "TMPDIR": str(self.folder)}
        environment = os.environ | own | variables
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=1800, check=False)


def _variables(tag: str) -> dict[str, str]:
    said = {"TAG": tag, "IMAGE_REGISTRY": REGISTRY, "VERSION": VERSION, "REVISION": REVISION}
    return {**said, "BASE_IMAGE": BASE, "IMAGE_FLAGS": shlex.join(("--no-cache", *offline()))}


def _remove(folder: Path) -> None:
    """Remove a store. What cleans up after a container may still be at work when `podman run` has ended."""

    def removed() -> bool:
        shutil.rmtree(folder, ignore_errors=True)
        return not folder.exists()

    waiting.until(f"the end of {folder}", removed)


def obstacles() -> Iterator[str]:
    if os.geteuid():
        yield "The images' tests need root: a container's mounts are real."
    yield from tools.packages((name, name) for name in COMMANDS)


def offline() -> tuple[str, ...]:
    """Return the flags by which a build has no network, and wheels from folders."""
    locked = (f"{folder}/requirements.lock" for folder in (*inputs.folders().values(), "ci"))
    locks = [inputs.ROOT / name for name in (*locked, "templates/init/ci/requirements.txt")]
    wheels = {f"/wheels/{number}": inputs.wheels(lock) for number, lock in enumerate(locks)}
    # Of several places, pip reads them with blanks in between.
    places = f"--build-arg=PIP_FIND_LINKS={' '.join(wheels)}"
    volumes = (f"--volume={folder}:{place}:ro" for place, folder in wheels.items())
    return ("--network=none", *volumes, "--build-arg=PIP_NO_INDEX=1", places)


def _seen(headers: Path) -> Path:
    return headers if headers.is_relative_to("/usr") else Path("/usr/src/kernels") / headers.name


@contextmanager
def opened() -> Iterator[Store]:
    with empty() as store:
        store.take(inputs.base(), BASE)
        yield store


@contextmanager
def empty() -> Iterator[Store]:
    """A new store beside the cluster's state, as overlayfs can lie upon that file system."""
    parent = instances.configured().state.parent
    parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="images-", dir=parent))
    try:
        # Podman would mount the store upon itself, and leave it so.
        store = Store(folder=folder)
        store.conf.write_text(
            f'[storage]\ndriver = "overlay"\ngraphroot = "{folder}/graph"\nrunroot = "{folder}/run"\n'
            '[storage.options.overlay]\nskip_mount_home = "true"\n'
        )
        yield store
    finally:
        _remove(folder)


def built_image(name: str = "kae-device-plugin") -> Path:
    """Docker's archive of an image, localhost/<name>:1, upon a minimal Debian; kept until the sources change."""
    is_compiler = name == "kae-compiler"
    digest = inputs.digest(inputs.compiler_sources() if is_compiler else inputs.sources())
    folder = programs.folder().parent / "images"
    targets = {known: folder / f"{known}-{digest}.tar" for known in ([name] if is_compiler else inputs.folders())}
    folder.mkdir(parents=True, exist_ok=True)
    # Of two runs at once, one builds.
    with (folder / "lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if targets[name].exists():
            return targets[name]
        with opened() as store:
            if is_compiler:
                store.build_compiler("1")
            else:
                store.build(inputs.ROOT, "1")
            for known, target in targets.items():
                _keep(store, known, target)
    return targets[name]


def _keep(store: Store, name: str, target: Path) -> None:
    for old in target.parent.glob(f"{name}-*"):
        old.unlink()
    fresh = target.with_suffix(".new")
    store.save(named(name), fresh)
    fresh.rename(target)
