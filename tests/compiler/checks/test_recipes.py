"""Rules for recipes and for what a policy says of its recipe, beyond the examples of tests/failures."""

import copy
import time
from typing import Any

import pytest

from compiler import pipeline
from compiler.diagnostics import Diagnostic
from tests.builders import document, judge, raw

RECIPE: dict[str, Any] = {
    "title": "A network stack",
    "match": {"all": {}},
    "parameters": {"properties": {"maxPods": {"type": "integer", "default": 4}}},
    "images": {
        "installer": {"repository": "r.example/kae", "image": "installer", "version": "1"},
        "modules": {"repository": "r.example/kae", "image": "modules", "version": "1"},
    },
    "driver": {
        "image": "installer",
        "payloads": [{"image": "modules", "paths": ["/opt/lib/modules"]}],
        "modules": [{"name": "net_core"}, {"name": "net_extra", "optional": True}],
    },
    "devicePlugin": {"resources": [{"name": "example.com/net", "class": "token", "count": "${values.maxPods}"}]},
}


def _feature(name: str) -> dict[str, Any]:
    return {"feature": name, "matchExpressions": {"x": {"op": "Exists"}}}


def judged(recipe: dict[str, Any] | None = None, policy: dict[str, Any] | None = None) -> list[Diagnostic]:
    given = [document(raw("Recipe", "net", RECIPE if recipe is None else recipe), "recipes/net/recipe.yaml")]
    if policy is not None:
        given.append(document(raw("DevicePolicy", "lab", {"recipe": "net", **policy}), "policies/lab.yaml"))
    return list(pipeline.judged(given, judge(), [item.file for item in given]).findings)


def messages(*given: Any) -> list[tuple[str, str]]:
    return [(each.code, each.message) for each in judged(*given)]


def with_parameter(schema: dict[str, Any], **more: Any) -> dict[str, Any]:
    """The recipe with another parameter, which stands where texts may stand."""
    spec = copy.deepcopy(RECIPE)
    spec["parameters"]["properties"]["it"] = schema
    spec["devicePlugin"]["resources"][0]["inject"] = [{"env": {"IT": "${values.it}"}}]
    return {**spec, **more}


def nested(levels: int) -> dict[str, Any]:
    """The schema of lists of lists, with texts in the innermost."""
    return {"type": "array", "maxItems": 2, "items": nested(levels - 1)} if levels else {"type": "string"}


def test_the_smallest_recipe_and_policy_have_no_mistake() -> None:
    assert judged(RECIPE, {}) == []
    assert judged(with_parameter({"type": "string", "pattern": "^[a-z]*$", "maxLength": 3, "default": "a"})) == []


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ({"default": "a"}, "A parameter has a type."),
        ({"type": ["string"], "default": "a"}, "[string] is not a type of parameters."),
        ({"type": "strin", "default": "a"}, "'strin' is not a type of parameters."),
        ({"type": "string", "oneOf": [], "default": "a"}, "'oneOf' is not a keyword of parameters."),
        ({"type": "string", "minimum": 1, "default": "a"}, "'minimum' is not a keyword of parameters of type string."),
        ({"type": "string", "enum": ["a", 1], "default": "a"}, "[a, 1] is not a list of 1 to 256 values of the type."),
        ({"type": "string", "enum": [], "default": "a"}, "[] is not a list of 1 to 256 values of the type."),
        ({"type": "string", "maxLength": 65537, "default": "a"}, "'65537' is not a whole number from 0 to 65536."),
        (
            {"type": "string", "pattern": "(?=a)", "default": "a"},
            "'(?=a)' is not a pattern of at most 200 characters, without '(?', named classes and escapes of letters.",
        ),
        (
            {"type": "string", "pattern": "a{2000}", "default": "a"},
            "'a{2000}' is not a pattern of at most 200 characters, without '(?', named classes and escapes of letters.",
        ),
        ({"type": "string", "pattern": "^b", "default": "a"}, "The default of 'it' is not a value that it may have."),
        ({"type": "string", "default": "a", "maxLength": 0}, "The default of 'it' is not a value that it may have."),
        (
            {"type": "array", "maxItems": 2, "items": {"type": "string", "default": "a"}, "default": []},
            "'default' is not a keyword of parameters.",
        ),
        ({"type": "array", "maxItems": 2, "default": []}, "A list of a parameter has items."),
        (nested(5) | {"default": []}, "A parameter has at most 5 levels."),
        (
            {"type": "array", "maxItems": 300, "items": {"type": "string"}, "default": []},
            "'300' is not a whole number from 0 to 256.",
        ),
        ({"type": "object", "default": {}}, "A mapping of a parameter has either properties or additionalProperties."),
        (
            {"type": "object", "additionalProperties": {"type": "string"}, "default": {}},
            "A mapping of a parameter with additionalProperties has maxProperties.",
        ),
        (
            {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["b"], "default": {}},
            "'b' is not one of the properties.",
        ),
        (
            {"type": "object", "properties": {"a": {"type": "string"}}, "required": [1], "default": {}},
            "[1] is not a list of names.",
        ),
        (
            {"type": "integer", "minimum": 100, "maximum": 36, "default": 50},
            "minimum 100 is more than maximum 36, so no value fits.",
        ),
    ],
)
def test_a_schema_outside_of_the_subset_is_refused(schema: dict[str, Any], message: str) -> None:
    assert ("parameter-schema", message) in messages(with_parameter(schema))


def with_reference(place: tuple[str | int, ...], text: str, schema: dict[str, Any] | None = None) -> dict[str, Any]:
    """The recipe with a text at a place, which may name the parameter 'it'."""
    spec = with_parameter(schema or {"type": "string", "default": "a"})
    spec["driver"] |= {"nodes": ["/dev/net"], "files": [{"from": "/opt/lib/modules/fw", "to": "/opt/fw"}]}
    inject = {"nodes": [{"path": "/dev/n"}], "mounts": [{"path": "/opt/m"}], "preload": ["/opt/l.so"]}
    spec["devicePlugin"]["resources"][0]["inject"][0] |= inject
    at: Any = spec
    for step in place[:-1]:
        at = at[step]
    at[place[-1]] = text
    return spec


PLUGIN: tuple[str | int, ...] = ("devicePlugin", "resources", 0)
ENV = (*PLUGIN, "inject", 0, "env", "IT")
MOUNT = (*PLUGIN, "inject", 0, "mounts", 0, "path")
NODE = (*PLUGIN, "inject", 0, "nodes", 0, "path")


@pytest.mark.parametrize(
    "place",
    [
        ("driver", "nodes", 0),
        ("driver", "files", 0, "from"),
        ("driver", "files", 0, "to"),
        ("driver", "payloads", 0, "paths", 0),
        ENV,
        MOUNT,
        NODE,
        (*PLUGIN, "inject", 0, "preload", 0),
    ],
)
def test_a_misspelt_reference_in_driver_and_plugin_is_told_as_in_programs(place: tuple[str | int, ...]) -> None:
    spec = with_reference(place, "/dev/${values.itt}")

    (found,) = judged(spec)

    assert (found.code, found.hint) == ("reference-name", "Did you mean 'it'?")
    assert found.message == "'${values.itt}' names nothing that the recipe has."


@pytest.mark.parametrize(
    ("place", "text", "schema", "code", "message"),
    [
        (ENV, "${pool.name}", None, "reference-name", "'${pool.name}' names nothing that is known here."),
        (ENV, "${images.modules}", None, "reference-name", "'${images.modules}' names nothing that is known here."),
        (ENV, "a ${values.it", None, "reference-syntax", "'${values.it' is not a reference."),
        (
            ENV,
            "a ${values.it}",
            {"type": "object", "maxProperties": 2, "additionalProperties": {"type": "string"}, "default": {}},
            "reference-type",
            "'values.it' is a mapping, which no text can hold.",
        ),
        (
            (*PLUGIN, "shares"),
            "${values.it}",
            None,
            "reference-type",
            "'spec.devicePlugin.resources[0].shares' takes a whole number, and 'values.it' is a string.",
        ),
        (
            (*PLUGIN, "count"),
            "${values.it}",
            {"type": "integer"},
            "reference-absent",
            "'spec.devicePlugin.resources[0].count' has no value where a policy leaves out 'it'.",
        ),
        (
            MOUNT,
            "/opt/${values.it}",
            {"type": "string"},
            "reference-absent",
            "'spec.devicePlugin.resources[0].inject[0].mounts[0].path' has no value where a policy leaves out 'it'.",
        ),
        (
            MOUNT,
            "/opt/${values.it}",
            {"type": "string", "default": "../etc"},
            "invalid-value",
            "'/opt/../etc' is not an absolute path or a glob, such as /dev/npu*.",
        ),
        (
            ("driver", "files", 0, "to"),
            "/${values.it}",
            {"type": "string", "default": "etc"},
            "invalid-value",
            "'/etc' is not a path below /opt or /lib/firmware/updates, such as /opt/onload.",
        ),
        (
            NODE,
            "/dev/$${${values.it}",
            None,
            "invalid-value",
            "'/dev/${a' is not the path of a device node or a glob, such as /dev/npu*.",
        ),
        (
            MOUNT,
            "/etc/${values.it}",
            {"type": "string", "default": "kubernetes"},
            "privilege-refused",
            "A recipe may not mount '/etc/kubernetes'.",
        ),
        (
            NODE,
            "/dev/${values.it}",
            {"type": "string", "default": "sda"},
            "privilege-refused",
            "A recipe may not offer '/dev/sda'.",
        ),
        (
            ("driver", "files", 0, "from"),
            "/opt/${values.it}",
            None,
            "recipe-reference",
            "'/opt/a' is in no payload.",
        ),
    ],
)
def test_references_of_driver_and_plugin_follow_the_rules_of_programs(
    place: tuple[str | int, ...], text: str, schema: dict[str, Any] | None, code: str, message: str
) -> None:
    spec = with_reference(place, text, schema)
    if place != ENV:
        spec["devicePlugin"]["resources"][0]["inject"][0]["env"]["IT"] = "it"

    assert (code, message) in messages(spec)


def test_the_values_of_a_policy_are_judged_where_they_fill_a_path() -> None:
    spec = with_reference(MOUNT, "/etc/${values.it}.conf")

    found = judged(spec, {"values": {"it": "shadow"}})

    assert [(each.code, each.message) for each in found] == [
        ("privilege-refused", "A recipe may not mount '/etc/shadow.conf'.")
    ]


def test_a_value_of_driver_or_plugin_is_no_other_in_a_wave() -> None:
    spec = with_parameter({"type": "string", "default": "a"})
    container = {"name": "main", "image": "modules", "args": ["${values.it}"]}
    spec["programs"] = [{"name": "agent", "per": "pool", "pod": {"containers": [container]}}]
    wave = {"name": "canary", "percent": 5, "values": {"it": "b"}}

    (found,) = judged(spec, {"rollout": {"waves": [wave]}})

    assert found.message == "Wave 'canary' sets 'values.it', which has one value in a policy."
    spec["devicePlugin"]["resources"][0]["inject"] = []
    assert judged(spec, {"rollout": {"waves": [wave]}}) == []
    spec["driver"]["nodes"] = ["/dev/${values.it}"]
    del spec["programs"]
    (found,) = judged(spec, {"rollout": {"waves": [wave]}})
    assert found.message == "Wave 'canary' sets 'values.it', which has one value in a policy."


def test_a_required_parameter_is_one_of_the_recipe_also_where_it_has_none() -> None:
    spec = {**RECIPE, "parameters": {"required": ["it"]}}

    assert ("parameter-schema", "'it' is not a parameter of the recipe.") in messages(spec)


def test_a_default_of_a_module_fits_a_line_of_modprobe() -> None:
    spec = copy.deepcopy(RECIPE)
    parameters = {"mode": {"type": "string", "default": 'a" options'}}
    spec["driver"]["modules"][0]["parameters"] = parameters

    assert messages(spec) == [("parameter-schema", "The default of 'mode' is not a value that it may have.")]
    del parameters["mode"]["default"]
    policy = {"driver": {"moduleParameters": {"net_core": {"mode": 'a" options'}}}}
    assert messages(spec, policy) == [("invalid-value", "'a\" options' is not one line without quotation marks.")]


def test_a_policy_of_a_refused_recipe_is_no_policy() -> None:
    spec = {**RECIPE, "title": 3}

    assert messages(spec, {"values": {"nothing": 1}}) == [
        ("wrong-type", "Expected a string, found the number 3 in 'spec.title'.")
    ]


def test_values_that_exclude_each_other_are_found_where_a_policy_gives_them() -> None:
    spec = copy.deepcopy(RECIPE)
    for name in ("one", "two"):
        spec["parameters"]["properties"][name] = {"type": "boolean", "default": False}
    spec["exclusive"] = [["one", "two"]]
    spec["devicePlugin"]["resources"][0]["inject"] = [{"when": "${values.one}"}, {"when": "${values.two}"}]
    spec["parameters"]["properties"]["two"]["default"] = True

    (finding,) = judged(spec, {"values": {"one": True}})

    assert (finding.code, finding.notes) == ("values-exclusive", ("'two' is true by default.",))
    assert "one: true" in finding.span.text


@pytest.mark.parametrize("pattern", ["^(a+)+$", "^(a|aa)+$", "^([a-z]*)*$"])
def test_no_pattern_of_a_recipe_takes_more_than_a_moment(pattern: str) -> None:
    begun = time.process_time()

    slow = "a" * 40 + "!"
    (default,) = judged(with_parameter({"type": "string", "pattern": pattern, "default": slow}))
    (value,) = judged(with_parameter({"type": "string", "pattern": pattern, "default": "a"}), {"values": {"it": slow}})
    (near,) = judged(
        with_parameter({"type": "string", "pattern": pattern, "default": "a"}), {"values": {"it": f"{slow} "}}
    )

    assert [default.code, value.code, near.code] == ["parameter-schema", "invalid-value", "invalid-value"]
    assert time.process_time() - begun < 10


def test_a_kubelet_at_another_place_is_out_of_reach_too() -> None:
    spec = copy.deepcopy(RECIPE)
    mount = {"path": "/var/lib/k0s-node/kubelet/pki"}
    spec["devicePlugin"]["resources"][0]["inject"] = [{"mounts": [mount]}]

    assert messages(spec, {}) == []
    assert [code for code, _ in messages(spec, {"kubeletDir": "/var/lib/k0s-node/kubelet"})] == ["privilege-refused"]


def test_a_profile_does_not_make_a_resource_that_is_there() -> None:
    spec = copy.deepcopy(RECIPE)
    first = spec["devicePlugin"]["resources"][0]
    spec["devicePlugin"]["resources"] = [
        {**first, "profiles": {"low": {"POLL": "1"}}},
        {"name": "example.com/net-low", "class": "token", "count": 1},
    ]

    assert (
        "resource-class",
        "The profile 'low' makes the resource 'example.com/net-low', which is another resource.",
    ) in (messages(spec, {}))


def test_a_file_of_a_recipe_holds_one() -> None:
    given = [document(raw("Recipe", "net", RECIPE), "recipes/net/recipe.yaml") for _ in range(2)]

    findings = pipeline.judged(given, judge(), ["recipes/net/recipe.yaml"]).findings

    assert [(each.code, each.message) for each in findings] == [
        ("recipe-file", "'recipes/net/recipe.yaml' holds more than one document.")
    ]


def test_hardware_is_not_known_by_nothing() -> None:
    labels = {**RECIPE, "match": {"labels": {}}}
    features = {**RECIPE, "match": {"features": [{"feature": "cpu.cpuid", "matchExpressions": {}}]}}

    assert messages(labels) == [("invalid-value", "'spec.match.labels' is empty.")]
    assert messages(features) == [("invalid-value", "'spec.match.features[0].matchExpressions' is empty.")]


@pytest.mark.parametrize(
    ("feature", "condition", "expected"),
    [
        ("cpu.cpuid", {"op": "Exists"}, []),
        ("system.osrelease", {"op": "InRegexp", "value": ["^22"]}, []),
        ("kernel.version", {"op": "GtLt", "value": ["4", "6"]}, []),
        ("local.label", {"op": "Exists"}, ["NFD reports no feature 'local.label'."]),
        ("rule.matched", {"op": "Exists"}, ["NFD reports no feature 'rule.matched'."]),
        ("cpus.cpuid", {"op": "Exists"}, ["NFD reports no feature 'cpus.cpuid'."]),
        ("cpu.cpuid", {"op": "Exists", "value": ["a"]}, ["The operator Exists takes no value."]),
        ("cpu.model", {"op": "In"}, ["The operator In takes one value or more."]),
        ("cpu.model", {"op": "Gt", "value": ["1", "2"]}, ["The operator Gt takes one value."]),
        ("cpu.model", {"op": "GtLt", "value": ["1"]}, ["The operator GtLt takes two values."]),
        ("cpu.model", {"op": "InRegexp", "value": ["a", "("]}, ["'(' is not a pattern of RE2."]),
    ],
)
def test_a_feature_is_one_that_nfd_reports_and_can_match(
    feature: str, condition: dict[str, Any], expected: list[str]
) -> None:
    match = {"features": [{"feature": feature, "matchExpressions": {"x": condition}}]}

    assert messages({**RECIPE, "match": match}) == [("invalid-value", message) for message in expected]


@pytest.mark.parametrize(
    "name", ["driver", "watcher", "bootstrap", "a-driver", "a-device-plugin-b", "a-pool-b", "pool"]
)
def test_a_recipe_has_no_name_that_makes_names_of_other_objects(name: str) -> None:
    given = [document(raw("Recipe", name, RECIPE), f"recipes/{name}/recipe.yaml")]

    findings = pipeline.judged(given, judge(), [given[0].file]).findings

    assert [(one.code, one.message) for one in findings] == [("recipe-name", f"A recipe cannot be named '{name}'.")]


OPTIONAL = {**RECIPE["driver"], "modules": [{"name": "net_core", "optional": True}]}
CHOSEN = {"name": "a", "regexp": "a", "driver": {"modules": ["net_core"]}}


@pytest.mark.parametrize(
    ("policy", "line"),
    [
        ({"driver": {"modules": ["net_core"]}}, None),
        ({"kernelMappings": [CHOSEN]}, None),
        ({}, 6),
        ({"driver": {"modules": []}}, 7),
        ({"kernelMappings": [CHOSEN, {"name": "b", "regexp": "b"}]}, 14),
        ({"kernelMappings": [CHOSEN, {**CHOSEN, "name": "b", "driver": {"modules": []}}]}, 13),
    ],
)
def test_a_driver_has_a_module_on_every_node(policy: dict[str, Any], line: int | None) -> None:
    findings = judged({**RECIPE, "driver": OPTIONAL}, policy)

    assert [(one.code, one.span.line) for one in findings] == ([("module-required", line)] if line else [])


@pytest.mark.parametrize(
    ("path", "value", "hint"),
    [
        (("images", "modules"), {"image": "modules"}, "Add the registry and the path before 'modules', such as "),
        (("match",), {"features": [_feature("kernel.loadedmodules")]}, "Did you mean 'kernel.loadedmodule'?"),
        (("match",), {"pci": [{"kind": "x", "vendor": "0x10DE", "devices": ["0001"]}]}, 'Write "10de".'),
        (("driver", "image"), "docker.io/kae/x:1", "Declare the image in spec.images, and write its name there."),
        (("driver", "nodes"), ["/dev/${maxPods}"], "Did you mean '${values.maxPods}'?"),
    ],
)
def test_a_mistake_of_beginners_has_a_hint_that_leads_out(path: tuple[str, ...], value: Any, hint: str) -> None:
    spec = copy.deepcopy(RECIPE)
    at = spec
    for step in path[:-1]:
        at = at[step]
    at[path[-1]] = value

    assert any(found.hint.startswith(hint) for found in judged(spec)), judged(spec)


def test_an_image_of_this_project_needs_no_repository() -> None:
    assert judged({**RECIPE, "images": {**RECIPE["images"], "installer": {"image": "kae-driver-installer"}}}) == []
