"""The comparison of a cluster's earlier output with the compiled one, and what it takes away."""

from collections.abc import Iterable
from dataclasses import dataclass

from compiler.changes import deployed
from compiler.diagnostics import Diagnostic
from compiler.fleet import definitions
from compiler.planning import plan


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """Something that a compile takes away, and the scope by which it can be accepted."""

    finding: Diagnostic
    scope: str
    """CODE:CLUSTER, or CODE:CLUSTER/POLICY."""

    def is_accepted(self, accepted: Iterable[str]) -> bool:
        """Return whether one of CODE, CODE:CLUSTER and CODE:CLUSTER/POLICY names it."""
        cluster = self.scope.partition("/")[0]
        return not {self.finding.code, cluster, self.scope}.isdisjoint(accepted)


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """The output of a cluster before and after a compile, with the plan that it was compiled from."""

    folder: str
    """The folder of the cluster's output, as findings name it."""
    before: deployed.Deployed
    after: deployed.Deployed
    planned: plan.Plan
    policies: tuple[definitions.Policy, ...]
    """The policies of all clusters."""
    removed_percent: float
    """A component may leave this share of a policy's nodes, or one node."""

    @property
    def cluster(self) -> str:
        """The name of the cluster."""
        return self.planned.cluster.name
