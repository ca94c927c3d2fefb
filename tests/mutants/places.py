"""Faults that a program can have: one changed operator, number or statement, in a function's body."""

import ast
import dataclasses
import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

PROGRAMS = ("compiler", "device_plugin", "installer", "runtime", "watcher")

_COMPARISONS: Mapping[type[ast.cmpop], tuple[str, str]] = MappingProxyType(
    {
        ast.Lt: ("<", "<="),
        ast.LtE: ("<=", "<"),
        ast.Gt: (">", ">="),
        ast.GtE: (">=", ">"),
        ast.Eq: ("==", "!="),
        ast.NotEq: ("!=", "=="),
        ast.In: ("in", "not in"),
        ast.NotIn: (r"not\s+in", "in"),
        ast.Is: ("is", "is not"),
        ast.IsNot: (r"is\s+not", "is"),
    }
)
_SKIPPED = (ast.JoinedStr, ast.MatchValue, ast.MatchSingleton, ast.Assert)
"""What holds expressions whose place or form does not allow a change."""


@dataclass(frozen=True)
class Mutant:
    """A fault: other bytes for some of a file's."""

    file: str
    """The path below the checkout."""
    function: str
    line: int
    start: int
    end: int
    """The first byte that changes, and the one after the last."""
    before: str
    after: str
    is_statement: bool
    number: int = 1
    """Which one it is of those in its function that are alike."""

    def __str__(self) -> str:
        """Return the place and the change."""
        return self.name.replace(" (", f":{self.line} (", 1)

    @property
    def name(self) -> str:
        """The place and the change without the line: the same one before and after an edit elsewhere."""
        before, after = (" ".join(text.split()) for text in (self.before, self.after))
        number = f" #{self.number}" if self.number > 1 else ""
        return f"{self.file} ({self.function}): {before} -> {after}{number}"


def picked(checkout: Path, count: int, seed: int) -> list[Mutant]:
    """Return mutants of all programs, of each by its share of the places; edits elsewhere pick the same ones."""

    def order(mutant: Mutant) -> str:
        return hashlib.sha256(f"{seed}\0{mutant.name}".encode()).hexdigest()

    chosen = sorted(every(checkout), key=order)[:count]
    return sorted(chosen, key=lambda mutant: (mutant.file, mutant.start))


def named(checkout: Path, lines: Iterable[str]) -> list[Mutant]:
    """Return the mutants that were printed as these lines; raise KeyError with one that is none of the checkout's."""
    known = {mutant.name: mutant for mutant in every(checkout)}
    return [known[re.sub(r":[0-9]+ \(", " (", line, count=1)] for line in lines]


def every(checkout: Path) -> Iterator[Mutant]:
    for program in PROGRAMS:
        for path in sorted((checkout / program).rglob("*.py")):
            if not path.match("*_pb2*"):
                yield from of_file(path.relative_to(checkout).as_posix(), path.read_bytes())


def of_file(file: str, content: bytes) -> Iterator[Mutant]:
    source, alike = _Source(content), Counter[str]()
    for function, node in _in_functions(ast.parse(content)):
        is_statement = isinstance(node, ast.stmt)
        start, end = source.span(node)
        for after in _statements(node) if isinstance(node, ast.stmt) else _expressions(node, source):
            made = Mutant(file, function, node.lineno, start, end, source.text(start, end), after, is_statement)
            alike[made.name] += 1
            yield dataclasses.replace(made, number=alike[made.name])


class _Source:
    """The bytes of a module, of which the parser counts lines and, within them, bytes."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._starts = [0]
        for line in content.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))

    def span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        """Return the first byte of a node, and the one after its last."""
        start = self._starts[node.lineno - 1] + node.col_offset
        return start, self._starts[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0)

    def text(self, start: int, end: int) -> str:
        return self._content[start:end].decode()

    def swapped(self, node: ast.expr, left: ast.expr, old: str, new: str) -> str:
        """Return a node's text with another operator after its left side."""
        (start, end), (_, after) = self.span(node), self.span(left)
        return self.text(start, after) + re.sub(old, new, self.text(after, end), count=1)

    def around(self, node: ast.expr, child: ast.expr, form: str) -> str:
        """Return a node's text with a child put into a form."""
        (start, end), (first, last) = self.span(node), self.span(child)
        return self.text(start, first) + form.format(self.text(first, last)) + self.text(last, end)


def _in_functions(tree: ast.Module) -> Iterator[tuple[str, ast.expr | ast.stmt]]:
    """Yield the expressions and statements of functions' bodies, with the function's dotted name."""

    def inside(node: ast.AST, names: tuple[str, ...], within: bool) -> Iterator[tuple[str, ast.expr | ast.stmt]]:
        if isinstance(node, _SKIPPED):
            return
        if within and isinstance(node, ast.expr | ast.stmt):
            yield ".".join(names), node
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            is_function = not isinstance(node, ast.ClassDef)
            for child in node.body:
                yield from inside(child, (*names, node.name), within or is_function)
            return
        for name, value in ast.iter_fields(node):
            if name in ("annotation", "returns"):
                continue
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    yield from inside(child, names, within)

    yield from inside(tree, (), within=False)


def _statements(node: ast.stmt) -> Sequence[str]:
    """Return what may stand in the place of a statement."""
    if isinstance(node, ast.Expr):
        is_text = isinstance(node.value, ast.Constant)
        return () if is_text else ("pass",)
    if isinstance(node, ast.Continue | ast.Break | ast.Raise | ast.Delete | ast.AugAssign):
        return ("pass",)
    if isinstance(node, ast.Assign) and all(isinstance(target, ast.Attribute) for target in node.targets):
        return ("pass",)
    return ()


def _expressions(node: ast.expr, source: _Source) -> Iterator[str]:
    """Yield what may stand in the place of an expression."""
    if isinstance(node, ast.Constant):
        yield from _constants(node, source)
    elif isinstance(node, ast.Compare):
        yield source.swapped(node, node.left, *_COMPARISONS[type(node.ops[0])])
    elif isinstance(node, ast.BoolOp) and len(node.values) == 2:
        words = (r"\band\b", "or") if isinstance(node.op, ast.And) else (r"\bor\b", "and")
        yield source.swapped(node, node.values[0], *words)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield f"({source.text(*source.span(node.operand))})"
    elif isinstance(node, ast.IfExp):
        yield source.around(node, node.test, "not ({})")
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub) and _is_arithmetic(node):
        words = (r"\+", "-") if isinstance(node.op, ast.Add) else ("-", "+")
        yield source.swapped(node, node.left, *words)


def _is_arithmetic(node: ast.BinOp) -> bool:
    """Return whether a side is a number: texts are joined by a plus as well, and any test notices a minus there."""
    sides = (side.value for side in (node.left, node.right) if isinstance(side, ast.Constant))
    return any(isinstance(value, int | float) for value in sides)


def _constants(node: ast.Constant, source: _Source) -> Iterator[str]:
    if isinstance(node.value, bool):
        yield str(not node.value)
    elif isinstance(node.value, int | float):
        yield f"({source.text(*source.span(node))} + 1)"
