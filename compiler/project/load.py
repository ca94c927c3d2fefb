"""Reading the documents of a project from disk: all but the inventories at once, those by the cluster.

It also finds the clusters and the nodes that a person names.
"""

import contextlib
import functools
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType

import msgspec

from compiler import diagnostics, errors, names, pipeline, schema, wording
from compiler.checks.output import changes
from compiler.checks.output import foreign as foreign_checks
from compiler.fleet import definitions
from compiler.formats import decode, documents
from compiler.output import foreign
from compiler.planning import plan
from compiler.project import document_files, git, package_data, project_file
from compiler.settings import Settings

_ESCAPE = re.compile(rb"\\(?:(?:u00|U000000|x)(?:2[DEde]|3[0-9]|6[1-9A-Fa-f]|7[0-9Aa])|\r?\n)")
"""An escape for a character of a node's name, or for none, in JSON or YAML: a name may be written with it."""


class Project(msgspec.Struct, frozen=True, kw_only=True):
    """The documents of a project beside its inventories, and the files of these."""

    settings: Settings
    judge: schema.Judge
    shared: pipeline.Documents
    """The documents of policies and clusters, and the findings on all files that are not read."""
    files: frozenset[str]
    """The names of all files, also of those that cannot be read."""
    inventories: Mapping[str, tuple[document_files.Input, ...]]
    """The files of each cluster."""
    fleet: definitions.Fleet
    """With every cluster that a KAECluster or a file of an inventory is for."""
    accepted: Collection[str]
    """The scopes of removals that a person accepts, of which an empty inventory may be one."""

    @property
    def places(self) -> tuple[pipeline.Place, ...]:
        """The place of every file of an inventory."""
        return tuple(_places(self.inventories))

    @property
    def empty_policies(self) -> tuple[str, ...]:
        """The files of policies that hold no document."""
        files = (finding.span.file for finding in self.shared.findings if finding.code == "empty-file")
        return tuple(filter(self.settings.is_policy_file, files))

    def size(self, cluster: str) -> int:
        """Return the bytes of a cluster's inventory; 0 for files that cannot be read, which a reader will say."""
        with contextlib.suppress(OSError):
            return sum(item.path.stat().st_size for item in self.inventories.get(cluster, ()))
        return 0

    def mentions(self, cluster: str, name: str) -> bool:
        """Return whether a cluster's inventory may hold a node: by its text, or by escapes in it. Raises WorldError."""
        contents = map(document_files.read, self.inventories.get(cluster, ()))
        return cluster in self.fleet.inventories or any(
            name.encode("utf-8", "surrogateescape") in content or _ESCAPE.search(content) for content in contents
        )

    def read(self, cluster: definitions.Cluster) -> pipeline.Documents:
        """Return the documents of a cluster's inventory, judged. Raises WorldError."""
        own, at_once = self.inventories.get(cluster.name, ()), pipeline.at_once(cluster.spec, self.judge)
        found, unread = _decoded(own, self.accepted, self.settings, at_once)
        return pipeline.judged(found, self.judge, self.files, unread, self.settings)


def project(
    settings: Settings,
    files: tuple[Sequence[document_files.Input], Iterable[diagnostics.Diagnostic]] | None = None,
    accepted: Collection[str] = (),
    edited: Mapping[str, bytes | None] = MappingProxyType({}),
) -> Project:
    """Return the project in the current folder, whose inventories are not read yet. Raises WorldError.

    `files` are those of the project, and the findings on them, where they are known already; `edited` policies have
    another content than on the disk, None for one that goes.
    """
    items, on_files = files or document_files.of_project(settings)
    items = [item for item in items if edited.get(item.name, b"") is not None]
    inventories = document_files.by_cluster(item for item in items if not settings.is_shared_file(item.name))
    judge = schema.Judge(package_data.schemas())
    shared_files = (item for item in items if settings.is_shared_file(item.name))
    found, unread = _decoded(shared_files, accepted, settings, edited=edited)
    unread = (*on_files, *unread)
    every = frozenset((*(item.name for item in items), *(finding.span.file for finding in unread)))
    shared = pipeline.judged(found, judge, every, unread, settings)
    fleet, _ = pipeline.fleet_of(shared, _places(inventories), settings)
    return Project(
        settings=settings,
        judge=judge,
        shared=shared,
        files=every,
        inventories=inventories,
        fleet=fleet,
        accepted=accepted,
    )


def _places(inventories: Mapping[str, Iterable[document_files.Input]]) -> Iterator[pipeline.Place]:
    return ((item.name, cluster) for cluster, own in inventories.items() for item in own)


def _decoded(
    files: Iterable[document_files.Input],
    accepted: Collection[str],
    settings: Settings,
    quick: decode.Quick | None = None,
    edited: Mapping[str, bytes | None] = MappingProxyType({}),
) -> tuple[list[documents.Document], diagnostics.Findings]:
    """Return the documents of files, and their mistakes; an empty inventory is a removal of its cluster's nodes."""
    contents = ((item.name, functools.partial(document_files.read, item, edited)) for item in files)
    found, mistakes = decode.every(contents, quick)
    unread = list[diagnostics.Diagnostic]()
    for finding in mistakes:
        if finding.code != "empty-file" or settings.is_shared_file(finding.span.file):
            unread.append(finding)
            continue
        removal = changes.empty_file(finding, names.stem(finding.span.file))
        if not removal.is_accepted(accepted):
            unread.append(removal.told())
    return found, tuple(unread)


def policies(settings: Settings) -> tuple[definitions.Fleet, diagnostics.Findings]:
    """Return the fleet of all documents but inventories, and the findings on them. Raises WorldError."""
    read = project(settings, document_files.find([settings.policies, settings.recipes]))
    fleet, found = pipeline.fleet_of(read.shared, (), settings)
    return fleet, (*found, *project_file.of_clusters(settings, names_of(fleet)))


def on_output(
    settings: Settings,
    fleet: definitions.Fleet,
    skipped: Collection[str] = (),
    unmerged: Callable[[], Collection[str]] | None = None,
) -> diagnostics.Findings:
    """Return the findings on files in output/ that engines read by themselves. Raises WorldError.

    The folders of clusters that are `skipped` are not looked into. `unmerged` asks for what git has in conflict there.
    """
    output, known = project_file.output(settings), names_of(fleet)
    found = foreign.engine_files(output, known, settings.extra, skipped)
    if found:
        # A merge may leave the kustomization.yaml of a cluster that one branch has removed.
        in_conflict = unmerged() if unmerged else git.unmerged(settings.output, settings.extra)
        known |= git.clusters(in_conflict)
        found = foreign.engine_files(output, known, settings.extra, skipped)
    return tuple(foreign_checks.engine_files(str(output), found))


def names_of(fleet: definitions.Fleet) -> frozenset[str]:
    """Return the names of the clusters of a fleet."""
    return frozenset(cluster.name for cluster in fleet.clusters)


def require_clusters(wanted: Sequence[str], known: Iterable[definitions.Cluster]) -> None:
    """Raise WorldError for a wanted cluster that no document names."""
    declared = sorted(cluster.name for cluster in known)
    for name in wanted:
        if name not in declared:
            known_names = f"Clusters are {wording.listed(declared)}." if declared else "No document names a cluster."
            raise errors.WorldError(
                f"there is no cluster '{name}'.", hint=f"{wording.did_you_mean(name, declared)} {known_names}".lstrip()
            )


def one_cluster(fleet: definitions.Fleet, wanted: Sequence[str]) -> definitions.Cluster:
    """Return the one selected cluster. Raises WorldError where there are none or several."""
    require_clusters(wanted, fleet.clusters)
    chosen = fleet.selected(wanted)
    if not chosen:
        raise errors.WorldError("the documents name no cluster.", hint="Write a KAECluster, or take an inventory.")
    if len(chosen) > 1:
        clusters = wording.listed(cluster.name for cluster in chosen)
        message = f"the command is for one cluster, and the documents name {clusters}."
        raise errors.WorldError(message, hint="Choose by --cluster.")
    return chosen[0]


def clusters_with(project: Project, wanted: str, chosen: Sequence[str]) -> Sequence[definitions.Cluster]:
    """Return the selected clusters that may have the node NODE or CLUSTER/NODE: their files hold its name.

    Where none does, they are those whose inventories have mistakes, as one that is damaged may have lost the node.

    Raises WorldError where there is no such cluster, or no such node.
    """
    stated, _, name = wanted.rpartition("/")
    require_clusters([*chosen, *([stated] if stated else [])], project.fleet.clusters)
    possible = [cluster for cluster in project.fleet.selected(chosen) if stated in ("", cluster.name)]
    if len(possible) == 1:
        if stated and not project.mentions(stated, name):
            others = (item for item in project.fleet.clusters if item.name != stated)
            elsewhere = nodes(project, [item for item in others if project.mentions(item.name, name)])
            if known := [(cluster, node) for cluster, node in elsewhere if node == name]:
                raise unknown_node(wanted, known)
        return possible
    holding = [cluster for cluster in possible if project.mentions(cluster.name, name)] or [
        cluster for cluster in possible if project.settings.has_errors(project.read(cluster).findings)
    ]
    if not holding:
        raise unknown_node(wanted, nodes(project, possible))
    return holding


def require_node(view: plan.Plan, wanted: str) -> str:
    """Return the name of a node that NODE or CLUSTER/NODE names in a cluster. Raises WorldError without one."""
    stated, _, name = wanted.rpartition("/")
    known = [(view.cluster.name, node.name) for node in view.inventory.nodes]
    if stated not in ("", view.cluster.name) or (view.cluster.name, name) not in known:
        raise unknown_node(wanted, known)
    return name


def unknown_node(wanted: str, known: Iterable[tuple[str, str]]) -> errors.WorldError:
    """Return the error on a node that no inventory holds; `known` are the nodes, each behind its cluster."""
    is_full = bool(wanted.rpartition("/")[0])
    words = (f"{cluster}/{name}" if is_full else name for cluster, name in known)
    hint = f"{wording.did_you_mean(wanted, words)} `kae plan -o json` lists all nodes.".lstrip()
    return errors.WorldError(f"no inventory holds a node '{wanted}'.", hint=hint)


def nodes(project: Project, clusters: Iterable[definitions.Cluster]) -> Iterator[tuple[str, str]]:
    """Yield the names of the clusters' nodes, each behind that of its cluster. Raises WorldError."""
    for cluster in clusters:
        inventory = pipeline.inventory_of(cluster, project.read(cluster)) or project.fleet.inventory(cluster)
        yield from ((cluster.name, node.name) for node in inventory.nodes)
