"""Rules for what a change does, for `kae diff`: a finding of them is a risk that a person may accept."""

from collections.abc import Callable, Iterator

from msgspec import structs

from compiler.changes import difference, sides
from compiler.changes.acceptance import Acceptable
from compiler.checks.risks import drivers, objects, output, supply, waves
from compiler.checks.risks.change import RevisionChange

_RULES: tuple[Callable[[RevisionChange], Iterator[Acceptable]], ...] = (
    objects.crd_pruned,
    objects.namespace_pruned,
    drivers.driver_removed,
    drivers.claims_unended,
    drivers.program_removed,
    drivers.resource_withdrawn,
    objects.admission_withdrawn,
    drivers.match_changed,
    output.moved,
    output.unexplained,
    objects.guard_off,
    drivers.frozen_touched,
    drivers.frozen_programs,
    waves.waves_skipped,
    waves.programs_skipped,
    waves.wave_unproven,
    drivers.large_step,
    drivers.large_program_step,
    drivers.pace_bypassed,
    drivers.pace_bypassed_by_programs,
    drivers.program_disrupts,
    drivers.driver_downgrade,
    drivers.drain_unbounded,
    objects.privilege_gained,
    supply.of_change,
    objects.mutable_tag,
)
"""The most dangerous first."""


def compared(
    before: sides.Planned | None, after: sides.Planned | None, basis: difference.Basis
) -> difference.ClusterDifference | None:
    """Return what becomes of a cluster, and the risks of it, the most dangerous first; None where nothing differs."""
    found = difference.of_cluster(before, after, basis)
    if found is None:
        return None
    change = RevisionChange(cluster=found.cluster, before=before, after=after, difference=found, basis=basis)
    return structs.replace(found, risks=tuple(risk for rule in _RULES for risk in rule(change)))
