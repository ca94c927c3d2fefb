"""`kae inventory`: the canonical NodeInventory of what kubectl prints."""

import argparse
import sys

from compiler import (
    cli,
    diagnostics,
    documents,
    errors,
    files,
    fleet,
    inventory,
    load,
    names,
    parse,
    pipeline,
    report,
    resources,
    schema,
)
from compiler.commands import findings
from compiler.model import cluster


def run(arguments: argparse.Namespace) -> int:
    """Reads a list of Nodes from standard input, prints the inventory, and says what is wrong with the list."""
    name = arguments.cluster
    if not names.is_cluster(name):
        raise errors.WorldError(
            f"'{name}' is no name of a cluster.", hint="Use lower-case letters, digits, '-' and '.'."
        )
    content = sys.stdin.buffer.read()
    # kubectl prints JSON or YAML, and only the first byte that is no space tells.
    kind = "json" if content.lstrip()[:1] == b"{" else "yaml"
    found, notes = load.decode(f"{name}.{kind}", content)
    judge = schema.Judge(resources.schemas())
    nodes = [document for document in found if _is_nodes(judge, document, notes)]
    if len(found) != 1 and not notes:
        raise errors.WorldError(
            "standard input holds no list of nodes.", hint="kubectl get nodes -o json | kae inventory …"
        )
    for document in nodes:
        notes.extend(inventory.faults(document))
    shown = diagnostics.merged(notes)
    sys.stderr.write(report.text(shown, colour=findings.colour(sys.stderr)))
    if diagnostics.has_errors(shown) or not nodes:
        return cli.WRONG
    sys.stdout.write(inventory.text(parse.inventory_of(nodes[0], _spec(name))))
    return cli.FINE


def _is_nodes(judge: schema.Judge, document: documents.Document, notes: list[diagnostics.Diagnostic]) -> bool:
    kind, faults = judge.judge(document)
    notes.extend(faults)
    return kind in ("List", "NodeList", "NodeInventory") and not faults


def _spec(name: str) -> cluster.KAEClusterSpec:
    """The cluster's settings where the current folder declares it; they say which labels are left out."""
    found, notes = files.find([names.POLICIES])
    declared, _ = pipeline.read(fleet.documents_of(found, notes), schema.Judge(resources.schemas()))
    return next((item.spec for item in declared.clusters if item.name == name), parse.default_cluster(name).spec)
