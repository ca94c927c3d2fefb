"""An object is compared in every field that we render, and in no other."""

from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

from compiler.status import drift
from tests import effort


def paths(wanted: Any, live: Any) -> list[str]:
    return [change.path for change in drift.changes(wanted, live)]


def container(name: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, **fields}


def test_an_object_is_as_rendered_whatever_others_have_filled_in() -> None:
    wanted = {"metadata": {"name": "a", "labels": {"x": "1"}}, "spec": {"containers": [container("main", image="i:1")]}}
    live = {
        "metadata": {"name": "a", "labels": {"x": "1", "y": "2"}, "uid": "u"},
        "spec": {"containers": [container("main", image="i:1", imagePullPolicy="Always")], "dnsPolicy": "ClusterFirst"},
        "status": {},
    }

    assert drift.changes(wanted, live) == ()


def test_a_changed_field_is_named_by_its_path_with_both_values() -> None:
    wanted = {"spec": {"containers": [container("side"), container("main", image="i:1")]}}
    live = {"spec": {"containers": [container("main", image="i:2"), container("side")]}}

    (change,) = drift.changes(wanted, live)

    assert change == drift.Change(path="spec.containers[main].image", wanted="i:1", live="i:2")


@pytest.mark.parametrize(
    ("wanted", "live", "expected"),
    [
        ({"a": {"b": 1}}, {}, ["a"]),
        ({"a": {"b": 1}}, {"a": {}}, ["a.b"]),
        ({"a": {"b": 1}}, {"a": [1]}, ["a"]),
        ({"a": {}}, {}, ["a"]),
        ({"a": True}, {"a": 1}, ["a"]),
        ({"a": "1"}, {"a": 1}, ["a"]),
        ({"a": 1}, {"a": 1.0}, []),
        ({"data": {"kae.json": "x"}}, {"data": {"kae.json": "y"}}, ["data[kae.json]"]),
        ({"labels": {"a.b/c": "x"}}, {"labels": {}}, ["labels[a.b/c]"]),
        ({"rules": [{"verbs": ["get"]}]}, {"rules": [{"verbs": ["get", "list"]}]}, ["rules[0].verbs[1]"]),
        ({"verbs": ["get", "list"]}, {"verbs": ["list"]}, ["verbs[0]", "verbs[1]"]),
        ({"env": [container("A")]}, {"env": [container("A"), container("B")]}, ["env[B]"]),
        ({"env": [container("A"), container("B")]}, {"env": [container("B")]}, ["env[A]"]),
        ({"mounts": [{"name": "m", "mountPath": "/a"}, {"name": "m", "mountPath": "/b"}]},
         {"mounts": [{"name": "m", "mountPath": "/b"}, {"name": "m", "mountPath": "/a"}]}, []),
        ({"a": []}, {"a": []}, []),
        ({"a": None}, {}, []),
        ({"env": [container("A" * 90, value="x")]}, {"env": [container("A" * 90)]}, [f"env[{'A' * 90}].value"]),
    ],
)  # fmt: skip
def test_what_differs_is_found_where_it_stands(wanted: Any, live: Any, expected: list[str]) -> None:
    assert paths(wanted, live) == expected


def test_an_item_too_many_in_a_list_of_ours_is_not_ours() -> None:
    (change,) = drift.changes({"env": [container("A")]}, {"env": [container("A"), container("B", value="x")]})

    assert (change.wanted, change.live) == (None, {"name": "B", "value": "x"})


@pytest.mark.parametrize(
    ("wanted", "live", "same"),
    [
        ("1024Mi", "1Gi", True),
        ("0.5", "500m", True),
        (2, "2", True),
        ("1e3", "1k", True),
        ("1E", "1000P", True),
        (".5", "500m", True),
        ("1", "1m", False),
        ("1Gi", "1G", False),
        ("1Gi", None, False),
        ("a lot", "a lot", True),
        ("a lot", "much", False),
    ],
)
def test_quantities_are_compared_by_their_value(wanted: Any, live: Any, same: bool) -> None:
    changed = paths({"limits": {"memory": wanted}}, {"limits": {} if live is None else {"memory": live}})

    assert changed == ([] if same else ["limits.memory"])


def test_elsewhere_what_looks_like_a_quantity_is_a_text() -> None:
    assert paths({"data": {"size": "1024Mi"}}, {"data": {"size": "1Gi"}}) == ["data.size"]


JSON = st.recursive(
    st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["name", "a", "b"]), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.long
@hypothesis.settings(max_examples=effort.examples(gate=16, long=100))
@hypothesis.given(st.dictionaries(st.sampled_from("abc"), JSON))
def test_an_object_never_differs_from_itself(data: dict[str, Any]) -> None:
    assert drift.changes(data, data) == ()


@hypothesis.settings(max_examples=effort.examples(gate=16, long=100))
@hypothesis.given(st.dictionaries(st.sampled_from("abc"), JSON), st.dictionaries(st.sampled_from("abc"), JSON))
def test_any_two_objects_can_be_compared(wanted: dict[str, Any], live: dict[str, Any]) -> None:
    changed = {change.path[0] for change in drift.changes(wanted, live)}

    assert changed == {key for key in wanted if drift.changes({key: wanted[key]}, live)}
    assert changed >= wanted.keys() - live.keys()
