"""A change of the documents of a cluster, as the rules for risks see it."""

from collections.abc import Iterator, Mapping

from compiler import names
from compiler.changes import intent, sides
from compiler.changes.difference import Basis, ClusterDifference
from compiler.checks.change import Change
from compiler.diagnostics import Span
from compiler.formats import documents
from compiler.planning import plan, pools

SETTINGS: Mapping[str, documents.Path] = {
    "driver": ("spec", "driver"),
    "guard": ("spec", "driver", "drain"),
    "device-plugin": ("spec", "devicePlugin"),
    "program": ("spec", "programs"),
    "crds": ("spec", "nfd"),
    "nfd": ("spec", "nfd"),
    "watcher": ("spec", "watcher"),
    "openshift": ("spec", "platform"),
    "network-policies": ("spec", "networkPolicies"),
    "monitoring": ("spec", "monitoring"),
    "bootstrap": ("spec", "gitops"),
}
"""The settings that the objects of a component follow, in a policy or in a KAECluster."""


class RevisionChange(Change, frozen=True, kw_only=True):
    """A cluster before and after, and what the change does to it."""

    before: sides.Planned | None
    after: sides.Planned | None
    difference: ClusterDifference
    basis: Basis

    def span(self, policy: str | None, *paths: documents.Path) -> Span:
        """Return the changed field at or below one of these paths, of a policy before that of others.

        Where none of them has changed, it is any change of the documents of the cluster, or its declaration.
        """
        own = {**divisions(self.before), **divisions(self.after)}
        recipes = {division.policy.recipe.name for division in own.values()}
        known = {**{kind: {*own} for kind in names.POLICY_KINDS}, "Recipe": recipes}
        every = [item for item in self.basis.changed if item.name in known.get(item.kind, {self.cluster})]
        every.sort(key=lambda item: item.kind not in names.POLICY_KINDS or item.name != policy)
        cause = intent.cause(every, filter(None, paths))
        side = self.after or self.before
        if cause is not None or side is None:
            return cause or Span(file="")
        return side.planned.cluster.setting_span(Span(file=side.planned.inventory.file), "metadata", "name")

    def driven(self, policy: str | None, *, is_later: bool = True) -> int:
        """Return the number of nodes that have a driver of a policy after the change, or had one before it."""
        side = self.after if is_later else self.before
        nodes = [
            name
            for decision in (side.planned.decisions if side else ())
            if decision.pool is not None and decision.pool.driver.state == "Present"
            if decision.policy is not None and decision.policy.name == policy
            for name in decision.names
        ]
        return self.basis.count(nodes)

    @property
    def kept_recipes(self) -> Iterator[tuple[plan.RecipePlan, plan.RecipePlan]]:
        """The plans before and after of each recipe of which the cluster has policies on both sides."""
        if self.before is not None and self.after is not None:
            for one in self.before.planned.recipes:
                later = plan.of_recipe(self.after.planned, one.recipe)
                if one.divisions and later.divisions:
                    yield one, later

    @property
    def renamed(self) -> Mapping[str, str]:
        """The former names of policies, by the new ones."""
        policies = (item for item in self.basis.changed if item.kind in names.POLICY_KINDS)
        return {item.name: item.old_name for item in policies if item.action == "renamed"}


def divisions(side: sides.Planned | None) -> dict[str, pools.Division]:
    """Return the policies of a side, with their pools, by name."""
    return {division.policy.name: division for division in side.planned.divisions} if side else {}
