"""Rules for what a compile removes from output/."""

from collections.abc import Iterable, Iterator

from compiler.diagnostics import Diagnostic, Span
from compiler.output import index_file


def removed_cluster(folder: str, name: str) -> Diagnostic:
    """A cluster that has output is still declared."""
    return Diagnostic(
        code="cluster-removed",
        span=Span(file=f"{folder}/{name}"),
        message=f"Cluster '{name}' is no longer declared, so its output is removed.",
        notes=("A GitOps engine whose folder is gone reports that, and deletes nothing in the cluster.",),
        hint="Bring its KAECluster or its inventory back, if this is not meant.",
    )


def left_drivers(
    folder: str, cluster: str, recorded: Iterable[index_file.Workload], wanted: Iterable[index_file.Workload]
) -> Iterator[Diagnostic]:
    """A driver that a policy installed is removed before the policy goes."""
    told = {workload.policy for workload in wanted if workload.component == "driver"}
    for workload in recorded:
        if workload.state != "Present" or workload.policy in told:
            continue
        told.add(workload.policy)
        yield Diagnostic(
            code="driver-left-behind",
            span=Span(file=f"{folder}/{workload.file}"),
            message=f"Policy '{workload.policy}' drives no node of cluster '{cluster}' any more, and what it has "
            "installed stays on the hosts.",
            notes=("Modules, packages and libraries stay, and so does /var/lib/kae; nothing updates them.",),
            hint="To have them removed, compile the policy with driver.state: Absent first, and delete it when "
            "`kae status` shows every pod ready.",
        )
