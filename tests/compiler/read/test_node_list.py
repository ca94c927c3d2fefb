"""A list of nodes that is read at once means what the readers of any list find in it, or is left to them."""

import functools
import json
from random import Random
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

from compiler import diagnostics, pipeline
from compiler.checks import inventory as inventory_checks
from compiler.formats import decode, documents
from compiler.inventory import reduction, snapshot
from compiler.read import node_list
from tests import builders, effort

FILE = "inventory/east.json"
CLUSTER = builders.cluster("east")
NFD_LABEL, NFD_ANNOTATION = "feature.node.kubernetes.io/x", reduction.NFD_ANNOTATION


class Raw(str):
    """JSON as it is."""

    __slots__ = ()


class Object(list[tuple[str, Any]]):
    """An object of JSON, in which keys may be repeated; its own keys, without those of raw values, are read."""


def at_once(file: str, content: bytes) -> documents.Document | None:
    accepts = functools.partial(builders.judge().accepts, "NodeList")
    return node_list.read(file, content, CLUSTER.spec, accepts)


def found(content: bytes, quick: decode.Quick | None) -> tuple[snapshot.Inventory | None, diagnostics.Findings]:
    """The inventory in a file, or the findings on it."""
    read, unread = decode.decode(FILE, content, quick)
    judged = pipeline.judged(read, builders.judge(), {FILE}, tuple(unread))
    return pipeline.inventory_of(CLUSTER, judged), judged.findings


def node(random: Random, name: str, has_nfd: bool) -> Object:
    labels = [("kubernetes.io/hostname", name), ("zone", random.choice("ab")), ("kubernetes.io/arch", "arm64")]
    labels += [(NFD_LABEL, random.choice(["1", "2", ""]))] if has_nfd else []
    annotations = Object([("a.example.com/b", "[{}]"), (NFD_ANNOTATION, random.choice(["", "x"]))])
    taint = Object([("key", "dedicated"), ("value", random.choice(["a", ""])), ("effect", "NoSchedule")])
    taints = [("taints", [taint])] if random.random() < 0.5 else []
    facts = [(key, random.choice(["a", "é", "b c"])) for key in ("architecture", "kernelVersion", "kubeletVersion")]
    metadata = [
        ("annotations", Raw('{"a": "b"}') if has_nfd else annotations),
        ("labels", Object(random.sample(labels, len(labels)))),
        ("name", name),
        ("uid", Raw("1")),
    ]
    info = Object([*facts, ("osImage", "c"), ("bootID", Raw('"x"'))])
    return Object(
        [
            ("kind", "Node"),
            ("metadata", Object(metadata)),
            ("spec", Object([("podCIDR", Raw('"10.0.0.0/24"')), *taints])),
            ("status", Object([("images", Raw("[{}]")), ("nodeInfo", info)])),
        ]
    )


def nodes(random: Random) -> Object:
    """A list of nodes, in which annotations are read where no label is NFD's."""
    has_nfd = random.random() < 0.5
    items = [node(random, name, has_nfd) for name in random.sample("abcd", random.randint(1, 3))]
    members = [("apiVersion", "v1"), ("items", items), ("kind", random.choice(["List", "NodeList"]))]
    return Object([*random.sample(members, 3), ("metadata", Raw('{"resourceVersion": ""}'))])


def objects(value: Any) -> list[Object]:
    """All objects inside a value, and the value if it is one."""
    if isinstance(value, Object):
        return [value, *(inner for _, member in value for inner in objects(member))]
    return [inner for item in value for inner in objects(item)] if isinstance(value, list) else []


ODD = (
    *(None, 5, True, "", "-", "A", "a" * 64, "a" * 254, "a,b", 'a"b', "a\\", "é", "\ud800", "😀"),
    *("Pod", "v2", "NoExecute", [], ["a"], Object()),
    *map(Raw, ("1e999", "9" * 30, "NaN", '"\\udc00"')),
)


def break_a_little(random: Random, top: Object) -> None:
    """Change one member of an object: its key, its value, or how often it is there; raw ones stay as they are."""
    chosen = random.choice(objects(top))
    known = [(at, key) for at, (key, value) in enumerate(chosen) if not isinstance(value, Raw)]
    if not known:
        return
    place, key = random.choice(known)
    value, other = chosen[place][1], random.choice(known)[1]
    match random.randrange(6):
        case 0:
            del chosen[place]
        case 1:
            chosen[place] = (key, random.choice(ODD))
        case 2:
            chosen[place] = (other, value)
        case 3:  # What is read no more stays as it is, as only the slower reader would find its mistakes.
            chosen[place] = (random.choice(["", "a,b", "\udfff", "é", f"{key}2"]), Raw('"x"'))
        case _:
            added = (random.choice([key, other]), random.choice([value, value, *ODD]))
            chosen.insert(random.randint(0, len(chosen)), added)


def written(random: Random, value: Any, indent: str) -> str:
    """A value as JSON, with some letters as escapes."""
    if isinstance(value, Raw):
        return value
    if not isinstance(value, list):
        text = json.dumps(value, ensure_ascii=random.random() < 0.7)
        is_word = isinstance(value, str) and value.isalpha() and value.isascii()
        return f'"\\u{ord(value[0]):04x}{value[1:]}"' if is_word and random.random() < 0.03 else text
    inner = f"{indent} " if indent else ""
    if isinstance(value, Object):
        items = [f"{written(random, key, '')}: {written(random, member, inner)}" for key, member in value]
        return f"{{{inner}{f',{inner}'.join(items)}{indent}}}"
    return f"[{inner}{f',{inner}'.join(written(random, item, inner) for item in value)}{indent}]"


def ordinary(*nodes: str) -> str:
    """A list as kubectl prints it."""
    taint = {"key": "dedicated", "effect": "NoSchedule"}
    items = [builders.kubernetes_node(name, taints=[taint]) for name in nodes or ("kp920-01",)]
    return json.dumps({"apiVersion": "v1", "items": items, "kind": "List"}, indent=1)


@pytest.mark.seeded
@hypothesis.settings(max_examples=effort.examples(gate=150, long=9_000))
@hypothesis.given(st.integers(0, 2**32))
def test_a_list_means_the_same_to_both_readers_however_it_is_broken(seed: int) -> None:
    random = Random(seed)  # noqa: S311 - a test's choice
    top = nodes(random)
    for _ in range(random.choice([0, 0, 1, 1, 2])):
        break_a_little(random, top)

    content = written(random, top, random.choice(["", "\n", "\r\n"])).encode("utf-8", "surrogatepass")

    assert found(content, at_once) == found(content, None)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('"name": "kp920-01"', '"name": "kp920-01", "name": "kp920-01"'),
        ('"uid": ', '"labels": {}, "uid": '),
        ('"uid": ', '"uid": 1, "uid": '),
        ('"spec": {', '"spec": {}, "spec": {'),
        ('"effect": ', '"value": "", "value": "", "effect": '),
        ('"items": ', '"items": [], "items": '),
        ('"kubernetes.io/hostname": ', '"kubernetes.io/hostname": "a", "kubernetes.io/hostname": '),
        ('"kubernetes.io/hostname": ', '"\\u006bubernetes.io/hostname": "a", "kubernetes.io/hostname": '),
        ('"name": "kp920-01"', '"name": "\\ud800"'),
        ("v1.31", "\udcff"),
        ('"images": [', '"images": [NaN, '),
        ('"images": [', '"images": ["\udcff", '),
        ('"images": [', '"images": ["\\udc00", '),
    ],
)
def test_a_mistake_leaves_the_list_to_the_readers_of_any_list(before: str, after: str) -> None:
    text = ordinary()

    assert at_once(FILE, text.encode())
    assert text.count(before) == 1
    assert at_once(FILE, text.replace(before, after).encode("utf-8", "surrogateescape")) is None


@pytest.mark.parametrize("fault", ['{"a": 1, "a": 2}', "1e999", "9" * 30, "[" * 70 + "]" * 70])
def test_a_fault_where_nobody_looks_goes_unseen(fault: str) -> None:
    content = ordinary().replace('"images": [', f'"images": [{fault}, ').encode()

    inventory, findings = found(content, at_once)

    assert (inventory, findings) == found(ordinary().encode(), None)
    assert found(content, None)[1]


def test_a_node_that_stands_twice_is_reported_where_it_stands_again() -> None:
    content = ordinary("kp920-01", "kp920-01").encode()

    assert at_once(FILE, content)
    assert [each.code for each in found(content, at_once)[1]] == ["duplicate-node"]
    assert found(content, at_once) == found(content, None)


@pytest.mark.parametrize("unread", ["9" * 5_000, "[" * 500 + "]" * 500, '{"a": 1, "a": 2}'])
def test_a_finding_has_its_place_behind_what_nobody_reads(unread: str) -> None:
    text = ordinary("kp-1", "kp-1")
    (usual,), _ = decode.decode(FILE, text.encode())

    document = at_once(FILE, text.replace('"a-boot"', unread).encode())

    assert document is not None
    (was,), (now,) = map(list, map(inventory_checks.findings, (usual, document)))
    assert (now.code, now.span.line, now.span.column) == (was.code, was.span.line, was.span.column)
