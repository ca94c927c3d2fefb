"""Print the table: the medians of several runs of whole processes, with their peak memory."""

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import tabulate

from benchmarks import fleets, processes

RUNS = int(os.environ.get("RUNS", "5"))
KAE = (sys.executable, "-m", "compiler")
CHART = Path(__file__).parent / "chart"


@dataclass(frozen=True)
class Figure:
    """The cost of one case: seconds of wall clock and of processors, and MiB of memory of all processes."""

    case: str
    wall_s: float
    cpu_s: float
    peak_mib: float

    def row(self) -> tuple[str, str, str, str]:
        """Return the figure as a line of the table."""
        return self.case, f"{self.wall_s * 1000:.0f} ms", f"{self.cpu_s * 1000:.0f} ms", f"{self.peak_mib:.0f} MiB"


def measured(case: str, command: Sequence[str], folder: Path, before: Callable[[], object], runs: int) -> Figure:
    """Return the medians of several runs of a command, each after `before`; one more run first does not count."""
    found = []
    for _ in range(runs + 1):
        before()
        found.append(processes.run(command, folder))
    wall_s, cpu_s, peak = (
        statistics.median(column)
        for column in zip(*((cost.wall_s, cost.cpu_s, cost.peak.pss) for cost in found[1:]), strict=True)
    )
    return Figure(case, wall_s, cpu_s, peak)


def cold(folder: Path) -> Callable[[], None]:
    """Delete a project's cache and output."""

    def forget() -> None:
        for name in ("output", ".kae_cache"):
            shutil.rmtree(folder / name, ignore_errors=True)

    return forget


def nothing() -> None:
    """Prepare nothing."""


def small(top: Path) -> Iterator[Figure]:
    """Measure eleven nodes, cold and unchanged."""
    folder = fleets.project(top / "small")
    fleets.answer(folder / "inventory" / "small.json", 11)
    yield measured("11 nodes, cold", (*KAE, "compile"), folder, cold(folder), RUNS)
    yield measured("11 nodes, unchanged", (*KAE, "compile"), folder, nothing, RUNS)
    yield from others("11", folder / "inventory" / "small.json", folder / "output" / "small", RUNS)


def raw(top: Path, count: int, runs: int) -> Iterator[Figure]:
    """Compile the output of kubectl for many nodes."""
    folder = fleets.project(top / f"raw{count}")
    path = folder / "inventory" / "large.json"
    fleets.answer(path, count)
    size = f"{count} raw nodes ({path.stat().st_size >> 20} MiB)"
    yield measured(f"{size}, cold", (*KAE, "compile"), folder, cold(folder), runs)
    yield from others(str(count), path, folder / "output" / "large", 1)


def canonical(top: Path, count: int) -> Iterator[Figure]:
    """Measure the canonical inventory of many nodes."""
    folder = fleets.project(top / f"canonical{count}")
    path = folder / "inventory" / "large.json"
    reduce(count, path)
    size = f"{count} nodes, canonical ({path.stat().st_size >> 20} MiB)"
    yield measured(f"{size}, cold", (*KAE, "compile"), folder, cold(folder), RUNS)


def clusters(folder: Path, count: int, size: int) -> Iterator[Figure]:
    """Measure many clusters, one of which has changed."""
    first = fleet_of(folder, count, size)
    yield measured(f"{count} clusters of {size} nodes, cold", (*KAE, "compile"), folder, cold(folder), 1)
    yield measured("  unchanged", (*KAE, "compile"), folder, nothing, RUNS)
    yield measured("  one changed", (*KAE, "compile"), folder, changing(first), RUNS)


def changing(inventory: Path) -> Callable[[], None]:
    """Change a label of an inventory, and the next time back."""
    text = inventory.read_text()
    turn = [text, text.replace('"rack0000"', '"rack9999"')]

    def change() -> None:
        turn.reverse()
        inventory.write_text(turn[0])

    return change


def difference(folder: Path) -> Iterator[Figure]:
    """Measure `kae diff` where one line of a policy has changed: of all clusters, then of one."""
    _commit(folder)
    policy = folder / "policies" / "storage.yaml"
    text = policy.read_text()
    policy.write_text(text.replace("version: 2.2.0", "version: 2.3.0"))
    yield measured("  kae diff, a line for all clusters, cold", (*KAE, "diff"), folder, cold(folder), RUNS)
    yield measured("  kae diff, a line for all clusters, cached", (*KAE, "diff"), folder, nothing, RUNS)
    policy.write_text(f"{text}  clusters: [cluster-000]\n")
    _commit(folder)
    policy.write_text(policy.read_text().replace("version: 2.2.0", "version: 2.3.0"))
    yield measured("  kae diff, a line for one cluster, cold", (*KAE, "diff"), folder, cold(folder), RUNS)


def _commit(folder: Path) -> None:
    """Commit the documents of a project; its folder becomes a repository."""
    author = ("-c", "user.name=benchmark", "-c", "user.email=benchmark@example.com")
    for command in (("init", "-q"), ("add", "policies", "inventory"), (*author, "commit", "-q", "-m", "documents")):
        subprocess.run(("git", *command), cwd=folder, check=True)  # noqa: S607 - the git of the user


def fleet_of(folder: Path, count: int, size: int) -> Path:
    """Write a project of many clusters with equal nodes; return the first inventory."""
    fleets.project(folder)
    first = folder / "inventory" / "cluster-000.json"
    reduce(size, first)
    text = first.read_text()
    for number in range(1, count):
        name = f"cluster-{number:03d}"
        (folder / "inventory" / f"{name}.json").write_text(text.replace('"cluster-000"', f'"{name}"'))
    return first


def reduce(count: int, path: Path) -> None:
    """Write the canonical inventory of `count` nodes of the cluster that the file is named after."""
    raw = path.with_name("answer")
    fleets.answer(raw, count)
    with raw.open() as answer, path.open("w") as inventory:
        subprocess.run((*KAE, "inventory", "--cluster", path.stem), stdin=answer, stdout=inventory, check=True)
    raw.unlink()


def others(size: str, nodes: Path, output: Path, runs: int) -> Iterator[Figure]:
    """Measure the same grouping by helm, and kustomize on the output of kae, where the tools are installed."""
    if command := helm(nodes):
        yield measured(f"  helm template, {size} nodes", command, CHART, nothing, runs)
    if command := kustomize(output):
        yield measured("  kubectl kustomize of our output", command, output, nothing, runs)


def helm(nodes: Path) -> Sequence[str]:
    """Return the command by which helm groups the nodes of a file; nothing where it is not installed."""
    program = shutil.which("helm")
    return (program, "template", str(CHART), "--values", str(nodes)) if program else ()


def kustomize(output: Path) -> Sequence[str]:
    """Return the command by which kustomize prints the output of a cluster; nothing where it is not installed."""
    program = shutil.which("kubectl", path=str(Path(sys.executable).parent))
    return (program, "kustomize", str(output)) if program else ()


def main() -> None:
    """Measure everything, in a temporary folder."""
    os.environ["PYTHONPATH"] = str(Path(__file__).resolve().parents[1])
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    with tempfile.TemporaryDirectory() as name:
        top = Path(name)
        fleet = top / "clusters"
        figures = [
            *(*small(top), *raw(top, 10_000, RUNS), *canonical(top, 100_000)),
            *(*clusters(fleet, 200, 5_000), *difference(fleet)),
        ]
    rows = [figure.row() for figure in figures]
    print(tabulate.tabulate(rows, headers=(f"median of {RUNS}", "wall", "processor", "peak"), disable_numparse=True))


if __name__ == "__main__":
    main()
