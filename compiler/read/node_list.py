"""A list of nodes as `kubectl get nodes -o json` prints it, read and reduced at once, without what is not asked for.

It is a quick way beside the readers of JSON, the schema and the reduction of any list. One with a mistake, or with less
than the API server prints, is left to them. What is not read here is JSON in UTF-8, but may repeat a key, nest too
deeply or hold a number that is out of range: all but the name and the labels of a node's metadata, its taints, and the
four fields of status.nodeInfo. Its annotations are read where no label says that NFD was there.
"""

import codecs
import functools
import itertools
import operator
from collections.abc import Callable, Iterator
from typing import Annotated, Any, cast

import msgspec

from compiler import diagnostics, names
from compiler.fleet import clusters
from compiler.formats import documents, json_text
from compiler.inventory import reduction, snapshot

_CHUNK = 1 << 20
"""Bytes of text that are checked at a time."""

_count = itertools.count().__next__
"""Counts the words and the specs that are decoded: of two equal keys, msgspec takes the last without a word."""


class _AnyString(type):
    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, str)


class _Word(str, metaclass=_AnyString):
    """The type of a string that is counted; the strings are plain ones."""

    __slots__ = ()


_ABSENT = _Word()
"""A word that a list may leave out, and which is not counted then."""


class _Taint(msgspec.Struct):
    key: _Word
    effect: _Word
    value: _Word = _ABSENT


class _Spec(msgspec.Struct):
    taints: Annotated[tuple[_Taint, ...], msgspec.Meta(min_length=1)] = ()

    def __post_init__(self) -> None:
        _count()


class _Info(msgspec.Struct, rename="camel"):
    architecture: _Word
    kernel_version: _Word
    kubelet_version: _Word
    os_image: _Word
    container_runtime_version: _Word = _ABSENT


class _Status(msgspec.Struct, rename="camel"):
    node_info: _Info


class _Node(msgspec.Struct):
    metadata: Annotated[dict[_Word, msgspec.Raw], msgspec.Meta(min_length=1)]
    spec: _Spec
    status: _Status
    kind: _Word = _ABSENT


class _List(msgspec.Struct, rename="camel"):
    api_version: _Word
    kind: _Word
    items: Annotated[tuple[_Node, ...], msgspec.Meta(min_length=1)]


def _word(_: type, text: str) -> str:
    _count()
    return text


_LIST = msgspec.json.Decoder(_List, dec_hook=_word)
_ANNOTATIONS = msgspec.json.Decoder(dict[_Word, str], dec_hook=_word)
_LABELS = msgspec.json.Decoder(dict[str, str])
_NAME = msgspec.json.Decoder(str)


class _UnusualError(Exception):
    """The list is left to the readers of any list."""


def read(file: str, content: bytes, spec: clusters.Spec, accepts: Callable[[Any], bool]) -> documents.Document | None:
    """Return the document of a cluster's file, with its inventory as the meaning; None for a list left to others.

    `accepts` says whether the schema of lists accepts data. Those of the document are no more than is left to judge:
    the names of its nodes.
    """
    labels, reducer = _Labels(), reduction.Reducer(spec.watcher.ignoreLabels, spec.watcher.inventory.labels)
    try:
        _require_utf8(content)
        found = _list(content)
        nodes = [_reduced(node, labels, reducer) for node in found.items]
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, _UnusualError):
        return None
    head = {"apiVersion": found.api_version, "kind": found.kind}
    if not accepts({**head, "items": [*labels.samples(), *_samples(found)]}):
        return None
    data = {**head, "items": [{"metadata": {"name": node.name}} for node in nodes]}
    nodes.sort(key=operator.attrgetter("name"))
    cluster = snapshot.ClusterName(names.stem(file))
    inventory = snapshot.Inventory(cluster=cluster, file=file, nodes=tuple(nodes))
    return documents.Document(file, data, _Positions(file, content), inventory)


def _require_utf8(content: bytes) -> None:
    """Raise UnicodeDecodeError for what is no text; msgspec says nothing of the strings that it skips."""
    if not content.isascii():
        decoder, view = codecs.getincrementaldecoder("utf-8")(), memoryview(content)
        for start in range(0, len(content), _CHUNK):
            decoder.decode(view[start : start + _CHUNK])
        decoder.decode(b"", final=True)


def _list(content: bytes) -> _List:
    """Return a list in which no key is repeated that is read. Raises _UnusualError."""
    before = _count()
    found = _LIST.decode(content)
    words = 2
    for node in found.items:
        words += 5 + len(node.metadata) + (node.kind is not _ABSENT)
        words += node.status.node_info.container_runtime_version is not _ABSENT
        for taint in node.spec.taints:
            words += 2 + (taint.value is not _ABSENT)
    _require_met(before, words)
    return found


def _require_met(before: int, words: int) -> None:
    """Raise _UnusualError for more words than what was decoded holds: a key that is repeated had them."""
    if _count() != before + words + 1:
        raise _UnusualError


def _reduced(node: _Node, labels: "_Labels", reducer: reduction.Reducer) -> snapshot.Node:
    metadata, info = cast("dict[str, msgspec.Raw]", node.metadata), node.status.node_info
    if "name" not in metadata or "labels" not in metadata:
        raise _UnusualError
    return reducer.reduced(
        _NAME.decode(metadata["name"]),
        labels.of(metadata["labels"]),
        lambda: "annotations" in metadata and _is_annotated(metadata["annotations"]),
        (
            info.architecture,
            info.kernel_version,
            info.kubelet_version,
            info.os_image,
            str(info.container_runtime_version),
        ),
        [snapshot.Taint(taint.key, str(taint.value), taint.effect) for taint in node.spec.taints],
    )


def _is_annotated(raw: msgspec.Raw) -> bool:
    before = _count()
    annotations = cast("dict[str, str]", _ANNOTATIONS.decode(raw))
    _require_met(before, len(annotations))
    return reduction.is_annotated(annotations)


def _samples(found: _List) -> Iterator[dict[str, Any]]:
    """Yield nodes with all kinds and taints of a list, for the schema."""
    for kind in {node.kind for node in found.items if node.kind is not _ABSENT}:
        yield {"kind": kind, "metadata": {"name": "a"}}
    taints = {(taint.key, str(taint.value), taint.effect) for node in found.items for taint in node.spec.taints}
    every = [{"key": key, "value": value, "effect": effect} for key, value, effect in taints]
    yield {"metadata": {"name": "a"}, "spec": {"taints": every}}


class _Labels:
    """The labels of all nodes."""

    def __init__(self) -> None:
        self._keys: set[str] = set()
        self._values: set[str] = set()

    def of(self, raw: msgspec.Raw) -> dict[str, str]:
        """Return the labels in an object of them. Raises _UnusualError, and the errors of msgspec."""
        labels = _LABELS.decode(raw)
        # A comma follows each member but the last. No label that the schema accepts has one.
        if bytes(raw).count(b",") >= max(len(labels), 1):
            raise _UnusualError
        self._keys.update(labels)
        self._values.update(labels.values())
        return labels

    def samples(self) -> Iterator[dict[str, Any]]:
        """Yield nodes with all keys and all values, for the schema."""
        yield {"metadata": {"name": "a", "labels": dict.fromkeys(self._keys, "")}}
        values = {f"a{number}": value for number, value in enumerate(self._values)}
        yield {"metadata": {"name": "a", "labels": values}}


class _Positions:
    """The positions in a text that is decoded where one is asked for."""

    def __init__(self, file: str, content: bytes) -> None:
        self._file = file
        self._content = content

    @functools.cached_property
    def _found(self) -> documents.Positions:
        return json_text.positions(documents.Lines(self._file, self._content.decode("utf-8")))

    def span(self, path: documents.Path, *, key: bool = False) -> diagnostics.Span:
        """Return the span of a value or its key, as a reader of any JSON would."""
        return self._found.span(path, key=key)
