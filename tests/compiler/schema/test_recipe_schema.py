"""A DevicePolicy is judged by the names and parameters of its recipe."""

import copy
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.project import package_data
from compiler.schema import judge, recipe_schema
from tests import effort
from tests.builders import document, raw
from tests.builders import judge as schemas

SPEC: dict[str, Any] = {
    "title": "A network stack",
    "match": {"pci": [{"kind": "nic", "vendor": "1924", "devices": ["0b03"], "virtual": ["1b03"]}]},
    "parameters": {
        "properties": {
            "maxPods": {"type": "integer", "minimum": 1, "maximum": 20000, "default": 100},
            "mode": {"type": "string", "enum": ["vfio-pci", "igb_uio"], "default": "vfio-pci"},
            "profiles": {
                "type": "object",
                "maxProperties": 2,
                "default": {},
                "additionalProperties": {
                    "type": "object",
                    "maxProperties": 4,
                    "additionalProperties": {"type": "string"},
                },
            },
        }
    },
    "images": {"installer": {"image": "kae-driver-installer"}, "modules": {"image": "net-modules"}},
    "driver": {
        "image": "installer",
        "modules": [
            {"name": "net_core", "parameters": {"debug": {"type": "integer", "minimum": 0, "maximum": 1}}},
            {"name": "net_extra", "optional": True},
        ],
    },
    "devicePlugin": {
        "resources": [
            {
                "name": "example.com/net",
                "class": "token",
                "count": "${values.maxPods}",
                "profiles": "${values.profiles}",
                "inject": [{"env": {"NET_MODE": "${values.mode}"}}],
            }
        ]
    },
}


def told(policy: dict[str, Any], spec: dict[str, Any] = SPEC) -> list[tuple[str, str, str]]:
    """The findings on a policy of a recipe: code, message and hint."""
    item = document(raw("DevicePolicy", "lab", {"recipe": "net", **policy}))
    _, findings = schemas().knowing({"net": spec}).judge(item)
    return [(each.code, each.message, each.hint) for each in findings]


def wave(**more: Any) -> dict[str, Any]:
    return {"rollout": {"waves": [{"name": "canary", "percent": 5, **more}]}}


@pytest.mark.parametrize(
    ("policy", "code", "message", "hint"),
    [
        (
            {"values": {"maxPod": 4}},
            "unknown-field",
            "'maxPod' is not a field of 'spec.values'.",
            "Did you mean 'maxPods'?",
        ),
        (
            {"values": {"mode": "vfio_pci"}},
            "invalid-value",
            "'vfio_pci' is not one of vfio-pci and igb_uio.",
            "Did you mean 'vfio-pci'?",
        ),
        (
            {"values": {"maxPods": "40"}},
            "wrong-type",
            "Expected a whole number, found the string '40' in 'spec.values.maxPods'.",
            "Write 40, without quotes.",
        ),
        ({"values": {"maxPods": 10001}}, "invalid-value", "10001 is not a whole number from 1 to 10000.", ""),
        (
            wave(values={"maxPod": 4}),
            "unknown-field",
            "'maxPod' is not a field of 'spec.rollout.waves[0].values'.",
            "Did you mean 'maxPods'?",
        ),
        (
            {"values": {"profiles": {"Low": {}}}},
            "invalid-value",
            "'Low' is not a name of at most 20 lower-case letters, digits and single '-'.",
            "Did you mean 'low'?",
        ),
        (
            {"values": {"profiles": {"a": {}, "b": {}, "c": {}}}},
            "invalid-value",
            "'spec.values.profiles' has 3 keys, but may have at most 2.",
            "Remove some of them.",
        ),
        (
            {"images": {"module": {"version": "2"}}},
            "unknown-field",
            "'module' is not a field of 'spec.images'.",
            "Did you mean 'modules'?",
        ),
        (
            {"driver": {"modules": ["net_core", "netextra"]}},
            "invalid-value",
            "'netextra' is not one of net_core and net_extra.",
            "Did you mean 'net_extra'?",
        ),
        (
            {"driver": {"moduleParameters": {"net_core": {"debg": 1}}}},
            "unknown-field",
            "'debg' is not a field of 'spec.driver.moduleParameters.net_core'.",
            "Did you mean 'debug'?",
        ),
        (
            {"driver": {"moduleParameters": {"net_core": {"debug": 2}}}},
            "invalid-value",
            "2 is not a whole number from 0 to 1.",
            "",
        ),
        ({"driver": {"sriov": {"nic": 2}}}, "unknown-field", "'sriov' is not a field of 'spec.driver'.", ""),
        (
            {"driver": {"source": {"inTree": {}}}},
            "unknown-field",
            "'inTree' is not a field of 'spec.driver.source'.",
            "Its fields are prebuilt.",
        ),
        (wave(driver={"modules": ["net"]}), "invalid-value", "'net' is not one of net_core and net_extra.", ""),
    ],
)
def test_a_mistake_in_what_a_policy_says_of_its_recipe_is_explained(
    policy: dict[str, Any], code: str, message: str, hint: str
) -> None:
    ((its_code, its_message, its_hint),) = told(policy)

    assert (its_code, its_message) == (code, message)
    assert not hint or its_hint == hint


def test_a_policy_may_say_everything_that_its_recipe_has() -> None:
    assert told({"values": {"maxPods": 4, "mode": "igb_uio", "profiles": {"low": {"NET_POLL": "1"}}}}) == []
    assert told({"images": {"device-plugin": {"version": "2"}}}) == []
    assert told(wave(values={"mode": "igb_uio"}, images={"modules": {"version": "2"}})) == []


def test_a_recipe_without_a_driver_has_no_driver_in_its_policies() -> None:
    spec = {name: part for name, part in SPEC.items() if name != "driver"}

    assert [code for code, *_ in told({"driver": {"enabled": False}}, spec)] == ["unknown-field"]


def test_a_required_value_is_missed_where_values_are_left_out() -> None:
    spec = copy.deepcopy(SPEC)
    spec["parameters"]["required"] = ["mode"]

    assert told({}, spec) == [("missing-field", "'spec.values' is missing.", "Add values: a mapping.")]
    assert [message for _, message, _ in told({"values": {}}, spec)] == ["'spec.values.mode' is missing."]
    assert told({"values": {"mode": "igb_uio"}, **wave(values={})}, spec) == []


def test_a_text_is_bounded_where_its_recipe_states_no_length() -> None:
    spec = copy.deepcopy(SPEC)
    spec["parameters"]["properties"]["it"] = {"type": "string", "default": ""}

    assert told({"values": {"it": "a" * recipe_schema.LONGEST}}, spec) == []
    ((code, message, _),) = told({"values": {"it": "a" * (recipe_schema.LONGEST + 1)}}, spec)

    assert code == "invalid-value"
    assert message.endswith(f"is not a string of 0 to {recipe_schema.LONGEST} characters.")


def test_packages_are_named_by_the_policy_as_they_have_no_default() -> None:
    spec = copy.deepcopy(SPEC)
    spec["driver"]["sources"] = ["packages", "prebuilt"]

    assert [message for _, message, _ in told({}, spec)] == ["'spec.driver' is missing."]
    assert [message for _, message, _ in told({"driver": {}}, spec)] == ["'spec.driver.source' is missing."]
    assert told({"driver": {"source": {"packages": {"names": ["net-kmod"]}}}}, spec) == []


def test_without_its_recipe_a_policy_is_judged_by_the_schema_of_all() -> None:
    item = document(raw("DevicePolicy", "lab", {"recipe": "net", "values": {"anything": [1]}}))

    assert schemas().judge(item) == ("DevicePolicy", [])


scalars = st.one_of(st.booleans(), st.integers(-5, 5), st.text("ab", max_size=3), st.sampled_from((0.5, -1.5)))
bounds = st.tuples(st.integers(-3, 3), st.integers(-3, 3)).map(sorted)


def _number(kind: str) -> st.SearchStrategy[dict[str, Any]]:
    return bounds.map(lambda pair: {"type": kind, "minimum": pair[0], "maximum": pair[1]})


leaves = st.one_of(
    st.just({"type": "boolean"}),
    _number("integer"),
    _number("number"),
    st.lists(st.text("ab", max_size=2), min_size=1, max_size=3, unique=True).map(
        lambda one: {"type": "string", "enum": one}
    ),
    st.builds(lambda most: {"type": "string", "pattern": "^a*b?$", "maxLength": most}, st.integers(0, 3)),
)
parameters = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.builds(lambda item, most: {"type": "array", "items": item, "maxItems": most}, inner, st.integers(0, 3)),
        st.builds(
            lambda one, most: {"type": "object", "additionalProperties": one, "maxProperties": most},
            inner,
            st.integers(0, 3),
        ),
        st.builds(
            lambda fields, needed: {"type": "object", "properties": fields, "required": sorted(set(fields) & needed)},
            st.dictionaries(st.sampled_from("abc"), inner, max_size=2),
            st.sets(st.sampled_from("abc")),
        ),
    ),
    max_leaves=4,
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.sampled_from("abcd"), inner, max_size=3)),
    max_leaves=5,
)


def _strict(schema: dict[str, Any]) -> dict[str, Any]:
    """A schema in which unknown keys are refused, made by hand."""
    strict = dict(schema)
    if "properties" in schema:
        strict |= {"properties": {key: _strict(one) for key, one in schema["properties"].items()}}
        strict["additionalProperties"] = False
    for keyword in ("items", "additionalProperties"):
        if isinstance(schema.get(keyword), dict):
            strict[keyword] = _strict(schema[keyword])
    return strict


@given(schema=parameters, value=values)
def test_a_spliced_parameter_is_judged_as_jsonschema_alone_judges_it(schema: dict[str, Any], value: Any) -> None:
    spec = {"title": "x", "match": {"all": {}}, "parameters": {"properties": {"it": schema}}}
    alone = jsonschema.Draft202012Validator(_strict(schema)).is_valid(value)

    assert (told({"values": {"it": value}}, spec) == []) == alone


@settings(max_examples=effort.examples(gate=4, long=100))
@given(schema=parameters)
def test_every_spliced_schema_is_one_of_draft_2020_12(schema: dict[str, Any]) -> None:
    spec = SPEC | {"parameters": {"properties": {**SPEC["parameters"]["properties"], "it": schema}}}
    raw_schemas = package_data.schemas()

    made = recipe_schema.spliced(raw_schemas["devicepolicy"], raw_schemas["recipe"], spec)

    jsonschema.Draft202012Validator.check_schema(dict(made))
    judge.quick(made)
