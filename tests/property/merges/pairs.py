"""A pair of changes: two branches, each compiled, then merged or rebased by git and compiled again."""

import os
import random
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from compiler.project import package_data
from tests import in_process, project
from tests.property.merges import fleet

Way = Literal["merge", "rebase"]

_STYLES = ("merge", "diff3", "zdiff3")
_SCOPE = re.compile(r"kae compile --accept ([^`]+)`")
_DOCUMENTS = ("policies", "inventory")
_REDRAWS = 40

_ENVIRONMENT = {
    "PATH": os.environ["PATH"],
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_EDITOR": "true",
    **{f"GIT_{who}_{key}": f"{who}@example.com" for who in ("AUTHOR", "COMMITTER") for key in ("NAME", "EMAIL")},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The end of a pair."""

    seed: int
    way: Way
    changes: tuple[str, str]
    conflicts: tuple[str, ...]
    """The paths below output/ that git leaves in conflict."""
    is_current: bool
    """True when what git makes of output/ is what the joined documents compile to."""
    asked: tuple[str, ...]
    """The removals that the compile of both changes stops at."""
    fault: str = ""
    """How it failed; empty if it did not."""


def pair(seed: int) -> Result:
    """Try a pair in a temporary folder in memory if there is one."""
    memory = Path("/dev/shm")  # noqa: S108 - in it, each pair has a folder of its own
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        return tried(seed, Path(folder))


def tried(seed: int, folder: Path) -> Result:
    """Try a pair in an empty folder; a pair whose documents are for people to join is drawn again."""
    draw = random.Random(seed)  # noqa: S311 - pairs are drawn again from their seed
    way: Way = "rebase" if seed % 2 else "merge"
    clone = folder / "clone"
    clone.mkdir()
    fleet.write(draw, clone)
    assert in_process.kae(clone, "compile", "--no-cache").code == 0
    shutil.copy(package_data.folder("templates") / "init/.gitattributes", clone)
    git(clone, "init", "--quiet", "--initial-branch=base")
    git(clone, "config", "merge.conflictStyle", _STYLES[seed % len(_STYLES)])
    git(clone, "config", "core.hooksPath", os.devnull)
    _commit(clone, "Begin")
    for _ in range(_REDRAWS):
        names = _branched(draw, clone, "main"), _branched(draw, clone, "topic")
        if names[0] and names[1] and (result := _joined(seed, way, names, clone, folder / "fresh")):
            return result
    raise AssertionError(f"seed {seed}: every pair of changes needs a person")


def git(where: Path, *arguments: str, check: bool = True) -> str:
    """Run git and return its output."""
    done = subprocess.run(
        ("git", *arguments), cwd=where, env=_ENVIRONMENT, capture_output=True, text=True, timeout=60, check=False
    )
    assert not check or done.returncode == 0, f"git {arguments}: {done.stdout}{done.stderr}"
    return done.stdout


def compiled(folder: Path) -> tuple[in_process.Answer, tuple[str, ...]]:
    """Compile, accepting the removals that a first compile stops at, and return these too."""
    said = in_process.kae(folder, "compile", "--no-cache")
    asked = tuple(sorted(set(_SCOPE.findall(said.err))))
    if said.code and asked:
        accepts = (part for scope in asked for part in ("--accept", scope))
        said = in_process.kae(folder, "compile", "--no-cache", *accepts)
    return said, asked


def _commit(clone: Path, message: str) -> None:
    git(clone, "add", "--all")
    git(clone, "commit", "--quiet", "--allow-empty", "--message", message)


def _branched(draw: random.Random, clone: Path, branch: str) -> str:
    """Make a branch with a change that is compiled; return the name of the change, or nothing where it is refused."""
    git(clone, "switch", "--quiet", "--force-create", branch, "base")
    weights = [weight for weight, _ in fleet.CHANGES.values()]
    (name,) = draw.choices(list(fleet.CHANGES), weights)
    fleet.CHANGES[name][1](draw, clone)
    said, _ = compiled(clone)
    if said.code:
        git(clone, "reset", "--quiet", "--hard")
        git(clone, "clean", "--quiet", "--force", "-d")
        return ""
    _commit(clone, name)
    return name


def _joined(seed: int, way: Way, names: tuple[str, str], clone: Path, fresh: Path) -> Result | None:
    """Join the branches and judge; return None where the documents need a person."""
    # On the branch topic, as a person whose pull request is behind, or on main, as who merges it.
    git(clone, "switch", "--quiet", "topic" if way == "rebase" or seed % 4 else "main")
    git(clone, way, *(() if way == "rebase" else ("--no-edit",)), "main" if seed % 4 else "topic", check=False)
    unmerged = set(git(clone, "diff", "--name-only", "--diff-filter=U").splitlines())
    wrong = any(path.startswith(_DOCUMENTS) for path in unmerged) or not _is_sound(clone, fresh)
    conflicts = tuple(sorted(unmerged))
    if wrong:
        if conflicts:
            git(clone, way, "--abort")
        return None
    is_current = not in_process.kae(clone, "compile", "--check", "--no-cache").code
    said, asked = compiled(clone)
    fault = "" if said.code == 0 else f"compile ends with {said.code}: {said.err}"
    if not fault:
        fault = _ended(clone, way, bool(conflicts)) or _compared(clone, fresh)
    return Result(
        seed=seed, way=way, changes=names, conflicts=conflicts, is_current=is_current, asked=asked, fault=fault
    )


def _is_sound(clone: Path, fresh: Path) -> bool:
    """Return whether the joined documents compile from scratch, and leave the result in a folder."""
    shutil.rmtree(fresh, ignore_errors=True)
    for name in _DOCUMENTS:
        if (clone / name).is_dir():
            shutil.copytree(clone / name, fresh / name)
    return in_process.kae(fresh, "compile", "--no-cache").code == 0


def _ended(clone: Path, way: Way, conflicts: bool) -> str:
    """End the merge or the rebase as a person does after the compile."""
    git(clone, "add", "--all")
    if not conflicts:
        git(clone, "commit", "--quiet", "--allow-empty", "--amend", "--no-edit")
    elif way == "merge":
        git(clone, "commit", "--quiet", "--no-edit")
    elif git(clone, "status", "--porcelain"):
        git(clone, "rebase", "--continue")
    else:
        git(clone, "rebase", "--skip")
    is_open = any((clone / ".git" / name).exists() for name in ("MERGE_HEAD", "rebase-merge"))
    left = git(clone, "status", "--porcelain")
    return f"git has not ended: {left}" if is_open or left else ""


def _compared(clone: Path, fresh: Path) -> str:
    """Compare the committed output with the check and with a compile from scratch."""
    checked = in_process.kae(clone, "compile", "--check", "--no-cache")
    if checked.code or "foreign-file" in checked.err:
        return f"the check ends with {checked.code}: {checked.out[-2000:]}{checked.err}"
    wanted, written = project.tree(fresh / "output"), project.tree(clone / "output")
    if wanted != written:
        return f"not as from scratch: {sorted(wanted.items() ^ written.items())[:3]}"
    return ""
