"""`kae import`: the KAE Operator's settings as documents of the compiler."""

import argparse
import sys
from pathlib import Path
from typing import Any

import pydantic

from compiler import cli, diagnostics, errors, names, schema
from compiler.commands import findings
from compiler.formats import decode
from compiler.migrate import operator_values
from compiler.model import base
from compiler.project import document_files, package_data

_NAMES = "Use lower-case letters, digits and '-'"


def run(arguments: argparse.Namespace) -> int:
    """Print a KAEPolicy and a KAECluster, and report the options of the source that have no meaning here."""
    wanted = _wanted(arguments)
    file, content = _content(arguments.file)
    read, found = decode.decode(file, content)
    printed = ""
    if read and not diagnostics.has_errors(found):
        judge = schema.Judge(package_data.schemas())
        objects, more = operator_values.translated(read, wanted, judge)
        found = [*found, *more]
        printed = operator_values.text(objects) if objects else ""
    sys.stdout.write(printed)
    sys.stdout.flush()
    findings.report(arguments, diagnostics.merged(found))
    return cli.FINE if printed else cli.WRONG


def _wanted(arguments: argparse.Namespace) -> operator_values.Names:
    if not names.is_cluster(arguments.cluster):
        raise errors.WorldError(f"'{arguments.cluster}' is not a valid cluster name.", hint=f"{_NAMES}, and '.'.")
    _require(base.PolicyName, arguments.policy, "policy", f"{_NAMES}, at most 30, and no '--'.")
    _require(base.DnsLabel, arguments.namespace, "namespace", f"{_NAMES}, at most 63.")
    return operator_values.Names(cluster=arguments.cluster, policy=arguments.policy, namespace=arguments.namespace)


def _require(form: Any, name: str | None, what: str, hint: str) -> None:
    """Raise WorldError for a name on the command line that its document cannot have."""
    try:
        pydantic.TypeAdapter(form | None).validate_python(name)
    except pydantic.ValidationError as error:
        raise errors.WorldError(f"'{name}' is not a valid {what} name.", hint=hint) from error


def _content(name: str) -> tuple[str, bytes]:
    """Return the name and the bytes of the source; standard input is JSON if its first byte that is no space is '{'."""
    if name != "-":
        return name, document_files.read(document_files.Input(name, Path(name)))
    content = sys.stdin.buffer.read()
    return ("stdin.json" if content.lstrip()[:1] == b"{" else "stdin.yaml"), content
