"""`kae inventory`: the canonical NodeInventory of a live cluster, or of what kubectl prints of it."""

import argparse
import dataclasses
import sys
from typing import TextIO

from compiler import cli, diagnostic_formats, diagnostics, errors, names, schema
from compiler.checks import inventory
from compiler.commands import findings, live
from compiler.fleet import parse
from compiler.formats import decode
from compiler.inventory import canonical_form, reduction, snapshot
from compiler.model import cluster
from compiler.project import document_files, load, package_data

_KINDS = ("List", "NodeList", "NodeInventory")
_HINT = "kubectl get nodes -o json | kae inventory --cluster NAME"


def run(arguments: argparse.Namespace) -> int:
    """Print the inventory of the nodes in the cluster, or in the list on standard input."""
    name = arguments.cluster
    if not names.is_cluster(name):
        raise errors.WorldError(
            f"'{name}' is not a valid cluster name.", hint="Use lower-case letters, digits, '-' and '.'."
        )
    found = _live(arguments) if _is_live(arguments) else _piped(name)
    if found is None:
        return cli.WRONG
    sys.stdout.write(canonical_form.text(found))
    return cli.FINE


def _is_live(arguments: argparse.Namespace) -> bool:
    """Return whether to ask the cluster: where the call names it, or nothing is piped."""
    return arguments.kubeconfig is not None or arguments.context is not None or bool(sys.stdin and sys.stdin.isatty())


def _live(arguments: argparse.Namespace) -> snapshot.Inventory:
    """Return the inventory of the nodes that the API server lists."""
    cluster = live.cluster(arguments)
    reducer = reduction.Reducer(_spec(arguments.cluster).watcher.ignoreLabels)
    nodes = sorted(cluster.snapshot(reducer.node), key=lambda node: node.name)
    return snapshot.Inventory(cluster=snapshot.ClusterName(arguments.cluster), file="", nodes=tuple(nodes))


def _piped(name: str) -> snapshot.Inventory | None:
    """Return the inventory of the list on standard input; None where that is wrong, after printing the findings."""
    source: TextIO | None = sys.stdin  # None where the caller closed it
    if source is None:
        raise errors.WorldError("nothing is piped into standard input.", hint=_HINT)
    content = source.buffer.read()
    # kubectl prints JSON or YAML; the first byte that is no space tells which.
    kind = "json" if content.lstrip()[:1] == b"{" else "yaml"
    found, unreadable = decode.decode(f"stdin.{kind}", content)
    judge = schema.Judge(package_data.schemas())
    judged = [(document, *judge.judge(document)) for document in found]
    nodes = [document for document, kind, faults in judged if kind in _KINDS and not faults]
    faults = [*unreadable, *(fault for _, _, faults in judged for fault in faults)]
    if not diagnostics.has_errors(faults) and not (len(found) == len(nodes) == 1):
        raise errors.WorldError("standard input does not hold one list of nodes, and nothing else.", hint=_HINT)
    shown = diagnostics.merged([*faults, *(fault for document in nodes for fault in inventory.findings(document))])
    sys.stderr.write(diagnostic_formats.text(shown, colour=findings.colour(sys.stderr)))
    if diagnostics.has_errors(shown) or not nodes:
        return None
    # A list of nodes belongs to the cluster that its file is named after; this one has the name from the call.
    read = parse.inventory_of(dataclasses.replace(nodes[0], file=f"{name}.json"), _spec(name))
    if read.cluster != name:
        raise errors.WorldError(f"standard input holds the inventory of cluster '{read.cluster}', not of '{name}'.")
    return read


def _spec(name: str) -> cluster.KAEClusterSpec:
    """Return the settings of the cluster, which name the labels to leave out; the defaults if it is not declared."""
    files, _ = document_files.find([names.POLICIES])
    declared, _ = load.fleet_of(files)
    return next((item.spec for item in declared.clusters if item.name == name), parse.default_cluster(name).spec)
