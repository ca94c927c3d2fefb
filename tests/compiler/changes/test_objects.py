"""The fields in which an object differs between two revisions."""

from collections.abc import Mapping
from typing import Any

import pytest

from compiler.changes.objects import Pair, Ref


def config_map(text: str) -> Mapping[str, Any]:
    return {"kind": "ConfigMap", "metadata": {"name": "c", "namespace": "n"}, "data": {"c.json": text}}


def pair(before: Mapping[str, Any] | None, after: Mapping[str, Any] | None) -> Pair:
    return Pair(component="watcher", path="watcher/configmap-c.yaml", before=before, after=after)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ('{"a": {"b": 1}, "c": 2}', '{"c": 2, "a": {"b": 3}}', [("data[c.json].a.b", 1, 3)]),
        ('{"x.y": 1}', "{}", [("data[c.json][x.y]", 1, None)]),
        ("{1", "{2", [("data[c.json]", "{1", "{2")]),
        ('{"a": 1}', '{"a":1}', [("data[c.json]", '{"a": 1}', '{"a":1}')]),
        ('{"a": 1}', "[1]", [("data[c.json]", '{"a": 1}', "[1]")]),
    ],
)
def test_a_text_in_json_goes_by_its_fields(old: str, new: str, expected: list[tuple[str, Any, Any]]) -> None:
    fields = pair(config_map(old), config_map(new)).fields()

    assert [(field.text, field.old, field.new) for field in fields] == expected


def test_an_object_that_comes_or_goes_has_no_field_that_differs() -> None:
    added, pruned = pair(None, config_map("x")), pair(config_map("x"), None)

    assert (added.change, added.fields()) == ("added", ())
    assert (pruned.change, pruned.fields()) == ("pruned", ())
    assert pruned.ref == Ref(kind="ConfigMap", namespace="n", name="c")
