"""The references of programs: the tricky cases of their language, and strings that nobody meant."""

from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

from compiler.formats import references

DEFAULTS = {"values.n": 4, "values.b": False, "values.e": "a"}
"""Parameters with defaults; `s` and `l` have none."""


def filled(data: Any, field: str = "", **values: Any) -> Any:
    return references.filled(data, {**DEFAULTS, **{f"values.{name}": value for name, value in values.items()}}, field)


CONTAINER = {"name": "plugin"}


@pytest.mark.parametrize(
    ("data", "values", "made"),
    [
        ({"args": ["-v=${values.n}", "-x=${values.s}", "y"]}, {}, {"args": ["-v=4", "y"]}),
        ({"args": ["-l=${values.l}"], **CONTAINER}, {"l": ["a", "b"]}, {"args": ["-l=a,b"], **CONTAINER}),
        ({"args": ["-l=${values.l}"], **CONTAINER}, {"l": []}, CONTAINER),
        (
            {"env": [{"name": "A", "value": "${values.s}"}, {"name": "B", "value": ""}]},
            {},
            {"env": [{"name": "B", "value": ""}]},
        ),
        ({"env": [{"name": "A", "value": "${values.n}"}]}, {}, {"env": [{"name": "A", "value": "4"}]}),
        ({"env": [{"name": "A", "value": "${values.b}"}]}, {}, {"env": [{"name": "A", "value": "false"}]}),
        (
            {"args": ["$${HOME} $(X) $$(Y) $5 $$${values.n}"]},
            {},
            {"args": ["${HOME} $(X) $$(Y) $5 $${values.n}"]},
        ),
        ({"args": ["${values.s}"]}, {"s": "${values.n}"}, {"args": ["${values.n}"]}),
        ({"args": [{"when": "${values.s}", "value": ["-x", "${values.s}"]}], **CONTAINER}, {}, CONTAINER),
        (
            {"args": [{"when": "${values.s}", "value": ["-x", "${values.s}"]}]},
            {"s": "q"},
            {"args": ["-x", "q"]},
        ),
        ({"when": {"b": False, "e": ["a", "c"]}, **CONTAINER}, {}, CONTAINER),
        ({"resources": {"limits": {"memory": "${values.s}"}}, **CONTAINER}, {}, CONTAINER),
        ({"emptyDir": {}, **CONTAINER}, {}, {"emptyDir": {}, **CONTAINER}),
        ({"privileged": "${values.b}"}, {}, {"privileged": False}),
        ({"runAsUser": "${values.n}"}, {}, {"runAsUser": 4}),
        ({"privileged": {"when": {"s": None}, "value": True}}, {}, {"privileged": True}),
        ({"args": ["${values.s}"]}, {"s": "$(POD_IP)"}, {"args": ["$$(POD_IP)"]}),
        ({"mountPath": "${values.s}"}, {"s": "/a$(B)"}, {"mountPath": "/a$(B)"}),
        ({"drop": "${values.l}"}, {"l": ["ALL"]}, {"drop": ["ALL"]}),
        ({"count": "${values.n}", "shares": "${values.s}"}, {}, {"count": 4}),
        (
            {"env": {"A": "n=${values.n}", "B": "${values.s}", "when": "${values.b}", "value": "$(X)"}},
            {},
            {"env": {"A": "n=4", "when": "false", "value": "$(X)"}},
        ),
        ({"env": {"when": "a", "value": "${values.n}"}}, {}, {"env": {"when": "a", "value": "4"}}),
        ({"env": {"A": "${values.s}"}, **CONTAINER}, {}, CONTAINER),
        ({"env": "${values.m}"}, {"m": {"A": "${values.n}"}}, {"env": {"A": "${values.n}"}}),
        (
            {"profiles": {"when": {"count": "${values.n}", "args": "$${"}, "fast": {"A": "${values.s}"}}},
            {},
            {"profiles": {"when": {"count": "4", "args": "${"}}},
        ),
        ({"inject": [{"when": {"e": "b"}, "nodes": []}, {"env": {"A": "1"}}]}, {}, {"inject": [{"env": {"A": "1"}}]}),
    ],
)
def test_a_text_has_the_values_of_its_references(data: Any, values: dict[str, Any], made: Any) -> None:
    assert filled(data, **values) == made


@pytest.mark.parametrize("text", ["${HOME", "${values.n", "${ values.n }", "a${}b", "${a.b.c}"])
def test_what_begins_as_a_reference_and_is_none_is_a_fault(text: str) -> None:
    assert any(isinstance(part, references.Fault) for part in references.parsed(text))


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        ("${values.b}", False),
        ("${values.n}", True),
        ("${values.s}", False),
        ({"n": 4}, True),
        ({"n": [1, 4], "b": False}, True),
        ({"n": True}, False),
        ({"b": 0}, False),
        ({"s": None}, True),
        ({"s": [None, "a"]}, True),
        ({"e": None}, False),
    ],
)
def test_a_condition_compares_values_with_their_types(condition: Any, holds: bool) -> None:
    assert references.holds(condition, DEFAULTS) is holds


def test_files_are_texts_entries_of_a_map_and_json() -> None:
    declared = {
        "a.conf": "n=${values.n}\n",
        "b.conf": "${values.s}",
        "c-${key}.conf": {"each": "${values.map}", "text": "${key}=${value}"},
        "d.json": {"json": {"n": "${values.n}", "b": "${values.b}", "text": "n=${values.n}", "s": "${values.s}"}},
        "e.conf": {"when": {"b": True}, "text": "x"},
    }

    made = references.files(declared, {**DEFAULTS, "values.map": {"y": "1", "x": "${key}"}})

    assert made == {
        "a.conf": "n=4\n",
        "c-x.conf": "x=${key}",
        "c-y.conf": "y=1",
        "d.json": '{\n  "b": false,\n  "n": 4,\n  "text": "n=4"\n}\n',
    }


def test_the_place_of_what_is_filled_is_found_in_the_recipe() -> None:
    raw = {"args": ["${values.s}", {"when": "${values.n}", "value": ["-a", "-b"]}, "-c"]}

    assert filled(raw) == {"args": ["-a", "-b", "-c"]}
    assert references.origin(raw, ("args", 1), DEFAULTS) == ("args", 1)
    assert references.origin(raw, ("args", 2), DEFAULTS) == ("args", 2)


@hypothesis.given(st.text(alphabet="${}val.ues nb(key", max_size=30), st.text(max_size=20))
def test_no_string_yields_anything_but_the_listed_references(template: str, secret: str) -> None:
    """Also where the value of a parameter looks like a reference: values are not read again."""
    scope = {"values.n": secret or "x", "key": "k"}

    made = references.text(template, scope)

    names = references.names(template)
    if any(name not in scope for name in names):
        assert made is references.ABSENT
        return
    parts = template.split("$${")
    expected = "${".join(part.replace("${values.n}", "\0").replace("${key}", "\1") for part in parts)
    assert made == expected.replace("\0", scope["values.n"]).replace("\1", "k")


@hypothesis.given(
    st.dictionaries(
        st.sampled_from(["A", "when", "value", "args", "env", "count"]), st.text("${}values.nb(", max_size=12)
    )
)
def test_variables_of_any_name_are_texts(variables: dict[str, str]) -> None:
    """Also where a name is that of a condition, of a list of arguments or of a number."""
    texts = {name: references.text(template, DEFAULTS) for name, template in variables.items()}

    made = references.filled({"inject": [{"env": variables, "preload": []}]}, DEFAULTS)

    kept = {name: text for name, text in texts.items() if text is not references.ABSENT}
    env = {} if variables and not kept else {"env": kept}
    assert made == {"inject": [{**env, "preload": []}]}
    places = references.places({"resources": [{"inject": [{"env": variables}]}]}, ())
    assert [place.text for place in places if not place.is_typed] == list(variables.values())
