"""A pair of changes: two branches, each compiled, then merged or rebased by git and compiled again."""

import os
import random
import shutil
import subprocess
from collections import Counter
from pathlib import Path

from compiler.project import package_data
from tests import in_process, project
from tests.property import campaign
from tests.property.revision_pairs import trial
from tests.property.walk import files, steps

_STYLES = ("merge", "diff3", "zdiff3")
_DOCUMENTS = ("policies", "inventory")
_SETTINGS = {"kae.yaml": "findings: {cluster-unknown: ignore}\n"}
"""A cluster may go although policies name it."""
_REDRAWS = 40

_ENVIRONMENT = {
    "PATH": os.environ["PATH"],
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_EDITOR": "true",
    **{f"GIT_{who}_{key}": f"{who}@example.com" for who in ("AUTHOR", "COMMITTER") for key in ("NAME", "EMAIL")},
}


def _remove_cluster(draw: random.Random, folder: Path) -> bool:
    name = draw.choice(sorted(path.stem for path in folder.glob("policies/clusters/*")))
    (folder / f"policies/clusters/{name}.yaml").unlink()
    (folder / f"inventory/{name}.json").unlink()
    return True


_DAMAGE = ("rename a file", "mistype a word", "empty a file", "truncate a file", "comment", "reorder")
_LISTED = ("add a policy", "delete a file", "rename a policy", "add a wave", "remove a cluster")
_CHANGES = {name: edit for name, edit in trial.SORTS.items() if name not in _DAMAGE} | {
    "remove a cluster": _remove_cluster
}


def tried(seed: int, folder: Path) -> campaign.Result:
    """Try a pair in an empty folder; a pair whose documents are for people to join is drawn again."""
    draw = random.Random(seed)  # noqa: S311 - pairs are drawn again from their seed
    way = "rebase" if seed % 2 else "merge"
    work, clone = folder / "work", folder / "clone"
    for path in (work, clone):
        path.mkdir()
    steps.prepared(draw, work)
    for path in sorted(work.glob("policies/**/*.yaml")):
        files.document(path, lambda _: None)  # As edits write it, so that they change single lines.
    trial.brought(work, clone, is_canonical=True)
    project.write(clone, _SETTINGS)
    assert in_process.kae(clone, "compile", "--no-cache").code == 0
    shutil.copy(package_data.folder("templates") / "init/.gitattributes", clone)
    git(clone, "init", "--quiet", "--initial-branch=base")
    git(clone, "config", "merge.conflictStyle", _STYLES[seed % len(_STYLES)])
    git(clone, "config", "core.hooksPath", os.devnull)
    _commit(clone, "Begin")
    for _ in range(_REDRAWS):
        names = tuple(_branched(draw, work, clone, branch) for branch in ("main", "topic"))
        if all(names) and (result := _joined(seed, way, names, clone, folder / "fresh")):
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
    asked = tuple(sorted(set(steps.SCOPE.findall(said.err))))
    if said.code and asked:
        accepts = (part for scope in asked for part in ("--accept", scope))
        said = in_process.kae(folder, "compile", "--no-cache", *accepts)
    return said, asked


def _commit(clone: Path, message: str) -> None:
    git(clone, "add", "--all")
    git(clone, "commit", "--quiet", "--allow-empty", "--message", message)


def _branched(draw: random.Random, work: Path, clone: Path, branch: str) -> str:
    """Make a branch with a change that is compiled; return the name of the change, or nothing where it is refused."""
    git(clone, "switch", "--quiet", "--force-create", branch, "base")
    # Half of the changes are of those that add or remove files of the output, whose lists conflict.
    name = draw.choice(draw.choice((sorted(_CHANGES), _LISTED)))
    edited = work.with_name("edited")
    shutil.rmtree(edited, ignore_errors=True)
    shutil.copytree(work, edited)
    changed = _CHANGES[name](draw, edited) and trial.brought(edited, clone, is_canonical=True)
    if not changed or compiled(clone)[0].code:
        git(clone, "reset", "--quiet", "--hard")
        git(clone, "clean", "--quiet", "--force", "-d")
        return ""
    _commit(clone, name)
    return name


def _joined(seed: int, way: str, names: tuple[str, ...], clone: Path, fresh: Path) -> campaign.Result | None:
    """Join the branches and judge; return None where the documents need a person."""
    # On the branch topic, as a person whose pull request is behind, or on main, as who merges it.
    git(clone, "switch", "--quiet", "topic" if way == "rebase" or seed % 4 else "main")
    git(clone, way, *(() if way == "rebase" else ("--no-edit",)), "main" if seed % 4 else "topic", check=False)
    conflicts = sorted(set(git(clone, "diff", "--name-only", "--diff-filter=U").splitlines()))
    if any(path.startswith(_DOCUMENTS) for path in conflicts) or not _is_sound(clone, fresh):
        if conflicts:
            git(clone, way, "--abort")
        return None
    is_current = not in_process.kae(clone, "compile", "--check", "--no-cache").code
    said, asked = compiled(clone)
    fault = f"compile ends with {said.code}: {said.err}" if said.code else ""
    fault = fault or _ended(clone, way, bool(conflicts)) or _compared(clone, fresh)
    counts = Counter(pairs=1, **dict.fromkeys(names, 1))
    counts["with a conflict in output/"] = bool(conflicts)
    counts["compiled by git alone"] = is_current
    counts["asked for a removal"] = bool(asked)
    counts.update(f"conflicts in {'DaemonSets' if 'daemonset-' in one else Path(one).name}" for one in conflicts)
    return campaign.Result(seed=seed, acts=(way, *names), counts=counts, faults=[fault] if fault else [])


def _is_sound(clone: Path, fresh: Path) -> bool:
    """Return whether the joined documents compile from scratch, and leave the result in a folder."""
    shutil.rmtree(fresh, ignore_errors=True)
    for name in _DOCUMENTS:
        if (clone / name).is_dir():
            shutil.copytree(clone / name, fresh / name)
    project.write(fresh, _SETTINGS)
    return in_process.kae(fresh, "compile", "--no-cache").code == 0


def _ended(clone: Path, way: str, conflicts: bool) -> str:
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
