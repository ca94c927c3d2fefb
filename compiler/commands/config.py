"""`kae config`: print a setting of the project, for the scripts of CI jobs."""

import argparse
import sys

from compiler import cli, diagnostics, names
from compiler.cli import findings
from compiler.project import document_files, project_file
from compiler.settings import Settings


def run(arguments: argparse.Namespace) -> int:
    """Print the setting, that of the outputs also as a revision names it, and return the exit code."""
    if arguments.setting == "inventories":
        return _inventories(arguments)
    if arguments.shard.count > 1:
        cli.parser().error("the folder of outputs is one for all shards.", "Leave --shard out.")
    if arguments.revision is None:
        settings = project_file.of(arguments)
    else:
        from compiler.project import repository  # noqa: PLC0415 - only where git is asked

        settings = Settings()._replace(output=repository.output(arguments.revision))
    sys.stdout.write(f"{project_file.output(settings)}\n")
    return cli.FINE


def _inventories(arguments: argparse.Namespace) -> int:
    """Print the inventories, or the errors in the policies' folder that may hide one."""
    from compiler.project import load  # noqa: PLC0415 - `kae config output` reads no documents

    if arguments.revision is not None:
        cli.parser().error("the inventories of a revision are not known.", "Leave REV out.")
    settings = project_file.of(arguments)
    fleet, found = load.policies(settings)
    faults = [item for item in found if item.code != "cluster-unknown"]
    if not fleet.sound:
        findings.report(arguments, diagnostics.merged(faults))
        return cli.WRONG
    files = {names.stem(item.name): item.name for item in document_files.find(settings.inventories)[0]}
    watchers = {str(cluster.name): cluster.spec.watcher for cluster in fleet.clusters if cluster.spec.watcher.enabled}
    every = sorted({*files, *load.names_of(fleet)})
    for name in arguments.shard.of(every):
        place = watchers[name].repository if name in watchers else None
        branch, folder = (place.branch, place.path) if place else (f"inventory/{name}", "inventory")
        path = f"{name}.json" if folder == "." else f"{folder}/{name}.json"
        file = files.get(name, f"{settings.inventories[0]}/{name}.json")
        sys.stdout.write("\t".join((name, file, branch, path, "watcher" if name in watchers else "")) + "\n")
    return cli.FINE
