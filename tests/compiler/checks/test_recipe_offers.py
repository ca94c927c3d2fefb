"""The device plugin of a policy that the compiler accepts takes its resources."""

from typing import Any

import pytest

from compiler import pipeline
from compiler.diagnostics import Diagnostic
from tests.builders import document, judge, raw

LIBRARY = "/opt/net/lib/libnet.so"
VARIABLES = {"type": "object", "additionalProperties": {"type": "string"}, "maxProperties": 4}
PROFILES = {"type": "object", "additionalProperties": VARIABLES, "maxProperties": 4, "default": {}}
COUNT = {"type": "integer", "minimum": 1, "maximum": 10000, "default": 1}


def token(name: str = "net", **more: Any) -> dict[str, Any]:
    return {"name": f"example.com/{name}", "class": "token", "count": 1, **more}


def judged(*resources: dict[str, Any], values: dict[str, Any] | None = None, **properties: Any) -> list[Diagnostic]:
    """The findings on a recipe with these resources and parameters, and on a policy of it with these values."""
    spec = {
        "title": "A network stack",
        "match": {"pci": [{"kind": "nic", "vendor": "1924", "classes": ["0200"]}]},
        "parameters": {"properties": properties},
        "devicePlugin": {"resources": list(resources)},
    }
    given = [
        document(raw("Recipe", "net", spec), "recipes/net/recipe.yaml"),
        document(raw("DevicePolicy", "lab", {"recipe": "net", "values": values or {}}), "policies/lab.yaml"),
    ]
    return list(pipeline.judged(given, judge(), [item.file for item in given]).findings)


def told(*resources: dict[str, Any], **more: Any) -> list[tuple[str, str, str]]:
    return [(one.code, one.span.file, one.span.text.strip()) for one in judged(*resources, **more)]


RECIPE, POLICY = "recipes/net/recipe.yaml", "policies/lab.yaml"


def test_the_kubelet_takes_a_hundred_thousand_shares_of_a_resource() -> None:
    assert told(token(count=10000, shares=10)) == []
    assert told(token(count=10000, shares=11)) == [("resource-class", RECIPE, "count: 10000")]


def test_the_line_at_fault_is_that_of_the_policys_value() -> None:
    resource = token(count="${values.tokens}", shares=128)

    assert told(resource, tokens=COUNT) == []
    assert told(resource, tokens=COUNT, values={"tokens": 782}) == [("resource-class", POLICY, "tokens: 782")]
    assert told(resource, tokens={**COUNT, "default": 782})[0] == ("resource-class", RECIPE, "default: 782")


@pytest.mark.parametrize("name", [LIBRARY, "/opt/other.so"])
def test_a_variable_beside_preloaded_libraries_is_found_with_any_value(name: str) -> None:
    expected = [("inject-conflict", RECIPE, f"LD_PRELOAD: {name}")]

    assert told(token(inject=[{"preload": [LIBRARY], "env": {"LD_PRELOAD": name}}])) == expected
    assert told(token(inject=[{"preload": [LIBRARY]}, {"env": {"LD_PRELOAD": name}}])) == expected
    assert told(token(inject=[{"env": {"LD_PRELOAD": name}}])) == []


def test_a_variable_of_a_profile_is_found_beside_preloaded_libraries() -> None:
    resource = token(profiles="${values.profiles}", inject=[{"preload": [LIBRARY]}])
    profiles = {"low": {"LD_PRELOAD": LIBRARY}}
    expected = f"LD_PRELOAD: {LIBRARY}"

    assert told({**resource, "profiles": profiles}) == [("inject-conflict", RECIPE, expected)]
    assert told(resource, profiles=PROFILES, values={"profiles": profiles}) == [("inject-conflict", POLICY, expected)]


@pytest.mark.parametrize("classes", [("uacce", "uacce"), ("vfio", "uacce"), ("vfio", "vfio")])
def test_a_device_is_of_one_resource(classes: tuple[str, str]) -> None:
    resources = [{"name": f"example.com/{number}", "class": name, "kind": "nic"} for number, name in enumerate(classes)]

    assert told(*resources) == [("resource-class", RECIPE, "kind: nic")]


def file(name: str, text: str, to: str = "/etc/net.conf") -> dict[str, Any]:
    return {"inject": [{"files": [{"name": name, "as": to, "text": text}]}]}


def test_a_name_of_a_file_stands_for_one_text() -> None:
    first = token("a", **file("conf", "a"))

    (finding,) = judged(first, token("b", **file("conf", "b", "/etc/b.conf")))

    assert (finding.code, finding.span.text.strip()) == ("inject-conflict", "text: b")
    assert told(first, token("b", **file("conf", "a", "/etc/b.conf"))) == []
    assert told(first, token("b", **file("other", "b", "/etc/b.conf"))) == []


def test_a_resource_has_a_file_of_one_name() -> None:
    twice = [*file("conf", "a")["inject"], *file("conf", "a", "/etc/b.conf")["inject"]]

    assert told(token(inject=twice)) == [("duplicate-name", RECIPE, "name: conf")]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"nodes": [{"path": "/dev/a"}]}, {"nodes": [{"path": "/dev/a", "optional": True}]}),
        ({"nodes": [{"path": "/dev/a"}]}, {"mounts": [{"path": "/dev/a", "readOnly": False}]}),
        ({"mounts": [{"path": "/opt/a"}]}, {"mounts": [{"path": "/opt/a", "as": "/opt/"}]}),
        (file("a", "text")["inject"][0], file("b", "text")["inject"][0]),
    ],
)
def test_a_path_of_a_container_is_filled_once(first: dict[str, Any], second: dict[str, Any]) -> None:
    assert [code for code, _, _ in told(token(inject=[first, second]))] == ["inject-conflict"]
    assert told(token(inject=[first, first])) == []


def test_profiles_of_two_resources_make_no_resource_of_one_name() -> None:
    profiles = {"a": {"b-c": {"X": "1"}}, "a-b": {"c": {"X": "1"}}}

    findings = told(*(token(name, profiles=made) for name, made in profiles.items()))

    assert findings == [("resource-class", RECIPE, "c:")]


def test_the_resource_of_a_profile_has_a_name_that_programs_take() -> None:
    domain = ".".join(["d" * 60] * 3)
    resource = {**token(), "name": f"{domain}/a-name-of-up-to-a", "profiles": {"latency": {"X": "1"}}}

    assert told(resource) == [("resource-class", RECIPE, "latency:")]


def test_a_resource_whose_recipe_requires_values_has_what_its_class_needs() -> None:
    spec = {
        "title": "x",
        "match": {"all": {}},
        "parameters": {"properties": {"tokens": {"type": "integer"}}, "required": ["tokens"]},
        "devicePlugin": {"resources": [token(count="${values.tokens}"), {"name": "example.com/npu", "class": "char"}]},
    }
    (finding,) = pipeline.judged([document(raw("Recipe", "net", spec), RECIPE)], judge(), [RECIPE]).findings

    assert (finding.code, finding.message) == ("resource-class", "A resource of class char needs groups.")
