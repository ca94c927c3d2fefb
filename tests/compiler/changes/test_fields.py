"""The fields in which two objects differ."""

import json
from typing import Any

import pytest

from compiler.changes import fields


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ({"a": {"b": 1}}, {"a": {"b": 2}}, [("a.b", 1, 2)]),
        ({"a": 1}, {"b": 1}, [("a", 1, None), ("b", None, 1)]),
        ({"a": True}, {"a": 1}, [("a", True, 1)]),
        ({"a": {"x.y/z": 1}}, {"a": {"x.y/z": 2}}, [("a[x.y/z]", 1, 2)]),
        (
            {"a": [{"name": "x", "v": 1}, {"name": "y"}]},
            {"a": [{"name": "y"}, {"name": "x", "v": 2}]},
            [("a[x].v", 1, 2)],
        ),
        ({"a": ["x", "y"]}, {"a": ["y", "z"]}, [("a[x]", "x", None), ("a[z]", None, "z")]),
        ({"a": ["x", "y"]}, {"a": ["y", "x"]}, [("a[0]", "x", "y"), ("a[1]", "y", "x")]),
        ({"a": ["x", "x"]}, {"a": ["x"]}, [("a[1]", "x", None)]),
        ({"a": "same"}, {"a": "same"}, []),
    ],
)
def test_fields_are_named_by_path(old: Any, new: Any, expected: list[tuple[str, Any, Any]]) -> None:
    assert [(field.path, field.old, field.new) for field in fields.changed(old, new)] == expected


def test_a_config_in_json_is_compared_by_its_fields() -> None:
    old, new = ({"config": json.dumps({"version": version, "kept": 1})} for version in ("1", "2"))

    (field,) = fields.changed(old, new)

    assert (field.path, field.old, field.new) == ("config.version", "1", "2")


def test_what_only_looks_like_json_is_a_text() -> None:
    (field,) = fields.changed({"a": "{1"}, {"a": "{2"})

    assert (field.old, field.new) == ("{1", "{2")
