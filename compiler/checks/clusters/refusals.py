"""The rule for the privileges that a cluster refuses to recipes."""

from collections.abc import Iterable, Iterator

from compiler.changes import recipe_privileges
from compiler.diagnostics import Diagnostic
from compiler.fleet import definitions


def refused(cluster: definitions.Cluster, privileges: Iterable[recipe_privileges.Privilege]) -> Iterator[Diagnostic]:
    """No program of a recipe has a privilege that the cluster refuses."""
    privileges = tuple(privileges)
    for index, refusal in enumerate(cluster.spec.recipes.refuse):
        found = [privilege for privilege in privileges if privilege.is_refused(refusal)]
        for program in dict.fromkeys(privilege.program for privilege in found):
            own = [privilege.text for privilege in found if privilege.program == program]
            yield Diagnostic(
                code="privilege-refused",
                span=cluster.span("spec", "recipes", "refuse", index),
                message=f"Cluster '{cluster.name}' refuses a privilege of '{program}': {own[0]}.",
                notes=tuple(f"It also refuses: {text}." for text in own[1:]),
                hint="Leave the cluster out of spec.clusters of the DevicePolicy, or no longer refuse the privilege.",
            )
