"""Inputs of an image: the sources, a base, and wheels. The last two are made once, then kept."""

import functools
import hashlib
import posixpath
import re
import subprocess
import sys
import tarfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from tests.cluster.local import programs
from tests.cluster.nodes import images

ROOT = Path(__file__).resolve().parents[2]
_PACKAGES = (
    *("gcc", "git", "libc6-dev", "libelf1", "libstdc++6", "make", "openssh-client"),
    *("python3", "python3-venv"),
)
"""The packages that the Dockerfiles expect in their base, or would install upon it."""


@functools.cache
def folders() -> Mapping[str, str]:
    """The folder of each program that has an image, by the name that `make images` gives the image."""
    texts = {path.parent.name: path.read_text("utf-8") for path in sorted(ROOT.glob("*/Dockerfile"))}
    titles = {folder: re.search(r'org\.opencontainers\.image\.title="(.+)"', text) for folder, text in texts.items()}
    return {title[1]: folder for folder, title in titles.items() if title}


def sources() -> tuple[Path, ...]:
    return tuple(sorted(path for top in _tops() for path in _files(ROOT / top)))


def shipped(folder: str) -> tuple[Path, ...]:
    tops = [ROOT / "runtime", ROOT / folder]
    if folder == "watcher":
        tops += [ROOT / line for line in _tops() if line.startswith("compiler/")]
    if folder == "installer":
        tops += [ROOT / "compiler" / name for name in ("__init__.py", "errors.py", "kube")]
    paths = (path for top in tops for path in _files(top) if path.suffix == ".py")
    return tuple(sorted(path.relative_to(ROOT) for path in paths))


def compiler_sources() -> tuple[Path, ...]:
    tops = ("LICENSE", "README.md", "pyproject.toml", "ci", "compiler", "runtime", "schemas", "templates")
    return tuple(sorted(path for top in tops for path in _files(ROOT / top)))


def digest(files: Iterable[Path]) -> str:
    """Another one for other sources, and for another base."""
    total = hashlib.sha256(f"{base()} {base().stat().st_mtime_ns}\n".encode())
    for path in files:
        content = path.read_bytes()
        total.update(f"{path.relative_to(ROOT)} {len(content)}\n".encode() + content)
    return total.hexdigest()[:16]


def base() -> Path:
    return images.debian_root(_PACKAGES)


def wheels(lock: Path) -> Path:
    """A folder with the wheels of a requirements.lock for the base's Python, from wherever pip takes packages here."""
    python = _python()
    name = hashlib.sha256(lock.read_bytes() + python.encode()).hexdigest()[:16]
    target = programs.folder().parent / "wheels" / name
    if not target.exists():
        fresh = target.with_suffix(".new")
        command = (sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps")
        choice = ("--only-binary=:all:", f"--python-version={python}", "--require-hashes", f"--requirement={lock}")
        subprocess.run((*command, *choice, f"--dest={fresh}"), check=True, timeout=300)
        fresh.rename(target)
    return target


def _python() -> str:
    with tarfile.open(base()) as archive:
        link = next(member for member in archive if posixpath.normpath(member.name) == "usr/bin/python3")
    return link.linkname.removeprefix("python")


def _tops() -> Iterator[str]:
    """Yield the paths that the root's .dockerignore admits, and those that run the builds."""
    yield from ("Makefile", "ci/images.sh", "ci/version.sh", ".dockerignore")
    for line in (ROOT / ".dockerignore").read_text().splitlines():
        if line.startswith("!"):
            yield line.removeprefix("!")


def _files(top: Path) -> Iterator[Path]:
    if top.is_file():
        yield top
    else:
        yield from (path for path in top.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
