"""The rule for the privileges that a cluster refuses to recipes."""

from collections.abc import Iterable, Iterator

from compiler.diagnostics import Diagnostic
from compiler.fleet import definitions
from compiler.rendering import privileges


def refused(cluster: definitions.Cluster, listed: Iterable[privileges.Listed]) -> Iterator[Diagnostic]:
    """No program of a recipe has a privilege that the cluster refuses."""
    listed = tuple(listed)
    for index, refusal in enumerate(cluster.spec.recipes.refuse):
        found = [privilege for privilege in listed if privilege.is_refused(refusal)]
        for program in dict.fromkeys(privilege.program for privilege in found):
            own = [privilege.text for privilege in found if privilege.program == program]
            yield Diagnostic(
                code="privilege-refused",
                span=cluster.span("spec", "recipes", "refuse", index),
                message=f"Cluster '{cluster.name}' refuses a privilege of '{program}': {own[0]}.",
                notes=tuple(f"It also refuses: {text}." for text in own[1:]),
                hint="Leave the cluster out of spec.clusters of the DevicePolicy, or no longer refuse the privilege.",
            )
