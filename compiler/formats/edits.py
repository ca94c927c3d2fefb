"""Changes of a document in the text of its file, with every other character unchanged.

Positions come from the nodes of libyaml, which reads JSON too. The changed text is read again, and is refused unless
its data differs in that one place only. No change takes a comment away, but with its whole document.
"""

import itertools
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec
import yaml

from compiler import errors, wording
from compiler.formats import canonical, decode, documents, yaml_text

_BREAK = re.compile(r"\r\n|\n|\r")
_ANCHORED = re.compile(r"&[\w-]+[ \t]+(?=[^\s#])")
_PRINTABLE = re.compile("[ -~]*")
_COMMENT = re.compile(r"(?:^|(?<=[\s\[\]{},]))#[^\r\n]*")
_NOT_IN_YAML = re.compile(r"\\u[dD][89A-Fa-f][0-9A-Fa-f]{2}|[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
"""What strings of JSON may hold, and libyaml does not read: half an escaped pair, and some characters."""
_WIDE = 100
"""Characters of a list on one line; a longer one has a line for each item."""
_KEPT = 2
"""Keys of a path that `removed` leaves where nothing is left below: `spec`, and nothing above it."""

Splice = tuple[int, int, str]
"""The start and end of the characters that are replaced, and their replacement."""


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """A file as it was read: its name, its text, and its documents."""

    name: str
    text: str
    documents: tuple[documents.Document, ...]


def written(source: Source, index: int, path: documents.Path, value: Any) -> Source:
    """Return the file with a value at a path of its document `index`; missing mappings on the path are added.

    List items on the path must exist. Raise RefusedError where one edit cannot do this: where aliases repeat the value,
    where a merge brings it, where it holds a comment, or where no splice fits its form.
    """
    desired = _data(source)
    inside = desired[index]
    for step in path[:-1]:
        inside = inside.setdefault(step, {}) if isinstance(step, str) else inside[step]
    inside[path[-1]] = value
    where = _where(source, index, path)
    return _spliced(source, where, _Nodes(source, index, where).splice(path, value), desired)


def inserted(source: Source, index: int, path: documents.Path, at: int, value: Any) -> Source:
    """Return the file with one more item in the list at a path, before the item `at`; a missing list is added.

    Raise RefusedError as `written` does, and for what is empty on the path, as `removed` would take it away.
    """
    document = source.documents[index]
    for above in (path[:depth] for depth in range(_KEPT, len(path) + 1)):
        if document.has(above) and not document.value(above):
            raise errors.RefusedError(
                f"{_where(source, index, above)} is empty.", hint="Remove the key first: it says nothing."
            )
    if not document.has(path):
        return written(source, index, path, [value])
    where = _where(source, index, path)
    desired = _data(source)
    _inside(desired[index], path).insert(at, value)
    return _spliced(source, where, _Nodes(source, index, where).insertion(path, at, value), desired)


def removed(source: Source, index: int, path: documents.Path) -> Source:
    """Return the file without the value at a path, and without the mappings and lists that would be empty then.

    The comments in it stay. Raise RefusedError as `written` does.
    """
    while len(path) > _KEPT and len(source.documents[index].value(path[:-1])) == 1:
        path = path[:-1]
    desired = _data(source)
    del _inside(desired[index], path[:-1])[path[-1]]
    where = _where(source, index, path)
    return _spliced(source, where, _Nodes(source, index, where).removal(path), desired)


def without(source: Source, index: int) -> Source | None:
    """Return the file without its document `index`; None where it holds no other one. Raise RefusedError."""
    if len(source.documents) == 1:
        return None
    desired = _data(source)
    del desired[index]
    every = [*_starts(source.text)]
    number = [number for number, (_, _, is_empty) in enumerate(every) if not is_empty][index]
    at, is_marked, _ = every[number]
    if number and not is_marked:  # Behind `...`, which ends the document before it.
        raise _misfit(_where(source, index, ()))
    end = every[number + 1][0] if number + 1 < len(every) else len(source.text)
    return _spliced(source, _where(source, index, ()), (at, end, ""), desired)


def _starts(text: str) -> Iterator[tuple[int, bool, bool]]:
    """Yield where each document of a text begins, whether `---` is there, and whether the document is empty."""
    start, is_marked, is_top = 0, False, False
    for event in yaml.parse(text, Loader=yaml_text.loader()):
        mark: Any = event.start_mark
        if isinstance(event, yaml.DocumentStartEvent):
            start, is_marked, is_top = mark.index, bool(event.explicit), True
        elif is_top and isinstance(event, yaml.NodeEvent):
            is_empty = isinstance(event, yaml.ScalarEvent) and not event.value and not event.style
            yield start if is_marked else mark.index, is_marked, is_empty
            is_top = False


def _spliced(source: Source, where: str, splice: Splice, desired: Any) -> Source:
    """Return the file with a splice made. Raises RefusedError unless it holds the desired data then."""
    start, end, piece = splice
    text = source.text[:start] + piece + source.text[end:]
    after, findings = decode.decode(source.name, text.encode())
    if findings or json.dumps([each.data for each in after], sort_keys=True) != json.dumps(desired, sort_keys=True):
        raise _misfit(where)
    return Source(name=source.name, text=text, documents=tuple(after))


def _data(source: Source) -> Any:
    """Return the data of documents, with separate copies of what aliases repeat.

    As JSON, 1, 1.0 and true differ, and the order of keys does not count.
    """
    return json.loads(json.dumps([document.data for document in source.documents]))


def _inside(data: Any, path: documents.Path) -> Any:
    for step in path:
        data = data[step]
    return data


def _where(source: Source, index: int, path: documents.Path) -> str:
    span = source.documents[index].positions.span(path)
    return f"{span}: '{wording.dotted(path)}'" if path else f"{span}: the document"


def _misfit(where: str) -> errors.RefusedError:
    return errors.RefusedError(f"{where} cannot be changed without other changes.", hint="Write it by hand.")


class _Nodes:
    """A document of YAML or JSON as nodes of libyaml."""

    def __init__(self, source: Source, index: int, where: str) -> None:
        self.text = source.text
        self.is_json = source.name.endswith(".json")
        self.document = source.documents[index]
        self.where = where
        text = _NOT_IN_YAML.sub(lambda found: " " * len(found.group()), self.text) if self.is_json else self.text
        try:
            nodes = [node for node in yaml.compose_all(text, Loader=yaml_text.loader()) if not _is_empty(node)]
        except yaml.YAMLError as error:
            if self.is_json:
                raise _misfit(where) from error
            # PyYAML's composer refuses a second anchor of the same name, which YAML allows.
            message = f"{where} cannot be changed: an anchor of the file is defined twice."
            raise errors.RefusedError(message, hint="Rename one of the anchors.") from error
        self.root = nodes[index]
        self.shared = set(_shared(self.root))

    def splice(self, path: documents.Path, value: Any) -> Splice:
        """Return the splice that sets the value at a path."""
        above, head, node, left = self._walked(path)
        if left:
            for step in reversed(left[1:]):
                value = {step: value}
            return self._addition(above, head, str(left[0]), value)
        if isinstance(node, yaml.ScalarNode) and not isinstance(value, dict | list):
            return self._replacement(node, value, is_flow=bool(above.flow_style))
        if node.flow_style is not False or above.flow_style or isinstance(node, yaml.ScalarNode):
            start, end = node.start_mark.index, node.end_mark.index
            self._require_no_comment(start, end)
            return start, end, self._flow(value)
        start, end = self._lines_of(head, node)
        self._require_no_comment(start, end)
        return start, end, self._ended(self._member(str(path[-1]), value, head.start_mark.column), start, end)

    def insertion(self, path: documents.Path, at: int, value: Any) -> Splice:
        """Return the splice that puts an item into a list that has one."""
        _, head, node, _ = self._walked(path)
        if node.flow_style:
            return self._flow_insertion(node.value, at, self._flow(value))
        after = self._last(node.value[at - 1]) if at else head.end_mark.index
        return self._lines(after, self._item(value, node.start_mark.column))

    def removal(self, path: documents.Path) -> Splice:
        """Return the splice that takes a member of a mapping or list away."""
        above, head, node, left = self._walked(path)
        if left:
            raise _misfit(self.where)
        if above.flow_style:
            members = [pair[0] if isinstance(above, yaml.MappingNode) else pair for pair in above.value]
            ends = [(pair[1] if isinstance(above, yaml.MappingNode) else pair).end_mark.index for pair in above.value]
            number = members.index(head or node)
            start, end = members[number].start_mark.index, ends[number]
            if number:
                start = ends[number - 1]
            elif len(members) > 1:
                end = members[1].start_mark.index
            self._require_no_comment(start, end)
            return start, end, ""
        start, end = self._lines_of(head, node) if head else self._lines_of_item(above, node)
        comments = self._comments(start, end)
        column = head.start_mark.column if head else above.start_mark.column
        kept = [" " * column + self.text[at:stop] for at, stop in comments]
        if not kept and start and end == len(self.text) and not _BREAK.search(self.text, max(start, end - 1)):
            start = self._line_end_before(start)  # The last line ends as before.
        return start, end, self._ended(kept, start, end) if kept else ""

    def _walked(self, path: documents.Path) -> tuple[Any, Any, Any, documents.Path]:
        """Return the node above the value at a path, the node of its key, its own, and what is missing of the path.

        Where something is missing, the first node is the last one that is there, and the second that of its key.
        """
        head: Any = None
        above: Any = None
        node: Any = self.root
        for depth, step in enumerate(path):
            before, above = head, node
            if isinstance(step, int):
                head, node = None, above.value[step]
            else:
                head, node = _own(above, step)
                if node is None:
                    if self.document.has(path[: depth + 1]):
                        message = f"{self.where} comes from a merge ('<<'), which other mappings may share."
                        raise errors.RefusedError(message, hint=f"Write '{step}:' into the mapping itself.")
                    return above, before, None, path[depth:]
            if node in self.shared:
                message = f"{self.where} is shared by an anchor and its aliases."
                raise errors.RefusedError(message, hint="Write the value out at this position.")
        return above, head, node, ()

    def _replacement(self, node: Any, value: Any, *, is_flow: bool) -> Splice:
        """Return the splice that replaces a scalar, but not its anchor, with the quotes that it had."""
        if node.style in ("|", ">"):
            raise errors.RefusedError(f"{self.where} is a block scalar.", hint="Write it on one line.")
        start = node.start_mark.index
        if self.text.startswith("&", start):
            anchor = _ANCHORED.match(self.text, start)
            if anchor is None:
                raise _misfit(self.where)
            start = anchor.end()
        if not isinstance(value, str) or self.is_json:
            piece = json.dumps(value)
        elif node.style == "'" and _PRINTABLE.fullmatch(value):
            piece = "'" + value.replace("'", "''") + "'"
        else:
            piece = canonical.quoted(value) if node.style else _scalar(value, is_flow=is_flow)
        return start, node.end_mark.index, piece

    def _addition(self, node: Any, head: Any, key: str, value: Any) -> Splice:
        """Return the splice for a new key: after `name` if there is one, else first; mappings and lists come last."""
        if not isinstance(node, yaml.MappingNode):
            raise _misfit(self.where)
        name, named = _own(node, "name")
        if node.flow_style:
            return self._flow_addition(node, None if named in self.shared else named, key, value)
        if name is not None:
            return self._lines(self._end(name, named), self._member(key, value, name.start_mark.column))
        lines = self._member(key, value, node.value[0][0].start_mark.column)
        is_first = head is not None and not isinstance(value, dict | list)
        return self._lines(head.end_mark.index if is_first else self._last(node), lines)

    def _flow_addition(self, node: Any, named: Any, key: str, value: Any) -> Splice:
        colon = ": "
        if self.is_json and node.value:
            first, second = node.value[0]
            colon = self.text[first.end_mark.index : second.start_mark.index]
        piece = f"{self._flow(key)}{colon}{self._flow(value)}"
        if not node.value:
            at = self.text.index("{", node.start_mark.index) + 1
            return at, at, piece
        at = 0 if named is None else next(number for number, pair in enumerate(node.value, 1) if pair[1] is named)
        return self._flow_insertion([*itertools.chain.from_iterable(node.value)], 2 * at, piece, step=2)

    def _flow_insertion(self, members: list[Any], at: int, piece: str, step: int = 1) -> Splice:
        """Return the splice with a member before another one, or behind all, with the white space of its neighbour."""
        start = members[max(0, at - step)].start_mark.index
        lead = self.text[len(self.text[:start].rstrip()) : start]
        lead = lead if self.is_json and (lead or at) else lead if _BREAK.search(lead) else " "
        if at:
            end = members[at - 1].end_mark.index
            return end, end, f",{lead}{piece}"
        return start, start, f"{piece},{lead or ' '}"

    def _flow(self, value: Any) -> str:
        """Return a value on one line."""
        if self.is_json or not isinstance(value, str | dict | list):
            return json.dumps(value)
        if isinstance(value, str):
            return _scalar(value, is_flow=True)
        if isinstance(value, dict):
            return f"{{{', '.join(f'{self._flow(key)}: {self._flow(inner)}' for key, inner in value.items())}}}"
        return f"[{', '.join(map(self._flow, value))}]"

    def _member(self, key: str, value: Any, column: int) -> list[str]:
        """Return the lines of a key and its value in a block mapping."""
        head, flow = f"{' ' * column}{_scalar(key, is_flow=False)}:", self._flow(value)
        if isinstance(value, dict) and value and not (len(value) == 1 and value == {next(iter(value)): {}}):
            inner = (self._member(name, each, column + self._step()) for name, each in value.items())
            return [head, *itertools.chain.from_iterable(inner)]
        if isinstance(value, list) and value and (isinstance(value[0], dict) or len(flow) > _WIDE):
            items = (self._item(each, column + self._dash()) for each in value)
            return [head, *itertools.chain.from_iterable(items)]
        return [f"{head} {_scalar(value, is_flow=False) if isinstance(value, str) else flow}"]

    def _item(self, value: Any, column: int) -> list[str]:
        """Return the lines of an item of a block list."""
        if not isinstance(value, Mapping):
            return [f"{' ' * column}- {self._flow(value)}"]
        members = (self._member(name, each, column + 2) for name, each in value.items())
        first, *others = itertools.chain.from_iterable(members)
        return [f"{' ' * column}- {first.lstrip()}", *others]

    def _lines(self, after: int, lines: Iterable[str]) -> Splice:
        """Return the splice with more lines below the line of a position."""
        line_end = _BREAK.search(self.text, after)
        if line_end:
            return line_end.end(), line_end.end(), "".join(line + line_end.group() for line in lines)
        end = len(self.text)
        return end, end, "".join(self._break() + line for line in lines)

    def _ended(self, lines: Iterable[str], start: int, end: int) -> str:
        """Return lines with line ends, the last as that of the lines that they replace."""
        found = [*_BREAK.finditer(self.text, start, end)]
        mark = found[0].group() if found else self._break()
        return mark.join(lines) + (found[-1].group() if found and found[-1].end() == end else "")

    def _break(self) -> str:
        usual = _BREAK.search(self.text)
        return usual.group() if usual else "\n"

    def _lines_of(self, head: Any, node: Any) -> tuple[int, int]:
        """Return the lines of a key with its value, which are nobody else's. Raises RefusedError."""
        end = int(head.end_mark.index) if node in self.shared else self._last(node)
        return self._whole_lines(head.start_mark.index - head.start_mark.column, head.start_mark.index, end)

    def _lines_of_item(self, above: Any, node: Any) -> tuple[int, int]:
        """Return the lines of an item of a block list, from its dash on. Raises RefusedError."""
        column = above.start_mark.column
        number = next(number for number, each in enumerate(above.value) if each is node)
        start = node.start_mark.index - node.start_mark.column
        floor = self._last(above.value[number - 1]) if number else above.start_mark.index - column
        while start > floor and self.text[start + column : start + column + 1] != "-":
            start = self._line_start(start - 1)
        return self._whole_lines(start, start + column, self._last(node))

    def _whole_lines(self, start: int, first: int, last: int) -> tuple[int, int]:
        end = _BREAK.search(self.text, last)
        if self.text[start:first].strip(" "):
            raise _misfit(self.where)
        return start, end.end() if end else len(self.text)

    def _line_start(self, at: int) -> int:
        """Return where the line of a position begins."""
        return max(self.text.rfind("\n", 0, at), self.text.rfind("\r", 0, at)) + 1

    def _line_end_before(self, start: int) -> int:
        """Return where the line before a line ends."""
        return start - (2 if self.text.endswith("\r\n", 0, start) else 1)

    def _comments(self, start: int, end: int) -> list[tuple[int, int]]:
        """Return the places of the comments in a part of the text: they are between the tokens."""
        if self.is_json:
            return []
        found, last = list[tuple[int, int]](), start
        for token in yaml.scan(self.text, Loader=yaml_text.loader()):
            at = min(token.start_mark.index, end)
            if at > last:
                found += [match.span() for match in _COMMENT.finditer(self.text[:at], last)]
            last = max(last, token.end_mark.index)
            if isinstance(token, yaml.ScalarToken) and token.style in ("|", ">") and start <= at < end:
                header = self.text[at : token.end_mark.index].splitlines()[0]
                if "#" in header:  # The scanner takes a comment there for a part of the scalar.
                    raise _misfit(self.where)
            if last >= end:
                break
        return found

    def _require_no_comment(self, start: int, end: int) -> None:
        if self._comments(start, end):
            raise errors.RefusedError(f"{self.where} holds a comment, which would go.", hint="Write it by hand.")

    def _end(self, key: Any, value: Any) -> int:
        """Return the end of a key's value, or of the key itself where the value is an alias."""
        if value in self.shared:
            return int(key.end_mark.index)
        start, end = value.start_mark.index, value.end_mark.index
        return int(start) + len(self.text[start:end].rstrip())

    def _last(self, node: Any) -> int:
        """Return the end of the last value in a block; the mark of the block is behind the comments that follow."""
        end = self._end(node, node)
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

    def _dash(self) -> int:
        """Return the indentation of lists in the document, which may be none."""
        pending = [self.root]
        for node in pending:  # The loop appends to it.
            for key, inner in node.value if isinstance(node, yaml.MappingNode) else ():
                if isinstance(inner, yaml.SequenceNode) and not inner.flow_style and inner not in self.shared:
                    return max(0, int(inner.start_mark.column - key.start_mark.column))
                pending.append(inner)
            if isinstance(node, yaml.SequenceNode):
                pending += node.value
        return self._step()


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
