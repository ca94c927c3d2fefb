"""`kae simulate`: how the rollout that a change of the documents starts goes, before it is applied."""

import argparse
import json
import random
from collections.abc import Sequence
from pathlib import Path

from compiler import cli, diagnostics, errors, wording
from compiler.changes.difference import ClusterDifference, Difference
from compiler.cli import findings
from compiler.project import comparison, project_file
from compiler.simulation import durations, forecast, holders
from compiler.views import simulation
from compiler.views.diff import data as diff_data
from compiler.views.diff import text as diff_text

_RUNS, _FEWEST_RUNS, _HOSTS = 20, 3, 200_000
"""Runs, the fewest of them, and the hosts in all runs together above which there are fewer."""


def run(arguments: argparse.Namespace) -> int:
    """Print the forecast; return 1 where a revision does not compile, as nothing is known then."""
    known = _durations(arguments.metrics)
    snapshot = _snapshot(arguments.pods)
    found = comparison.of_revisions(arguments.revision, arguments.to, project_file.of(arguments), arguments.cluster)
    if found.faults:
        return _refused(arguments, found)
    if snapshot is not None and len(found.clusters) > 1:
        raise errors.RefusedError(
            f"--pods is of one cluster, and the change is in {len(found.clusters)}.", hint="Name it by --cluster."
        )
    rate, is_given = arguments.failure_rate, arguments.failure_rate is not None
    rate = rate if is_given else known.failure_rate or 0.0
    runs = arguments.runs or _runs(found)
    made = (
        forecast.of_cluster(each, known, snapshot, rate, _chances(arguments.seed, each, runs))
        for each in found.clusters
    )
    forecasts = [each for each in made if each is not None]
    basis = simulation.Basis(
        runs=runs,
        seed=arguments.seed,
        failure_rate=rate,
        is_rate_given=is_given,
        durations=known,
        metrics=arguments.metrics or "",
        pods=arguments.pods or "",
    )
    if arguments.shape == "markdown":
        return findings.show(arguments, (), simulation.markdown(forecasts, basis))
    body = "".join(f"{line}\n" for line in simulation.lines(forecasts, basis))
    revisions = diff_data.revisions(found)
    return findings.show(arguments, (), body, **revisions, **simulation.data(forecasts, basis))


def _refused(arguments: argparse.Namespace, found: Difference) -> int:
    """Show why a revision does not compile."""
    body = "".join(f"{line}\n" for line in diff_text.faults(found))
    own = diagnostics.merged(item for fault in found.faults if fault.side == "to" for item in fault.findings)
    findings.show(arguments, () if arguments.shape in ("text", "markdown") else own, body)
    return cli.WRONG


def _runs(found: Difference) -> int:
    hosts = sum(len(effect.nodes) for effect in found.effects)
    return max(_FEWEST_RUNS, min(_RUNS, _HOSTS // max(1, hosts)))


def _chances(seed: int, cluster: ClusterDifference, runs: int) -> Sequence[durations.Chance]:
    """Return what decides in each run: of the same seed the same, whatever other clusters there are."""
    return [random.Random(f"{seed} {cluster.cluster} {number}").random for number in range(runs)]  # noqa: S311 - no secret


def _durations(name: str | None) -> durations.Durations:
    if name is None:
        return durations.Durations()
    try:
        return durations.read(_content(name))
    except ValueError as error:
        hint = "Take kae_driver_step_seconds and kae_driver_changes_total from Prometheus, or /metrics of installers."
        raise errors.RefusedError(f"{wording.quoted(name)} holds no measured steps: {error}.", hint=hint) from error


def _snapshot(name: str | None) -> holders.Snapshot | None:
    if name is None:
        return None
    try:
        return holders.read(json.loads(_content(name)))
    except (ValueError, RecursionError) as error:
        hint = "Write it by `kubectl get pods,pdb --all-namespaces -o json`."
        raise errors.RefusedError(f"{wording.quoted(name)} holds no list of pods: {error}.", hint=hint) from error


def _content(name: str) -> str:
    try:
        return Path(name).read_text("utf-8")
    except OSError as error:
        raise errors.WorldError(f"{wording.quoted(name)} cannot be read: {error.strerror}.") from error
