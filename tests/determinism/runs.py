"""One compile of the example fleet, in a process of its own, under a condition."""

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests import project
from tests.determinism import layouts

TIMEOUT_S = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """The differences of a run from a plain one."""

    name: str
    python: tuple[str, ...] = (sys.executable,)
    environment: Mapping[str, str] = field(default_factory=dict)
    layout: layouts.Layout = layouts.plain
    folder: str = "project"
    umask: int = 0o022
    options: tuple[str, ...] = ()
    read_only: bool = False
    """True when nothing but output/ may be written."""
    same_places: bool = True
    """True when findings name the same lines."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a run: its exit code, the digest of all paths, modes and bytes below output/, its findings."""

    code: int
    digest: str
    files: int
    findings: str


def run(condition: Condition, top: Path) -> Outcome:
    """Compiles the example fleet in a new folder below `top`."""
    folder = top / condition.folder
    folder.mkdir(parents=True)
    condition.layout(folder)
    command = (*condition.python, "-m", "compiler", "compile", *condition.options)
    if condition.read_only:
        command = (*_without_privileges(), *command)
        _seal(folder)
    # Nothing of the caller's language, clock or Python settings reaches the run.
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(layouts.ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        command,
        cwd=folder,
        env={**environment, **condition.environment},
        umask=condition.umask,
        capture_output=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    return outcome(folder, done.returncode, done.stderr.decode())


def outcome(folder: Path, code: int, findings: str) -> Outcome:
    """Return the outcome of a run in a folder."""
    files = project.tree(folder / "output")
    return Outcome(code, _digest(folder / "output", files), len(files), findings)


def _digest(output: Path, files: Mapping[str, bytes]) -> str:
    found = hashlib.sha256()
    for name, content in sorted(files.items()):
        found.update(f"{name} {(output / name).stat().st_mode:o} {len(content)}\n".encode() + content)
    return found.hexdigest()


def _seal(folder: Path) -> None:
    (folder / "output").mkdir(exist_ok=True)
    for path in (folder, *(folder / name for name in ("policies", "inventory"))):
        path.chmod(0o555)


def _without_privileges() -> tuple[str, ...]:
    """Return the start of a command line by which permissions hold for root, too."""
    if os.geteuid() != 0:
        return ()
    dropped = "-dac_override,-dac_read_search"
    return ("setpriv", f"--bounding-set={dropped}", f"--inh-caps={dropped}")


def can_seal() -> bool:
    """Return whether a folder can be read-only to the run."""
    return os.geteuid() != 0 or shutil.which("setpriv") is not None
