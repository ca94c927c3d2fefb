"""The names of a project that may follow on a command line."""

import argparse
from collections.abc import Iterable, Mapping, Sequence

from compiler import cli, diagnostics, names
from compiler.fleet import definitions
from compiler.project import document_files, load, package_data, project_file, repository
from compiler.project.recipes import copies
from compiler.read import fleet as reader
from compiler.settings import Settings


def of(sort: str, values: Mapping[str, str]) -> Iterable[str]:
    """Return the names that an option or an argument takes, by its destination; none where it may be anything."""
    project_file.enter(argparse.Namespace())
    match sort:
        case "accept":
            return diagnostics.ACCEPTABLE
        case "code":
            return diagnostics.CODES
        case "topic":
            return cli.parser().commands()
        case "name":
            return sorted(path.stem for path in package_data.folder("schemas").glob("*.json"))
        case "revision" | "to":
            with repository.Repository() as found:
                return ["HEAD", *found.names()]
        case "cluster" | "clusters" | "node" | "nodes" | "recipe" | "shown":
            return _of_project(sort, project_file.of(argparse.Namespace()))
        case "before" | "frozen" | "image" | "mapping" | "policy" | "chosen_wave" | "recipes" | "wave":
            # Inventories may be large.
            fleet, _ = load.policies(project_file.of(argparse.Namespace()))
            return _of_policies(sort, values.get("policy"), fleet.policies)
    return ()


def _of_project(sort: str, settings: Settings) -> Iterable[str]:
    if sort in ("node", "nodes"):
        project = load.project(settings)
        found = load.nodes(project, project.fleet.clusters)
        return sorted({name if sort == "nodes" else f"{cluster}/{name}" for cluster, name in found})
    if sort in ("cluster", "clusters"):
        declared, _ = load.policies(settings)
        inventories, _findings = document_files.find(settings.inventories)
        return sorted(load.names_of(declared) | {names.stem(item.name) for item in inventories})
    known = [each.name for each in copies.known(settings)]
    return known if sort == "recipe" else sorted({reader.BUILTIN.name, *known})


def _of_policies(sort: str, named: str | None, policies: Sequence[definitions.Policy]) -> Iterable[str]:
    """Return the names of all policies or of their recipes, or of the parts of the one that the line names."""
    chosen = [policy for policy in policies if policy.name == named]
    match sort:
        case "policy":
            return sorted(policy.name for policy in policies)
        case "recipes":
            return sorted(recipe.name for recipe in reader.recipes_of(policies))
        case "image":
            return sorted({name for one in chosen if one.written.names_images for name in one.written.images})
        case "chosen_wave":
            return (f"{one.name}/{group.name}" for one in policies for group in one.groups if not group.is_frozen)
        case "mapping":
            return (mapping.name for policy in chosen for mapping in policy.mappings)
    wanted = "wave" if sort == "before" else sort
    return (group.name for policy in chosen for group in policy.groups if group.sort == wanted)
