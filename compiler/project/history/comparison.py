"""The comparison of two sides, cluster by cluster: a cluster whose input is equal on both is never read."""

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from compiler import __version__, diagnostics, pipeline, schema
from compiler.changes import difference, effects, intent, pods
from compiler.checks import risks
from compiler.fleet import definitions, examples
from compiler.formats import decode
from compiler.inventory import snapshot
from compiler.output import cache
from compiler.project import package_data, project_file
from compiler.project.history import repository as repositories
from compiler.project.history import sides
from compiler.rendering import templates
from compiler.settings import Settings

_ROOT = Path()
_FORM = 2
"""The form of an entry, for folders that are older than it."""


def of_revisions(
    revision: str, to: str | None, settings: Settings, chosen: Sequence[str] = (), *, is_cached: bool = True
) -> difference.Difference:
    """Return the difference between a revision and another one, or the working tree if `to` is None.

    `settings` are those of the working tree, `chosen` the clusters to compare, all if it is empty; without `is_cached`
    nothing is read from .kae_cache/ or written to it. Raises WorldError.
    """
    judge = schema.Judge(package_data.schemas())
    with repositories.Repository() as repository:
        before = _of_revision(repository, revision, judge)
        after = sides.of_working_tree(judge, settings) if to is None else _of_revision(repository, to, judge)
        known = _Remembered(is_used=is_cached)
        found = _Comparison(before, after, judge, known, settings.limits.step_percent).result(chosen)
        if not chosen:
            known.save()
        return found


def _of_revision(repository: repositories.Repository, name: str, judge: schema.Judge) -> sides.Side:
    try:
        return sides.of_revision(repository, name, judge)
    except project_file.WrongFileError as wrong:
        revision = difference.Revision(name=name, commit=repository.commit(name))
        return sides.without_documents(revision, wrong.findings)


@dataclass(frozen=True, slots=True)
class _Made:
    """A cluster of one side, or the errors in it."""

    side: pods.Side | None
    errors: diagnostics.Findings


_NOTHING = _Made(None, ())


class _Remembered:
    """The examples of inventories, by the id of an inventory's content in git, as an earlier comparison made them.

    They are read at the first question; those of this comparison are saved at its end.
    """

    def __init__(self, *, is_used: bool) -> None:
        """`is_used` is False where nothing is to be read or written."""
        self._is_used = is_used
        self._asked: dict[str, Any] = {}

    def examples(self, source: repositories.Source, keys: frozenset[str]) -> examples.Examples | None:
        """Return the examples of an inventory for these labels; None where it has none."""
        key = cache.key(__version__, _FORM, source.blob or "", sorted(keys))
        entry = self._known.get(key)
        if entry is None and (found := examples.examples(source.read(), keys)):
            entry = [found.text.decode(), found.members]
        if entry is None:
            return None
        self._asked[key] = entry
        text, members = entry
        return examples.Examples(text.encode(), members)

    @functools.cached_property
    def _known(self) -> Mapping[str, Any]:
        return cache.examples(_ROOT) if self._is_used else {}

    def save(self) -> None:
        """Keep the examples of this comparison for the next one."""
        if self._is_used and self._asked and self._asked.keys() != self._known.keys():
            cache.save_examples(_ROOT, self._asked)


class _Comparison:
    """Two sides and their documents' changes."""

    def __init__(
        self,
        before: sides.Side,
        after: sides.Side,
        judge: schema.Judge,
        known: _Remembered,
        step_percent: int,
    ) -> None:
        self._known = known
        self._before = before
        self._after = after
        self._judge = judge
        self._basis = difference.Basis(
            changed=intent.changes(before.written, after.written),
            render=templates.renderer(package_data.templates(), package_data.bytecode()),
            step_percent=step_percent,
        )

    def result(self, chosen: Sequence[str]) -> difference.Difference:
        """Return the difference of the chosen clusters."""
        found: list[difference.ClusterDifference] = []
        faults = _faults(None, self._before.errors, self._after.errors)
        every = sorted({*self._before.clusters, *self._after.clusters})
        for name in () if faults else every:
            if not chosen or name in chosen:
                differs, wrong = self._cluster(name)
                found.extend([differs] if differs else ())
                faults.extend(wrong)
        return difference.Difference(
            before=self._before.revision,
            after=self._after.revision,
            intent=self._basis.changed,
            clusters=tuple(found),
            faults=tuple(faults),
            described=tuple(self._described(chosen)) if faults else (),
        )

    def _described(self, chosen: Sequence[str]) -> Iterator[effects.Effect]:
        """Yield what a side gives its nodes if the documents of the other one alone have errors."""
        sound = [side for side in (self._before, self._after) if not side.errors]
        for side in sound if len(sound) == 1 else ():
            for name, cluster in side.clusters.items():
                made = self._made(side, cluster) if not chosen or name in chosen else _NOTHING
                yield from effects.effects(None, made.side, frozenset(), ())

    def _cluster(self, name: str) -> tuple[difference.ClusterDifference | None, list[difference.Fault]]:
        old, new = self._before.clusters.get(name), self._after.clusters.get(name)
        if old is None or new is None or not self._has_one_inventory(name):
            return self._compared(name, self._made(self._before, old), self._made(self._after, new))
        if self._before.inputs(old) == self._after.inputs(new):
            return None, []
        known = self._by_examples(old, new)
        if known is None:
            was = self._made(self._before, old)
            # The inventory depends on the labels that the watcher ignores and keeps, where it is a list of Nodes.
            earlier, later = old.spec.watcher, new.spec.watcher
            is_shared = (earlier.ignoreLabels, earlier.inventory) == (later.ignoreLabels, later.inventory)
            inventory = was.side.planned.inventory if was.side and is_shared else None
            return self._compared(name, was, self._made(self._after, new, inventory))
        found, inventory = known
        was, now = self._made(self._before, old, inventory), self._made(self._after, new, inventory)
        return self._compared(name, was, now, found)

    def _compared(
        self, name: str, was: _Made, now: _Made, known: examples.Examples | None = None
    ) -> tuple[difference.ClusterDifference | None, list[difference.Fault]]:
        if faults := _faults(name, was.errors, now.errors):
            return None, faults
        return risks.compared(was.side, now.side, replace(self._basis, known=known)), []

    def _by_examples(
        self, old: definitions.Cluster, new: definitions.Cluster
    ) -> tuple[examples.Examples, snapshot.Inventory] | None:
        """Return the inventory that both sides have by examples; None where names of nodes decide, or it is wrong."""
        policies = [*self._before.policies(old), *self._after.policies(new)]
        sources = self._after.inventories.get(new.name, ())
        keys = examples.keys(policies, self._after.fleet.builtin, new.name)
        (source,) = self._before.inventories[old.name] if len(sources) == 1 else (None,)
        found = self._known.examples(source, keys) if keys and source else None
        if found is None:
            return None
        read, wrong = decode.decode(sources[0].name, found.text)
        inventory, findings = pipeline.read_inventory(new, read, self._judge, self._after.settings)
        return None if wrong or findings else (found, inventory)

    def _has_one_inventory(self, cluster: str) -> bool:
        """Return whether both sides have the same files of nodes for a cluster."""
        old, new = self._before.inventories.get(cluster, ()), self._after.inventories.get(cluster, ())
        if [source.name for source in old] != [source.name for source in new]:
            return False
        return all(one.blob == other.digest(one.blob or "") for one, other in zip(old, new, strict=True))

    def _made(
        self, side: sides.Side, cluster: definitions.Cluster | None, known: snapshot.Inventory | None = None
    ) -> _Made:
        """Return a cluster as one side makes it; `known` is its inventory if it is read already."""
        if cluster is None:
            return _NOTHING
        inventory, wrong = (known, ()) if known else side.inventory(cluster, self._judge)
        planned, found = pipeline.plan_policies(side.fleet, cluster, inventory)
        wrong = (*wrong, *sides.errors(side.settings, found))
        if wrong:
            return _Made(None, wrong)
        manifests = pipeline.manifests_of(planned, side.settings.applied)
        return _Made(pods.Side(planned=planned, manifests=manifests), ())


def _faults(cluster: str | None, before: diagnostics.Findings, after: diagnostics.Findings) -> list[difference.Fault]:
    both: tuple[tuple[difference.SideName, diagnostics.Findings], ...] = (("from", before), ("to", after))
    return [difference.Fault(side=side, cluster=cluster, findings=found) for side, found in both if found]
