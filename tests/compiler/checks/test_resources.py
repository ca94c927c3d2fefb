"""What a resource needs, what a container gets, and what a device plugin refuses."""

from typing import Any

import pytest

from compiler import pipeline
from compiler.checks import resources
from compiler.diagnostics import Diagnostic
from compiler.fleet import assignment, definitions
from tests import builders


def plugin_messages(**spec: Any) -> list[str]:
    return [finding.message for finding in resources.of_plugin(builders.policy("tls", **spec))]


@pytest.mark.parametrize(
    "plugin",
    [
        {"inject": {"librariesPath": "/usr/lib64"}},
        {"inject": {"opensslSettings": {"KAE_CMD_ENABLE_SM4": "0"}}},
        {"deviceNodes": {}},
        {"mode": {"hpre": "vfio"}, "sharing": {"hpre": 2}},
        {"inject": {"mounts": {"/run/kae": "/x"}}},
        {"inject": {"mounts": {"/dev/x": "/x"}}},
        {"inject": {"libraries": True, "mounts": {"/opt/kae/lib": "/x"}}},
        # A runtime would make the folders of the device plugin in the host's.
        {"inject": {"mounts": {"/run": "/x"}}},
        {"inject": {"libraries": True, "mounts": {"/opt": "/x"}}},
    ],
)
def test_a_setting_without_effect_or_against_another_is_an_error(plugin: dict[str, Any]) -> None:
    assert len(plugin_messages(devicePlugin=plugin)) == 1


@pytest.mark.parametrize(
    ("plugin", "driver"),
    [
        ({"inject": {"libraries": True, "librariesPath": "/usr/lib64"}}, {}),
        ({"inject": {"opensslConf": "3.0", "opensslSettings": {"KAE_CMD_ENABLE_SM4": "0"}}}, {}),
        ({"deviceNodes": {"mode": "0660"}}, {"enabled": False}),
        ({"mode": {"hpre": "vfio"}}, {}),
        # ZIP is not served.
        ({"mode": {"zip": "vfio"}, "sharing": {"zip": 2}}, {}),
        ({"inject": {"mounts": {"/run/kaedir": "/x", "/opt/kae": "/y", "/op": "/z"}}}, {}),
    ],
)
def test_settings_that_go_together_are_sound(plugin: dict[str, Any], driver: dict[str, Any]) -> None:
    assert plugin_messages(devicePlugin=plugin, driver=driver) == []


def offering(
    name: str, *inject: dict[str, Any], selector: dict[str, str] | None = None, **more: Any
) -> definitions.Policy:
    """Return a policy of a recipe of its own, whose resource injects this."""
    resource = {"name": f"x.com/{name}", "class": "token", "count": 1, "inject": list(inject), **more}
    recipe = builders.recipe(name, devicePlugin={"resources": [resource]})
    return builders.device_policy(f"of-{name}", recipe, nodeSelector={"matchLabels": selector or {}})


def conflicts(*policies: definitions.Policy) -> list[str]:
    return [finding.message for finding in resources.conflicts(assignment.assign(policies).policies)]


def test_a_variable_has_one_value_on_a_node() -> None:
    one, other = offering("a", {"env": {"MODE": "1"}}), offering("b", {"env": {"MODE": "2"}})

    assert conflicts(one, other) == ["Resources 'x.com/a' and 'x.com/b' set MODE differently."]
    assert conflicts(one, offering("b", {"env": {"MODE": "1"}})) == []


def test_policies_that_share_no_node_may_differ() -> None:
    one, other = (offering(name, {"env": {"MODE": name}}, selector={"pool": name}) for name in "ab")

    assert conflicts(one, other) == []


def test_libraries_that_are_preloaded_are_one_variable() -> None:
    one, other = (offering(name, {"preload": [f"/opt/{name}/lib.so"]}) for name in "ab")

    assert conflicts(one, other) == ["Resources 'x.com/a' and 'x.com/b' set LD_PRELOAD differently."]


@pytest.mark.parametrize(
    ("mount", "is_told"),
    [
        ({"path": "/opt/b/lib.so", "as": "/usr/lib.so"}, True),
        ({"path": "/opt/a/lib.so", "as": "/usr/lib.so"}, False),
        ({"path": "/opt/a/lib.so", "as": "/usr/lib.so", "readOnly": False}, True),
        ({"path": "/opt/b/lib.so", "as": "/usr/"}, True),
        ({"path": "/opt/b/other.so", "as": "/usr/"}, False),
        ({"path": "/opt/b/lib*", "as": "/usr/"}, True),
        ({"path": "/opt/a/lib*", "as": "/usr/"}, False),
    ],
)
def test_a_path_of_a_container_shows_one_thing(mount: dict[str, Any], is_told: bool) -> None:
    one = offering("a", {"mounts": [{"path": "/opt/a/lib.so", "as": "/usr/lib.so"}]})

    assert bool(conflicts(one, offering("b", {"mounts": [mount]}))) is is_told
    assert bool(conflicts(offering("b", {"mounts": [mount]}), one)) is is_told


def test_a_device_node_takes_the_place_of_no_other() -> None:
    groups = [{"paths": [{"path": "/dev/a0", "as": "/dev/acc"}]}]
    plugin = {"resources": [{"name": "x.com/a", "class": "char", "groups": groups}]}
    one = builders.device_policy("of-a", builders.recipe("a", devicePlugin=plugin))
    other = offering("b", {"nodes": [{"path": "/dev/b0", "as": "/dev/acc"}]})

    assert conflicts(one, other) == ["Resources 'x.com/a' and 'x.com/b' set '/dev/acc' differently."]
    assert conflicts(other, offering("c", {"nodes": [{"path": "/dev/c0", "as": "/dev/acc"}]})) == [
        "Resources 'x.com/b' and 'x.com/c' set '/dev/acc' differently."
    ]
    assert conflicts(other, offering("c", {"files": [{"name": "f", "as": "/dev/acc", "text": "x"}]})) == [
        "Resources 'x.com/b' and 'x.com/c' set '/dev/acc' differently."
    ]


@pytest.mark.parametrize(
    ("inject", "setting"),
    [
        ({"libraries": True}, {"env": {"LD_LIBRARY_PATH": "/usr/local/lib"}}),
        ({"opensslConf": "3.0"}, {"env": {"OPENSSL_CONF": "/etc/ssl/openssl.cnf"}}),
        ({"env": {"KAE_LOG_LEVEL": "1"}}, {"env": {"KAE_LOG_LEVEL": "2"}}),
        ({"mounts": {"/etc/acc": "/etc/kae"}}, {"mounts": [{"path": "/etc/acc"}]}),
        ({}, {"mounts": [{"path": "/sys/class/uacce"}]}),
    ],
)
def test_what_kae_injects_counts_too(inject: dict[str, Any], setting: dict[str, Any]) -> None:
    kae = builders.policy("kae", devicePlugin={"inject": inject})
    off = builders.policy("kae", devicePlugin={"inject": inject, "enabled": False})

    assert len(conflicts(kae, offering("a", setting))) == 1
    assert conflicts(off, offering("a", setting)) == []


def test_containers_see_one_class_of_devices() -> None:
    def uacce(name: str) -> definitions.Policy:
        pci = [{"kind": "npu", "vendor": "19e5", "devices": ["d100"]}]
        resource = {"name": f"x.com/{name}", "class": "uacce", "kind": "npu"}
        recipe = builders.recipe(name, match={"pci": pci}, devicePlugin={"resources": [resource]})
        return builders.device_policy(f"of-{name}", recipe)

    kae = builders.policy("kae", operator={"enabledHPRE": True})

    assert conflicts(kae, uacce("a")) == [
        "Resources 'openfuyao.com/kae.hpre' and 'x.com/a' set '/sys/class/uacce' differently."
    ]
    assert conflicts(uacce("a"), uacce("b")) == [
        "Resources 'x.com/a' and 'x.com/b' set '/sys/class/uacce' differently."
    ]
    assert conflicts(builders.policy("kae", devicePlugin={"inject": {"maskSysfs": False}}), uacce("a")) == []


def test_a_contradiction_is_told_once_for_all_policies_of_two_recipes() -> None:
    recipe = offering("a", {"env": {"MODE": "1"}})

    assert len(conflicts(recipe, offering("b", {"env": {"MODE": "2"}}), builders.policy("kae"))) == 1


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
        builders.document(builders.raw("Recipe", "net", spec), "recipes/net/recipe.yaml"),
        builders.document(
            builders.raw("DevicePolicy", "lab", {"recipe": "net", "values": values or {}}), "policies/lab.yaml"
        ),
    ]
    return list(pipeline.judged(given, builders.judge(), [item.file for item in given]).findings)


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
    (finding,) = pipeline.judged(
        [builders.document(builders.raw("Recipe", "net", spec), RECIPE)], builders.judge(), [RECIPE]
    ).findings

    assert (finding.code, finding.message) == ("resource-class", "A resource of class char needs groups.")
