"""Container images without a registry: made of folders, tars and Debian packages, and handed to containerd.

Pods name them with imagePullPolicy Never or IfNotPresent. A name has a host and a tag, as in localhost/plugin:1.
"""

import functools
import hashlib
import io
import json
import os
import platform
import posixpath
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.cluster.local import instances, programs, waiting
from tests.cluster.nodes import containers

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""The variable without which an image cannot find its programs."""


class Images:
    def __init__(self, instance: instances.Instance) -> None:
        self._instance = instance

    def build(self, name: str, *layers: Path, command: Sequence[str] = (), **config: object) -> str:
        """Make an image of root file systems, folders or tars, each lying upon those before; return its name.

        `config` holds further fields of OCI's image configuration, as in WorkingDir="/srv". Env, where it is given,
        replaces the default, a PATH. Files of a folder become root's.
        """
        with tempfile.TemporaryDirectory() as scratch:
            tars = [self._tar(layer, Path(scratch) / f"{number}.tar") for number, layer in enumerate(layers)]
            configuration = {
                "architecture": architecture(),
                "os": "linux",
                "config": {"Cmd": list(command), "Env": [PATH], **config},
                "rootfs": {"type": "layers", "diff_ids": [f"sha256:{_digest(tar)}" for tar in tars]},
            }
            archive = Path(scratch) / "image.tar"
            _write_archive(archive, name, configuration, tars)
            self._import(name, archive)
        return name

    def load(self, name: str, archive: Path) -> str:
        with tempfile.TemporaryDirectory() as scratch:
            renamed = Path(scratch) / "image.tar"
            _rename(name, archive, renamed)
            self._import(name, renamed)
        return name

    def debian(self, name: str = "localhost/debian:1", packages: Sequence[str] = ("kmod", "python3")) -> str:
        """Load a Debian whose containers end at once: most commands, as the first process, would ignore SIGTERM."""
        return self.build(name, debian_root(tuple(sorted(packages))), command=("python3",), StopSignal="SIGKILL")

    def _import(self, name: str, archive: Path) -> None:
        command = containers.ctr(self._instance, "images", "import", str(archive))
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, f"{' '.join(command)}: {done.stderr}"
        waiting.until(f"image {name}", lambda: self._is_known(name))

    def _is_known(self, name: str) -> bool:
        # The CRI plugin adds this label to every image that it has taken note of.
        listed = subprocess.run(
            containers.ctr(self._instance, "images", "list", f"name=={name}"),
            capture_output=True,
            text=True,
            timeout=300,
            check=True,
        )
        return "io.cri-containerd.image=managed" in listed.stdout

    @staticmethod
    def _tar(layer: Path, target: Path) -> Path:
        if not layer.is_dir():
            return layer
        with tarfile.open(target, "w") as archive:
            archive.add(layer, arcname=".", filter=_as_root)
        return target


def architecture() -> str:
    return _ARCHITECTURES.get(platform.machine(), platform.machine())


def pause_root(folder: Path) -> Path:
    folder.mkdir()
    shutil.copy2(programs.path("pause"), folder / "pause")
    return folder


def debian_root(packages: tuple[str, ...]) -> Path:
    """Return a tar of a minimal Debian of this machine's release, with these packages; made once, then kept."""
    release = platform.freedesktop_os_release()["VERSION_CODENAME"]
    folder = programs.folder().parent / "rootfs"
    target = folder / f"{release}-{'-'.join(packages)}.tar"
    if not target.exists():
        folder.mkdir(parents=True, exist_ok=True)
        # Of this process alone, as another test run may make the same.
        fresh = target.with_suffix(f".{os.getpid()}.tar")
        sources = [*Path("/etc/apt").glob("sources.list"), *sorted(Path("/etc/apt/sources.list.d").glob("debian.*"))]
        unread = ("/usr/share/doc/*", "/usr/share/locale/*", "/usr/share/man/*")
        options = [f"--dpkgopt=path-exclude={pattern}" for pattern in unread]
        options += ["--quiet", "--variant=essential", f"--include={','.join(packages)}"]
        try:
            subprocess.run(("mmdebstrap", *options, release, str(fresh), *map(str, sources)), check=True, timeout=1200)
            fresh.replace(target)
        finally:
            fresh.unlink(missing_ok=True)
    return target


def _write_archive(target: Path, name: str, configuration: Mapping[str, object], layers: Sequence[Path]) -> None:
    """Docker's archive of one image: manifest.json, a configuration, and the layers."""
    names = [f"{number}/layer.tar" for number in range(len(layers))]
    manifest = [{"Config": "config.json", "RepoTags": [name], "Layers": names}]
    with tarfile.open(target, "w") as archive:
        _add(archive, "config.json", configuration)
        _add(archive, "manifest.json", manifest)
        for member, layer in zip(names, layers, strict=True):
            archive.add(layer, arcname=member)


def _rename(name: str, source: Path, target: Path) -> None:
    """Copy Docker's archive of one image and give the image this name."""
    with tarfile.open(source) as old, tarfile.open(target, "w") as new:
        for member in old:
            content = old.extractfile(member)
            if content and posixpath.normpath(member.name) == "manifest.json":
                (image,) = json.load(content)
                _add(new, member.name, [{**image, "RepoTags": [name]}])
            else:
                new.addfile(member, content)


def _add(archive: tarfile.TarFile, member: str, value: object) -> None:
    data = json.dumps(value).encode()
    entry = tarfile.TarInfo(member)
    entry.size = len(data)
    archive.addfile(entry, io.BytesIO(data))


def _as_root(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


def _digest(path: Path) -> str:
    return _digest_of(path, path.stat().st_mtime_ns)


@functools.cache
def _digest_of(path: Path, changed_ns: int) -> str:
    """Return the digest of a file; remembered, as the hash of a Debian takes a while."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
