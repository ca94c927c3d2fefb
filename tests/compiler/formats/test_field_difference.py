"""The fields that differ between two versions of data are named by path, and an order that says nothing is none."""

import random
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import yaml
from hypothesis import strategies as st

from compiler.formats import field_difference
from compiler.formats.field_difference import Field

OUTPUT = Path(__file__).parents[3] / "output/east"


def told(old: Any, new: Any, *, with_order: bool = False) -> list[tuple[str, Any, Any]]:
    return [(item.text, item.old, item.new) for item in field_difference.fields(old, new, with_order=with_order)]


def container(name: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, **fields}


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ({"a": {"b": 1}}, {"a": {"b": 2}}, [("a.b", 1, 2)]),
        ({"a": 1}, {}, [("a", 1, None)]),
        ({}, {"a": {"b": 1}}, [("a", None, {"b": 1})]),
        ({"a": True}, {"a": 1}, [("a", True, 1)]),
        ({"a": {"b.c/d": "x"}}, {"a": {"b.c/d": "y"}}, [("a[b.c/d]", "x", "y")]),
        ({"c": [container("x", image="i:1")]}, {"c": [container("new"), container("x", image="i:2")]},
         [("c[new]", None, {"name": "new"}), ("c[x].image", "i:1", "i:2")]),
        ({"t": [{"key": "a", "effect": "NoSchedule"}]}, {"t": [{"key": "a", "effect": "NoExecute"}]},
         [("t[a].effect", "NoSchedule", "NoExecute")]),
        ({"m": [{"name": "n", "mountPath": "/a"}, {"name": "n", "mountPath": "/b"}]},
         {"m": [{"name": "n", "mountPath": "/b"}]}, [("m[/a]", {"name": "n", "mountPath": "/a"}, None)]),
        ({"args": ["a", "b"]}, {"args": ["a", "new", "b"]}, [("args[1]", None, "new")]),
        ({"args": ["a", "b"]}, {"args": ["a", "c"]}, [("args[1]", "b", "c")]),
        ({"args": ["a", "b"]}, {"args": ["b", "a"]}, [("args[0]", None, "b"), ("args[1]", "b", None)]),
        ({"rules": [{"verbs": ["get"]}, {"verbs": ["list"]}]},
         {"rules": [{"verbs": ["get", "watch"]}, {"verbs": ["list"]}]},
         [("rules[0].verbs[1]", None, "watch")]),
        ({"a": []}, {"a": [container("x")]}, [("a[x]", None, {"name": "x"})]),
        ({"a": []}, {"a": {}}, [("a", [], {})]),
    ],
)  # fmt: skip
def test_a_field_that_differs_is_named_by_its_path_with_both_values(
    old: Any, new: Any, expected: list[tuple[str, Any, Any]]
) -> None:
    assert told(old, new) == expected


def test_a_field_knows_its_place_in_both_versions() -> None:
    old = {"c": [container("x", image="1"), container("gone")]}
    new = {"c": [container("new"), container("x", image="2")]}

    assert list(field_difference.fields(old, new)) == [
        Field(text="c[new]", was=None, now=("c", 0), old=None, new=container("new")),
        Field(text="c[x].image", was=("c", 0, "image"), now=("c", 1, "image"), old="1", new="2"),
        Field(text="c[gone]", was=("c", 1), now=None, old=container("gone"), new=None),
    ]


def test_an_order_of_named_items_counts_only_where_it_is_asked_for() -> None:
    old, new = ({"waves": [container(name) for name in order]} for order in ("ab", "ba"))

    assert told(old, new) == []
    assert told(old, new, with_order=True) == [("waves", ["a", "b"], ["b", "a"])]


def shuffled(data: Any, draw: random.Random) -> Any:
    """Return data with its keys, and the items that have names, in another order."""
    if isinstance(data, dict):
        keys = list(data)
        draw.shuffle(keys)
        return {key: shuffled(data[key], draw) for key in keys}
    if not isinstance(data, list):
        return data
    items = [shuffled(item, draw) for item in data]
    keys = [key for key in ("name", "mountPath") if all(isinstance(item, dict) and key in item for item in items)]
    if any(len({item[key] for item in items}) == len(items) for key in keys):
        draw.shuffle(items)
    return items


def test_a_rendering_in_another_order_has_no_field_that_differs() -> None:
    draw = random.Random(3)  # noqa: S311 - drawn again from its seed
    reordered = 0
    for path in sorted(OUTPUT.glob("*/*.yaml")):
        rendered = yaml.safe_load(path.read_text())
        other = shuffled(rendered, draw)
        reordered += other != rendered

        assert told(rendered, other) == [], path

    assert reordered > 5


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(0, 2) | st.sampled_from("ab"),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(["name", "key", "c"]), inner),
    max_leaves=12,
)


@hypothesis.given(_VALUES, _VALUES)
def test_no_difference_is_passed_over_where_order_counts(old: Any, new: Any) -> None:
    assert told(old, old) == []
    assert told(old, new, with_order=True) or old == new
