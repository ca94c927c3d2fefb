"""`kae rule`: the rule of a finding, with an example and its fix."""

import argparse
from typing import Any

from compiler import diagnostics, errors, release, wording
from compiler.cli import findings
from compiler.project import package_data


def run(arguments: argparse.Namespace) -> int:
    if arguments.code is None:
        width = max(map(len, diagnostics.CODES))
        lines = [f"{name:{width}}  {code.severity:7}  {code.rule}\n" for name, code in diagnostics.CODES.items()]
        return findings.show(arguments, (), lines, rules=[_data(name) for name in diagnostics.CODES])
    if arguments.code not in diagnostics.CODES:
        hint = wording.did_you_mean(arguments.code, diagnostics.CODES, "`kae rule` lists all of them.")
        raise errors.WorldError(f"there is no finding '{arguments.code}'.", hint=hint)
    rule = _data(arguments.code)
    text = f"{rule['severity']}[{rule['code']}]: {rule['rule']}\n"
    text += f"\nAn example, with its fix:\n\n{rule['example']}" if rule["example"] else ""
    text += f"\nMore: {rule['page']}\n" if rule["page"] else ""
    return findings.show(arguments, (), text, **rule)


def _data(name: str) -> dict[str, Any]:
    code, example = diagnostics.CODES[name], package_data.examples().get(name, "")
    return {"code": name, "severity": code.severity, "rule": code.rule, "example": example, "page": release.page(name)}
