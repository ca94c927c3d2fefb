"""A hostile tree: a project and what lies beside it, the commands that meet it, and what they must not do."""

import atexit
import contextlib
import functools
import json
import random
import shutil
import subprocess
import tempfile
import traceback
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tests import builders, in_process, project, revisions
from tests.failures import projects
from tests.property import campaign
from tests.property.hostile import acts

SECRET = "hunter2-of-the-host"  # noqa: S105 - it is the one that no command prints

COMMANDS = (("compile", "--check"), ("plan",), ("diff",), ("compile",), ("compile", "--check", "--strict"))
_FORMATS = ((), (), ("--format", "github"), ("-o", "json"), ("--format", "sarif"))


def visit(seed: int, top: Path) -> campaign.Result:
    """Make the tree of a seed in an empty folder, and run the commands in it."""
    draw = random.Random(seed)  # noqa: S311 - trees are drawn again from their seed
    prepared(top)
    names = [draw.choice(sorted(acts.ACTS)) for _ in range(draw.choice((1, 1, 2, 3, 5)))]
    for name in names:
        with contextlib.suppress(OSError, IndexError, ValueError, RecursionError):  # An earlier act is in its way.
            acts.ACTS[name](draw, top / "project")
    result = campaign.Result(seed=seed, acts=tuple(names), counts=Counter(set(names)))
    for command in COMMANDS:
        _run(command, draw.choice(_FORMATS) if command[0] == "compile" else (), top, result)
    return result


def prepared(top: Path) -> None:
    """Write a small project with its output, as a repository of git, and secrets beside it."""
    project.write(top, {f"outside/{name}": f"token: {SECRET}: {{\n" for name in acts.OUTSIDE if name != "folder"})
    shutil.copytree(_compiled(), top / "project")


@functools.cache
def _compiled() -> Path:
    """Return the project before anything hostile happens to it; it lasts as long as this process."""
    folder = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, folder)
    nodes = json.dumps({"apiVersion": "v1", "kind": "List", "items": [builders.kubernetes_node("kp-1")]})
    for name in ("east", "west"):
        cluster = projects.CLUSTER.replace("east", name)
        project.write(folder, {f"policies/{name}.yaml": cluster, f"inventory/{name}.json": nodes})
    project.write(folder, {"policies/tls.yaml": projects.POLICY, "kae.yaml": "output: output\n"})
    assert in_process.kae(folder, "compile", "--no-cache").code == 0
    revisions.commit(folder)
    # CI jobs keep the token of their checkout here: a link in the project may lead to it.
    with (folder / ".git/config").open("a") as config:
        config.write(f"[http]\n\textraheader = token: {SECRET}\n")
    return folder


def _run(command: tuple[str, ...], form: tuple[str, ...], top: Path, result: campaign.Result) -> None:
    before = surroundings(top, writes=command == ("compile",))
    answer, fault = _answer(top / "project", (*command, *form))
    said = answer.out + answer.err
    result.counts[f"kae {' '.join(command)}: {answer.code}"] += 1
    faults = [fault] if fault else list(_faults(answer, said))
    if surroundings(top, writes=command == ("compile",)) != before:
        faults.append("it wrote beside output/ and the cache")
    result.faults += [f"kae {' '.join((*command, *form))}: {fault}" for fault in faults]


def _answer(folder: Path, command: tuple[str, ...]) -> tuple[in_process.Answer, str]:
    """Return the answer of a command, and how it failed to end; a command that hangs is interrupted."""
    try:
        with campaign.time_limit():
            return in_process.kae(folder, *command), ""
    except Exception:
        return in_process.Answer(-1, "", ""), traceback.format_exc(limit=-4)


def _faults(answer: in_process.Answer, said: str) -> Iterator[str]:
    """Yield what is wrong with an answer, whatever the tree."""
    if answer.code not in range(5):
        yield f"it ends with {answer.code}"
    if answer.code and not said.strip():
        yield "it ends without a sentence"
    if SECRET in said:
        yield "it prints a secret"
    if "standard output cannot be written" in said:
        yield "it takes an error of a file for one of its output"
    # A patch holds the lines of files as they are, for `git apply`.
    lines = [line for line in said.split("\n") if not line.startswith(("+", "-", " "))]
    if strange := [line for line in lines if not line.isprintable()]:
        yield f"it prints what no terminal should get: {strange[0]!r}"


def surroundings(top: Path, *, writes: bool) -> str:
    """Return all that a command must not change, by place, size and change time.

    A compile may write anywhere in the project but beside people's files, as kae.yaml names the folder of its output.
    """
    folder = top / "project"
    places = [top / "outside", *(folder / name for name in (".git", "policies", "inventory", "kae.yaml") if writes)]
    places += [] if writes else [folder]
    cache = ("-path", f"{folder}/.kae_cache", "-prune", "-o")
    # Python walks no tree that is as deep as these. A command makes the cache's folder in the project.
    shown = (*cache, "-path", str(folder), "-printf", "%p %y\\n", "-o", "-printf", "%p %y %m %s %C@ %l\\n")
    found = subprocess.run(("find", *places, *shown), capture_output=True, check=False)
    return found.stdout.decode("utf-8", "replace")
