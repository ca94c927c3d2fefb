"""`kae inventory`: the canonical NodeInventory of a live cluster, or of what kubectl prints of it."""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from msgspec import structs

from compiler import cli, diagnostics, errors, pipeline, schema, wording
from compiler.checks import cluster as cluster_checks
from compiler.checks import inventory
from compiler.cli import findings, live
from compiler.fleet import clusters
from compiler.formats import canonical, decode, documents
from compiler.inventory import canonical_form, reduction, snapshot
from compiler.project import atomic, links, load, package_data, project_file
from compiler.read import fleet as reader

_KINDS = ("List", "NodeList", "NodeInventory")
_OF_CLUSTERS = ("cluster-undeclared", "cluster-unknown")
"""Errors that a first inventory may end."""
_HINT = "Run: kubectl get nodes -o json | kae inventory --cluster NAME"


def run(arguments: argparse.Namespace) -> int:
    _require_file_of_cluster(arguments)
    spec = _settings(arguments)
    # A cluster is asked where the call names it, or nothing is piped.
    is_live = arguments.kubeconfig is not None or arguments.context is not None or (sys.stdin and sys.stdin.isatty())
    if is_live:
        reducer = reduction.Reducer(spec.watcher.ignoreLabels, spec.watcher.inventory.labels)
        nodes = sorted(live.cluster(arguments).snapshot(reducer.node), key=lambda node: node.name)
        found = snapshot.Inventory(cluster=snapshot.ClusterName(arguments.cluster), file="", nodes=tuple(nodes))
    else:
        found = _piped(arguments, spec)
    text = canonical_form.text(found)
    if arguments.document_format == "yaml":
        text = canonical.dump_yaml(json.loads(text))
    if arguments.target is None:
        sys.stdout.write(text)
        return cli.FINE
    atomic.write_file(Path(arguments.target), text)
    if not arguments.quiet:
        sys.stdout.write(f"{wording.file_name(arguments.target)}: {wording.counted(len(found.nodes), 'node')}\n")
    return cli.FINE


def _require_file_of_cluster(arguments: argparse.Namespace) -> None:
    """End with a usage error where a file of the project's inventories would not be read as that of the cluster."""
    if arguments.target is None:
        return
    target, name = Path(arguments.target), arguments.cluster
    if arguments.document_format == "yaml" and target.suffix == ".json":
        cli.parser().error(f"'{wording.file_name(arguments.target)}' is no name for YAML.", "Leave out -o yaml.")
    folders = project_file.of(arguments).inventories
    is_read = any(links.real(target).is_relative_to(links.real(folder)) for folder in folders)
    if is_read and target.stem != name:
        shown = wording.file_name(arguments.target)
        cli.parser().error(
            f"'{shown}' is not named after cluster '{name}'.",
            f"Write --output-file {wording.file_name(str(target.with_name(f'{name}.json')))}.",
        )


def _piped(arguments: argparse.Namespace, spec: clusters.Spec) -> snapshot.Inventory:
    """Return the inventory of the list on standard input. Raises WrongError where that has errors, which it prints."""
    name = arguments.cluster
    judge = schema.Judge(package_data.schemas())
    found, unreadable = decode.decode(*cli.piped(_HINT), pipeline.at_once(spec, judge))
    _require_nodes(found)
    judged = [(document, *judge.judge(document)) for document in found]
    nodes = [document for document, kind, faults in judged if kind in _KINDS and not faults]
    faults = [*unreadable, *(fault for _, _, faults in judged for fault in faults)]
    if not diagnostics.has_errors(faults) and not (len(found) == len(nodes) == 1):
        raise errors.RefusedError("standard input does not hold one list of nodes, and nothing else.", hint=_HINT)
    more = [fault for document in nodes for fault in inventory.findings(document)]
    shown = findings.with_severities(arguments, [*faults, *more])
    findings.report(arguments, shown)
    if diagnostics.has_errors(shown) or not nodes:
        raise cli.WrongError
    read: snapshot.Inventory | None = nodes[0].meaning
    if read is not None:
        return structs.replace(read, cluster=snapshot.ClusterName(name))
    # A list of nodes belongs to the cluster that its file is named after; this one has the name from the call.
    read = reader.inventory_of(structs.replace(nodes[0], file=f"{name}.json"), spec)
    if read.cluster != name:
        raise errors.RefusedError(f"standard input holds the inventory of cluster '{read.cluster}', not of '{name}'.")
    return read


def _require_nodes(found: Sequence[documents.Document]) -> None:
    """Raise RefusedError for a list of other objects, such as the pods of a mistyped `kubectl get`."""
    for document in found:
        data = document.data if isinstance(document.data, dict) else {}
        kind, items = str(data.get("kind")), data.get("items")
        first = items[0] if isinstance(items, list) and items and isinstance(items[0], dict) else {}
        held = first.get("kind") if kind == "List" else kind.removesuffix("List")
        if isinstance(items, list) and isinstance(held, str) and held != "Node":
            raise errors.RefusedError(f"standard input holds a list of {wording.cut(held)}s, not of Nodes.", hint=_HINT)


def _settings(arguments: argparse.Namespace) -> clusters.Spec:
    """Return the settings of the cluster, defaults if it is not declared.

    Raises WrongError for the errors that leave its labels open, which it prints: labels that it must not ignore, and
    documents that may say which it ignores, and cannot be read.
    """
    name, settings = arguments.cluster, project_file.of(arguments)
    declared, found = load.policies(settings)
    usual = reader.default_cluster(name, schema.Judge(package_data.schemas()).complete)
    own = next((item for item in declared.clusters if item.name == name), usual)
    if own.source is not None and not own.spec.watcher.ignoreLabels and not own.spec.watcher.inventory.labels:
        return own.spec
    faults = [item for item in found if item.code not in _OF_CLUSTERS and settings.has_errors([item])]
    faults += cluster_checks.ignored_labels(declared.policies, own)
    if faults:
        findings.report(arguments, diagnostics.merged(faults))
        raise cli.WrongError
    return own.spec
