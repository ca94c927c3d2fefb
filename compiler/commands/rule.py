"""`kae rule`: the rule of a finding, with an example and its fix."""

import argparse
from collections.abc import Mapping
from typing import Any

from compiler import cli, diagnostics, errors, wording
from compiler.cli import findings, options, parsing
from compiler.project import package_data


def declare(command: parsing.Parser) -> None:
    """Declare the options of `kae rule`."""
    command.examples("kae rule policy-overlap", "kae rule    list all of them")
    command.set_defaults(in_project=False)
    command.add_argument("code", nargs="?", metavar="CODE", help="the code in the finding's brackets")
    options.answer(command)


def run(arguments: argparse.Namespace) -> int:
    """Print one rule, or all of them."""
    if arguments.code is None:
        width = max(map(len, diagnostics.CODES))
        lines = [f"{name:{width}}  {code.severity:7}  {code.rule}\n" for name, code in diagnostics.CODES.items()]
        findings.show(arguments, (), "".join(lines), rules=[_data(name) for name in diagnostics.CODES])
        return cli.FINE
    if arguments.code not in diagnostics.CODES:
        hint = wording.did_you_mean(arguments.code, diagnostics.CODES, "`kae rule` lists all of them.")
        raise errors.WorldError(f"there is no finding '{arguments.code}'.", hint=hint)
    rule = _data(arguments.code)
    findings.show(arguments, (), _text(rule), **rule)
    return cli.FINE


def _data(name: str) -> dict[str, Any]:
    code, example = diagnostics.CODES[name], package_data.examples().get(name, "")
    return {"code": name, "severity": code.severity, "rule": code.rule, "example": example}


def _text(rule: Mapping[str, Any]) -> str:
    head = f"{rule['severity']}[{rule['code']}]: {rule['rule']}\n"
    return head + (f"\nAn example, with its fix:\n\n{rule['example']}" if rule["example"] else "")
