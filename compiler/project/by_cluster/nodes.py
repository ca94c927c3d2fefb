"""The clusters whose inventories hold a node that a person names."""

from collections.abc import Iterator, Sequence

from compiler import errors, pipeline, wording
from compiler.fleet import definitions
from compiler.planning import plan
from compiler.project import load


def clusters(project: load.Project, wanted: str, chosen: Sequence[str]) -> Sequence[definitions.Cluster]:
    """Return the selected clusters that may have the node NODE or CLUSTER/NODE: their files hold its name.

    Where none does, they are those whose inventories have mistakes, as one that is damaged may have lost the node.

    Raises WorldError where there is no such cluster, or no such node.
    """
    stated, _, name = wanted.rpartition("/")
    load.require_clusters([*chosen, *([stated] if stated else [])], project.fleet.clusters)
    possible = [cluster for cluster in project.fleet.selected(chosen) if stated in ("", cluster.name)]
    if len(possible) == 1:
        return possible
    holding = [cluster for cluster in possible if project.mentions(cluster.name, name)] or [
        cluster for cluster in possible if project.settings.has_errors(project.read(cluster.name).findings)
    ]
    if not holding:
        raise unknown(wanted, full_names(project, possible, is_full=bool(stated)))
    return holding


def require(view: plan.Plan, wanted: str) -> str:
    """Return the name of a node that NODE or CLUSTER/NODE names in a cluster. Raises WorldError without one."""
    stated, _, name = wanted.rpartition("/")
    known = [node.name for node in view.inventory.nodes]
    if stated not in ("", view.cluster.name) or name not in known:
        cluster = f"{view.cluster.name}/" if stated else ""
        raise unknown(wanted, (f"{cluster}{node}" for node in known))
    return name


def unknown(wanted: str, known: Iterator[str]) -> errors.WorldError:
    """Return the error on a node that no inventory holds."""
    hint = f"{wording.did_you_mean(wanted, known)} `kae plan -o json` lists all nodes.".lstrip()
    return errors.WorldError(f"no inventory holds a node '{wanted}'.", hint=hint)


def full_names(project: load.Project, clusters: Sequence[definitions.Cluster], *, is_full: bool) -> Iterator[str]:
    """Yield the nodes of clusters, with their clusters if the names are to be full."""
    for cluster in clusters:
        yield from (f"{cluster.name}/{name}" if is_full else name for name in names(project, cluster))


def names(project: load.Project, cluster: definitions.Cluster) -> Sequence[str]:
    """Return the names of a cluster's nodes. Raises WorldError."""
    found = pipeline.inventory_of(cluster, project.read(cluster.name)) or project.fleet.inventory(cluster)
    return [node.name for node in found.nodes]
