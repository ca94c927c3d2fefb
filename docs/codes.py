"""Write compiler/codes.py, the table of all codes, from the rules that the modules of the compiler state.

`python -m docs.codes` writes it; with --check it only compares.
"""

import ast
import json
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from compiler import codes

TABLE = Path(codes.__file__)

_STATING = re.compile(rb"\b(?:rule|shared_rule|Diagnostic|acceptable)\(")
"""What is in each module that states a rule or reports a code."""

_HEAD = '''\
"""Every code with its weight and its rule: `make codes` writes this file from the rules in the code."""

TABLE = {
'''


@dataclass(frozen=True)
class Rule:
    """A code with its weight and its rule, as a module states them."""

    code: str
    weight: str
    text: str
    module: str
    is_of_check: bool
    """True for the docstring of a check, whose code no other module reports."""


def text(folder: Path = TABLE.parent, earlier: Iterable[str] = tuple(codes.TABLE)) -> str:
    """Return the text of the table for the modules of a folder; codes in `earlier` stay in that order.

    Raises SystemExit for a code that is stated twice, and for one that is reported where it is not stated.
    """
    sources = {path: path.read_bytes() for path in sorted(folder.rglob("*.py")) if path != TABLE}
    modules = {
        path.relative_to(folder.parent).as_posix(): ast.parse(source)
        for path, source in sources.items()
        if _STATING.search(source)
    }
    rules: dict[str, Rule] = {}
    for module, tree in modules.items():
        for rule in _rules(module, tree):
            first = rules.setdefault(rule.code, rule)
            if first is not rule:
                raise SystemExit(f"{first.module} and {module} both have the rule of '{rule.code}'.")
    for module, tree in modules.items():
        for code in _reported(tree):
            if code not in rules:
                raise SystemExit(f"{module} reports '{code}', which has no rule.")
            if rules[code].is_of_check and rules[code].module != module:
                raise SystemExit(f"{module} reports '{code}', the rule of a check in {rules[code].module}: share it.")
        for function in _uncoded(tree):
            raise SystemExit(f"{module} has findings without a code: not checks alone call {function}.")
    ordered = _ordered(rules.values(), earlier)
    rows = (f"    {_quoted(rule.code)}: ({_quoted(rule.weight)}, {_quoted(rule.text)}),\n" for rule in ordered)
    return f"{_HEAD}{''.join(rows)}}}\n"


def _rules(module: str, tree: ast.Module) -> Iterator[Rule]:
    """Yield the rules in a module: those of its checks, and those that it states for several functions."""
    for function in (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)):
        for call in _calls(function.decorator_list, "rule"):
            code, weight = map(ast.literal_eval, call.args)
            paragraph = (ast.get_docstring(function) or "").partition("\n\n")[0]
            yield Rule(code, weight, " ".join(paragraph.split()), module, is_of_check=True)
    for call in _calls(ast.walk(tree), "shared_rule"):
        code, weight, sentence = map(ast.literal_eval, call.args)
        yield Rule(code, weight, sentence, module, is_of_check=False)


def _reported(tree: ast.Module) -> Iterator[str]:
    """Yield the codes that a module writes out in its findings."""
    for call in _calls(ast.walk(tree), "Diagnostic"):
        for value in (keyword.value for keyword in call.keywords if keyword.arg == "code"):
            options = (value.body, value.orelse) if isinstance(value, ast.IfExp) else (value,)
            yield from (str(option.value) for option in options if isinstance(option, ast.Constant))
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(attr="acceptable"), args=[ast.Constant(value=code), *_]):
                yield str(code)


def _uncoded(tree: ast.Module) -> Iterator[str]:
    """Yield the functions that make findings without a code, and are neither checks nor called by checks alone."""
    functions = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    callers: dict[str, set[str]] = {name: set() for name in functions}
    for name, function in functions.items():
        for called in (node.id for node in ast.walk(function) if isinstance(node, ast.Name) and node.id in functions):
            callers[called].add(name)
    coded = {name for name, node in functions.items() if any(_calls(node.decorator_list, "rule"))}
    while more := {name for name, own in callers.items() if own and own <= coded | {name}} - coded:
        coded |= more
    for name in functions.keys() - coded:
        calls = _calls(ast.walk(functions[name]), "Diagnostic")
        if any("code" not in {keyword.arg for keyword in call.keywords} for call in calls):
            yield name


def _calls(nodes: Iterable[ast.AST], name: str) -> Iterator[ast.Call]:
    """Yield the calls of a function of `diagnostics`, imported by its name or with its module."""
    for node in nodes:
        match node:
            case ast.Call(func=ast.Name(id=called) | ast.Attribute(value=ast.Name(id="diagnostics"), attr=called)):
                if called == name:
                    yield node


def _ordered(rules: Iterable[Rule], earlier: Iterable[str]) -> list[Rule]:
    """Return the rules in the order of the table; a new one comes after the others of its module."""
    new = {rule.code: rule for rule in rules}
    ordered = [new.pop(code) for code in earlier if code in new]
    for rule in new.values():
        places = [place for place, other in enumerate(ordered, start=1) if other.module == rule.module]
        ordered.insert(max(places, default=len(ordered)), rule)
    return ordered


def _quoted(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)


def main() -> None:
    """Write the table; with --check only compare it."""
    made = text()
    if sys.argv[1:] != ["--check"]:
        TABLE.write_text(made, encoding="utf-8", newline="\n")
    elif TABLE.read_text(encoding="utf-8") != made:
        raise SystemExit("compiler/codes.py is not what the code says; run `make codes`.")


if __name__ == "__main__":
    main()
