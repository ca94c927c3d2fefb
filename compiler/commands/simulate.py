"""`kae simulate`: how the rollout that a change of the documents starts goes, before it is applied."""

import argparse
import json
import random
from collections.abc import Sequence
from pathlib import Path

from compiler import errors, wording
from compiler.changes.difference import ClusterDifference, Difference
from compiler.cli import findings
from compiler.commands import diff
from compiler.project import comparison, project_file
from compiler.simulation import durations, forecast, holders
from compiler.views import simulation
from compiler.views.diff import data as diff_data

_RUNS, _FEWEST_RUNS, _HOSTS = 20, 3, 200_000
"""Runs, the fewest of them, and the hosts in all runs together above which there are fewer."""

_HOSTS_BESIDE = 50_000
"""The same where a forecast is not all that is asked for."""

_MOST_BESIDE = 200_000
"""The most hosts then, which take some ten seconds."""


def run(arguments: argparse.Namespace) -> int:
    """Print the forecast; return 1 where a revision does not compile, as nothing is known then."""
    known = _durations(arguments.metrics)
    snapshot = _snapshot(arguments.pods)
    found = comparison.of_revisions(arguments.revision, arguments.to, project_file.of(arguments), arguments.cluster)
    if found.faults:
        return diff.refused(arguments, found)
    if snapshot is not None and len(found.clusters) > 1:
        raise errors.RefusedError(
            f"--pods is of one cluster, and the change is in {len(found.clusters)}.", hint="Name it by --cluster."
        )
    given = arguments.failure_rate
    basis = simulation.Basis(
        runs=arguments.runs or _runs(_hosts(found), _HOSTS),
        seed=arguments.seed,
        failure_rate=known.failure_rate or 0.0 if given is None else given,
        is_rate_given=given is not None,
        durations=known,
        metrics=arguments.metrics or "",
        pods=arguments.pods or "",
        has_claims=snapshot is not None and snapshot.has_claims,
    )
    forecasts = _forecasts(found, basis, snapshot)
    if arguments.shape == "markdown":
        return findings.show(arguments, (), simulation.markdown(forecasts, basis))
    body = "".join(f"{line}\n" for line in simulation.lines(forecasts, basis))
    revisions = diff_data.revisions(found)
    return findings.show(arguments, (), body, **revisions, **simulation.data(forecasts, basis))


def by_default(found: Difference) -> tuple[Sequence[forecast.Forecast], simulation.Basis] | None:
    """Return the forecasts of a change by defaults alone, for answers that show them beside other things.

    None where no driver changes, and where so many do that nobody would wait for it.
    """
    changing = [effect for effect in found.effects if effect.work in forecast.CHANGING and effect.driver_pod]
    if found.faults or not changing or _hosts(found) > _MOST_BESIDE:
        return None
    runs = _runs(_hosts(found), _HOSTS_BESIDE)
    basis = simulation.Basis(runs=runs, seed=0, failure_rate=0, is_rate_given=False, durations=durations.Durations())
    forecasts = [each for each in _forecasts(found, basis) if each.hosts]
    return (forecasts, basis) if forecasts else None


def _forecasts(
    found: Difference, basis: simulation.Basis, snapshot: holders.Snapshot | None = None
) -> Sequence[forecast.Forecast]:
    made = (
        forecast.of_cluster(each, basis.durations, snapshot, basis.failure_rate, _chances(basis, each))
        for each in found.clusters
    )
    return [each for each in made if each is not None]


def _hosts(found: Difference) -> int:
    return sum(len(effect.nodes) for effect in found.effects)


def _runs(hosts: int, most: int) -> int:
    return max(_FEWEST_RUNS, min(_RUNS, most // max(1, hosts)))


def _chances(basis: simulation.Basis, cluster: ClusterDifference) -> Sequence[durations.Chance]:
    """Return what decides in each run: of the same seed the same, whatever other clusters there are."""
    seeds = (f"{basis.seed} {cluster.cluster} {number}" for number in range(basis.runs))
    return [random.Random(seed).random for seed in seeds]  # noqa: S311 - no secret


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
        return Path(name).read_text("utf-8-sig")
    except OSError as error:
        raise errors.WorldError(f"{wording.quoted(name)} cannot be read: {error.strerror}.") from error
