"""A compile by several processes that is killed or interrupted ends at once, and the next one heals its output."""

import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks import fleets
from compiler.output import scan, tree
from tests import effort, in_process, project

Act = Callable[["subprocess.Popen[str]", random.Random], bool]
"""What is done to a compile; False where there was nothing to do it to."""

MOMENTS = int(os.environ.get("KAE_MOMENTS", "2"))
"""How many random moments of each kind; `make kills` takes more."""

KAE = """
import os, pathlib, sys, time
from compiler import __main__ as entry
from compiler.project.by_cluster import workers

def serve(work, *rest):
    def held(number):
        pathlib.Path("held").touch()
        while not pathlib.Path("go").exists():
            time.sleep(0.001)
        return work(number)
    serve_at_once(held if "KAE_HOLD" in os.environ else work, *rest)

workers._PAYS = 1
serve_at_once, workers._serve = workers._serve, serve
sys.argv[0] = "kae"
entry.main()
"""
"""The real program, which starts processes for a small fleet too; with KAE_HOLD they wait for the file `go`."""

CLUSTERS, NODES = (12, 40) if effort.LONG or "KAE_MOMENTS" in os.environ else (4, 5)
HANG_S = 600


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fleet whose documents have changed since its compile, with the output of another, undisturbed, one."""
    folder = tmp_path_factory.mktemp("fleet")
    made = fleets.project(folder / "old")
    fleets.answer(folder / "nodes.json", NODES)
    for number in range(CLUSTERS):
        shutil.copy(folder / "nodes.json", made / f"inventory/c{number:02}.json")
    assert in_process.kae(made, "compile").code == 0
    policy = made / "policies/tls.yaml"
    policy.write_text(policy.read_text().replace("2.2.0", "2.3.0").replace("1.4.1", "1.5.0"))
    shutil.copytree(made, folder / "new")
    assert in_process.kae(folder / "new", "compile").code == 0
    return folder


def started(folder: Path, *, hold: bool) -> "subprocess.Popen[str]":
    """Start a compile by three processes, in a session of its own."""
    return subprocess.Popen(
        (sys.executable, "-c", KAE, "compile", "--jobs", "3", "--no-cache"),
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])} | ({"KAE_HOLD": "1"} if hold else {}),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def members(session: int) -> list[int]:
    """The processes of a session that have not ended."""
    own = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, _, theirs = path.read_text().rpartition(")")[2].split()[:4]
        except OSError:
            continue
        if int(theirs) == session and state not in "ZX":
            own.append(int(path.parent.name))
    return own


def workers_of(process: "subprocess.Popen[str]") -> list[int]:
    """The processes that a compile has started."""
    return [number for number in members(process.pid) if number != process.pid]


def kill_worker(process: "subprocess.Popen[str]", draw: random.Random) -> bool:
    """Kill a worker; return whether there was one."""
    if own := workers_of(process):
        with contextlib.suppress(ProcessLookupError):  # It has just ended.
            os.kill(draw.choice(own), signal.SIGKILL)
            return True
    return False


def kill(process: "subprocess.Popen[str]", _: random.Random) -> bool:
    process.kill()
    return True


def interrupt(process: "subprocess.Popen[str]", _: random.Random) -> bool:
    """Press Ctrl-C, which a terminal sends to all processes of a group."""
    os.killpg(process.pid, signal.SIGINT)
    return True


def assert_old_new_or_incomplete(output: Path, fleet: Path) -> None:
    """Every cluster's files are those of one state, unless its index says that they are of both."""
    old, new = (project.tree(fleet / name / "output") for name in ("old", "new"))
    for cluster in {name.partition("/")[0] for name in old}:
        recorded = scan.recorded(output, cluster)
        assert recorded is not None
        own = {name: text for name, text in project.tree(output).items() if name.startswith(f"{cluster}/")}
        states = [{name: text for name, text in each.items() if name.startswith(f"{cluster}/")} for each in (old, new)]
        if recorded.complete:
            own = {name: text for name, text in own.items() if not name.endswith(tree.TEMPORARY)}
            assert own in states


def disturbed(
    fleet: Path, folder: Path, act: Act, draw: random.Random, *, delay_s: float | None = None
) -> tuple[int, str]:
    """Disturb a compile some time after it has started its processes; return its exit code and what it says.

    Without a delay its processes wait in the midst of their work until it is disturbed.
    """
    shutil.copytree(fleet / "old", folder)
    process = started(folder, hold=delay_s is None)
    while process.poll() is None and not (workers_of(process) if delay_s is not None else (folder / "held").exists()):
        time.sleep(0.001)
    time.sleep(delay_s or 0)
    acted = act(process, draw)
    (folder / "go").touch()
    _, said = process.communicate(timeout=HANG_S)
    until_s = time.monotonic() + HANG_S
    while members(process.pid) and time.monotonic() < until_s:
        time.sleep(0.01)
    assert members(process.pid) == []
    assert "Traceback" not in said
    assert_old_new_or_incomplete(folder / "output", fleet)
    assert in_process.kae(folder, "compile", "--no-cache").code == 0
    assert project.tree(folder / "output") == project.tree(fleet / "new/output")
    return (process.returncode, said) if acted else (0, "")


ENDS = pytest.mark.parametrize(
    ("act", "code", "sentence"),
    [
        (kill_worker, 3, "a worker process was killed; the kernel does so where memory runs out.\nhint: "),
        (kill, -signal.SIGKILL, ""),
        (interrupt, 130, "\n"),
    ],
    ids=["a worker is killed", "the compile is killed", "Ctrl-C"],
)


@pytest.mark.long
@ENDS
def test_a_compile_that_is_disturbed_while_its_processes_work_ends_and_is_healed(
    act: Act, code: int, sentence: str, fleet: Path, tmp_path: Path
) -> None:
    end, said = disturbed(fleet, tmp_path / "fleet", act, random.Random(code))  # noqa: S311 - a test's choice

    assert end == code, said
    assert sentence in said


@pytest.mark.long
@ENDS
def test_a_compile_that_is_disturbed_at_any_moment_ends_and_is_healed(
    act: Act, code: int, sentence: str, fleet: Path, tmp_path: Path
) -> None:
    draw = random.Random(code)  # noqa: S311 - a test's choice
    ends = list[int]()
    # A compile whose moment came too late ends with 0, as it does on a machine with other work.
    while len(ends) < MOMENTS or (code not in ends and len(ends) < MOMENTS + 20):
        delay_s = draw.uniform(0, 0.4) if ends else 0
        end, said = disturbed(fleet, tmp_path / str(len(ends)), act, draw, delay_s=delay_s)
        assert end in (0, code), said
        assert end == 0 or sentence in said
        ends.append(end)

    assert code in ends
