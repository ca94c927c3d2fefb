"""YAML values and their positions, built from the events of libyaml.

Tags, duplicate keys, keys that are not strings, and plain scalars that readers take for different types are refused.
Anchors, aliases and merge keys work as in go-yaml, where a mapping's own keys win.
"""

from typing import Any, Final

import yaml

from compiler import diagnostics, wording
from compiler.formats import canonical, documents, libyaml, lines, scalars, yaml_positions

DEPTH = 64
"""The largest depth of a document, as in the rule of nesting-too-deep."""

ALIASED = 100_000
"""Values that the aliases of a file may add: far more than documents need, and little memory."""

FINDINGS = 1000
"""Findings after which reading ends, so that a large broken file does not fill the memory."""

Reading = tuple[list[documents.Document], list[diagnostics.Diagnostic]]
"""The documents of a file, and its mistakes."""


class _Value:
    """A complete value: its data and position, and its size and height with all aliases expanded."""

    __slots__ = ("data", "height", "position", "size")

    def __init__(self, data: Any, position: yaml_positions.Position, size: int = 1, height: int = 0) -> None:
        self.data = data
        self.position = position
        self.size = size
        self.height = height


_Members = tuple[dict[str, Any], Any]
_MERGE: Final = object()
_IGNORED: Final = object()


class _Open:
    """A mapping or list whose end was not read yet."""

    __slots__ = ("anchor", "at", "data", "height", "inside", "key", "key_at", "merged", "size")

    def __init__(self, data: Any, at: int, anchor: str | None = None) -> None:
        self.data = data
        self.inside: Any = type(data)()
        self.at = at
        self.anchor = anchor
        self.key: Any = None
        self.key_at = 0
        self.merged: list[_Members] | None = None
        self.size = 1
        self.height = 1

    def wants_key(self) -> bool:
        return self.key is None and type(self.data) is dict

    def closed(self) -> _Value:
        """Return the complete value; merged keys come last, those of earlier mappings first."""
        for data, inside in self.merged or ():
            for key, value in data.items():
                if key not in self.data:
                    self.data[key] = value
                    self.inside[key] = inside[key]
        return _Value(self.data, yaml_positions.Branch(self.at, self.inside), self.size, self.height)


class _StopError(Exception):
    """The rest of the file cannot be read."""


class Reader:
    """A reader of the documents of one text; it does not recurse, so depth needs no stack."""

    def __init__(self, text: lines.Lines) -> None:
        self.lines = text
        self.documents: list[documents.Document] = []
        self.findings: list[diagnostics.Diagnostic] = []
        self.open: list[_Open] = []
        self.anchors: dict[str, _Value | _Open] = {}
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
        parser = libyaml.loader()(self.lines.text)
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
            positions = yaml_positions.Positions(self.lines, top.inside[0])
            self.documents.append(documents.Document(self.lines.file, top.data[0], positions))

    def _scalar(self, event: Any) -> None:
        at, text = event.start_mark.index, event.value
        plain = event.implicit[0] and event.tag is None
        self._refuse_tag(event)
        if self.open[-1].wants_key():
            value = self._key(text, at, plain)
        elif plain:
            if not text and len(self.open) == 1:
                return
            value = _Value(self._plain(text, at), at)
            self._add(value)
        else:
            value = _Value(text, at)
            self._add(value)
        if event.anchor:
            self.anchors[event.anchor] = value

    def _plain(self, text: str, at: int) -> Any:
        scalar = scalars.plain(text)
        if scalar.problem:
            hint = f"Write {_quoted(text)} for the string" + (scalar.other and f", or {scalar.other}")
            self._report("ambiguous-scalar", at, f"{wording.quoted(text)} {scalar.problem}.", hint=f"{hint}.")
        return scalar.value

    def _key(self, text: str, at: int, plain: bool) -> _Value:
        if plain and text == "<<":
            self._merge_key(at)
            return _Value(text, at)
        if plain:
            scalar = scalars.plain(text)
            if scalar.value != text or scalar.problem:
                reason = scalar.problem or "is not a string"
                hint = f"Write {_quoted(text)}."
                self._report("ambiguous-scalar", at, f"The key {wording.quoted(text)} {reason}.", hint=hint)
        self._set_key(text, at)
        return _Value(text, at)

    def _merge_key(self, at: int) -> None:
        top = self.open[-1]
        if top.merged is None:
            top.merged = []
            top.key, top.key_at = _MERGE, at
        else:
            top.key = _IGNORED
            hint = "Merge several mappings as a list: <<: [*one, *two]."
            self._report("duplicate-key", at, "The key '<<' appears twice in its mapping.", hint=hint)

    def _set_key(self, key: str, at: int) -> None:
        top = self.open[-1]
        top.key, top.key_at = key, at
        if key in top.inside:
            top.key = _IGNORED
            note, hint = f"It first appears at {self.lines.span(top.inside[key][0])}.", "Keep one of the two."
            self._report(
                "duplicate-key", at, f"The key {wording.quoted(key)} appears twice in its mapping.", note, hint
            )

    def _start(self, event: Any, data: Any) -> None:
        at = event.start_mark.index
        self._refuse_tag(event)
        if self.open[-1].wants_key():
            hint = "Put a value that begins with '{' or '[' in quotes."
            self._report("yaml-syntax", at, "A key cannot be a mapping or a list.", hint=hint)
            raise _StopError
        if len(self.open) > DEPTH:
            self._too_deep(at)
        value = _Open(data, at, event.anchor)
        self.open.append(value)
        if event.anchor:
            self.anchors[event.anchor] = value

    def _end(self) -> None:
        top = self.open.pop()
        value = top.closed()
        if top.anchor and self.anchors[top.anchor] is top:
            self.anchors[top.anchor] = value
        self._add(value)

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
        if isinstance(value.data, list) and isinstance(value.position, yaml_positions.Branch):
            pairs = list(zip(value.data, value.position.inside, strict=True))
        else:
            pairs = [(value.data, value.position)]
        top.merged = [
            (data, position.inside)
            for data, position in pairs
            if isinstance(data, dict) and isinstance(position, yaml_positions.Branch)
        ]
        if len(top.merged) < len(pairs):
            at = yaml_positions.start(value.position)
            self._report("yaml-syntax", at, "The merge key '<<' takes mappings only.")

    def _alias(self, event: Any) -> None:
        at, name = event.start_mark.index, event.anchor
        value = self.anchors.get(name)
        if value is None:
            hint = "Put a value that begins with '*' in quotes, or name an anchor of this document."
            self._report(
                "yaml-syntax", at, f"The alias {wording.quoted('*' + name)} has no anchor before it.", hint=hint
            )
            raise _StopError
        if isinstance(value, _Open):
            message = f"The alias {wording.quoted('*' + name)} appears inside the value that it repeats."
            self._report("alias-explosion", at, message)
            raise _StopError
        self.aliased += value.size
        if self.aliased > ALIASED:
            message = f"The aliases up to here add more than {ALIASED} values to the file."
            self._report("alias-explosion", at, message, hint="Write out some of the aliased values.")
            raise _StopError
        if len(self.open) - 1 + value.height > DEPTH:
            self._too_deep(at)
        if self.open[-1].key is _MERGE and isinstance(value.data, list):
            self._report("yaml-syntax", at, "The merge key '<<' takes an alias of a mapping, not of a list.")
            raise _StopError
        if not self.open[-1].wants_key():
            position = (
                yaml_positions.Branch(at, value.position.inside)
                if isinstance(value.position, yaml_positions.Branch)
                else at
            )
            self._add(_Value(value.data, position, value.size, value.height))
        elif isinstance(value.data, str):
            self._set_key(value.data, at)
        else:
            self._report("yaml-syntax", at, f"The alias {wording.quoted('*' + name)} is a key, but not a string.")
            raise _StopError

    def _too_deep(self, at: int) -> None:
        self._report("nesting-too-deep", at, f"The document nests more than {DEPTH} levels deep.")
        raise _StopError

    def _refuse_tag(self, event: Any) -> None:
        if event.tag is not None:
            message = f"The tag {wording.quoted(_tag(event.tag))} is not allowed in documents."
            hint = "Remove it; quotes make a value a string."
            self._report("yaml-tag", event.start_mark.index, message, hint=hint)

    def _report(self, code: str, at: int, message: str, note: str = "", hint: str = "") -> None:
        span = self.lines.span(at)
        notes = (note,) if note else ()
        self.findings.append(diagnostics.Diagnostic(code=code, span=span, message=message, notes=notes, hint=hint))
        if len(self.findings) >= FINDINGS:
            raise _StopError


def _quoted(text: str) -> str:
    """Return how to write a string without doubt."""
    return canonical.quoted(text) if len(text) <= wording.LONGEST else "it in double quotes"


def _tag(tag: str) -> str:
    """Return a tag in its usual form."""
    core = "tag:yaml.org,2002:"
    return tag if not tag.startswith(core) else "!!" + tag.removeprefix(core)
