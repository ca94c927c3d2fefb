"""Sentences of programs and of pages, with a gap for what is filled in."""

import ast
import re
from collections.abc import Iterator, Set

GAP = "…"
"""Stands for what is filled in, on the page and here."""

_FIRST_CELL = re.compile(r"^\| (`.*?`) \|", re.MULTILINE)


def texts(tree: ast.AST) -> Iterator[str]:
    """The texts in a piece of source, with a gap for each value that is filled in."""
    if isinstance(tree, ast.Constant) and isinstance(tree.value, str):
        yield tree.value
    elif isinstance(tree, ast.JoinedStr):
        yield "".join(str(part.value) if isinstance(part, ast.Constant) else GAP for part in tree.values)
    else:
        for child in ast.iter_child_nodes(tree):
            yield from texts(child)


def failures(tree: ast.AST, names: Set[str], least: int) -> Iterator[str]:
    """Yield the sentences of so many letters that are given to calls of these names."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in names:
            for part in (*node.args, *node.keywords):
                yield from (text for text in texts(part) if len(text.replace(GAP, "")) >= least)


def quoted(text: str) -> list[str]:
    """Return the sentences in the first cells of tables, of which a cell may hold several."""
    return [sentence for cell in _FIRST_CELL.findall(text) for sentence in re.findall(r"`([^`]+)`", cell)]


def says(text: str, sentence: str) -> bool:
    """Return whether a text of the program can become a sentence of the page."""
    end = 0
    for part in sentence.split(GAP):
        begin = text.find(part, end)
        if begin < 0:
            return False
        end = begin + len(part)
    return True
