"""Rules for what a change does, for `kae diff`: a finding of them is a risk that a person may accept."""

from collections.abc import Callable, Iterator

from compiler.changes.acceptance import Acceptable
from compiler.checks.risks import drivers, objects, waves
from compiler.checks.risks.change import RevisionChange

_RULES: tuple[Callable[[RevisionChange], Iterator[Acceptable]], ...] = (
    objects.crd_pruned,
    objects.namespace_pruned,
    drivers.driver_removed,
    objects.guard_off,
    drivers.frozen_touched,
    waves.waves_skipped,
    drivers.large_step,
    drivers.driver_downgrade,
    drivers.drain_unbounded,
    objects.privilege_gained,
    objects.registry_changed,
    objects.mutable_tag,
)
"""The most dangerous first."""


def risks(change: RevisionChange) -> Iterator[Acceptable]:
    """Yield the risks of a change, the most dangerous first."""
    for rule in _RULES:
        yield from rule(change)
