"""The cost of the compiler, before and after a change: `python -m benchmarks --before CHECKOUT`.

Each case is run RUNS times by both compilers in turn, so that what else the machine does reaches both; the ratios are
of processor time and of memory. CHECKOUT is a folder with another revision of this repository and its .venv; without
it, only this one is measured. Of the smallest cases, instructions are counted where valgrind is. helm and kustomize
stand beside them where they can do the work. The table is Markdown.
"""

import argparse
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import tabulate

from benchmarks import fleets, processes

HERE = Path(__file__).resolve().parents[1]
_CHART = Path(__file__).parent / "chart"
_EACH = "cluster-000"


def nothing() -> None:
    """Prepare nothing."""


@dataclass(frozen=True, slots=True)
class Case:
    """A command in a project; `prepare` returns, for a project's folder, what has to happen before each run."""

    name: str
    fleet: str
    arguments: Sequence[str]
    prepare: Callable[[Path], Callable[[], object]] = processes.cold
    beside: bool = False
    """True where helm and kustomize can do the work."""
    counted: bool = False
    """True where instructions are counted, which takes a hundred times as long."""


@dataclass(frozen=True, slots=True)
class Program:
    """A compiler, or another program, with the folder that it works in."""

    name: str
    command: Sequence[str]
    folder: Path
    prepare: Callable[[], object] = nothing
    environment: Mapping[str, str] | None = None


def _raw(count: int) -> Callable[[Path], object]:
    return lambda folder: fleets.answer(fleets.project(folder) / "inventory" / f"{_EACH}.json", count)


def _clusters(count: int, size: int) -> Callable[[Path], object]:
    return lambda folder: fleets.clusters(folder, count, size)


def _unprepared(_: Path) -> Callable[[], object]:
    return nothing


FLEETS: Mapping[str, Callable[[Path], object]] = {
    "smallest": _raw(11),
    "1,000 raw": _raw(1_000),
    "10,000 raw": _raw(10_000),
    "100,000 in one cluster": _clusters(1, 100_000),
    "200 x 5,000": _clusters(200, 5_000),
    "1,000 x 1,000": _clusters(1_000, 1_000),
    # Two of three nodes have a policy.
    **{f"{count:,} hosts": _clusters(1, count * 3 // 2) for count in (1_000, 10_000, 100_000)},
}
_ONE = "cluster-007"


def _edited(*, of_one: bool) -> Callable[[Path], Callable[[], object]]:
    """Return what commits a project and changes a line of a policy, of all clusters or of one."""

    def prepare(folder: Path) -> Callable[[], object]:
        policy = folder / "policies" / "storage.yaml"
        if of_one:
            policy.write_text(f"{policy.read_text()}  clusters: [{_ONE}]\n")
        fleets.commit(folder)
        policy.write_text(policy.read_text().replace("version: 2.2.0", "version: 2.3.0"))
        return processes.cold(folder)

    return prepare


def _upgraded(folder: Path) -> Callable[[], object]:
    """Commit a project, and bring another driver to every host, 50 at a time."""
    fleets.commit(folder)
    for policy in (folder / "policies").iterdir():
        text = policy.read_text().replace("version: 2.2.0", "version: 2.3.0, rollout: {maxParallel: 50}")
        policy.write_text(text)
    return processes.cold(folder)


_EDITS = {"all": _edited(of_one=False), "one": _edited(of_one=True)}
CASES = (
    Case("smallest, cold", "smallest", ("compile", "--no-cache"), beside=True, counted=True),
    Case("smallest, unchanged", "smallest", ("compile",), _unprepared, counted=True),
    *(Case(f"{name}, cold", name, ("compile", "--no-cache"), beside=True) for name in ("1,000 raw", "10,000 raw")),
    *(Case(f"{name}, cold", name, ("compile",)) for name in ("100,000 in one cluster", "200 x 5,000")),
    Case("200 x 5,000, unchanged", "200 x 5,000", ("compile",), _unprepared),
    Case(
        "200 x 5,000, one changed",
        "200 x 5,000",
        ("compile",),
        lambda folder: fleets.changing(folder / "inventory" / f"{_EACH}.json"),
    ),
    Case("200 x 5,000, plan of one cluster", "200 x 5,000", ("plan", "--cluster", _ONE), _unprepared),
    Case("200 x 5,000, explain one node", "200 x 5,000", ("explain", f"{_ONE}/kp920-000007"), _unprepared),
    Case("200 x 5,000, plan of all as JSON", "200 x 5,000", ("plan", "-o", "json"), _unprepared),
    *(Case(f"200 x 5,000, diff of a line for {of}", "200 x 5,000", ("diff",), edit) for of, edit in _EDITS.items()),
    Case("1,000 x 1,000, cold", "1,000 x 1,000", ("compile",)),
    *(Case(f"{fleet}, simulate", fleet, ("simulate",), _upgraded) for fleet in FLEETS if fleet.endswith(" hosts")),
)


def costs(programs: Sequence[Program], runs: int) -> Mapping[str, Sequence[processes.Cost]]:
    """Return the costs of each program: all run in turn, and the first turn does not count."""
    found: dict[str, list[processes.Cost]] = {program.name: [] for program in programs}
    for _ in range(runs + 1):
        for program in programs:
            program.prepare()
            found[program.name].append(processes.run(program.command, program.folder, program.environment))
    return {name: own[1:] for name, own in found.items()}


def _compilers(case: Case, sides: Mapping[str, Path], top: Path) -> Iterable[Program]:
    """Yield the compiler of each checkout, with a project of its own."""
    for name, checkout in sides.items():
        made, folder = _home(top, case.fleet) / "made", _home(top, case.fleet) / name
        if not made.exists():
            FLEETS[case.fleet](made)
        if not folder.exists():
            shutil.copytree(made, folder)
        python = sys.executable if checkout == HERE else str(checkout / ".venv" / "bin" / "python")
        environment = {**os.environ, "PYTHONPATH": str(checkout)}
        command = (python, "-m", "compiler", *case.arguments)
        yield Program(name, command, folder, case.prepare(folder), environment)


def _home(top: Path, fleet: str) -> Path:
    """Return the folder of a fleet's projects; helm takes a comma in a path for the end of the path."""
    return top / fleet.replace(",", "")


def _others(folder: Path) -> Iterable[Program]:
    output = folder / "output" / _EACH
    if command := _helm(folder / "inventory" / f"{_EACH}.json"):
        yield Program("helm", command, _CHART)
    if command := _kustomize(output):
        yield Program("kustomize", command, folder)


def _helm(nodes: Path) -> Sequence[str]:
    """Return the command by which helm groups the nodes of a file; nothing where it is not installed."""
    program = shutil.which("helm")
    return (program, "template", str(_CHART), "--values", str(nodes)) if program else ()


def _kustomize(output: Path) -> Sequence[str]:
    """Return the command by which kustomize prints the output of a cluster; nothing where it is not installed."""
    program = shutil.which("kubectl", path=str(Path(sys.executable).parent))
    return (program, "kustomize", str(output)) if program else ()


def row(case: Case, found: Mapping[str, Sequence[processes.Cost]], counts: Sequence[int]) -> Sequence[str]:
    """Return the medians as a line of the table; a ratio is the median of those of the turns.

    `counts` are the instructions of the compilers; empty where they are not counted.
    """
    cells = []
    for name in ("before", "after", "helm", "kustomize"):
        own = found.get(name, ())
        cells.append(_shown(own) if own else "")
    pairs = zip(found.get("before", ()), found["after"], strict=False)
    ratios = [(after.cpu_s / before.cpu_s, after.peak.pss / before.peak.pss) for before, after in pairs]
    time, peak = (f"{statistics.median(column):.2f}" for column in zip(*ratios, strict=True)) if ratios else ("", "")
    instructions = " -> ".join(f"{count / 1e6:.0f} M" for count in counts)
    if len(counts) > 1:
        instructions += f" ({counts[-1] / counts[0]:.2f})"
    return case.name, *cells[:2], time, peak, instructions, *cells[2:]


_COUNT = re.compile(rb"Collected : ([0-9]+)")


def instructions(program: Program) -> int:
    """Return how many instructions a program takes (callgrind; its children count none)."""
    program.prepare()
    command = ("valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", *program.command)
    done = subprocess.run(command, cwd=program.folder, env=program.environment, capture_output=True, check=True)
    return int(_COUNT.findall(done.stderr)[-1])


def _shown(own: Iterable[processes.Cost]) -> str:
    columns = zip(*((cost.wall_s, cost.cpu_s, cost.peak.pss) for cost in own), strict=True)
    wall, processor, pss = map(statistics.median, columns)
    return f"{wall:.2f} s, {processor:.2f} s, {pss:.0f} MiB"


def main() -> None:
    """Measure in a temporary folder, which holds at most one fleet at a time."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--before", type=Path, metavar="CHECKOUT", help="another checkout, with a .venv")
    parser.add_argument("-k", action="append", default=[], metavar="TEXT", help="only cases with this in their name")
    arguments = parser.parse_args()
    sides = {"before": arguments.before.resolve()} if arguments.before else {}
    sides["after"] = HERE
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    rows = []
    with tempfile.TemporaryDirectory() as name:
        top = Path(name)
        for case in CASES:
            if any(text in case.name for text in arguments.k or [""]):
                for other in set(FLEETS) - {case.fleet}:
                    shutil.rmtree(_home(top, other), ignore_errors=True)
                programs = list(_compilers(case, sides, top))
                others = _others(programs[-1].folder) if case.beside else ()
                found = costs([*programs, *others], processes.RUNS)
                counted = programs if case.counted and shutil.which("valgrind") else ()
                rows.append(row(case, found, list(map(instructions, counted))))
                print(*rows[-1], sep=" | ", file=sys.stderr, flush=True)
    runs = f"median of {processes.RUNS}: wall, processors, peak PSS of all processes"
    head = (runs, "before", "after", "ratio of processor time", "of memory", "instructions", "helm", "kustomize")
    print(tabulate.tabulate(rows, headers=head, tablefmt="github", disable_numparse=True))


if __name__ == "__main__":
    main()
