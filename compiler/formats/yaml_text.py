"""YAML documents as Kubernetes reads them, with libyaml's errors in plain words."""

import contextlib
from typing import Any

import yaml

from compiler import diagnostics
from compiler.formats import libyaml, lines, yaml_reader

_QUOTE = "Put the value in quotes."
_SPACES = "Indent with spaces."
_TAB = ("A tab cannot indent YAML.", _SPACES)
_SYNTAX: dict[str, tuple[str, str]] = {
    "found a tab character that violates indentation": _TAB,
    "found a tab character where an indentation space is expected": _TAB,
    "found character that cannot start any token": (
        "A plain value cannot begin with this character.",
        _QUOTE,
    ),
    "mapping values are not allowed in this context": (
        "A key and its ':' are not allowed here.",
        "Check the indentation, and put a value that holds ': ' in quotes.",
    ),
    "block sequence entries are not allowed in this context": (
        "A list cannot begin here.",
        "Begin it on a line of its own, or put a value that begins with '- ' in quotes.",
    ),
    "mapping keys are not allowed in this context": ("A key is not allowed here.", _QUOTE),
    "could not find expected ':'": ("The line before is not a key with its ':'.", "Check its indentation."),
    "found unexpected end of stream": ("The quotes that open here do not close.", "Close them where the value ends."),
    "found unexpected document indicator": (
        "The quotes that open here do not close in their document.",
        "Close them where the value ends.",
    ),
    "found unknown escape character": (
        "Double quotes hold an unknown escape.",
        "Write '\\\\' for a backslash, or use single quotes.",
    ),
    "did not find expected hexdecimal number": ("Double quotes hold an incomplete escape.", ""),
    "found invalid Unicode character escape code": (
        "Double quotes hold an escape for an unpaired surrogate.",
        "Write the character itself.",
    ),
    "did not find expected '-' indicator": (
        "The line does not continue the list around it.",
        "Begin it with '- ', or check its indentation.",
    ),
    "did not find expected key": (
        "The line does not continue the mapping around it.",
        "Check its indentation, and that quotes enclose the whole value.",
    ),
    "did not find expected ',' or ']'": ("The list neither continues with ',' nor closes with ']'.", ""),
    "did not find expected ',' or '}'": (
        "The mapping neither continues with ',' nor closes with '}'.",
        "",
    ),
    "did not find expected <document start>": (
        "The document ends before this line.",
        "Begin another document with '---'.",
    ),
    "did not find expected node content": ("A value is missing here.", ""),
    "found incompatible YAML document": ("The file asks for an unknown version of YAML.", "Remove '%YAML'."),
    "found undefined tag handle": ("Documents use no tags.", "Remove it."),
}
_OPENS = ("found unexpected end of stream", "found unexpected document indicator")


def documents(text: str, file: str) -> yaml_reader.Reading:
    """Return the documents of a file in their order, without empty ones, and all mistakes."""
    reader = yaml_reader.Reader(lines.Lines(file, text))
    try:
        reader.read()
    except yaml.YAMLError as error:
        return reader.documents, [*reader.findings, _syntax(error, reader.lines)]
    return reader.documents, reader.findings


def single(text: str, name: str) -> Any:
    """Return the one object of a text; raise ValueError when it is not one document without mistakes."""
    read, findings = documents(text, name)
    if findings:
        raise ValueError(f"{findings[0].span}: {findings[0].message}")
    if len(read) != 1:
        raise ValueError(f"{name}: {len(read)} documents instead of one")
    return read[0].data


def _syntax(error: yaml.YAMLError, text: lines.Lines) -> diagnostics.Diagnostic:
    """Return the finding for an error of libyaml."""
    if not isinstance(error, yaml.MarkedYAMLError) or error.problem is None or error.problem_mark is None:
        message, span = "The file is not well-formed YAML.", diagnostics.Span(file=text.file)
        return diagnostics.Diagnostic(code="yaml-syntax", span=span, message=message)
    problem, at = error.problem, error.problem_mark.index
    message, hint = _SYNTAX.get(problem, (f"The file is not well-formed YAML: {problem}.", ""))
    character = text.text[at : at + 1]
    if problem == "found character that cannot start any token":
        message, hint = _TAB if character == "\t" else (f"A plain value cannot begin with '{character}'.", hint)
    notes: tuple[str, ...] = ()
    quotes = _open_quotes(text.text, error.problem_mark)
    if quotes is not None:
        at = quotes
        message = f"The quotes that open here close on line {error.problem_mark.line + 1}, before more text."
        hint = "Close them on the line on which they open."
    elif error.context_mark is not None:
        if problem in _OPENS:
            at = error.context_mark.index
        elif "flow" in (error.context or ""):
            notes = (f"It opens at {text.span(error.context_mark.index)}.",)
    return diagnostics.Diagnostic(code="yaml-syntax", span=text.span(at), message=message, notes=notes, hint=hint)


def _open_quotes(text: str, error: yaml.Mark) -> int | None:
    """Return where quotes open that span several lines and close on the line of an error, before it.

    These quotes miss their end: what closes them are the quotes of a later value, or of a comment.
    """
    opens = None
    with contextlib.suppress(yaml.YAMLError):
        for token in yaml.scan(text, Loader=libyaml.loader()):
            if token.start_mark.index >= error.index:
                break
            is_open = isinstance(token, yaml.ScalarToken) and token.style in ("'", '"')
            if is_open and token.start_mark.line < token.end_mark.line == error.line:
                opens = token.start_mark.index
    return opens
