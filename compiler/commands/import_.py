"""`kae import`: the KAE Operator's settings as documents of the compiler."""

import argparse
import sys
from pathlib import Path

from compiler import cli, diagnostics, schema, wording
from compiler.cli import findings
from compiler.formats import decode
from compiler.migrate import operator_values
from compiler.project import atomic, document_files, package_data


def run(arguments: argparse.Namespace) -> int:
    """Print or write a KAEPolicy and a KAECluster, and report the options of the source that have no meaning here."""
    wanted = operator_values.Names(cluster=arguments.cluster, policy=arguments.policy, namespace=arguments.namespace)
    file, content = _content(arguments.file)
    read, found = decode.decode(file, content)
    printed = ""
    if read and not diagnostics.has_errors(found):
        judge = schema.Judge(package_data.schemas())
        objects, more = operator_values.translated(read, wanted, judge)
        found = [*found, *more]
        printed = operator_values.text(objects) if objects else ""
    if printed and arguments.target is not None:
        atomic.write_file(Path(arguments.target), printed)
        printed = f"{wording.file_name(arguments.target)}: a KAEPolicy and a KAECluster\n"
    sys.stdout.write(printed)
    sys.stdout.flush()
    findings.report(arguments, diagnostics.merged(found))
    return cli.FINE if printed else cli.WRONG


def _content(name: str) -> tuple[str, bytes]:
    """Return the name and the bytes of the source; standard input is JSON if its first byte that is no space is '{'."""
    if name != "-":
        return name, document_files.read(document_files.Input(name, Path(name)))
    content = sys.stdin.buffer.read()
    return ("stdin.json" if content.lstrip()[:1] == b"{" else "stdin.yaml"), content
