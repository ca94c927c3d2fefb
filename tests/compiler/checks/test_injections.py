"""Resources of one node set no variable and no path of a container differently, whatever policies they are of."""

from typing import Any

import pytest

from compiler.checks import injections
from compiler.fleet import assignment, definitions
from tests import builders


def offering(
    name: str, *inject: dict[str, Any], selector: dict[str, str] | None = None, **more: Any
) -> definitions.Policy:
    """Return a policy of a recipe of its own, whose resource injects this."""
    resource = {"name": f"x.com/{name}", "class": "token", "count": 1, "inject": list(inject), **more}
    recipe = builders.recipe(name, devicePlugin={"resources": [resource]})
    return builders.device_policy(f"of-{name}", recipe, nodeSelector={"matchLabels": selector or {}})


def messages(*policies: definitions.Policy) -> list[str]:
    return [finding.message for finding in injections.conflicts(assignment.assign(policies).policies)]


def test_a_variable_has_one_value_on_a_node() -> None:
    one, other = offering("a", {"env": {"MODE": "1"}}), offering("b", {"env": {"MODE": "2"}})

    assert messages(one, other) == ["Resources 'x.com/a' and 'x.com/b' set MODE differently."]
    assert messages(one, offering("b", {"env": {"MODE": "1"}})) == []


def test_policies_that_share_no_node_may_differ() -> None:
    one, other = (offering(name, {"env": {"MODE": name}}, selector={"pool": name}) for name in "ab")

    assert messages(one, other) == []


def test_libraries_that_are_preloaded_are_one_variable() -> None:
    one, other = (offering(name, {"preload": [f"/opt/{name}/lib.so"]}) for name in "ab")

    assert messages(one, other) == ["Resources 'x.com/a' and 'x.com/b' set LD_PRELOAD differently."]


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

    assert bool(messages(one, offering("b", {"mounts": [mount]}))) is is_told
    assert bool(messages(offering("b", {"mounts": [mount]}), one)) is is_told


def test_a_device_node_takes_the_place_of_no_other() -> None:
    groups = [{"paths": [{"path": "/dev/a0", "as": "/dev/acc"}]}]
    plugin = {"resources": [{"name": "x.com/a", "class": "char", "groups": groups}]}
    one = builders.device_policy("of-a", builders.recipe("a", devicePlugin=plugin))
    other = offering("b", {"nodes": [{"path": "/dev/b0", "as": "/dev/acc"}]})

    assert messages(one, other) == ["Resources 'x.com/a' and 'x.com/b' set '/dev/acc' differently."]
    assert messages(other, offering("c", {"nodes": [{"path": "/dev/c0", "as": "/dev/acc"}]})) == [
        "Resources 'x.com/b' and 'x.com/c' set '/dev/acc' differently."
    ]
    assert messages(other, offering("c", {"files": [{"name": "f", "as": "/dev/acc", "text": "x"}]})) == [
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

    assert len(messages(kae, offering("a", setting))) == 1
    assert messages(off, offering("a", setting)) == []


def test_containers_see_one_class_of_devices() -> None:
    def uacce(name: str) -> definitions.Policy:
        pci = [{"kind": "npu", "vendor": "19e5", "devices": ["d100"]}]
        resource = {"name": f"x.com/{name}", "class": "uacce", "kind": "npu"}
        recipe = builders.recipe(name, match={"pci": pci}, devicePlugin={"resources": [resource]})
        return builders.device_policy(f"of-{name}", recipe)

    kae = builders.policy("kae", operator={"enabledHPRE": True})

    assert messages(kae, uacce("a")) == [
        "Resources 'openfuyao.com/kae.hpre' and 'x.com/a' set '/sys/class/uacce' differently."
    ]
    assert messages(uacce("a"), uacce("b")) == ["Resources 'x.com/a' and 'x.com/b' set '/sys/class/uacce' differently."]
    assert messages(builders.policy("kae", devicePlugin={"inject": {"maskSysfs": False}}), uacce("a")) == []


def test_a_contradiction_is_told_once_for_all_policies_of_two_recipes() -> None:
    recipe = offering("a", {"env": {"MODE": "1"}})

    assert len(messages(recipe, offering("b", {"env": {"MODE": "2"}}), builders.policy("kae"))) == 1
