"""`kae merge-findings`: the verdict on a fleet that several machines have compiled by shards."""

import argparse
from pathlib import Path

from compiler import cli, diagnostics, errors, wording
from compiler.cli import findings
from compiler.commands import compile as compile_
from compiler.output import cache
from compiler.project import compile_call, document_files, load, project_file
from compiler.project.by_cluster import planned, shard_files


def run(arguments: argparse.Namespace) -> int:
    """Print the findings of all shards and those that only all of them show; return the exit code of one compile."""
    settings = project_file.of(arguments)
    found = [shard_files.read(path) for path in arguments.files]
    items, on_files = document_files.of_project(settings)
    project = load.project(settings, (items, on_files))
    files, clusters = (file for file, _ in project.places), load.names_of(project.fleet)
    documents = compile_call.documents_key(compile_call.shared_files(settings, items), cache.Digests(Path()))
    shard_files.require_whole(found, documents, files, clusters)
    done = planned.concluded(project, [cluster.planned() for each in found for cluster in each.clusters])
    every = diagnostics.merged([*done.findings, *(other for each in found for other in each.on_output)])
    rows = [(each.name, each.answer or "") for each in done.clusters]
    rows += [(name, "removed") for each in found for name in each.removed]
    is_check = found[0].is_check
    findings.require_fine(arguments, every, clusters=[])
    if unfinished := [each.name for each in done.clusters if each.answer is None]:
        raise errors.RefusedError(
            f"shards have stopped before {wording.listed(unfinished, most=3)}, and no error says why.",
            hint="With --strict, a shard stops at warnings: give --strict here too.",
        )
    differing = [(name, state) for name, state in rows if state != "fine"] if is_check else []
    lines = [f"{name}: {compile_.STATES.get(state, state)}\n" for name, state in differing]
    lines.append(f"{wording.counted(len(rows), 'cluster')} in {wording.counted(len(found), 'shard')}\n")
    findings.show(arguments, every, lines, clusters=[{"name": name, "state": state} for name, state in rows])
    has_strangers = any(other.code == "foreign-file" for each in found for other in each.others)
    return cli.DIFFERS if differing or (is_check and has_strangers) else cli.FINE
