"""The bytes of a file to its documents: a name that ends in .json means JSON, any other YAML."""

import codecs
import re
from collections.abc import Callable, Iterable
from typing import TypeAlias

from compiler import diagnostics
from compiler.formats import documents, json_text, yaml_text

diagnostics.shared_rule("file-too-large", "error", "A YAML file is at most 32 MiB; larger inventories are JSON.")
diagnostics.shared_rule("bad-encoding", "error", "Documents are UTF-8 without a byte order mark.")
diagnostics.shared_rule(
    "forbidden-character", "error", "Documents hold no NUL, no control characters and no unpaired surrogates."
)

YAML_BYTES = 32 * 1024 * 1024
"""The largest size of a YAML file; larger lists of nodes are read as JSON, which is much quicker."""

_MARKS = (  # UTF-32 comes first: its little-endian mark begins with that of UTF-16.
    (codecs.BOM_UTF8, "UTF-8"),
    (codecs.BOM_UTF32_LE, "UTF-32"),
    (codecs.BOM_UTF32_BE, "UTF-32"),
    (codecs.BOM_UTF16_LE, "UTF-16"),
    (codecs.BOM_UTF16_BE, "UTF-16"),
)
_CONTROL = r"[\x00-\x08\x0b\x0c\x0e-\x1f]"
# Also characters that YAML does not allow, and those that are line breaks in YAML 1.1 only.
_NOT_YAML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
_SIDES = ("<" * 7, ">" * 7)
_SIDE = f"(?m)^(?:{'+|'.join(_SIDES)}+)(?= |\r?$)"


Quick: TypeAlias = Callable[[str, bytes], documents.Document | None]
"""Returns the document of a JSON file of this name and content, or None where it leaves it to the readers here."""


def decode(name: str, content: bytes, quick: Quick | None = None) -> documents.Reading:
    """Return the documents of a file, and its mistakes.

    A caller that keeps no reference to the bytes, as in decode(name, read(path)), saves their memory during parsing.
    """
    is_json = name.endswith(".json")
    refused = _refused(name, content, is_json)
    if refused is not None:
        return [], [refused]
    if is_json and quick and (found := quick(name, content)):
        return [found], []
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        return [], [_not_utf8(name, error)]
    del content
    # Plain searches first, of one character before seven: the expression tries every line of a large inventory.
    conflict = re.search(_SIDE, text) if any(side[0] in text and side in text for side in _SIDES) else None
    if conflict:
        code, message = "json-syntax" if is_json else "yaml-syntax", "The file holds the marks of a merge conflict."
        hint = "Keep one side, and remove the lines that begin with <<<<<<<, ======= and >>>>>>>."
        return [], [documents.Lines(name, text).finding(conflict.start(), code, message, hint)]
    return _json(text, name) if is_json else _yaml(text, name)


def every(files: Iterable[tuple[str, Callable[[], bytes]]], quick: Quick | None = None) -> documents.Reading:
    """Return the documents of several files, each a name and a function that reads it, and all their mistakes."""
    # No variable keeps the bytes of a file, so that `decode` can free them.
    readings = [decode(name, read(), quick) for name, read in files]
    found = [document for read, _ in readings for document in read]
    return found, [finding for _, findings in readings for finding in findings]


def _json(text: str, name: str) -> documents.Reading:
    if not text or text.isspace():
        return [], [_empty(name)]
    read, findings = json_text.read(text, name)
    # The JSON scanner refuses raw controls itself; this search only gives the better message.
    forbidden = re.search(_CONTROL, text) if findings else None
    if forbidden:
        return [], [_forbidden(documents.Lines(name, text), forbidden)]
    return read, findings


def _yaml(text: str, name: str) -> documents.Reading:
    forbidden = _NOT_YAML.search(text)
    if forbidden:
        return [], [_forbidden(documents.Lines(name, text), forbidden)]
    read, findings = yaml_text.read(text, name)
    return read, findings if read or findings else [_empty(name)]


def _refused(name: str, content: bytes, is_json: bool) -> diagnostics.Diagnostic | None:
    """Return the finding for a file whose bytes are not decoded."""
    if not is_json and len(content) > YAML_BYTES:
        message = f"A YAML file of {len(content) >> 20} MiB is larger than {YAML_BYTES >> 20} MiB."
        return _on_file(name, "file-too-large", message, "Write it as JSON, which has no such limit.")
    for mark, encoding in _MARKS:
        if content.startswith(mark):
            message = f"The file begins with the byte order mark of {encoding}."
            return _on_file(name, "bad-encoding", message, "Save it as UTF-8 without a byte order mark.", at=1)
    return None


def _not_utf8(name: str, error: UnicodeDecodeError) -> diagnostics.Diagnostic:
    content, start = error.object, error.start
    position = len(content[:start].decode("utf-8"))
    text = documents.Lines(name, content.decode("utf-8", "replace"))
    message = f"The byte 0x{content[start]:02x} is not UTF-8."
    return text.finding(position, "bad-encoding", message, "Save the file as UTF-8.")


def _forbidden(text: documents.Lines, match: re.Match[str]) -> diagnostics.Diagnostic:
    code = ord(match.group())
    message = f"A document cannot hold the character U+{code:04X}."
    hint = "Remove it." if code < 0x80 else f'Remove it, or write "\\u{code:04x}" in double quotes.'
    return text.finding(match.start(), "forbidden-character", message, hint)


@diagnostics.rule("empty-file", "warning")
def _empty(name: str) -> diagnostics.Diagnostic:
    """A document file holds a document."""
    hint = "Write a document into it, or delete the file."
    return _on_file(name, "empty-file", "The file holds no document.", hint)


def _on_file(name: str, code: str, message: str, hint: str, at: int = 0) -> diagnostics.Diagnostic:
    span = diagnostics.Span(file=name, line=at, column=at)
    return diagnostics.Diagnostic(code=code, span=span, message=message, hint=hint)
