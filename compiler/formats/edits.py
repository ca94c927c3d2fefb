"""Changes of one string of a document in the text of its file, with every other character unchanged.

Positions come from the nodes of libyaml or the scanner of JSON. The changed text is read again, and is refused unless
its data differs in that one string only.
"""

import itertools
import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
import yaml

from compiler import errors, wording
from compiler.formats import canonical, decode, documents, json_text, yaml_text

_BREAK = re.compile(r"\r\n|\n|\r")
_ANCHORED = re.compile(r"&[\w-]+[ \t]+(?=[^\s#])")
_PRINTABLE = re.compile("[ -~]*")

Splice = tuple[int, int, str]
"""The start and end of the characters that are replaced, and their replacement."""


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """A file as it was read: its name, its text, and its documents."""

    name: str
    text: str
    documents: tuple[documents.Document, ...]


def written(source: Source, index: int, path: documents.Path, value: str) -> Source:
    """Return the file with a string at a path of its document `index`; missing mappings on the path are added.

    List items on the path must exist. Raise RefusedError where one edit cannot do this: where aliases repeat the value,
    where a merge brings it, or where no splice fits its form.
    """
    where = f"{source.documents[index].positions.span(path)}: '{wording.dotted(path)}'"
    if source.name.endswith(".json"):
        splice = _json_splice(source.text, path, value)
    else:
        splice = _Yaml(source, index, where).splice(path, value)
    start, end, piece = splice
    text = source.text[:start] + piece + source.text[end:]
    after, findings = decode.decode(source.name, text.encode())
    desired = json.loads(_plain_data(source.documents))  # Aliased values are separate copies now.
    inside = desired[index]
    for step in path[:-1]:
        inside = inside.setdefault(step, {}) if isinstance(step, str) else inside[step]
    inside[path[-1]] = value
    if findings or _plain_data(after) != json.dumps(desired, sort_keys=True):
        raise _misfit(where)
    return Source(name=source.name, text=text, documents=tuple(after))


def _misfit(where: str) -> errors.RefusedError:
    return errors.RefusedError(f"{where} cannot be changed without other changes.", hint="Write it by hand.")


def _plain_data(read: Iterable[documents.Document]) -> str:
    """Return documents as JSON: 1, 1.0 and true differ there, and the order of keys does not count."""
    return json.dumps([document.data for document in read], sort_keys=True)


def _json_splice(text: str, path: documents.Path, value: str) -> Splice:
    at = json_text.after_space(text, 0)
    for depth, step in enumerate(path):
        members = {name: (key_at, value_at) for name, key_at, value_at in json_text.members(text, at)}
        if step not in members:
            return _json_addition(text, at, members, _nested(path[depth:], json.dumps(value), '"'))
        at = members[step][1]
    return at, _json_end(text, at), json.dumps(value)


def _nested(path: documents.Path, value: str, quote: str = "") -> tuple[str, str]:
    """Return a key and its value, which holds the rest of the path in braces."""
    for step in reversed(path[1:]):
        value = f"{{{quote}{step}{quote}: {value}}}"
    return f"{quote}{path[0]}{quote}", value


def _json_addition(text: str, at: int, members: dict[Any, tuple[int, int]], member: tuple[str, str]) -> Splice:
    """Return a splice with a new member after `name` or before all others, with the white space of its neighbour."""
    key, value = member
    if not members:
        return at + 1, at + 1, f"{key}: {value}"
    key_at, value_at = members.get("name") or next(iter(members.values()))
    blank = re.search(r"\s*$", text[:key_at])
    before = blank.group() if blank else ""
    colon = text[_json_end(text, key_at) : value_at]
    if "name" in members:
        end = _json_end(text, value_at)
        return end, end, f",{before}{key}{colon}{value}"
    return key_at, key_at, f"{key}{colon}{value},{before or ' '}"


def _json_end(text: str, at: int) -> int:
    _, end = json.JSONDecoder().raw_decode(text, at)
    return end


class _Yaml:
    """A YAML document as nodes of libyaml."""

    def __init__(self, source: Source, index: int, where: str) -> None:
        self.text = source.text
        self.document = source.documents[index]
        self.where = where
        try:
            nodes = [node for node in yaml.compose_all(source.text, Loader=yaml_text.loader()) if not _is_empty(node)]
        except yaml.YAMLError as error:
            # PyYAML's composer refuses a second anchor of the same name, which YAML allows.
            message = f"{where} cannot be changed: an anchor of the file is defined twice."
            raise errors.RefusedError(message, hint="Rename one of the anchors.") from error
        self.root = nodes[index]
        self.shared = set(_shared(self.root))

    def splice(self, path: documents.Path, value: str) -> Splice:
        """Return the splice that sets the string at a path to a value."""
        head: Any = None
        node: Any = self.root
        for depth, step in enumerate(path):
            is_flow = bool(node.flow_style)
            if isinstance(step, int):
                head, inner = None, node.value[step]
            else:
                head_before, (head, inner) = head, _own(node, step)
                if inner is None:
                    if self.document.has(path[: depth + 1]):
                        message = f"{self.where} comes from a merge ('<<'), which other mappings may share."
                        raise errors.RefusedError(message, hint=f"Write '{step}:' into the mapping itself.")
                    return self._addition(node, head_before, path[depth:], value)
            if inner in self.shared:
                message = f"{self.where} is shared by an anchor and its aliases."
                raise errors.RefusedError(message, hint="Write the value out at this position.")
            node = inner
        return self._replacement(node, value, is_flow=is_flow)

    def _replacement(self, node: Any, value: str, *, is_flow: bool) -> Splice:
        """Return the splice that replaces a scalar, but not its anchor, with the quotes that it had."""
        if node.style in ("|", ">"):
            raise errors.RefusedError(f"{self.where} is a block scalar.", hint="Write it on one line.")
        start = node.start_mark.index
        if self.text.startswith("&", start):
            anchor = _ANCHORED.match(self.text, start)
            if anchor is None:
                raise _misfit(self.where)
            start = anchor.end()
        if node.style == "'" and _PRINTABLE.fullmatch(value):
            piece = "'" + value.replace("'", "''") + "'"
        else:
            piece = canonical.quoted(value) if node.style else _scalar(value, is_flow=is_flow)
        return start, node.end_mark.index, piece

    def _addition(self, node: Any, head: Any, path: documents.Path, value: str) -> Splice:
        """Return the splice for a new key: after `name` if there is one, else first; new mappings come last."""
        name, named = _own(node, "name")
        if node.flow_style:
            return self._flow_addition(node, None if named in self.shared else named, path, value)
        if name is not None:
            return self._lines(self._end(name, named), name.start_mark.column, path, value)
        column = node.value[0][0].start_mark.column
        if head is not None and len(path) == 1:
            return self._lines(head.end_mark.index, column, path, value)
        return self._lines(self._last(node), column, path, value)

    def _flow_addition(self, node: Any, named: Any, path: documents.Path, value: str) -> Splice:
        piece = ": ".join(_nested(path, _scalar(value, is_flow=True)))
        if named is not None:
            at, piece = named.end_mark.index, f", {piece}"
        elif node.value:
            at, piece = node.value[0][0].start_mark.index, f"{piece}, "
        else:
            at = self.text.index("{", node.start_mark.index) + 1
        return at, at, piece

    def _lines(self, after: int, column: int, path: documents.Path, value: str) -> Splice:
        """Return the splice with a line for each key of the path, below the line of a position."""
        step = self._step()
        heads = [f"{' ' * (column + depth * step)}{key}:" for depth, key in enumerate(path)]
        lines = [*heads[:-1], f"{heads[-1]} {_scalar(value, is_flow=False)}"]
        line_end = _BREAK.search(self.text, after)
        if line_end:
            return line_end.end(), line_end.end(), "".join(line + line_end.group() for line in lines)
        usual = _BREAK.search(self.text)
        end = len(self.text)
        return end, end, "".join((usual.group() if usual else "\n") + line for line in lines)

    def _end(self, key: Any, value: Any) -> int:
        """Return the end of a key's value, or of the key itself where the value is an alias."""
        if value in self.shared:
            return int(key.end_mark.index)
        start, end = value.start_mark.index, value.end_mark.index
        return int(start) + len(self.text[start:end].rstrip())

    def _last(self, node: Any) -> int:
        """Return the end of the last value in a block; the mark of the block is behind the comments that follow."""
        end = int(node.end_mark.index)
        while isinstance(node, yaml.CollectionNode) and not node.flow_style:
            key, inner = node.value[-1] if isinstance(node, yaml.MappingNode) else (node, node.value[-1])
            end = self._end(key, inner)
            if inner in self.shared:
                break
            node = inner
        return end

    def _step(self) -> int:
        """Return the indentation of mappings in the document."""
        for key, inner in self.root.value:
            if isinstance(inner, yaml.MappingNode) and not inner.flow_style and inner not in self.shared:
                step: int = inner.value[0][0].start_mark.column - key.start_mark.column
                return max(1, step)
        return 2


def _is_empty(node: Any) -> bool:
    """Return whether a document is empty; the reader skips empty documents."""
    return isinstance(node, yaml.ScalarNode) and not node.value and not node.style


def _shared(root: Any) -> Iterator[Any]:
    """Yield the nodes that aliases repeat: those that are visited more than once."""
    seen: set[Any] = set()  # Nodes are equal only to themselves.
    pending = [root]
    for node in pending:  # The loop appends to it.
        if node in seen:
            yield node
            continue
        seen.add(node)
        if isinstance(node, yaml.MappingNode):
            pending += itertools.chain.from_iterable(node.value)
        elif isinstance(node, yaml.SequenceNode):
            pending += node.value


def _own(node: Any, key: str) -> tuple[Any, Any]:
    """Return the nodes of a key and its value in a mapping, without merged keys; two None where it is absent."""
    return next((pair for pair in node.value if pair[0].value == key), (None, None))


def _scalar(value: str, *, is_flow: bool) -> str:
    """Return the text of a new scalar: plain where the reader takes it for the same string, otherwise quoted."""
    form = "{{k: {}}}" if is_flow else "k: {}"
    read, findings = yaml_text.read(form.format(value), "")
    is_plain = not findings and [document.data for document in read] == [{"k": value}]
    return value if is_plain else canonical.quoted(value)
