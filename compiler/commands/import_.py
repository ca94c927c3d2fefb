"""`kae import`: the KAE Operator's settings as documents of the compiler."""

import argparse
import os
import sys
from pathlib import Path

from compiler import cli, diagnostics, errors, schema, wording
from compiler.cli import findings, piped
from compiler.formats import decode
from compiler.migrate import drafts, operator_values
from compiler.project import atomic, document_files, links, package_data

_HINT = "Run: kubectl get kaepolicy NAME -o yaml | kae import --cluster NAME"


def run(arguments: argparse.Namespace) -> int:
    """Print or write a KAEPolicy and a KAECluster, and report the options of the source that have no meaning here."""
    wanted = drafts.Names(cluster=arguments.cluster, policy=arguments.policy, namespace=arguments.namespace)
    _require_new(arguments.target)
    file, content = _content(arguments.file)
    read, found = decode.decode(file, content)
    printed = ""
    if read and not diagnostics.has_errors(found):
        judge = schema.Judge(package_data.schemas())
        objects, more = operator_values.translated(read, wanted, judge)
        found = [*found, *more]
        printed = operator_values.text(objects) if objects else ""
    if findings.concluded(arguments, found):
        printed = ""
    if printed and arguments.target is not None:
        atomic.write_file(Path(arguments.target), printed)
        printed = f"{wording.file_name(arguments.target)}: a KAEPolicy and a KAECluster\n"
    sys.stdout.write(printed)
    sys.stdout.flush()
    findings.report(arguments, diagnostics.merged(found))
    return cli.FINE if printed else cli.WRONG


def _require_new(target: str | None) -> None:
    """Raise WorldError where the file to write exists; people may have edited it."""
    if target is not None and os.path.lexists(target):
        raise errors.WorldError(
            f"'{wording.file_name(target)}' exists, and would be overwritten.",
            hint="Remove it, or choose another name.",
        )


def _content(name: str) -> tuple[str, bytes]:
    """Return the name and the bytes of the source."""
    if name == "-":
        return piped.content(_HINT)
    links.require_inside(name, hint="Name the file itself.")
    return name, document_files.read(document_files.Input(name, Path(name)))
