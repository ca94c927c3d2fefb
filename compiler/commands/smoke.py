"""`kae smoke`: print Jobs that try the devices of a cluster."""

import argparse
import sys

from compiler import errors, wording
from compiler.cli import findings
from compiler.formats import canonical
from compiler.project import load, package_data, project_file
from compiler.project.by_cluster import planned
from compiler.rendering import templates
from compiler.views import smoke

_CLAIM = "{.items[*].status.extendedResourceClaimStatus.resourceClaimName}"
"""Where the scheduler notes the claim that it made for a pod by extended resource (KEP-5004)."""


def run(arguments: argparse.Namespace) -> int:
    """Print a Job for each resource of the cluster's plan; say on standard error what none of them tries."""
    run, view = planned.of_one(project_file.of(arguments), arguments.cluster)
    named = [load.require_node(view, node) for node in arguments.node]
    # Warnings are about the fleet; `kae compile` shows them.
    found = findings.without_warnings(arguments, run.findings)
    findings.require_fine(arguments, found)
    made = smoke.of_plan(view, named)
    for sentence in made.left_out:
        sys.stderr.write(f"not tried: {wording.escaped(sentence)}.\n")
    for name in made.claiming:
        asked = f"kubectl get pods -n {view.cluster.spec.namespace} -l job-name={name} -o jsonpath='{_CLAIM}'"
        sys.stderr.write(f"by DRA: the pod of {name} gets its device by a claim, which `{asked}` names.\n")
    if not made.jobs:
        raise errors.WorldError(
            f"the plan of cluster '{view.cluster.name}' has no device that a pod could try.",
            hint=f"`kae plan --cluster {view.cluster.name}` says why; take the inventory again where it is old.",
        )
    render = templates.renderer(package_data.templates(), package_data.code())
    jobs = (canonical.dump_yaml(render(manifest)) for manifest in made.jobs)
    return findings.show(arguments, found, "---\n".join(jobs))
