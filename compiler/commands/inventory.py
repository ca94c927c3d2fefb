"""`kae inventory`: the canonical NodeInventory of a live cluster, or of what kubectl prints of it."""

import argparse
import dataclasses
import sys
from pathlib import Path
from typing import TextIO

from compiler import cli, diagnostic_formats, diagnostics, errors, names, pipeline, schema
from compiler.checks import inventory
from compiler.commands import findings
from compiler.fleet import parse
from compiler.formats import decode, documents
from compiler.inventory import canonical_form, reduction, snapshot
from compiler.kube import reader
from compiler.model import cluster
from compiler.project import document_files, load, package_data

_HINT = "kubectl get nodes -o json | kae inventory --cluster NAME"


def run(arguments: argparse.Namespace) -> int:
    """Prints the inventory of the nodes in the cluster, or in the list on standard input."""
    name = arguments.cluster
    if not names.is_cluster(name):
        raise errors.WorldError(
            f"'{name}' is no name of a cluster.", hint="Use lower-case letters, digits, '-' and '.'."
        )
    found = _piped(name) if arguments.kubeconfig is None else _live(arguments)
    if found is None:
        return cli.WRONG
    sys.stdout.write(canonical_form.text(found))
    return cli.FINE


def _live(arguments: argparse.Namespace) -> snapshot.Inventory:
    """The inventory of the nodes that the API server lists."""
    cluster = reader.Cluster(Path(arguments.kubeconfig), arguments.context)
    reducer = reduction.Reducer(_spec(arguments.cluster).watcher.ignoreLabels)
    nodes = sorted(cluster.snapshot(reducer.node), key=lambda node: node.name)
    return snapshot.Inventory(cluster=snapshot.ClusterName(arguments.cluster), file="", nodes=tuple(nodes))


def _piped(name: str) -> snapshot.Inventory | None:
    """The inventory of the list on standard input; None where that is wrong, after saying why."""
    source: TextIO | None = sys.stdin  # None where the caller closed it
    if source is None or source.isatty():
        raise errors.WorldError("nothing is piped into standard input.", hint=_HINT)
    content = source.buffer.read()
    # kubectl prints JSON or YAML, and only the first byte that is no space tells.
    kind = "json" if content.lstrip()[:1] == b"{" else "yaml"
    found, notes = decode.decode(f"stdin.{kind}", content)
    judge = schema.Judge(package_data.schemas())
    nodes = [document for document in found if _is_nodes(judge, document, notes)]
    if not diagnostics.has_errors(notes) and not (len(found) == len(nodes) == 1):
        raise errors.WorldError("standard input does not hold one list of nodes, and nothing else.", hint=_HINT)
    for document in nodes:
        notes.extend(inventory.findings(document))
    shown = diagnostics.merged(notes)
    sys.stderr.write(diagnostic_formats.text(shown, colour=findings.colour(sys.stderr)))
    if diagnostics.has_errors(shown) or not nodes:
        return None
    # A list of nodes belongs to the cluster that its file is named after; this one has the name from the call.
    read = parse.inventory_of(dataclasses.replace(nodes[0], file=f"{name}.json"), _spec(name))
    if read.cluster != name:
        raise errors.WorldError(f"standard input holds the inventory of cluster '{read.cluster}', not of '{name}'.")
    return read


def _is_nodes(judge: schema.Judge, document: documents.Document, notes: list[diagnostics.Diagnostic]) -> bool:
    kind, faults = judge.judge(document)
    notes.extend(faults)
    return kind in ("List", "NodeList", "NodeInventory") and not faults


def _spec(name: str) -> cluster.KAEClusterSpec:
    """The cluster's settings where the current folder declares it; they say which labels are left out."""
    found, notes = document_files.find([names.POLICIES])
    declared, _ = pipeline.read(load.documents_of(found, notes), schema.Judge(package_data.schemas()))
    return next((item.spec for item in declared.clusters if item.name == name), parse.default_cluster(name).spec)
