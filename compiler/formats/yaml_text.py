"""YAML documents as Kubernetes reads them, with their positions, and libyaml's errors in plain words.

Tags, duplicate keys, keys that are not strings, and plain scalars that readers take for different types are refused.
Anchors, aliases and merge keys work as in go-yaml, where a mapping's own keys win.
"""

import contextlib
from typing import Any, Final, NoReturn

import yaml

from compiler import diagnostics, errors, wording
from compiler.formats import canonical, documents, scalars

diagnostics.shared_rule("yaml-syntax", "error", "The file is well-formed YAML.")
diagnostics.shared_rule("alias-explosion", "error", "Anchors and aliases expand to a bounded size.")

ALIASED = 100_000
"""Values that the aliases of a file may add: far more than documents need, and little memory."""

_QUOTE = "Put the value in quotes."
_TAB = ("A tab cannot indent YAML.", "Indent with spaces.")
_SYNTAX: dict[str, tuple[str, str]] = {
    "found a tab character that violates indentation": _TAB,
    "found a tab character where an indentation space is expected": _TAB,
    "found character that cannot start any token": ("A plain value cannot begin with this character.", _QUOTE),
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
    "did not find expected ',' or '}'": ("The mapping neither continues with ',' nor closes with '}'.", ""),
    "did not find expected <document start>": (
        "The document ends before this line.",
        "Begin another document with '---'.",
    ),
    "did not find expected node content": ("A value is missing here.", ""),
    "found incompatible YAML document": ("The file asks for an unknown version of YAML.", "Remove '%YAML'."),
    "found undefined tag handle": ("Documents use no tags.", "Remove it."),
}
_OPENS = ("found unexpected end of stream", "found unexpected document indicator")


def loader() -> Any:
    """Return the loader. Raises WorldError where PyYAML is built without libyaml."""
    if not yaml.__with_libyaml__:
        raise errors.WorldError(
            "documents cannot be read: PyYAML is installed without libyaml.",
            hint="Install a wheel of it: pip install --force-reinstall --only-binary pyyaml pyyaml.",
        )
    return yaml.CSafeLoader


def read(text: str, file: str) -> documents.Reading:
    """Return the documents of a file in their order, without empty ones, and all mistakes."""
    reader = _Reader(documents.Lines(file, text))
    try:
        reader.read()
    except yaml.YAMLError as error:
        return reader.documents, [*reader.findings, _syntax(error, reader.lines)]
    return reader.documents, reader.findings


def single(text: str, name: str) -> Any:
    """Return the one object of a text; raise ValueError when it is not one document without mistakes."""
    found, findings = read(text, name)
    if findings:
        raise ValueError(f"{findings[0].span}: {findings[0].message}")
    if len(found) != 1:
        raise ValueError(f"{name}: {len(found)} documents instead of one")
    return found[0].data


def _syntax(error: yaml.YAMLError, text: documents.Lines) -> diagnostics.Diagnostic:
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
    return text.finding(at, "yaml-syntax", message, hint, notes)


def _open_quotes(text: str, error: yaml.Mark) -> int | None:
    """Return where quotes open that span several lines and close on the line of an error, before it.

    These quotes miss their end: what closes them are the quotes of a later value, or of a comment.
    """
    opens = None
    with contextlib.suppress(yaml.YAMLError):
        for token in yaml.scan(text, Loader=loader()):
            if token.start_mark.index >= error.index:
                break
            is_open = isinstance(token, yaml.ScalarToken) and token.style in ("'", '"')
            if is_open and token.start_mark.line < token.end_mark.line == error.line:
                opens = token.start_mark.index
    return opens


class _Branch:
    """The position of a mapping or list, and the positions of its members."""

    __slots__ = ("at", "inside")

    def __init__(self, at: int, inside: "dict[str, tuple[int, _Position]] | list[_Position]") -> None:
        self.at = at
        self.inside = inside


_Position = int | _Branch
"""The position of a scalar, or the branch of a mapping or list."""


def _member(position: _Position, step: str | int) -> tuple[int, int, _Position] | None:
    """Return the positions of a member's key and value, and the branch of it."""
    inside = position.inside if isinstance(position, _Branch) else []
    if isinstance(inside, dict) and isinstance(step, str) and step in inside:
        key_at, member = inside[step]
        return key_at, _start(member), member
    if isinstance(inside, list) and isinstance(step, int) and 0 <= step < len(inside):
        return _start(inside[step]), _start(inside[step]), inside[step]
    return None


def _start(position: _Position) -> int:
    """Return the index of the character at which a value begins."""
    return position.at if isinstance(position, _Branch) else position


class _Value:
    """A value: its data and position, and its size and height with all aliases expanded."""

    __slots__ = ("data", "height", "position", "size")

    def __init__(self, data: Any, position: _Position, size: int = 1, height: int = 0) -> None:
        self.data = data
        self.position = position
        self.size = size
        self.height = height


_CORE = "tag:yaml.org,2002:"
"""What people write as !!."""

_Members = tuple[dict[str, Any], Any]
_MERGE: Final = object()
_IGNORED: Final = object()


class _Open(_Value):
    """A mapping or list, while its members are read."""

    __slots__ = ("inside", "key", "key_at", "merged")

    def __init__(self, data: Any, at: int) -> None:
        self.inside: Any = type(data)()
        super().__init__(data, _Branch(at, self.inside), height=1)
        self.key: Any = None
        self.key_at = 0
        self.merged: list[_Members] | None = None

    def wants_key(self) -> bool:
        return self.key is None and type(self.data) is dict

    def close(self) -> None:
        """Add the merged keys; they come last, those of earlier mappings first."""
        for data, inside in self.merged or ():
            for key, value in data.items():
                if key not in self.data:
                    self.data[key] = value
                    self.inside[key] = inside[key]


class _StopError(Exception):
    """The rest of the file cannot be read."""


class _Reader:
    """A reader of the documents of one text; it does not recurse, so depth needs no stack."""

    def __init__(self, text: documents.Lines) -> None:
        self.lines = text
        self.documents: list[documents.Document] = []
        self.findings: list[diagnostics.Diagnostic] = []
        self.open: list[_Open] = []
        self.anchors: dict[str, _Value] = {}
        self.aliased = 0

    def read(self) -> None:
        """Fill `documents` and `findings`; raise yaml.YAMLError where the text is not YAML."""
        take: dict[type, Any] = {
            yaml.ScalarEvent: self._scalar,
            yaml.MappingStartEvent: lambda event: self._start(event, {}),
            yaml.SequenceStartEvent: lambda event: self._start(event, []),
            yaml.MappingEndEvent: lambda _: self._end(),
            yaml.SequenceEndEvent: lambda _: self._end(),
            yaml.AliasEvent: self._alias,
            yaml.DocumentStartEvent: lambda _: self._document_start(),
            yaml.DocumentEndEvent: lambda _: self._document_end(),
            yaml.StreamStartEvent: lambda _: None,
        }
        parser = loader()(self.lines.text)
        try:
            while (event := parser.get_event()) and type(event) is not yaml.StreamEndEvent:
                take[type(event)](event)
        except _StopError:
            return
        finally:
            parser.dispose()

    def _document_start(self) -> None:
        self.anchors = {}
        self.open = [_Open([], 0)]

    def _document_end(self) -> None:
        (top,) = self.open
        if top.data:  # An empty document leaves nothing.
            positions = documents.TextPositions(self.lines, _start(top.inside[0]), top.inside[0], _member)
            self.documents.append(documents.Document(self.lines.file, top.data[0], positions))

    def _scalar(self, event: Any) -> None:
        at, text = event.start_mark.index, event.value
        plain = event.implicit[0] and event.tag is None
        if event.tag is not None:
            self._refuse_tag(event)
        if self.open[-1].wants_key():
            self._key(text, at, plain)
            value = _Value(text, at)
        elif plain and not text and len(self.open) == 1:
            return
        else:
            value = _Value(self._plain(text, at) if plain else text, at)
            self._add(value)
        if event.anchor:
            self.anchors[event.anchor] = value

    def _plain(self, text: str, at: int) -> Any:
        scalar = scalars.plain(text)
        if scalar.problem:
            hint = f"Write {_quoted(text)} for the string" + (scalar.other and f", or {scalar.other}")
            self._report(at, "ambiguous-scalar", f"{wording.quoted(text)} {scalar.problem}.", hint=f"{hint}.")
        return scalar.value

    def _key(self, text: str, at: int, plain: bool) -> None:
        if plain and text == "<<":
            self._merge_key(at)
            return
        if plain:
            scalar = scalars.plain(text)
            if scalar.value != text or scalar.problem:
                reason = scalar.problem or "is not a string"
                hint = f"Write {_quoted(text)}."
                self._report(at, "ambiguous-scalar", f"The key {wording.quoted(text)} {reason}.", hint)
        self._set_key(text, at)

    def _merge_key(self, at: int) -> None:
        top = self.open[-1]
        if top.merged is None:
            top.merged = []
            top.key, top.key_at = _MERGE, at
        else:
            top.key = _IGNORED
            hint = "Merge several mappings as a list: <<: [*one, *two]."
            self._report(at, "duplicate-key", "The key '<<' appears twice in its mapping.", hint)

    def _set_key(self, key: str, at: int) -> None:
        top = self.open[-1]
        top.key, top.key_at = key, at
        if key in top.inside:
            top.key = _IGNORED
            message = f"The key {wording.quoted(key)} appears twice in its mapping."
            note, hint = f"It first appears at {self.lines.span(top.inside[key][0])}.", "Keep one of the two."
            self._report(at, "duplicate-key", message, hint, (note,))

    def _start(self, event: Any, data: Any) -> None:
        at = event.start_mark.index
        if event.tag is not None:
            self._refuse_tag(event)
        if self.open[-1].wants_key():
            hint = "Put a value that begins with '{' or '[' in quotes."
            if self.lines.text.startswith("{{", at - 1):
                hint = "Write the value itself: nothing fills in a template here. Run Helm before."
            self._stop(at, "yaml-syntax", "A key cannot be a mapping or a list.", hint)
        self._require_depth(len(self.open), at)
        value = _Open(data, at)
        self.open.append(value)
        if event.anchor:
            self.anchors[event.anchor] = value

    def _end(self) -> None:
        top = self.open.pop()
        top.close()
        self._add(top)

    def _add(self, value: _Value) -> None:
        top = self.open[-1]
        top.size += value.size
        top.height = max(top.height, value.height + 1)
        if top.key is None:
            top.data.append(value.data)
            top.inside.append(value.position)
            return
        if top.key is _MERGE:
            self._merge(top, value)
        elif top.key is not _IGNORED:
            top.data[top.key] = value.data
            top.inside[top.key] = (top.key_at, value.position)
        top.key = None

    def _merge(self, top: _Open, value: _Value) -> None:
        if isinstance(value.data, list) and isinstance(value.position, _Branch):
            pairs = list(zip(value.data, value.position.inside, strict=True))
        else:
            pairs = [(value.data, value.position)]
        top.merged = [
            (data, position.inside)
            for data, position in pairs
            if isinstance(data, dict) and isinstance(position, _Branch)
        ]
        if len(top.merged) < len(pairs):
            self._report(_start(value.position), "yaml-syntax", "The merge key '<<' takes mappings only.")

    def _alias(self, event: Any) -> None:
        at, name = event.start_mark.index, event.anchor
        value = self.anchors.get(name)
        if value is None:
            hint = "Put a value that begins with '*' in quotes, or name an anchor of this document."
            self._stop(at, "yaml-syntax", f"The alias {wording.quoted('*' + name)} has no anchor before it.", hint)
        if value in self.open:
            message = f"The alias {wording.quoted('*' + name)} appears inside the value that it repeats."
            self._stop(at, "alias-explosion", message)
        self.aliased += value.size
        if self.aliased > ALIASED:
            message = f"The aliases up to here add more than {ALIASED} values to the file."
            self._stop(at, "alias-explosion", message, "Write out some of the aliased values.")
        self._require_depth(len(self.open) - 1 + value.height, at)
        if self.open[-1].key is _MERGE and isinstance(value.data, list):
            self._stop(at, "yaml-syntax", "The merge key '<<' takes an alias of a mapping, not of a list.")
        if not self.open[-1].wants_key():
            position = _Branch(at, value.position.inside) if isinstance(value.position, _Branch) else at
            self._add(_Value(value.data, position, value.size, value.height))
        elif isinstance(value.data, str):
            self._set_key(value.data, at)
        else:
            self._stop(at, "yaml-syntax", f"The alias {wording.quoted('*' + name)} is a key, but not a string.")

    def _require_depth(self, depth: int, at: int) -> None:
        if depth > documents.DEPTH:
            self._stop(at, "nesting-too-deep", documents.TOO_DEEP)

    @diagnostics.rule("yaml-tag", "error")
    def _refuse_tag(self, event: Any) -> None:
        """Documents use no YAML tags."""
        tag = "!!" + event.tag.removeprefix(_CORE) if event.tag.startswith(_CORE) else event.tag
        message = f"The tag {wording.quoted(tag)} is not allowed in documents."
        hint = "Remove it; quotes make a value a string."
        self._report(event.start_mark.index, "yaml-tag", message, hint)

    def _stop(self, at: int, code: str, message: str, hint: str = "") -> NoReturn:
        """Report the last finding of a file of which the rest cannot be read."""
        self._report(at, code, message, hint)
        raise _StopError

    def _report(self, at: int, code: str, message: str, hint: str = "", notes: tuple[str, ...] = ()) -> None:
        self.findings.append(self.lines.finding(at, code, message, hint, notes))
        if len(self.findings) >= documents.FINDINGS:
            raise _StopError


def _quoted(text: str) -> str:
    """Return how to write a string without doubt."""
    return canonical.quoted(text) if len(text) <= wording.LONGEST else "it in double quotes"
