"""A change of a cluster, as the rules for removals and for risks see it."""

from collections.abc import Sequence

import msgspec

from compiler.changes import acceptance, deletions, sides
from compiler.diagnostics import Diagnostic, Span
from compiler.fleet import definitions
from compiler.output import index_file
from compiler.planning import plan


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """A change of a cluster, with findings that a person may accept."""

    cluster: str

    def acceptable(
        self,
        span: Span,
        *parts: acceptance.Part,
        hint: str,
        code: str = "",
        notes: Sequence[str] = (),
        policy: str | None = None,
    ) -> acceptance.Acceptable:
        """Return a removal or a risk with the message that `parts` make, of a policy if it is one's own."""
        message = acceptance.worded([(self.cluster, parts)])
        finding = Diagnostic(code=code, span=span, message=message, notes=tuple(notes), hint=hint)
        return acceptance.Acceptable(finding=finding, cluster=self.cluster, policy=policy, parts=parts)


class OutputChange(Change, frozen=True, kw_only=True):
    """The output of a cluster before and after a compile, with the plan that it was compiled from."""

    folder: str
    """The folder of the cluster's output, as findings name it."""
    before: sides.Output
    after: sides.Output
    planned: plan.Plan
    policies: tuple[definitions.Policy, ...]
    """The policies of all clusters."""
    empty: tuple[str, ...] = ()
    """The files of policies that hold no document."""
    removed_percent: float
    """A component may leave this share of a policy's nodes, or one node."""

    @property
    def deletion(self) -> deletions.Deletion:
        """What becomes of the objects that leave the output."""
        return deletions.joined(self.before.deletion, deletions.of(self.planned.cluster.spec.gitops))

    def cluster_span(self, *path: str) -> Span:
        """Return the position of a setting of the KAECluster; without one, the file of the inventory."""
        return self.planned.cluster.setting_span(Span(file=self.planned.inventory.file or self.folder), *path)

    def policy_span(self, name: str, component: str = "driver") -> Span:
        """Return the position of a policy's name, of its clusters if it left this one, else its earlier output."""
        here = {division.policy.name for division in self.planned.divisions}
        for policy in self.policies:
            if policy.name == name:
                path = ("metadata", "name") if name in here else ("spec", "clusters")
                return policy.source.span(*path)
        return self.output_span(name, component)

    def output_span(self, name: str, component: str) -> Span:
        """Return the earlier output of a policy's component."""
        own = (item for item in self.before.index.workloads if (item.policy, item.component) == (name, component))
        return Span(file=f"{self.folder}/{next((item.file for item in own), index_file.NAME)}")
